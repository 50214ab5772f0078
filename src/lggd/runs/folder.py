"""The folders of a run: the names of its files, a run that is not finished, and what lies beside a changed model.

When a saved model changes, the files beside it are written anew, or marked where they cannot be. They are written into
the new folder of the model, which replaces the old one in one step; then they are moved to their places. A process
that is killed leaves all of the change or nothing: files it did not move are still in the folder of the model, and
whoever opens it next moves them.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from lggd.data.output_files import write_features, write_predictions
from lggd.errors import InputError
from lggd.estimator import storage
from lggd.estimator.inputs import stored_graph
from lggd.html import escape_text, timestamp
from lggd.system.files import check_folder_writable, write_errors, write_text
from lggd.training.engine import Checkpoint

# The names of files in the folder of a run, of the model in it, and of the folder of files that are to be moved.
SUMMARY, SETTINGS, REPORT = "run.json", "settings.json", "report.html"
PREDICTIONS, FEATURES, MODEL, WAITING = "predictions.csv", "features.parquet", "model", "beside"
# A page begins with this note once the model has changed.
NOTE = re.compile(r"<!-- changed -->.*?<!-- /changed -->\n?", re.DOTALL)
STYLE = "margin:0;padding:.8em 1.2em;background:#fff3cd;color:#4a3800;font:1rem/1.5 system-ui,sans-serif"
# The marker of a folder of checkpoints, the parts of a run, and the seconds between two checkpoints of one.
UNFINISHED, PARTS, EVERY = "training.json", ("reference", "model"), 2.0


def predictions_name(model: Any) -> str:
    """The file of the predictions: a table of text, or of a graph on disk one that is faster to write and to read."""
    return PREDICTIONS if stored_graph(model.data_) is None else f"{Path(PREDICTIONS).stem}.parquet"


def belongs_to_run(model: Path) -> bool:
    """Whether the folder of a model is that of a run."""
    return model.name == MODEL and (model.parent / SUMMARY).is_file()


def now() -> str:
    """The time in ISO 8601, as it is recorded."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _read_object(path: Path, rule: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise TypeError("it is not an object")
    except (ValueError, TypeError) as error:
        raise InputError(path, rule, but=f"it is damaged: {error}") from error
    return found


class UnfinishedTraining:
    """The folder `OUT.training`, with the settings of a run and a checkpoint for each of its parts.

    A run can be resumed only with equal `settings`, everything that the result depends on, serializable as JSON.
    """

    def __init__(self, out: str | Path, settings: Mapping[str, Any], every: float = EVERY) -> None:
        out = Path(out).resolve()
        self.folder = check_folder_writable(out.with_name(f"{out.name}.training"), UNFINISHED)
        self.settings, self.every = json.loads(json.dumps(settings)), every

    def open(self, *, resume: bool) -> bool:
        """Creates the folder, or reuses it if `resume`; returns whether there is training to resume."""
        if resume and self.is_saved:
            self._check_settings()
            return True
        self.remove()
        with write_errors(self.folder):
            self.folder.mkdir()
        write_text(self.folder / UNFINISHED, json.dumps(self.settings, indent=2) + "\n")
        return False

    def checkpoint(self, part: str) -> Checkpoint:
        return Checkpoint(self.folder / part, key=json.dumps(self.settings, sort_keys=True), every=self.every)

    def remove(self) -> None:
        """Deletes the folder; the marker is deleted last, so that an interrupted deletion can be repeated."""
        for part in PARTS:
            shutil.rmtree(self.folder / part, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_saved(self) -> bool:
        """Whether there is training to resume; a name with a leading dot is an incomplete file."""
        return any(not path.name.startswith(".") for path in self.folder.glob("*/*.safetensors"))

    def _check_settings(self) -> None:
        before = _read_object(self.folder / UNFINISHED, "contain the settings of a run")
        for name in dict.fromkeys([*self.settings, *before]):  # options of the user come first
            was, now = before.get(name), self.settings.get(name)
            if was != now:
                rule, but = "continue with the data and settings of the interrupted run", f"{name} was {was} there"
                remedy, hints = "Use the same settings, or start again without {resume}.", {"resume": "`resume`"}
                raise InputError("resume", rule, but=f"{but} and is {now} now", remedy=remedy, hints=hints)


@dataclass(frozen=True)
class Refreshed:
    """The names of files beside a model that were written anew, and of those that were only marked as old."""

    files: list[str]
    marked: list[str]


def write_beside(folder: Path, place: Path, model: Any, ids: Sequence[str], classes: Sequence[str]) -> Refreshed:
    """Writes the files that belong beside a changed model, whose folder will be `place`, into `folder`.

    In the folder of a run these are predictions, features and the summary. The report shows what was measured when the
    model was trained, with classes of held-out nodes that are not stored: a note in it says that the model changed.
    """
    files, marked, graph = [predictions_name(model)], list[str](), stored_graph(model.data_)
    probabilities = model.predict_proba().cpu()
    write_predictions(folder / files[0], ids, classes, probabilities, model.labels_.cpu())
    if not belongs_to_run(place):
        return Refreshed(files, marked)
    beside = place.parent
    if (beside / FEATURES).is_file() and (features := _features(model)) is not None:
        write_features(folder / FEATURES, ids, model.metadata_["feature_names"], features)
        files.append(FEATURES)
    when = now()
    if (beside / REPORT).is_file():
        page = _marked_page((beside / REPORT).read_text(encoding="utf-8"), when, files)
        if page is not None:
            (folder / REPORT).write_text(page, encoding="utf-8", newline="\n")
        marked.append(REPORT)
    files.append(SUMMARY)
    facts = {
        "when": when, "nodes": len(ids),
        "edges": int(model.data_.edge_index.shape[1] if graph is None else graph.num_edges) // 2,
        "labelled": int((model.labels_ >= 0).sum()), "changes": len(model.additions_), "refreshed": files,
        "outdated": marked,
    }  # fmt: skip
    storage.write_json(
        folder / SUMMARY, {**_read_object(beside / SUMMARY, "be the summary of a run"), "updated": facts}
    )
    return Refreshed(files, marked)


def move_beside(folder: Path) -> None:
    """Moves files that wait in the folder of a model to their places; a process that was killed may have left some."""
    waiting = folder / WAITING
    if not waiting.is_dir():
        return
    with write_errors(folder.parent, written=waiting):
        # The summary is last: what it says is then true.
        for file in sorted(waiting.iterdir(), key=lambda file: (file.name == SUMMARY, file.name)):
            file.replace(folder.parent / file.name)
        waiting.rmdir()


def _features(model: Any) -> Tensor | None:
    features = getattr(model, "features_", None)
    return None if features is None or "feature_names" not in model.metadata_ else features.features(model.data_).cpu()


def _marked_page(page: str, when: str, current: Sequence[str]) -> str | None:
    """The page with a note at its top, instead of an earlier one; None if it is no page."""
    text = (
        f"The model has changed since this page was written, last on {timestamp(when)}. The page shows the model as it "
        f"was trained and measured; {' and '.join(current)} show it as it is now."
    )
    note = f'<!-- changed -->\n<p role="note" style="{STYLE}">{escape_text(text)}</p>\n<!-- /changed -->\n'
    page = NOTE.sub("", page, count=1)
    body = re.search(r"<body[^>]*>\n?", page)
    return None if body is None else page[: body.end()] + note + page[body.end() :]
