"""Linear layers of many networks on a CPU, network after network: what a network needs stays in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lggd.learning.contents import Contents, Dense, Sparse
from lggd.learning.loops import drop
from lggd.learning.workspace import Workspace
from lggd.training.dropout import LEVELS, draw_lots, words_for

# Products with fewer columns than this take longer than with this many.
NARROWEST = 16


@dataclass(frozen=True, eq=False)
class Whole:
    """Contents of which all networks see everything."""

    contents: Contents

    def __call__(self, q: int) -> Contents:
        """What network q sees."""
        return self.contents


@dataclass(frozen=True, eq=False)
class Thinned:
    """Contents of which each network drops entries: it keeps `level` of LEVELS, by random bytes in its `lots`."""

    contents: Dense | Sparse
    level: int
    lots: Tensor
    space: Workspace

    def __call__(self, q: int) -> Contents:
        """What network q sees: made anew each time, as the bytes take a quarter of its memory."""
        values = self.space.empty(self.contents.entries.shape, self.contents.entries.dtype)
        values.copy_(self.contents.entries)
        _drop_from(values, self.level, self.lots[q])
        return self.contents.with_entries(values)


Seen = Whole | Thinned


def first_layer(seen: Seen, weight: Tensor, bias: Tensor, space: Workspace) -> Tensor:
    """X · weight + bias of every network, `[Q, N, M]`, from `[Q, D, M]` and `[Q, 1, M]`. Not differentiable."""
    first = space.empty((len(weight), seen.contents.num_nodes, weight.shape[2]), weight.dtype)
    for q, (out, one, start) in enumerate(zip(first, weight.detach(), bias.detach(), strict=True)):
        seen(q).multiply(one, start[0], out, space)
    return first


@dataclass(frozen=True, eq=False)
class Layers:
    """How Q networks are evaluated: hidden layers are followed by the activation and, where `levels`, by dropout.

    Network q keeps `levels[q]` of LEVELS entries, as its generator decides.
    """

    seen: Seen
    activation: Callable[[Tensor], Tensor]
    levels: Sequence[int] | None
    generators: Sequence[torch.Generator]
    space: Workspace

    def __call__(self, first: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
        """What the networks answer, `[Q, N, K]`, differentiable in weights `[Q, in, out]` and biases `[Q, 1, out]`.

        `first` is what `first_layer` gives for them.
        """
        saving = torch.is_grad_enabled()
        answers: Tensor = _OneByOne.apply(self, saving, first, *weights, *biases)  # type: ignore[no-untyped-call]
        return answers

    def draw(self, q: int, lots: Tensor) -> None:
        """Lets network q draw what it drops after a layer: random bytes, as many as fit into int64 `lots`."""
        if self._drops(q):
            draw_lots(lots, self.generators[q])

    def activate(self, z: Tensor, q: int, lots: Tensor, out: Tensor) -> None:
        """out ← what the layer after `z [N, M]` sees of it."""
        if self.activation is torch.relu:
            torch.clamp(z, min=0, out=out)
        else:
            out.copy_(self.activation(z))
        self._drop(out, q, lots)

    def vjp(self, grad: Tensor, z: Tensor, q: int, lots: Tensor) -> Tensor:
        """The gradient for z, from that for what `activate` made of it, which is used up."""
        self._drop(grad, q, lots)
        if self.activation is torch.relu:
            below: Tensor = torch.ops.aten.threshold_backward.grad_input(grad, z, 0, grad_input=grad)
            return below
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            return torch.autograd.grad(self.activation(z), z, grad)[0]

    def _drops(self, q: int) -> bool:
        return self.levels is not None and self.levels[q] < LEVELS

    def _drop(self, values: Tensor, q: int, lots: Tensor) -> None:
        if self.levels is not None and self._drops(q):
            _drop_from(values, self.levels[q], lots)


class _OneByOne(torch.autograd.Function):
    """Keeps what each hidden layer gave before activation, and the lots: the rest is quickly made again."""

    @staticmethod
    def forward(ctx: Any, layers: Layers, saving: bool, first: Tensor, *parameters: Tensor) -> Tensor:
        space, depth = layers.space, len(parameters) // 2
        weights, biases = parameters[:depth], parameters[depth:]
        problems, nodes, _ = first.shape
        widths = [weight.shape[2] for weight in weights]
        kept = problems if saving else 1
        hidden = [first, *(space.empty((kept, nodes, width), first.dtype) for width in widths[1:-1])]
        lots = [space.empty((kept, words_for(nodes * width)), torch.int64) for width in widths[:-1]]
        rooms = [space.empty((nodes, width), first.dtype) for width in widths[:-1]]
        answers = space.empty((problems, nodes, widths[-1]), first.dtype)
        for q in range(problems):
            z = first[q]
            for k, h in enumerate(rooms):
                layers.draw(q, lots[k][q % kept])
                layers.activate(z, q, lots[k][q % kept], out=h)
                z = answers[q] if k + 2 == depth else hidden[k + 1][q % kept]
                _multiply(h, weights[k + 1][q], z, space)
                z.add_(biases[k + 1][q])
            if not rooms:
                answers[q] = z
        if saving:
            ctx.layers, ctx.depth = layers, depth
            ctx.save_for_backward(*weights, *hidden, *lots)
        return answers

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        layers, depth, space = ctx.layers, ctx.depth, ctx.layers.space
        weights, rest = ctx.saved_tensors[:depth], ctx.saved_tensors[depth:]
        hidden, lots = rest[: max(1, depth - 1)], rest[max(1, depth - 1) :]
        for_weights = [space.empty(weight.shape, weight.dtype) for weight in weights]
        for_biases = [weight.new_empty(len(weight), 1, weight.shape[2]) for weight in weights]
        rooms = [space.empty(z.shape[1:], z.dtype) for z in hidden[: depth - 1]]
        for q, grad in enumerate(grads[0]):
            g = grad.contiguous()
            for k in range(depth - 2, -1, -1):
                z, h = hidden[k][q], rooms[k]
                layers.activate(z, q, lots[k][q], out=h)
                _multiply(h.t(), g, for_weights[k + 1][q], space)
                torch.sum(g, 0, out=for_biases[k + 1][q, 0])
                g = layers.vjp(torch.mm(g, weights[k + 1][q].t(), out=h), z, q, lots[k][q])
            layers.seen(q).vjp(g, for_weights[0][q], space)
            torch.sum(g, 0, out=for_biases[0][q, 0])
        return None, None, None, *for_weights, *for_biases


def _drop_from(values: Tensor, level: int, lots: Tensor) -> None:
    """Drops in place the entries whose random byte is not below the level. What is kept counts for what is dropped."""
    drop(values.view(-1).numpy(), lots.view(torch.uint8).numpy(), level, LEVELS / level)


def _multiply(a: Tensor, b: Tensor, out: Tensor, space: Workspace) -> None:
    """out ← a · b, by way of more columns where there are few."""
    columns = b.shape[1]
    if columns >= NARROWEST:
        torch.mm(a, b, out=out)
        return
    wider, product = (space.empty((len(one), NARROWEST), b.dtype) for one in (b, a))
    # The rest changes nothing, but what happens to lie there could be numbers so small that they take long.
    wider[:, columns:] = 0
    wider[:, :columns] = b
    out.copy_(torch.mm(a, wider, out=product)[:, :columns])
