"""The coefficients of the equation: a potential and weights, fixed or learned, one set per problem."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lggd.equation.potential import DegreePotential, Potential, read_potential
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.training.optimization import StackedParameter
from lggd.training.randomness import parameter_generators


@dataclass(frozen=True)
class LearnedPotential:
    """ρ(i) = 2σ(θ_i) · base(i), with θ_i learned per node (the paper's ρ(x), Table 1, row 10).

    It starts at the base and stays below twice the base, so that the step in time is known before training.

    Parameters
    ----------
    base : DegreePotential

    Examples
    --------
    >>> LearnedPotential(DegreePotential(-0.5))
    LearnedPotential(base=DegreePotential(alpha=-0.5))
    """

    base: DegreePotential = DegreePotential(-1.0)


@dataclass(frozen=True)
class LearnedTimeScale:
    """ρ(i) = 2σ(θ) · base(i), with one θ learned for all nodes: a fitted scale of time.

    Equivalent to time that runs τ times as fast: then f = τ·g with ∂g/∂t = 1 − τρ‖∇⁻g‖ and g(0) = φ₀/τ, and the
    networks learn the scale of φ₀ in any case.

    Parameters
    ----------
    base : DegreePotential

    Examples
    --------
    >>> import lggd
    >>> model = lggd.LGGD(potential=LearnedTimeScale(), times=(1,), optimization=lggd.Optimization(epochs=3))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    base: DegreePotential = DegreePotential(-1.0)


@dataclass(frozen=True)
class LearnedEdgeWeights:
    """√w(i, j) is multiplied by √σ(θ_ij), with θ learned per direction of an edge (the authors' code).

    θ is initialised uniformly in [-1, 1].

    Parameters
    ----------
    potential : DegreePotential, LearnedPotential or LearnedTimeScale
        ρ, which may be learned as well.

    Examples
    --------
    >>> import lggd
    >>> model = lggd.LGGD(potential=LearnedEdgeWeights(), times=(1,), optimization=lggd.Optimization(epochs=3))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    potential: DegreePotential | LearnedPotential | LearnedTimeScale = DegreePotential(-1.0)


LearnedCoefficients = LearnedPotential | LearnedTimeScale | LearnedEdgeWeights
Coefficients = Potential | LearnedCoefficients


class Equation:
    """ρ and √w of Q problems on a graph, with their current learned values; differentiable."""

    def __init__(self, graph: Graph, coefficients: Coefficients | None, generators: Sequence[torch.Generator]) -> None:
        problems, device = len(generators), graph.device
        potential = coefficients.potential if isinstance(coefficients, LearnedEdgeWeights) else coefficients
        self.theta_nodes: Tensor | None = None
        self.theta_edges: Tensor | None = None
        if isinstance(potential, (LearnedPotential, LearnedTimeScale)):
            count = graph.num_nodes if isinstance(potential, LearnedPotential) else 1
            self.theta_nodes = torch.zeros(problems, count, device=device, requires_grad=True)
            potential = potential.base
        if isinstance(coefficients, LearnedEdgeWeights):
            seeded = parameter_generators(generators)
            initial = [torch.empty(graph.num_edges).uniform_(-1, 1, generator=generator) for generator in seeded]
            self.theta_edges = torch.stack(initial).to(device).requires_grad_()
        self.potential = potential
        self._read(graph)

    def _read(self, graph: Graph) -> None:
        self.graph = graph
        self.base = read_potential(self.potential, graph, 1, torch.float32)
        self.root = graph.csr.root_weight_as(torch.float32)

    def on(self, graph: Graph) -> Equation:
        """The learned values on another graph with the same nodes and, where edges are learned, the same edges."""
        if self.theta_edges is not None and not torch.equal(graph.edge_index, self.graph.edge_index):
            raise InputError("data", "have the edges whose weights were learned", "others", "Fit on the new graph.")
        other = copy.copy(self)
        other._read(graph)
        return other

    def part(self, problems: slice) -> Equation:
        """The equation of some of the problems, with copies of their learned values."""
        other = copy.copy(self)
        for parameter in self.parameters():
            setattr(other, parameter.name, parameter.value[problems].detach().clone().requires_grad_())
        return other

    def parameters(self) -> list[StackedParameter]:
        """All tensors that training changes."""
        thetas = (("theta_nodes", self.theta_nodes), ("theta_edges", self.theta_edges))
        return [StackedParameter(name, theta) for name, theta in thetas if theta is not None]

    def rho(self) -> Tensor:
        """ρ by node: `[N, Q]`, or `[N, 1]` where all problems share it."""
        return self.base if self.theta_nodes is None else self.base * (2 * torch.sigmoid(self.theta_nodes)).t()

    def root_weight(self) -> Tensor | None:
        """√w along the graph's edges: `[E, Q]`, `[E, 1]` where all problems share it, None where it is 1."""
        if self.theta_edges is None:
            return self.root
        learned = torch.sigmoid(self.theta_edges).sqrt().t()
        return learned if self.root is None else self.root * learned

    def limits(self) -> tuple[Tensor, Tensor | None]:
        """The largest ρ `[N, 1]` and √w `[E, 1]` that training can reach."""
        return self.base * (1 if self.theta_nodes is None else 2), self.root
