"""The shapes in annotations are checked in all tests: proof that wrong ones are found."""

import math

import pytest
import torch

import lggd
from lggd import equation, results
from lggd._kernels import largest_residual
from lggd.equation import Field
from lggd.solvers.adjoint import run
from lggd.solvers.scheme import RK4, make_plan
from support import shapes
from support.lasso import LASSO

GRAPH = LASSO.graph
N, E = GRAPH.num_nodes, GRAPH.num_edges
RHO = torch.ones(N, 1)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: Field(GRAPH.csr, 1.0, torch.ones(N + 1, 1)), "rho"),
        (lambda: Field(GRAPH.csr, 1.0, RHO, root_weight=torch.ones(E)), "root_weight"),
        (lambda: Field(GRAPH.csr, 1.0, RHO, boundary_mask=torch.zeros(N, 2)), "boundary_mask"),
        (lambda: equation.p_norm(GRAPH.csr, torch.ones(E, 2, dtype=torch.int64), math.inf), "nonnegative"),
        (lambda: largest_residual(Field(GRAPH.csr, 1.0, RHO), torch.ones(N, 1), torch.ones(1, 1) > 0), "free"),
        (lambda: results.Depth(torch.ones(N, 1), 0, torch.tensor([0]), torch.ones(1)), "value"),
    ],
)
def test_a_planted_wrong_shape_is_found(call, argument):
    with pytest.raises(shapes.ShapeError, match=f": {argument} must be"):
        call()


def test_a_planted_wrong_result_is_found():
    def transposed(field, plan, start, saved=None):
        return run(field, plan, start, saved).transpose(1, 2)

    transposed.__annotations__ = run.__annotations__
    check = shapes.checked(transposed, {**vars(equation), **vars(torch)})
    plan, start = make_plan(RK4(), (1.0,), 0.5), torch.ones(N, 1)
    assert run(Field(GRAPH.csr, 1.0, RHO), plan, start).shape == (1, N, 1)
    with pytest.raises(shapes.ShapeError, match="return must be"):
        check(Field(GRAPH.csr, 1.0, RHO), plan, start)


def test_bad_input_meets_the_errors_of_the_library():
    with pytest.raises(lggd.InputError, match="`start` must have shape"):
        lggd.evolve(GRAPH, [0], start=torch.ones(N + 1))
