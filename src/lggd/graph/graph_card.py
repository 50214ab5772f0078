"""What a notebook shows of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lggd.cards import MAX_VALUES, Facts, card, histogram

if TYPE_CHECKING:
    from lggd.graph.graph import Graph


def graph_card(graph: Graph) -> str:
    """Returns sizes and traits, and how many neighbours nodes have, as HTML; reads no edges, however many there are."""
    indptr, traits = graph._native.csr.indptr, {"weighted": graph.is_weighted, "directed": graph.is_directed}
    first = range(0, graph.num_nodes, max(1, graph.num_nodes // MAX_VALUES))
    neighbours = (indptr[1:][first.start :: first.step] - indptr[:-1][first.start :: first.step]).cpu()
    facts: Facts = [
        ("nodes", f"{graph.num_nodes:,}"),
        ("edges", f"{graph.num_edges:,}"),
        ("kind", ", ".join(name if holds else f"un{name}" for name, holds in traits.items())),
        ("device", graph.device),
    ]
    if graph.stored is not None:
        facts.append(("folder", graph.stored.folder))
    return card("Graph", facts, histogram(neighbours, "neighbours of a node"))
