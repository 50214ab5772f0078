"""Random right-hand sides for the tests of kernels, and how closely two kernels must agree."""

import math
from dataclasses import replace

import numpy as np
import torch

from lggd import Graph
from lggd._kernels import reference
from lggd.equation import Field

EXPONENTS = [1.0, 2.0, 3.5, math.inf]
DTYPES = [torch.float32, torch.float64]
# Columns, groups of ρ, groups of √w (None: unit weights).
SHAPES = [(1, 1, None), (1, 1, 1), (6, 1, None), (6, 3, None), (6, 1, 1), (6, 3, 1), (6, 1, 3), (6, 3, 3), (6, 6, 6)]


def random_matrix(n, directed, seed=0):
    """A pattern [N, N] with an isolated node and, where directed, rows without incoming edges."""
    rng = np.random.default_rng(seed)
    pattern = np.triu(rng.random((n, n)) < 0.15, 1)
    pattern[5], pattern[:, 5] = False, False
    return pattern | pattern.T if not directed else pattern | (pattern.T & (rng.random((n, n)) < 0.5))


def random_field(p, dtype, shape, *, directed=False, boundary_mask=False, symmetric=True, n=40, seed=0):
    """A field and a state [N, C] without ties."""
    columns, rho_groups, root_groups = shape
    rng = np.random.default_rng(seed)
    csr = Graph.from_scipy(random_matrix(n, directed), directed=directed).csr
    root = None
    if root_groups is not None:
        root = torch.from_numpy(rng.uniform(0.2, 1, (csr.num_edges, root_groups)))
        if symmetric and not directed:
            root = (root + root[csr.column_order.long()]) / 2
        root = root.to(dtype)
    rho = torch.from_numpy(rng.uniform(0.5, 2, (n, rho_groups))).to(dtype)
    mask = torch.from_numpy(rng.random((n, columns)) < 0.1) if boundary_mask else None
    field = Field(csr, p, rho, root, mask, symmetric=symmetric and not directed)
    return field, torch.from_numpy(rng.normal(size=(n, columns))).to(dtype)


def close(found, expected):
    tolerance = 2e-5 if expected.dtype == torch.float32 else 1e-12
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def on(device, field):
    """The same field on another device."""
    root, boundary_mask = (None if x is None else x.to(device) for x in (field.root_weight, field.boundary_mask))
    return replace(
        field, csr=field.csr.to(device), rho=field.rho.to(device), root_weight=root, boundary_mask=boundary_mask
    )


def check_stage(backend, field, y):
    """Sums of one, two and three terms into as many targets, some of which are terms, as the reference makes them."""
    drawn = torch.from_numpy(np.random.default_rng(1).normal(size=(3, *y.shape))).to(y)
    combinations = (
        ([0], [1, 2], [[1.0, 0.3], [0.0, 1.0]]),
        ([0, 1], [2, 1, 0], [[1.0, -0.5, 0.25], [1.0, 2.0, -1.5], [1.0, 0.0, 0.75]]),
        ([0, 1, 2], [2], [[0.5, -1.0, 2.0, 0.125]]),
        ([0], [0], [[1.0, 0.125]]),
    )
    for terms, targets, factors in combinations:
        found, expected = drawn.clone(), drawn.clone()
        for states, stage in ((found, backend.stage), (expected, reference.stage)):
            stage(field, y, [states[k] for k in terms], [states[k] for k in targets], factors)
        close(found, expected)
        untouched = [k for k in range(3) if k not in targets]
        assert torch.equal(found[untouched], drawn[untouched])
    if field.boundary_mask is not None:
        backend.stage(field, y, [drawn[0]], [drawn[1]], [[0.0, 1.0]])
        assert (drawn[1][field.boundary_mask] == 0).all()
