"""How long threads spin while they wait for each other: said before OpenMP starts, and only where nobody else has.

By default the threads of torch's and numba's loops (GNU's OpenMP) wait for milliseconds at full speed. On a machine
that others use too, a thread that was pushed aside then holds up all of the others: 35 times slower was measured on two
busy cores, and with a shorter wait nothing was lost on idle ones.
"""

from __future__ import annotations

import os
import sys

SPINS = "10000"

if "torch" not in sys.modules:
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
