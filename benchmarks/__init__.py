"""Speed compared with other packages, as ratios from one interleaved run. See `python -m benchmarks --help`."""
