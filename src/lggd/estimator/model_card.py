"""A model in a notebook: its settings, labels and training curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lggd.cards import Facts, bars, card, curve
from lggd.estimator.parameters import shown

if TYPE_CHECKING:
    from lggd.estimator.estimator import NodeClassifier


def model_card(model: NodeClassifier) -> str:
    """The settings, and of a fitted model its labels and training curves, as HTML."""
    settings: Facts = [(name, shown(value)) for name, value in model.get_params(deep=False).items()]
    if not hasattr(model, "labels_"):
        return card(f"{type(model).__name__}, not fitted", settings, note="Call fit(data).")
    count = torch.bincount(model.labels_[model.labels_ >= 0].cpu(), minlength=model.num_classes_).tolist()
    names = model.metadata_.get("classes") or range(model.num_classes_)
    labelled = f"{sum(count):,} of {len(model.labels_):,} nodes"
    losses = {stage: list(history.get("train_loss", ())) for stage, history in model.history_.items()}
    curves = [curve(loss, f"{stage}: training loss") for stage, loss in losses.items()]
    pictures = (bars(zip(map(str, names), count, strict=False), "labels by class"), *curves)
    return card(f"{type(model).__name__}, fitted", [("labelled", labelled), *settings], *pictures)
