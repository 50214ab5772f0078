"""Fewer handwritten digits, for code that should run rather than be accurate; imported, it changes nothing."""

from __future__ import annotations

from typing import Any

from sklearn.datasets import load_digits as load_all
from sklearn.utils import Bunch

COUNT = 600


def load_digits(*, return_X_y: bool = False) -> Any:
    """Stands for `sklearn.datasets.load_digits`."""
    full = load_all()
    few = Bunch(**{name: full[name][:COUNT] for name in ("data", "images", "target")})
    return (few.data, few.target) if return_X_y else few
