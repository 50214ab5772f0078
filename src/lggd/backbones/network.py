"""The modules of backbones: networks that evaluate many sets of parameters in one forward pass, and users' own."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd._system.memory import Cache, identity_key
from lggd.errors import InputError
from lggd.graph.edge_list import check_edges
from lggd.training.problems import RandomState
from lggd.validation import check_int, check_sizes_and_dropout

# Dropout of values [Q, …] or [N, F], independent for each network; the identity in evaluation.
Drop = Callable[[Tensor], Tensor]
# Multiplies [Q, N, C] by a matrix [N, N], as a SparseMatrix does.
Propagate = Callable[[Tensor], Tensor]
# Converts (edge_index, edge_weight, num_nodes, dtype) to the sparse matrix or pattern that a network uses.
ReadGraph = Callable[[Tensor, Tensor | None, int, torch.dtype], Any]


class Network(nn.Module, ABC):
    """The module of a backbone: PyG's layers hold the parameters, and `logits` is the forward pass of Q of them."""

    def __init__(self, dropout: float, read_graph: ReadGraph) -> None:
        super().__init__()
        self.dropout, self.graph_reader = dropout, read_graph
        # One graph for training and one for evaluation. Not copied or saved with the module.
        self._graphs: Cache[Any] = Cache(capacity=2)

    @abstractmethod
    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Any, drop: Drop) -> Tensor:
        """The logits of Q networks, `[Q, N, K]`, from x `[Q, N, F]`, or `[N, F]` shared by all, with dropout `drop`.

        `parameters` have their names in the module and are stacked as `[Q, …]`; `graph` is a result of `read_graph`.
        """

    def read_graph(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
        """Convert a graph with node features x `[N, F]` to the form that `logits` uses."""
        check_edges(edge_index, edge_weight, x.shape[0])
        return self.graph_reader(edge_index, edge_weight, x.shape[0], x.dtype)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        parameters = {name: parameter.unsqueeze(0) for name, parameter in self.named_parameters()}
        drop = partial(functional.dropout, p=self.dropout, training=self.training)
        return self.logits(parameters, x, self._graph(x, edge_index, edge_weight), drop).squeeze(0)

    def _graph(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
        tensors = identity_key(edge_index, edge_weight)
        key = None if tensors is None else (tensors, x.shape[0], x.dtype)
        # Cached tensors must be usable in autograd later, even if inference mode is enabled now.
        with torch.inference_mode(torch.is_inference_mode_enabled() and key is None):
            return self._graphs(key, lambda: self.read_graph(x, edge_index, edge_weight))


class BackboneChoice:
    """The settings of a backbone as a frozen dataclass: positive integers, and a dropout rate."""

    network: ClassVar[type[Network]]
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    # Whether all edges must be in memory, as for attention; products with a matrix can read them from disk.
    needs_edge_index: ClassVar[bool] = False
    dropout: float

    def __post_init__(self) -> None:
        check_sizes_and_dropout(self, self.may_be_zero)

    def build(self, in_channels: int, num_classes: int) -> Network:
        """Return a new module, initialized from torch's global random state."""
        check_int("in_channels", in_channels, minimum=1)
        check_int("num_classes", num_classes, minimum=1)
        return self.network(self, in_channels, num_classes)  # type: ignore[call-arg, arg-type]  # of each subclass


# Attributes with the width of the input in layers of torch and PyG.
WIDTHS = ("in_features", "in_channels", "input_size", "num_features", "embed_dim")
# A module may concatenate that many vectors of the input's width, such as a node's and its neighbours'.
MAX_CONCATENATED = 3


class UserModule(nn.Module):
    """A copy of a user's module with the interface of a backbone. It checks the shape of the output.

    Edge weights are passed as `edge_weight` if `forward` has a parameter of that name; otherwise as the third argument
    if that is required or has "weight" in its name. Otherwise they are ignored: the third parameter of PyG's SAGEConv,
    for example, has another meaning.
    """

    def __init__(self, module: nn.Module, num_classes: int) -> None:
        super().__init__()
        self.module = copy.deepcopy(module)
        self.num_classes = num_classes
        parameters = inspect.signature(module.forward).parameters
        third = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][2:3]
        self._by_name = "edge_weight" in parameters
        self._by_position = any("weight" in p.name or p.default is p.empty for p in third)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if self._by_name:
            logits = self.module(x, edge_index, edge_weight=edge_weight)
        else:
            logits = self.module(x, edge_index, edge_weight) if self._by_position else self.module(x, edge_index)
        shape = [len(x), self.num_classes]
        if isinstance(logits, Tensor) and list(logits.shape) == shape:
            return logits
        received = list(logits.shape) if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        rule = f"return logits {shape}, one row per node and one column per class"
        remedy = f"Set the width of its last layer to {self.num_classes}."
        raise InputError("backbone", rule, but=f"{type(self.module).__name__} returned {received}", remedy=remedy)


def check_user_module(
    module: nn.Module,
    width: int,
    num_classes: int,
    num_nodes: int,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    width_of: str = "",
) -> None:
    """Raises an `InputError` if a copy of the module fails on random features `[num_nodes, width]` of this graph.

    One forward pass without gradients finds out before training, which may take hours, whether the input has another
    width, or the output is not `[num_nodes, num_classes]` or not finite. `width_of` explains the width in errors.
    Torch's global random state is left unchanged.

    >>> class Linear(nn.Linear):
    ...     def forward(self, x, edge_index):
    ...         return super().forward(x)
    >>> edge_index = torch.tensor([[0, 1], [1, 0]])
    >>> check_user_module(Linear(5, 3), width=5, num_classes=3, num_nodes=2, edge_index=edge_index)
    """

    def logits(columns: int) -> Tensor:
        device = edge_index.device
        with RandomState(0, device).in_use(), torch.no_grad():
            copied = UserModule(module, num_classes).to(device).eval()
            output: Tensor = copied(torch.rand(num_nodes, columns).to(device), edge_index, edge_weight)
        return output

    try:
        output = logits(width)
    except (InputError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise _width_error(module, width, width_of, logits, error) from error
    if not bool(output.isfinite().all()):
        name, node = type(module).__name__, int((~output.isfinite()).any(1).nonzero()[0])
        clause = f"{name} returned {output[node].tolist()} for node {{0}}, before any training"
        remedy = "Check its initial parameters, and divisions by zero at nodes without edges."
        raise InputError("backbone", "return finite logits", but=clause, remedy=remedy, nodes=[node])


def _width_error(
    module: nn.Module, width: int, width_of: str, logits: Callable[[int], Tensor], error: Exception
) -> InputError:
    name, explained = type(module).__name__, f" ({width_of})" if width_of else ""
    for other in _candidate_widths(module):
        try:
            logits(other)
        except InputError:  # the input was accepted, the output was not
            pass
        except Exception:
            continue
        if other != width:
            rule = f"accept node features of width {width}{explained}"
            remedy = f"Build it with in_channels={width}, which model.in_channels(data) computes."
            return InputError("backbone", rule, but=f"{name} expects width {other}", remedy=remedy)
    rule = f"accept node features [N, {width}]{explained} and edges [2, E]"
    reason = str(error).strip().rstrip(".").partition("\n")[0]
    return InputError("backbone", rule, but=f"{name} raised {type(error).__name__}: {reason}")


def _candidate_widths(module: nn.Module) -> Iterator[int]:
    """Widths that the module may have been built for, most likely ones first."""
    named = (getattr(layer, name, None) for layer in module.modules() for name in WIDTHS)
    shapes = (parameter.shape[-1] for parameter in module.parameters() if not nn.parameter.is_lazy(parameter)
              and parameter.dim() > 1)  # fmt: skip
    widths = [width for width in (*named, *shapes) if isinstance(width, int) and width > 0]
    yield from dict.fromkeys(width // k for k in range(1, MAX_CONCATENATED + 1) for width in widths if width % k == 0)
