"""Speed beside other packages, as ratios from one interleaved run. `python -m benchmarks --help` says how."""
