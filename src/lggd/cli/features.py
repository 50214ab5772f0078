"""lggd features: distances to the labelled nodes as a table, for whatever you train yourself."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lggd.cli import graph_source as source
from lggd.cli.stages import Device, DeviceName, Preset, PresetName, chosen_device, stages_shown
from lggd.cli.terminal import AsJson, Debug, Terminal, summary
from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd import GGD, LGGD
    from lggd.runs.subject import Subject


class MethodName(StrEnum):
    LGGD = "lggd"
    GGD = "ggd"


def features_command(
    dataset: source.DatasetName = None,
    edges: source.Edges = None,
    nodes: source.Nodes = None,
    label: source.LabelColumn = None,
    id_column: source.IdColumn = None,
    split_column: source.SplitColumn = None,
    ignore: source.Ignore = None,
    method: Annotated[
        MethodName, typer.Option(help="lggd learns from node features; ggd needs none and learns nothing.")
    ] = MethodName.LGGD,
    preset: Preset = PresetName.DEFAULT,
    split: source.Split = None,
    labels_per_class: source.LabelsPerClass = None,
    seed: Annotated[int, typer.Option(min=0, help="What learning depends on by chance.")] = 0,
    device: Device = DeviceName.AUTO,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .parquet, .csv or .tsv file.", show_default=True)] = Path(
        "features.parquet"
    ),
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write the distances of every node to the labelled nodes of each class, as features.

    The file has a column node, one for each class and time, called
    "class red, t=1", and one called reachable: whether a label is in reach.
    Every label that is not marked as test is used.

    Example, which needs no files:

        lggd features digits --out digits.parquet

    Example, with tables of your own and nothing learned:

        lggd features --edges edges.csv --nodes nodes.csv --label kind --method ggd --out features.csv
    """
    with Terminal(as_json=as_json, debug=debug, flags=source.FLAGS) as terminal:
        began = time.perf_counter()
        meant = source.GraphSource(
            dataset, edges, nodes, label, id_column, split_column, ignore, split, labels_per_class, None
        )
        with terminal.working("Loading lggd"):
            from lggd.data.output_files import write_features
            from lggd.data.table import TABLES, check_extension
            from lggd.files import check_writable
            from lggd.runs.run import feature_names
        check_extension(out, TABLES)
        check_writable(out)
        where = chosen_device(device)
        with terminal.working(f"Reading {meant.called}"):
            subject = meant.read(hold_out=False)
        terminal.node_names = subject.ids
        chosen = _method(method, preset, seed, subject)
        data = subject.data.to(where)
        with stages_shown(terminal) as progress:
            chosen.fit(data, callback=lambda told: progress("lggd", told))
        names = feature_names(chosen, subject.classes)
        write_features(out, subject.ids, names, chosen.features(data).cpu())
        facts = {
            "dataset": subject.name,
            "method": method.value,
            "preset": preset.value if method is MethodName.LGGD else None,
            "seed": seed,
            "nodes": len(subject.ids),
            "classes": subject.classes,
            "labelled": int((chosen.labels_ >= 0).sum()),
            "features": names,
            "notes": list(subject.notes),
            "seconds": time.perf_counter() - began,
            "out": str(out),
        }
        terminal.answer(facts, _shown(facts))


def _method(name: MethodName, preset: PresetName, seed: int, subject: Subject) -> GGD | LGGD:
    from lggd import GGD, LGGD

    if name is MethodName.GGD:
        if preset is not PresetName.DEFAULT:
            raise InputError("--preset", "be left out with --method ggd", f"{preset.value}: it is for lggd")
        return GGD(seed=seed)
    if not subject.has_contents:
        raise InputError(
            "--method", "be ggd for nodes without features", "lggd, which learns from them", "Add --method ggd."
        )
    return LGGD(preset=preset.value, seed=seed)


def _shown(facts: dict[str, Any]) -> list[Table | Text]:
    about = summary(
        {
            "graph": f"{facts['dataset']}: {facts['nodes']:,} nodes, {len(facts['classes'])} classes",
            "labels": f"{facts['labelled']:,} given",
            "features": f"{len(facts['features']):,}, such as {facts['features'][0]!r}",
            "seconds": f"{facts['seconds']:.3g}",
        }
    )
    return [about, *(Text(note) for note in facts["notes"]), Text(f"Wrote {facts['out']}")]
