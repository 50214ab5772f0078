"""Random tables of edges and nodes, written in many dialects, and read again by pandas as the reference.

pandas is told the dialect and the columns; the readers of the package find them on their own. For a table that is not
damaged they must agree with pandas or refuse it with an `InputError`; for a damaged one they must do either without any
other exception. `PYTHONPATH=src python tests/support/fuzzed_tables.py 100000` reads that many tables and counts what
happened; a second number is the first seed. The table of a seed is always the same.
"""

from __future__ import annotations

import csv
import random
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lggd.app.tables.edge_columns import CERTAIN_PAIRS, ENDS_FROM, FIRST_LINE, LIKELY_PAIRS, SHORT_PAIRS, EdgeFormat
from lggd.app.tables.edges import EdgeTable, read_edge_file
from lggd.app.tables.node_features import MISSING
from lggd.app.tables.nodes import UNLABELLED, read_node_file
from lggd.errors import InputError

NAMES = (
    [str(k) for k in range(30)], [f"n{k}" for k in range(30)], list("abcdefghijklmnopqrstuvwxyz"),
    ["New York", "São Paulo", "Zürich", "Den Haag", "Rio", "Oslo", "Ürümqi", "x y z", "東京", "a'b", "O\"Neill", "#1"],
    ["Smith, J.", "Doe; A", "tab\tbed", "pipe|d", "source", "target", "weight", "start", "end", "NA", "-1", "007"],
    [f"{k / 2}" for k in range(20)], ["{0}", "{weight}", "id", "node", "None", "true", "null", "1e5", "1_000", "٣"],
)  # fmt: skip
PAIRS = [*CERTAIN_PAIRS[:6], *LIKELY_PAIRS, *SHORT_PAIRS]
UNKNOWN_PAIRS = [("foo", "bar"), ("col1", "col2"), ("Stadt A", "Stadt B"), ("p", "q"), ("", "other"), ("0", "1")]
OTHER_COLUMNS = [
    "when",
    "remark",
    "km",
    "distance",
    "cost",
    "value",
    "strength",
    "Type",
    "Id",
    "label",
    "time",
    "score",
]
LETTERS = ["red", "blue", "green", "very dark", "x;y", "a,b"]
LABELS = ["red", "blue", "1", "2", "0", "yes", "no", "class a"]


@dataclass
class Problem:
    """A table, how it was written, and what pandas must be told to read it."""

    kind: str
    path: Path
    rows: list[list[str]]
    delimiter: str
    header: list[str] | None
    skipped: int = 0
    decimal: str = "."
    damaged: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def reference(self) -> pd.DataFrame:
        """All cells as pandas reads them, as text."""
        return pd.read_csv(
            self.path, sep=self.delimiter if self.delimiter != " " else r"\s+",
            header=None if self.header is None else 0, dtype=str,
            keep_default_na=False, na_filter=False, skipinitialspace=True, encoding="utf-8-sig",
            skiprows=self.skipped, engine="c", index_col=False,
        )  # fmt: skip


def number_text(rng: random.Random, decimal: str) -> str:
    value = rng.choice([rng.random(), rng.randint(1, 9), rng.uniform(1, 5000), 10 ** rng.uniform(-6, 6)])
    text = rng.choice([f"{value:.4g}", f"{value:.3f}", repr(float(value)), str(value)])
    return text.replace(".", decimal) if rng.random() < 0.98 else rng.choice(["1e3", "+2", "0.5", ".5", "5.", "1,234"])


def edge_problem(rng: random.Random, path: Path) -> Problem:
    pool = rng.choice(NAMES)
    decimal = "," if rng.random() < 0.15 else "."
    size, has_header = rng.randint(1, 12), rng.random() < 0.6
    ends = [[rng.choice(pool), rng.choice(pool)] for _ in range(size)]
    header: list[str] | None = None
    options: dict[str, Any] = {"ends": (0, 1), "value": None, "is_length": False}
    if has_header:
        pair = rng.choice(PAIRS if rng.random() < 0.85 else UNKNOWN_PAIRS)
        style = rng.choice([str, str.upper, str.title, lambda text: f"{text}_id", lambda text: f" {text} "])
        header = [style(name) for name in pair]
        more = rng.sample([*OTHER_COLUMNS, "weight", "w"], rng.randint(0, 3))
        rows = [[*pair_of_ends, *(number_text(rng, decimal) for _ in more)] for pair_of_ends in ends]
        header += more
        order = list(range(len(header)))
        rng.shuffle(order)
        header, rows = [header[k] for k in order], [[row[k] for k in order] for row in rows]
        options["ends"] = order.index(0), order.index(1)
        known = [name for name in ("weight", "w") if name in more]
        options["value"] = header.index(known[0]) if known else None
        if more and rng.random() < 0.5:
            chosen = rng.choice(more)
            options |= {"value": header.index(chosen), "is_length": rng.random() < 0.5, "requested": chosen}
    else:
        if set(ends[0]) in [{*pair} for pair in CERTAIN_PAIRS]:  # nodes called source and target: nobody could tell
            ends[0] = ends[0][:1] * 2
        width = rng.choice([2, 2, 3])
        rows = [[*pair_of_ends, *[number_text(rng, decimal)] * (width == 3)] for pair_of_ends in ends]
        options["value"] = 2 if width == 3 else None
    return Problem("edges", path, rows, "", header, decimal=decimal, options=options)


