"""`python -m lggd` runs the command line."""

from lggd.app.cli import main

if __name__ == "__main__":
    main()
