"""Options that several commands share, and the group of options that names a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from typer import Argument, Exit, Option, echo
from typer.models import ArgumentInfo

from lggd.app.cli.terminal import Terminal
from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd.app.runs.run_input import RunInput
    from lggd.app.tables.edge_columns import EdgeFormat

TEST_SHARE = 0.3
# The options of a graph that do not apply to tables alone.
NOT_OF_TABLES = ("dataset", "file", "data", "split", "labels_per_class")
TABLES = "Your own tables"
# The file that marks the folder of a graph on disk, as in lggd.graph.stored_graph, which imports torch.
GRAPH_MANIFEST = "graph.json"
# Maps arguments named by the library's errors about a graph to options of other names; its data and edges are tensors.
GRAPH_FLAGS = {"name": "DATASET", "root": "--data", "data.y": "--label", "data": "data", "edges": "edges"}


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
DATA = "LGGD_DATA, or a download"
AsJson = Annotated[bool, Option("--json", help="Print the result as one JSON object on stdout.")]
Debug = Annotated[bool, Option("--debug", envvar="LGGD_DEBUG", help="Show the traceback of an error.")]


def _print_version(requested: bool) -> None:
    if requested:
        from lggd import __version__

        echo(f"lggd {__version__}")
        raise Exit


def general_options(
    version: bool = option(False, "Print the version and exit.", "--version", callback=_print_version, is_eager=True),
) -> None:
    pass


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


def command(known: Mapping[str, str] | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a command of a function of a terminal and options: adds --json and --debug.

    A parameter that is annotated with a dataclass becomes one option per field. Errors of the library that name an
    argument are about the option of this name, or of the name that `known` maps it to.
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

        named_options = {parameter.name: _flag(parameter) for parameter in parameters} | dict(known or {})

        @wraps(function)
        def run(as_json: bool, debug: bool, **values: Any) -> None:
            for name, kind in groups.items():
                values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            with Terminal(as_json=as_json, debug=debug, flags=named_options) as terminal:
                function(terminal, **values)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _flag(parameter: inspect.Parameter) -> str:
    """The name that users write for a parameter: `--id-column`, or DATASET for an argument."""
    for declared in (parameter.default, *getattr(parameter.annotation, "__metadata__", ())):
        if isinstance(declared, ArgumentInfo) and declared.metavar:
            return declared.metavar.rstrip(".")
    return f"--{parameter.name.replace('_', '-')}"


def _in_tables(metavar: str | None, help: str, *names: str) -> Any:
    return Option(*names, metavar=metavar, help=help, rich_help_panel=TABLES)


DATASET = (
    "Folder of a graph on disk, or a dataset: digits, moons or karate, which are included; or cora, citeseer, pubmed, "
    "computers, photo, actor, chameleon, squirrel, tolokers or minesweeper, which are read from the folder LGGD_DATA "
    "or downloaded once."
)
LABELS = "Labels per class of digits, moons and karate."
EDGES = "Table of edges: .csv, .tsv, .txt, .parquet, .npz or .graphml."
NODES = "Table of nodes: .csv, .tsv, .txt or .parquet. Omit it for GraphML."
UNLABELLED = (
    "Value that means unlabelled, besides an empty cell. Can be repeated. By default -1, NA, N/A, NaN, null, none, "
    "unknown and ?; use '' if all of these are classes."
)
WEIGHT = "Column of edge weights: similarities, larger means closer. By default the column weight or w."
LENGTH = "Column of edge lengths: distances, longer means farther."
JOIN = "How to merge duplicate edges (default: closest)."
IGNORE = "Column that is not used. Can be repeated."
SEPARATOR = "Separator of columns: comma, semicolon, tab, bar or space. By default it is detected."


@dataclass(frozen=True)
class EdgeColumnOptions:
    """Which columns of a table of edges are read, and how."""

    weight: Annotated[str | None, _in_tables("COLUMN", WEIGHT)]
    length: Annotated[str | None, _in_tables("COLUMN", LENGTH)]
    source_column: Annotated[str | None, _in_tables("COLUMN", "Column of the nodes where edges start.")]
    target_column: Annotated[str | None, _in_tables("COLUMN", "Column of the nodes where edges end.")]
    ignore: Annotated[list[str] | None, _in_tables("COLUMN", IGNORE)]
    delimiter: Annotated[str | None, _in_tables("TEXT", SEPARATOR)]
    header: Annotated[
        bool | None,
        _in_tables(None, "Whether the first line of the edges names columns; detected.", "--header/--no-header"),
    ]

    @property
    def edge_format(self) -> EdgeFormat:
        from lggd.app.tables.edge_columns import EdgeFormat

        given = {field.name: getattr(self, field.name) for field in fields(EdgeFormat)}
        return EdgeFormat(**given | {"ignore": tuple(self.ignore or ())})


@dataclass(frozen=True)
class EdgeTableOptions(EdgeColumnOptions):
    """How a table of edges is read."""

    symmetrize: Annotated[Literal["max", "mean", "min", "sum"] | None, _in_tables(None, JOIN)]


@dataclass(frozen=True)
class GraphOptions(EdgeTableOptions):
    """The graph that a command works on: a dataset by name, or the user's own tables or file."""

    dataset: Annotated[str | None, Argument(metavar="DATASET", help=DATASET, show_default=False)]
    edges: Annotated[Path | None, _in_tables("FILE", EDGES)]
    nodes: Annotated[Path | None, _in_tables("FILE", NODES)]
    label: Annotated[str | None, _in_tables("COLUMN", "Column of classes; see --unlabelled for cells without one.")]
    id_column: Annotated[
        str | None, _in_tables("COLUMN", "Column of node ids; by default id, node, name or the first.")
    ]
    split_column: Annotated[str | None, _in_tables("COLUMN", "Column with the values train, val, test or empty.")]
    unlabelled: Annotated[list[str] | None, _in_tables("VALUE", UNLABELLED)]
    missing: Annotated[
        Literal["error", "mean"] | None,
        _in_tables(None, "Missing features: an error, or the mean of the column."),
    ]
    category: Annotated[
        list[str] | None, _in_tables("COLUMN", "Column of numbers that are categories. Can be repeated.")
    ]
    file: Annotated[Path | None, _in_tables("FILE", "Graph in one file instead of tables: .pt (PyG) or .npz (arrays).")]
    data: Annotated[Path | None, Option(metavar="DIR", help="Folder of datasets.", show_default=DATA)]
    split: Annotated[int | None, Option(min=0, help="Number of the random split.", show_default="0")]
    labels_per_class: Annotated[int | None, Option(min=1, help=LABELS, show_default="5")]

    def check(self, test_share: float | None = None) -> None:
        """Raises if options cannot be combined."""
        one_of = {"DATASET": self.dataset, "--edges": self.edges, "--file": self.file}
        given = [flag for flag, value in one_of.items() if value is not None]
        if not given:
            value = "none" if self.nodes is None else "--nodes alone"
            remedy = "Try digits, or --edges FILE --nodes FILE."
            raise InputError("DATASET", "be a name, or use --edges or --file", value, remedy)
        source, *others = given
        if source == "DATASET" and Path(self.dataset or "").suffix and Path(self.dataset or "").is_file():
            rule, remedy = "name a dataset", "Read tables by --edges and --nodes."
            raise InputError("DATASET", rule, f"the file {self.dataset}", remedy)
        named = f"the {'graph' if self.is_graph else 'dataset'} {self.dataset}" if source == "DATASET" else source
        refused: list[tuple[str, Any, str, str]] = []
        refused += [(flag, one_of[flag], named, "Use one or the other.") for flag in others]
        if source != "--edges":
            for name in (field.name for field in fields(self) if field.name not in NOT_OF_TABLES):
                flag = f"--{name.replace('_', '-')}"
                refused.append((flag, getattr(self, name), named, "It applies to tables."))
        if source == "DATASET" and not self.is_graph:
            refused.append(("--test-share", test_share, named, "A dataset has test nodes of its own."))
        else:
            refused.append(("--labels-per-class", self.labels_per_class, named, "It applies to datasets by name."))
            refused.append(("--data", self.data, named, "It is the folder of datasets."))
        if self.split_column is not None:
            defined = (("--test-share", test_share), ("--split", self.split))
            refused += [(*each, "--split-column", "The column defines the test nodes.") for each in defined]
        for flag, value, other, remedy in refused:
            if value is not None:
                raise InputError(flag, f"be omitted with {other}", remedy=remedy)
        if source == "--edges" and self.label is None:
            rule = f"name the column of classes in {self.edges if self.nodes is None else self.nodes}"
            raise InputError("--label", rule, "none", "Add --label COLUMN.")

    @property
    def is_graph(self) -> bool:
        """Whether the dataset is the folder of a graph on disk."""
        return self.dataset is not None and (Path(self.dataset) / GRAPH_MANIFEST).is_file()

    def __str__(self) -> str:
        return self.dataset or str(self.file or self.edges)

    def read(
        self, test_share: float | None = None, fewest_classes: int = 2, on_disk: bool = False, *, verify: bool = True
    ) -> RunInput:
        """Reads the graph; holds out `test_share` of the labels if neither a column nor masks define test nodes.

        Tables with fewer than `fewest_classes` are refused, and so are graphs on disk unless `on_disk`; `verify`
        compares their checksums.
        """
        from lggd.app.runs.run_input import RunInput

        share, split = TEST_SHARE if test_share is None else test_share, self.split or 0
        if self.dataset is not None and self.is_graph:
            if not on_disk:
                rule, remedy = "be in memory for this command", "Use lggd run, or lggd features."
                raise InputError("DATASET", rule, "a graph on disk", remedy)
            return RunInput.from_graph(self.dataset, share, split, verify=verify)
        if self.dataset is not None:
            return RunInput.from_dataset(self.dataset, split, self.labels_per_class, self.data)
        if self.file is not None:
            return RunInput.from_file(self.file, share, split)
        edge_format = self.edge_format
        names = ("label", "id_column", "split_column", "symmetrize", "missing")
        columns: dict[str, Any] = {name: getattr(self, name) for name in names}
        columns |= {name: tuple(getattr(self, name) or ()) for name in ("category", "ignore")}
        columns["unlabelled"] = None if self.unlabelled is None else tuple(self.unlabelled)
        always = ("label", "id_column", "split_column", "ignore")
        given = {name: value for name, value in columns.items() if name in always or value not in (None, ())}
        if fewest_classes != 2:
            given["fewest_classes"] = fewest_classes
        edges: Any = self.edges
        return RunInput.from_tables(edges, self.nodes, share, split, format=edge_format, **given)
