"""Which graph a command is about: a dataset by name, or tables of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd.runs.subject import Subject

TEST_SHARE = 0.3
TABLES = "Your own tables"

DatasetName = Annotated[
    str | None,
    typer.Argument(
        metavar="DATASET",
        help="digits, moons or karate, which need no files; cora, citeseer, pubmed, computers or photo, which are read "
        "from the folder LGGD_DATA or downloaded once.",
        show_default=False,
    ),
]
Edges = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Edges: .csv, .tsv, .parquet, .npz or .graphml.", rich_help_panel=TABLES),
]
Nodes = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Nodes: .csv, .tsv or .parquet. A GraphML file holds both.", rich_help_panel=TABLES
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label", metavar="COLUMN", help="The column of classes; empty is unlabelled.", rich_help_panel=TABLES
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The column of ids, if not id, node, name or the first.", rich_help_panel=TABLES
    ),
]
SplitColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="A column that says train, val, test or nothing.", rich_help_panel=TABLES),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="A column that is no feature. Repeat it for more.", rich_help_panel=TABLES),
]
Split = Annotated[
    int | None,
    typer.Option(min=0, help="The number of the random split. The same number gives the same nodes.", show_default="0"),
]
LabelsPerClass = Annotated[
    int | None,
    typer.Option(min=1, help="How many labels of each class to show, of digits, moons and karate.", show_default="5"),
]

# The library's words for what the command line calls otherwise.
FLAGS = {
    "`name`": "`DATASET`",
    "`nodes`": "`--nodes`",
    "`label`": "`--label`",
    "`id_column`": "`--id-column`",
    "`split_column`": "`--split-column`",
    "`ignore`": "`--ignore`",
    "`test_share`": "`--test-share`",
    "`split`": "`--split`",
    "`labels_per_class`": "`--labels-per-class`",
    "`seed`": "`--seed`",
    "`data.y`": "The labels",
}


@dataclass(frozen=True)
class GraphSource:
    """What was typed to say which graph is meant. Flags that have no meaning together are refused, not ignored."""

    dataset: str | None
    edges: Path | None
    nodes: Path | None
    label: str | None
    id_column: str | None
    split_column: str | None
    ignore: list[str] | None
    split: int | None
    labels_per_class: int | None
    test_share: float | None

    def __post_init__(self) -> None:
        if self.dataset is not None:
            self._refuse_beside_dataset()
        elif self.edges is None:
            given = "--nodes alone" if self.nodes is not None else "neither"
            raise ValueError(
                f"`DATASET` or `--edges` must say which graph, got {given}. Try digits, or --edges FILE --nodes FILE."
            )
        else:
            self._check_tables()

    def _refuse_beside_dataset(self) -> None:
        for_tables = {
            "--edges": self.edges,
            "--nodes": self.nodes,
            "--label": self.label,
            "--id-column": self.id_column,
            "--split-column": self.split_column,
            "--ignore": self.ignore,
            "--test-share": self.test_share,
        }
        for flag, value in for_tables.items():
            if value is not None:
                raise InputError(
                    flag,
                    f"be left out beside the dataset {self.dataset}: it is for tables of your own",
                    remedy="Give one or the other.",
                )

    def _check_tables(self) -> None:
        if self.label is None:
            listing = self.edges if self.nodes is None else self.nodes
            raise InputError("--label", f"name the column of classes in {listing}", "none", "Add --label COLUMN.")
        if self.labels_per_class is not None:
            raise InputError(
                "--labels-per-class",
                "be left out beside `--edges`: it is for datasets by name",
                remedy="Leave labels empty in the table of nodes instead.",
            )
        for flag, value in (("--test-share", self.test_share), ("--split", self.split)):
            if self.split_column is not None and value is not None:
                raise InputError(flag, "be left out beside `--split-column`, which says who is held out")

    @property
    def called(self) -> str:
        return self.dataset or str(self.edges)

    def read(self, *, hold_out: bool = True) -> Subject:
        """The graph, with labels held out to measure with if so wanted."""
        from lggd.runs.subject import subject_from_dataset, subject_from_tables

        if self.dataset is not None:
            return subject_from_dataset(self.dataset, split=self.split or 0, labels_per_class=self.labels_per_class)
        share = TEST_SHARE if self.test_share is None else self.test_share
        return subject_from_tables(
            self.edges,  # type: ignore[arg-type]
            self.nodes,
            label=self.label or "",
            id_column=self.id_column,
            split_column=self.split_column,
            ignore=self.ignore or (),
            test_share=share if hold_out else 0.0,
            split=self.split or 0,
        )
