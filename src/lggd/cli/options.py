"""Options that several commands share, and the group of options that names a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from typer import Argument, Option

from lggd.cli.terminal import Terminal, flags
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


def option(default: Any, help: str, *names: str, **more: Any) -> Any:
    return Option(default, *names, help=help, **more)


def file(default: Any, help: str, **more: Any) -> Any:
    return option(default, help, metavar="FILE", **more)


def folder(default: Any, help: str, **more: Any) -> Any:
    return option(default, help, metavar="DIR", **more)


Names = list[str] | None
PRESETS = "Settings of LGGD: our defaults, the paper's, or those of the authors' code."
Preset = Annotated[Literal["default", "paper", "release"], Option(help=PRESETS)]
DEVICE = "Device to train on; auto uses CUDA if it is available."
Device = Annotated[Literal["auto", "cpu", "cuda"], Option(help=DEVICE)]
Seed = Annotated[int, Option(min=0, help="Random seed.")]
ROWS = "Rows by number, file name or title, such as 01,09. Can be repeated."
Rows = Annotated[Names, Option(help=ROWS, show_default="all")]
DATASETS = "Datasets, such as cora,photo. Can be repeated."
Datasets = Annotated[Names, Option(help=DATASETS, show_default="those of the paper")]
CONFIGS = "Folder that contains rows/ and chosen/."
Configs = Annotated[Path | None, Option(metavar="DIR", help=CONFIGS, show_default="that of the package")]
DATA = "LGGD_DATA, or a download"
DataFolder = Annotated[Path | None, Option(metavar="DIR", help="Folder of the datasets.", show_default=DATA)]
AsJson = Annotated[bool, Option("--json", help="Print the result as one JSON object on stdout.")]
Debug = Annotated[bool, Option("--debug", envvar="LGGD_DEBUG", help="Show the traceback of an error.")]


def named(texts: Sequence[str] | None) -> tuple[str, ...]:
    """The comma-separated names of a repeated option."""
    return tuple(part.strip() for text in texts or () for part in text.split(",") if part.strip())


def chosen_device(name: str) -> str:
    """Returns the torch device."""
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device", "be cpu", "cuda, but torch finds no CUDA device", "Omit it.")
    return "cuda" if name != "cpu" and torch.cuda.is_available() else "cpu"


def use_fast_products(device: str) -> None:
    """Allows TF32 matrix products on a GPU: several times faster with ten bits of precision. Results record it."""
    import torch

    if device == "cuda":
        torch.set_float32_matmul_precision("high")


def command(known: Mapping[str, str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a command of a function of a terminal and options: adds --json and --debug.

    A parameter that is annotated with a dataclass becomes one option per field. `known` maps arguments to options.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        parameters, groups = list[inspect.Parameter](), dict[str, type[Any]]()
        kinds = get_type_hints(function, include_extras=True) | {"as_json": AsJson, "debug": Debug}
        switches = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False) for name in ("as_json", "debug")
        ]
        for parameter in [*list(inspect.signature(function).parameters.values())[1:], *switches]:
            kind = kinds[parameter.name]
            options = [parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY)]
            if isinstance(kind, type) and is_dataclass(kind):
                groups[parameter.name] = kind
                hints = get_type_hints(kind, include_extras=True)
                options = [
                    options[0].replace(name=f.name, annotation=hints[f.name], default=None) for f in fields(kind)
                ]
            parameters += options

        @wraps(function)
        def run(as_json: bool, debug: bool, **values: Any) -> None:
            for name, kind in groups.items():
                values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            with Terminal(as_json=as_json, debug=debug, flags=known) as terminal:
                function(terminal, **values)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _in_tables(metavar: str, help: str) -> Any:
    return Option(metavar=metavar, help=help, rich_help_panel=TABLES)


DATASET = (
    "Dataset: digits, moons or karate, which are included; or cora, citeseer, pubmed, computers, photo, actor, "
    "chameleon, squirrel, tolokers or minesweeper, which are read from the folder LGGD_DATA or downloaded once."
)
LABELS = "Labels per class of digits, moons and karate."


@dataclass(frozen=True)
class GraphOptions:
    """The graph that a command works on: a dataset by name, or the user's own tables."""

    dataset: Annotated[str | None, Argument(metavar="DATASET", help=DATASET, show_default=False)]
    edges: Annotated[Path | None, _in_tables("FILE", "Table of edges: .csv, .tsv, .parquet, .npz or .graphml.")]
    nodes: Annotated[Path | None, _in_tables("FILE", "Table of nodes: .csv, .tsv or .parquet. Omit it for GraphML.")]
    label: Annotated[str | None, _in_tables("COLUMN", "Column of classes; empty means unlabelled.")]
    id_column: Annotated[
        str | None, _in_tables("COLUMN", "Column of node ids; by default id, node, name or the first.")
    ]
    split_column: Annotated[str | None, _in_tables("COLUMN", "Column with the values train, val, test or empty.")]
    ignore: Annotated[list[str] | None, _in_tables("COLUMN", "Column to exclude from the features. Can be repeated.")]
    split: Annotated[int | None, Option(min=0, help="Number of the random split.", show_default="0")]
    labels_per_class: Annotated[int | None, Option(min=1, help=LABELS, show_default="5")]

    def check(self, test_share: float | None = None) -> None:
        """Raises if options cannot be combined."""
        if self.dataset is not None:
            names = ("edges", "nodes", "label", "id_column", "split_column", "ignore")
            values = {GRAPH_FLAGS.get(name, "--edges"): getattr(self, name) for name in names}
            for flag, value in (values | {"--test-share": test_share}).items():
                if value is not None:
                    rule = f"be omitted with the dataset {self.dataset}: it applies to tables"
                    raise InputError(flag, rule, remedy="Use one or the other.")
        elif self.edges is None:
            found = "none" if self.nodes is None else "--nodes alone"
            raise InputError("DATASET", "be a name, or use --edges", found, "Try digits, or --edges FILE --nodes FILE.")
        elif self.label is None:
            rule = f"name the column of classes in {self.edges if self.nodes is None else self.nodes}"
            raise InputError("--label", rule, "none", "Add --label COLUMN.")
        elif self.labels_per_class is not None:
            rule = "be omitted with --edges: it applies to datasets"
            raise InputError("--labels-per-class", rule, remedy="Leave labels empty in the table.")
        elif self.split_column is not None:
            for flag, value in (("--test-share", test_share), ("--split", self.split)):
                if value is not None:
                    raise InputError(flag, "be omitted with --split-column, which defines the test nodes")

    def __str__(self) -> str:
        return self.dataset or str(self.edges)

    def read(self, test_share: float | None = None) -> RunInput:
        """Reads the graph; holds out `test_share` of the labels of tables without a split column."""
        from lggd.runs.run_input import RunInput

        if self.dataset is not None:
            return RunInput.from_dataset(self.dataset, self.split or 0, self.labels_per_class)
        columns = {name: getattr(self, name) for name in ("label", "id_column", "split_column")}
        share, ignore = TEST_SHARE if test_share is None else test_share, tuple(self.ignore or ())
        return RunInput.from_tables(self.edges, self.nodes, share, self.split or 0, ignore=ignore, **columns)  # type: ignore[arg-type]
