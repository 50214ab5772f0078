"""Labels in tables of nodes: which cells are classes, and which mean that a node is unlabelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lggd.data.table import Cell, as_text
from lggd.errors import InputError, InputTypeError
from lggd.validation import listed

# Cells that mean "unlabelled" unless others are named, in any case; an empty cell always does.
UNLABELLED = ("-1", "-1.0", "na", "n/a", "nan", "null", "none", "unknown", "?", "unlabelled", "unlabeled")


class LabelReader:
    """Reads labels, and counts which cells were read as unlabelled.

    `unlabelled` replaces the default values, which ignore case; those named are matched exactly.
    """

    def __init__(self, unlabelled: Sequence[str] | None = None) -> None:
        if isinstance(unlabelled, str):
            raise InputTypeError("unlabelled", "be a list of values", f"the text {unlabelled!r}")
        self.named = None if unlabelled is None else {text.strip() for text in unlabelled}
        self.unlabelled: Counter[str] = Counter()

    def read(self, cell: Cell) -> str | None:
        """Returns the class, or None."""
        text = as_text(cell)
        if self._is_class(text):
            return text
        self.unlabelled[text] += 1
        return None

    def _is_class(self, text: str) -> bool:
        if not text:
            return False
        return text.lower() not in UNLABELLED if self.named is None else text not in self.named

    def unlabelled_in_words(self) -> str:
        """The cells that were read as unlabelled, such as: 8 empty, 3 'NA'."""
        return ", ".join(f"{count:,} {text!r}" if text else f"{count:,} empty" for text, count in self._counted())

    def _counted(self) -> list[tuple[str, int]]:
        return self.unlabelled.most_common()

    def notes(self, labels: Sequence[str | None]) -> tuple[str, ...]:
        """How many labels of which class were read, and which cells were not."""
        return self.count_notes(Counter(label for label in labels if label is not None), len(labels))

    def count_notes(self, counts: Counter[str], nodes: int) -> tuple[str, ...]:
        """The same for labels that were counted."""
        shown = listed([f"{counts[name]:,} {name}" for name in sorted_classes(counts)]) or "none"
        sentence = f"Labels: {shown}; {sum(self.unlabelled.values()):,} of {nodes:,} nodes are unlabelled"
        if any(self.unlabelled):
            sentence += f" ({self.unlabelled_in_words()}; option `unlabelled` for other values)"
        alike = [names for names in _alike(counts) if len(names) > 1]
        doubt = [f"Classes {' and '.join(map(repr, names))} differ only in case or format." for names in alike]
        return (f"{sentence}.", *doubt, *self._named_notes(counts))

    def _named_notes(self, classes: Counter[str]) -> list[str]:
        """What may surprise after values were named: they replace the usual ones, and may not occur at all."""
        if self.named is None:
            return []
        usual = listed([repr(name) for name in sorted_classes(classes) if name.lower() in UNLABELLED])
        absent = listed([repr(text) for text in sorted(self.named) if text and text not in self.unlabelled])
        notes = [f"{usual} are classes, because option `unlabelled` names other values; repeat it for each."] * bool(
            usual
        )
        return notes + [f"No label is {absent}, which option `unlabelled` names."] * bool(absent)

    def check_classes(self, place: str | Path, classes: Sequence[str]) -> None:
        """Raises unless there are two classes."""
        if len(classes) >= 2:
            return
        value = f"only {classes[0]!r}" if classes else "no label at all"
        others = [text for text in self.unlabelled if text]
        remedy, hints = "Label more nodes.", dict[str, str]()
        if others and self.named is None:
            value += f" besides {self.unlabelled_in_words()}, read as unlabelled"
            hints = {"unlabelled": "unlabelled=['']"}
            remedy = "Label more nodes, or add {unlabelled} if only empty cells are unlabelled."
        raise InputError(place, "name at least two classes", value, remedy, hints=hints)


def sorted_classes(names: object) -> list[str]:
    """The names of classes in order, numerically if all are numbers."""
    found = [str(name) for name in names]  # type: ignore[attr-defined]
    try:
        return sorted(found, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(found)


def _alike(names: Sequence[str] | Counter[str]) -> list[list[str]]:
    """Groups of names that differ only in case, or as 1 and 1.0 do."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        try:
            key = repr(float(name))
        except ValueError:
            key = name.casefold()
        groups.setdefault(key, []).append(name)
    return list(groups.values())
