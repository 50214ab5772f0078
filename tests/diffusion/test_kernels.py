"""Diffusion kernels: their Chebyshev series and their limits."""

import math

import pytest

from lggd.diffusion import PPR, Heat, kernels


@pytest.mark.parametrize(
    ("kernel", "value", "message"),
    [
        (PPR, 0, r"`alpha` must lie in \[1e-05, 1\], got 0"),
        (PPR, 1e-9, r"`alpha` must lie in \[1e-05, 1\], got 1e-09.*use 0.05"),
        (PPR, 1e-17, r"`alpha` must lie in \[1e-05, 1\], got 1e-17.*use 0.05"),
        (PPR, True, r"`alpha` must lie in \[1e-05, 1\], got True"),
        (Heat, 0, "`t` must be positive"),
        (Heat, 1e12, r"`t` must be positive and at most 1e\+06, got 1000000000000.0.*use 5"),
        (Heat, math.inf, r"`t` must be positive and at most 1e\+06, got inf.*use 5"),
    ],
)
def test_kernels_without_finite_series_raise(kernel, value, message):
    with pytest.raises(ValueError, match=message):
        kernel(value)


@pytest.mark.parametrize("kernel", [PPR(kernels.MIN_ALPHA), Heat(kernels.MAX_T)], ids=str)
def test_series_of_the_widest_kernels_are_finite_and_exact(kernel):
    coefficients = kernel.chebyshev_coefficients()
    assert len(coefficients) < 10_000
    assert math.fsum(coefficients) == pytest.approx(1, abs=2 * kernels.TOLERANCE)