def node_problem(rng: random.Random, path: Path) -> Problem:
    size, decimal = rng.randint(1, 14), "," if rng.random() < 0.15 else "."
    pool = list(dict.fromkeys([*rng.choice(NAMES), *(f"v{k}" for k in range(20))]))
    ids = rng.sample(pool, size) if rng.random() < 0.95 else [rng.choice(pool) for _ in range(size)]
    columns = {rng.choice(["id", "node", "name", "Id", "who", "NODE_ID"]): ids}
    for k in range(rng.randint(0, 3)):
        kind = rng.choice(["number", "number", "text", "boolean", "date", "mixed"])
        cells = {
            "number": lambda: number_text(rng, decimal), "text": lambda: rng.choice(LETTERS),
            "boolean": lambda: rng.choice(["true", "False", "TRUE"]),
            "date": lambda: f"2024-01-{rng.randint(1, 28):02}",
            "mixed": lambda: rng.choice([number_text(rng, decimal), "old"]),
        }[kind]  # fmt: skip
        gaps = rng.choice([0, 0, 0.2])
        columns[f"f{k}"] = [rng.choice(["", "NA", "nan", "?"]) if rng.random() < gaps else cells() for _ in range(size)]
    columns["kind"] = [
        rng.choice(LABELS if rng.random() < 0.7 else ["", *UNLABELLED, "NA", "Unknown"]) for _ in range(size)
    ]
    order = list(columns)
    if rng.random() < 0.3:
        rng.shuffle(order)
    id_name = next(iter(columns))
    options = {"label": "kind", "id": id_name, "missing": rng.choice(["error", "mean"])}
    rows = [list(row) for row in zip(*(columns[name] for name in order), strict=True)]
    return Problem("nodes", path, rows, "", order, decimal=decimal, options=options)


def write(rng: random.Random, problem: Problem) -> None:
    """Writes the table in a random dialect, and sometimes damages it."""
    delimiter = rng.choice([",", ",", ";", "\t", "|", " "]) if problem.decimal == "." else rng.choice([";", "\t"])
    if delimiter != "\t":  # only there it would be quoted
        problem.rows = [[cell.replace("\t", "-") for cell in row] for row in problem.rows]
    lines = [] if problem.header is None else [problem.header]
    lines += problem.rows
    quoting = csv.QUOTE_ALL if rng.random() < 0.15 else csv.QUOTE_MINIMAL
    end, blank = rng.choice(["\n", "\n", "\r\n"]), rng.random() < 0.1
    extension = rng.choice([".csv", ".csv", ".tsv", ".txt"])
    problem.path, problem.delimiter = problem.path.with_suffix(extension), delimiter
    with problem.path.open("w", newline="", encoding=rng.choice(["utf-8", "utf-8", "utf-8-sig"])) as file:
        if rng.random() < 0.05 and delimiter not in ("\t", " "):
            file.write(f"sep={delimiter}{end}")
            problem.skipped = 1
        writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end)
        for line in lines:
            writer.writerow(line)
            if blank and rng.random() < 0.3:
                file.write(end)
    if rng.random() < 0.1:
        problem.damaged = True
        damage(rng, problem.path)


def damage(rng: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 4)):
        position = rng.randrange(len(content) + 1)
        action = rng.random()
        if action < 0.4:
            content[position:position] = rng.choice(
                [b'"', b",", b";", b"\n", b"\x00", b"\xff", b"{0}", b"\r", b"\t", b"nan"]
            )
        elif action < 0.7:
            del content[position : position + rng.randint(1, 6)]
        else:
            content[position:position] = content[: rng.randint(0, 40)]
    path.write_bytes(bytes(content))


def as_number(text: str, decimal: str) -> float:
    text = text.strip()
    if "_" in text:  # a number only for Python
        raise ValueError(text)
    booleans = {"true": 1.0, "false": 0.0}
    if text.lower() in booleans:
        return booleans[text.lower()]
    return float(text.replace(decimal, ".")) if decimal == "," else float(text)


