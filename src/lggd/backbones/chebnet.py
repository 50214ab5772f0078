"""ChebNet: Chebyshev polynomials of the Laplacian (Defferrard et al., 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones.layers import Drop, Propagate, cheb_conv, scaled_laplacian
from lggd.backbones.network import Network, check_backbone, check_sizes
from lggd.estimator.storage import saveable


@saveable
@dataclass(frozen=True)
class ChebNet:
    """Two-layer Chebyshev network (Defferrard et al., 2016), with ReLU and dropout between the layers.

    A layer is Σ_k T_k(L̂)XΘ_k + b, where T_k is the k-th Chebyshev polynomial and L̂ = −D^-½ A D^-½ the normalized
    Laplacian, shifted to [−1, 1]. Edge weights are the entries of A; self-loops are ignored.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    terms : int
        Number of Chebyshev polynomials per layer, `K` in PyG. The default reads the paper's "two-step propagation" as
        one step per layer (T₀ and T₁), two in total; use terms=3 for two steps per layer.
    dropout : float
        Dropout rate of the hidden layer, in [0, 1).

    Examples
    --------
    >>> module = ChebNet().build(in_channels=5, num_classes=3)
    >>> sum(parameter.numel() for parameter in module.parameters()) == (2 * 5 * 32 + 32) + (2 * 32 * 3 + 3)
    True
    """

    hidden: int = 32
    terms: int = 2
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_backbone(self, "hidden", "terms")

    def build(self, in_channels: int, num_classes: int) -> nn.Module:
        """Return a new module, initialized from torch's global random state."""
        check_sizes(in_channels, num_classes)
        return _ChebNetwork(self, in_channels, num_classes)


class _ChebNetwork(Network):
    def __init__(self, choice: ChebNet, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import ChebConv

        super().__init__(choice, scaled_laplacian)
        self.first = ChebConv(in_channels, choice.hidden, choice.terms)
        self.second = ChebConv(choice.hidden, num_classes, choice.terms)
        self.terms = choice.terms

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        def layer(name: str, x: Tensor) -> Tensor:
            weights = [parameters[f"{name}.lins.{term}.weight"] for term in range(self.terms)]
            return cheb_conv(x, weights, parameters[f"{name}.bias"], graph)

        return layer("second", drop(functional.relu(layer("first", x))))
