"""The local problem at one node: the t with ‖√w(i,·)(t − u)₊‖_p = 1/ρ(i), given the values u of its neighbours."""

from __future__ import annotations

import numpy as np
from numba import njit

from lggd.solvers.heap import FINAL

# Newton's method converges quadratically; this only bounds the loop.
MOST_STEPS = 60


@njit(inline="always")
def newton(p, t, slowness, i, indptr, indices, weight, stride, u, place, final_only):  # type: ignore[no-untyped-def]
    """The root from any t at or above it: the norm is convex in t, so Newton's method decreases monotonically to it.

    With `final_only`, only neighbours that have left the front count.
    """
    for _ in range(MOST_STEPS):
        largest = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if u[j] < t and not (final_only and place[j] != FINAL):
                largest = max(largest, np.sqrt(np.float64(weight[e * stride])) * (t - u[j]))
        if largest == 0.0:
            break
        total = 0.0
        slope = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if u[j] < t and not (final_only and place[j] != FINAL):
                s = np.sqrt(np.float64(weight[e * stride]))
                share = s * (t - u[j]) / largest
                power = 1.0 if p == 1.0 else share if p == 2.0 else share ** (p - 1.0)
                total += power * share
                slope += power * s
        root = total ** (1.0 / p)
        # d‖·‖/dt = Σ s·share^(p−1) / ‖share‖^(p−1), and ‖·‖ = largest · ‖share‖.
        decrease = (largest * root - slowness) / (slope / root ** (p - 1.0))
        if not decrease > 1e-15 * abs(t):
            break
        t -= decrease
    return t