def check_edges(problem: Problem) -> str:
    options = problem.options
    requested = options.get("requested")
    reading = EdgeFormat(**({"length" if options["is_length"] else "weight": requested} if requested else {}))
    table = read_edge_file(problem.path, format=reading)
    if problem.damaged:
        return "read, damaged"
    outcome = compare_edges(problem, table)
    has_header = problem.header is not None
    said = FIRST_LINE in table.notes if has_header else any(note.startswith(ENDS_FROM) for note in table.notes)
    if outcome != "equal" and said:
        # Names of columns that are nodes too: a note tells how the first line was read, and the remedy helps.
        told = compare_edges(problem, read_edge_file(problem.path, format=replace(reading, header=has_header)))
        return f"equal with header={has_header}, as a note suggests" if told == "equal" else told
    return outcome


def compare_edges(problem: Problem, table: EdgeTable) -> str:
    options, frame = problem.options, problem.reference()
    first, second = (frame.iloc[:, k].str.strip() for k in options["ends"])
    ids = list(dict.fromkeys(name for pair in zip(first, second, strict=True) for name in pair))
    if table.ids != ids:
        return f"WRONG ids {table.ids} instead of {ids}"
    found = [(table.ids[i], table.ids[j]) for i, j in table.edges.T]
    if found != list(zip(first, second, strict=True)):
        return f"WRONG edges {found}"
    if (table.weight is None) != (options["value"] is None):
        return f"WRONG weight {table.weight}"
    if table.weight is not None:
        values = np.array([as_number(text, problem.decimal) for text in frame.iloc[:, options["value"]]])
        expected = 1 / values**2 if options["is_length"] else values
        if not np.allclose(table.weight, expected, rtol=1e-9, atol=0):
            return f"WRONG weights {table.weight} instead of {expected}"
    return "equal"


def check_nodes(problem: Problem) -> str:
    missing = problem.options["missing"]
    table = read_node_file(problem.path, label="kind", missing=missing)
    if problem.damaged:
        return "read, damaged"
    frame = problem.reference()
    frame.columns = [name.strip() for name in frame.columns]
    frame = frame.map(str.strip)
    id_name = problem.options["id"] if problem.options["id"] != "who" else table_ids_name(problem)
    features = frame.drop(columns=[id_name, "kind"])
    gaps = features.map(lambda text: text.lower() in MISSING)
    if table.ids != list(frame[id_name]):
        return f"WRONG ids {table.ids}"
    labels = [None if text.lower() in ("", *UNLABELLED) else text for text in frame["kind"]]
    if table.labels != labels:
        return f"WRONG labels {table.labels} instead of {labels}"
    columns = []
    for name in features:
        texts = features[name]
        known = [text for text, gap in zip(texts, gaps[name], strict=True) if not gap]
        try:
            numbers = {text: as_number(text, problem.decimal) for text in known}
            columns.append([np.nan if gap else numbers[text] for text, gap in zip(texts, gaps[name], strict=True)])
        except ValueError:
            for value in sorted(set(known)):
                columns.append(
                    [np.nan if gap else float(text == value) for text, gap in zip(texts, gaps[name], strict=True)]
                )
    expected = np.array(columns, float).reshape(len(columns), len(frame)).T
    if missing == "mean" and gaps.to_numpy().any():
        expected = np.where(np.isnan(expected), np.nanmean(expected, axis=0), expected)
    if table.x.shape != expected.shape or not np.allclose(table.x, expected, rtol=1e-5, atol=1e-30):
        return f"WRONG features {table.x} instead of {expected}"
    return "equal"


def table_ids_name(problem: Problem) -> str:
    """Without a known name, the first column that is not the label has the ids."""
    return next(name for name in problem.header or () if name != "kind")


def fuzz(seed: int, folder: Path) -> tuple[str, Problem]:
    """Writes and reads one table; returns what happened: equal, refused, read, damaged, WRONG … or TRACEBACK …."""
    rng = random.Random(seed)
    make, check = rng.choice([(edge_problem, check_edges), (node_problem, check_nodes)])
    problem = make(rng, folder / "table")
    write(rng, problem)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return check(problem), problem
    except InputError as error:
        message = str(error)
        return (
            "refused, damaged" if problem.damaged else "refused"
        ) if message else "TRACEBACK without a message", problem
    except Exception:
        return f"TRACEBACK {traceback.format_exc()}", problem


def main(count: int, first: int = 0) -> int:
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            outcome, problem = fuzz(seed, Path(folder))
            counts[f"{problem.kind}: {outcome.split()[0] if outcome.startswith(('WRONG', 'TRACE')) else outcome}"] += 1
            if outcome.startswith(("WRONG", "TRACE")):
                sys.stdout.write(f"seed {seed}, {problem.options}: {outcome}\n{problem.path.read_bytes()!r}\n\n")
            problem.path.unlink()
    for name, number in sorted(counts.items()):
        sys.stdout.write(f"{number:8,} {name}\n")
    return any("WRONG" in name or "TRACE" in name for name in counts)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
