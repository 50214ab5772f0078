"""Scales: how distances become features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from lggd.validation import check_real

__all__ = ["MaxScale", "SoftmaxScale", "Standardize", "Unscaled"]

# The fitted statistics of a scale, by name. Distances come as [N, T, K]: nodes, times, classes.
Fitted = Mapping[str, Tensor]


@dataclass(frozen=True)
class Unscaled:
    """No scaling: the distances themselves.

    Examples
    --------
    >>> import torch
    >>> distances = torch.tensor([[[0.0, 2.0]], [[4.0, 1.0]]])  # [N, T, K]: two nodes, one time, two classes
    >>> Unscaled().apply(distances, Unscaled().fit(distances)).tolist()
    [[[0.0, 2.0]], [[4.0, 1.0]]]
    """

    def fit(self, distances: Tensor) -> dict[str, Tensor]:
        """The statistics of the distances that `apply` needs."""
        return {}

    def apply(self, distances: Tensor, fitted: Fitted) -> Tensor:
        """Scaled distances, `[N, T, K]`."""
        return distances


@dataclass(frozen=True)
class MaxScale:
    """Each column divided by its largest value, as in the authors' code.

    Examples
    --------
    >>> import torch
    >>> distances = torch.tensor([[[0.0, 2.0]], [[4.0, 1.0]]])  # [N, T, K]: two nodes, one time, two classes
    >>> MaxScale().apply(distances, MaxScale().fit(distances)).tolist()
    [[[0.0, 1.0]], [[1.0, 0.5]]]
    """

    def fit(self, distances: Tensor) -> dict[str, Tensor]:
        return {"largest": distances.amax(0).clamp(min=_tiny(distances))}

    def apply(self, distances: Tensor, fitted: Fitted) -> Tensor:
        return distances / fitted["largest"]


@dataclass(frozen=True)
class Standardize:
    """Each column shifted and divided to mean 0 and standard deviation 1.

    Examples
    --------
    >>> import torch
    >>> distances = torch.tensor([[[0.0, 2.0]], [[4.0, 1.0]]])  # [N, T, K]: two nodes, one time, two classes
    >>> Standardize().apply(distances, Standardize().fit(distances)).tolist()
    [[[-1.0, 1.0]], [[1.0, -1.0]]]
    """

    def fit(self, distances: Tensor) -> dict[str, Tensor]:
        spread = distances.std(0, unbiased=False)
        return {"mean": distances.mean(0), "spread": torch.where(spread > _tiny(distances), spread, 1.0)}

    def apply(self, distances: Tensor, fitted: Fitted) -> Tensor:
        return (distances - fitted["mean"]) / fitted["spread"]


@dataclass(frozen=True)
class SoftmaxScale:
    """softmax over the classes of −f(t) / temperature, at each time: how much nearer one class is than the others.

    Parameters
    ----------
    temperature : float or None
        None fits the standard deviation of the distances about each node's mean, at each time.

    Examples
    --------
    >>> import torch
    >>> distances = torch.tensor([[[1.0, 1.0]], [[0.0, 50.0]]])  # [N, T, K]: two nodes, one time, two classes
    >>> scale = SoftmaxScale()
    >>> scale.apply(distances, scale.fit(distances)).round(decimals=3).tolist()
    [[[0.5, 0.5]], [[1.0, 0.0]]]
    """

    temperature: float | None = 1.0

    def __post_init__(self) -> None:
        if self.temperature is not None:
            rule = "be positive and finite, or None to fit it"
            check_real("temperature", self.temperature, 0, closed="neither", rule=rule)

    def fit(self, distances: Tensor) -> dict[str, Tensor]:
        if self.temperature is not None:
            return {"temperature": distances.new_full((distances.shape[1], 1), self.temperature)}
        about_mean = distances - distances.mean(2, keepdim=True)
        spread = about_mean.square().mean((0, 2)).sqrt().unsqueeze(1)
        return {"temperature": torch.where(spread > _tiny(distances), spread, 1.0)}

    def apply(self, distances: Tensor, fitted: Fitted) -> Tensor:
        return torch.softmax(-distances / fitted["temperature"], dim=2)


Scale = Unscaled | MaxScale | Standardize | SoftmaxScale


def _tiny(distances: Tensor) -> float:
    return torch.finfo(distances.dtype).tiny
