"""The paper's tables and figures, measured: `python -m reproduction --help`, from a clone with lggd installed."""
