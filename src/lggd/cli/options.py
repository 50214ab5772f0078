"""Options that several commands share, and the group of options that names a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from lggd.cli.terminal import flags
from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd.runs.run_input import RunInput

TEST_SHARE = 0.3
TABLES = "Your own tables"
# Maps arguments named by the library's errors about a graph to options.
GRAPH_FLAGS = flags(
    "nodes", "label", "id_column", "split_column", "ignore", "test_share", "split", "labels_per_class", "seed",
    name="DATASET",
) | {"data.y": "--label"}  # fmt: skip


class PresetName(StrEnum):
    DEFAULT = "default"
    PAPER = "paper"
    RELEASE = "release"


class DeviceName(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


Preset = Annotated[
    PresetName, typer.Option(help="Settings of LGGD: our defaults, the paper's, or those of the authors' code.")
]
Device = Annotated[DeviceName, typer.Option(help="Device to train on; auto uses CUDA if it is available.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Rows = Annotated[
    list[str] | None,
    typer.Option(help="Rows by number, file name or title, such as 01,09. Can be repeated.", show_default="all"),
]
Datasets = Annotated[
    list[str] | None,
    typer.Option(help="Datasets, such as cora,photo. Can be repeated.", show_default="those of the paper"),
]
Configs = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder that contains rows/ and chosen/.", show_default="that of the package"),
]
DataFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of the datasets.", show_default="LGGD_DATA, or a download")
]


def named(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Splits comma-separated names of a repeated option."""
    return tuple(part.strip() for text in texts or () for part in text.split(",") if part.strip())


def chosen_device(name: DeviceName) -> str:
    """Returns the torch device."""
    import torch

    if name is DeviceName.CUDA and not torch.cuda.is_available():
        raise InputError("--device", "be cpu", "cuda, but torch finds no CUDA device", "Omit it.")
    return "cuda" if name is not DeviceName.CPU and torch.cuda.is_available() else "cpu"


def use_fast_products(device: str) -> None:
    """Allows TF32 matrix products on a GPU: several times faster with ten bits of precision. Results record it."""
    import torch

    if device == "cuda":
        torch.set_float32_matmul_precision("high")


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Turns each parameter of a command that is annotated with a dataclass into one option per field."""
    parameters, groups = list[inspect.Parameter](), dict[str, type[Any]]()
    kinds = get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        kind = kinds[parameter.name]
        options = [parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY)]
        if isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = kind
            hints = get_type_hints(kind, include_extras=True)
            options = [options[0].replace(name=f.name, annotation=hints[f.name], default=None) for f in fields(kind)]
        parameters += options

    @wraps(command)
    def expanded(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


def _file(help: str) -> Any:
    return typer.Option(metavar="FILE", help=help, rich_help_panel=TABLES)


def _column(help: str) -> Any:
    return typer.Option(metavar="COLUMN", help=help, rich_help_panel=TABLES)


DATASETS = (
    "Dataset: digits, moons or karate, which are included; or cora, citeseer, pubmed, computers, photo, actor, "
    "chameleon, squirrel, tolokers or minesweeper, which are read from the folder LGGD_DATA or downloaded once."
)


@dataclass(frozen=True)
class GraphOptions:
    """The graph that a command works on: a dataset by name, or the user's own tables."""

    dataset: Annotated[str | None, typer.Argument(metavar="DATASET", help=DATASETS, show_default=False)]
    edges: Annotated[Path | None, _file("Table of edges: .csv, .tsv, .parquet, .npz or .graphml.")]
    nodes: Annotated[Path | None, _file("Table of nodes: .csv, .tsv or .parquet. Omit it for GraphML.")]
    label: Annotated[str | None, _column("Column of classes; empty means unlabelled.")]
    id_column: Annotated[str | None, _column("Column of node ids; by default id, node, name or the first.")]
    split_column: Annotated[str | None, _column("Column with the values train, val, test or empty.")]
    ignore: Annotated[list[str] | None, _column("Column to exclude from the features. Can be repeated.")]
    split: Annotated[int | None, typer.Option(min=0, help="Number of the random split.", show_default="0")]
    labels_per_class: Annotated[
        int | None, typer.Option(min=1, help="Labels per class of digits, moons and karate.", show_default="5")
    ]

    def check(self, test_share: float | None = None) -> None:
        """Raises if options cannot be combined."""
        if self.dataset is not None:
            for name in ("edges", "nodes", "label", "id_column", "split_column", "ignore"):
                if getattr(self, name) is not None:
                    self._refuse(GRAPH_FLAGS.get(name, "--edges"))
            if test_share is not None:
                self._refuse("--test-share")
        elif self.edges is None:
            found = "none" if self.nodes is None else "--nodes alone"
            raise InputError("DATASET", "be a name, or use --edges", found, "Try digits, or --edges FILE --nodes FILE.")
        elif self.label is None:
            file = self.edges if self.nodes is None else self.nodes
            raise InputError("--label", f"name the column of classes in {file}", "none", "Add --label COLUMN.")
        elif self.labels_per_class is not None:
            rule, remedy = "be omitted with --edges: it applies to datasets", "Leave labels empty in the table."
            raise InputError("--labels-per-class", rule, remedy=remedy)
        elif self.split_column is not None:
            for flag, value in (("--test-share", test_share), ("--split", self.split)):
                if value is not None:
                    raise InputError(flag, "be omitted with --split-column, which defines the test nodes")

    def _refuse(self, flag: str) -> None:
        rule = f"be omitted with the dataset {self.dataset}: it applies to tables"
        raise InputError(flag, rule, remedy="Use one or the other.")

    def __str__(self) -> str:
        return self.dataset or str(self.edges)

    def read(self, test_share: float | None = None) -> RunInput:
        """Reads the graph; holds out `test_share` of the labels of tables without a split column."""
        from lggd.runs.run_input import RunInput

        if self.dataset is not None:
            return RunInput.from_dataset(self.dataset, self.split or 0, self.labels_per_class)
        columns = {name: getattr(self, name) for name in ("label", "id_column", "split_column")}
        share = TEST_SHARE if test_share is None else test_share
        ignore = tuple(self.ignore or ())
        return RunInput.from_tables(self.edges, self.nodes, share, self.split or 0, ignore=ignore, **columns)  # type: ignore[arg-type]
