"""A fitted model with other labels, as a model of its own: callers can read the first while the second is made."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from lggd.closed_form.kernel_ridge import KernelRidge
from lggd.estimator.labels import Labels


def relabelled(model: KernelRidge, labels: Tensor) -> KernelRidge:
    """The model with other labels, int64 `[N]` with -1 elsewhere, and the same settings; there may be other classes.

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> model = lggd.KernelRidge().fit(data)
    >>> labels = model.labels_.clone()
    >>> labels[16] = 2  # a class that was not there
    >>> relabelled(model, labels).predict_proba().shape, model.predict_proba().shape
    (torch.Size([34, 3]), torch.Size([34, 2]))
    """
    after = _copy_for(model, labels)
    after._system = model._system.fork()
    if model.pseudo_fraction_:
        after._pseudo_system = model._pseudo_system.fork()
    nodes = (labels >= 0).nonzero().squeeze(1)
    after._system.set_nodes(nodes)
    after._solve(labels[nodes])
    return after


def rechosen(model: KernelRidge, labels: Tensor) -> KernelRidge:
    """The model with other labels, and settings that are chosen again for them; principal directions and Â are shared.

    >>> import lggd
    >>> model = lggd.KernelRidge().fit(lggd.load("karate"))
    >>> torch.equal(rechosen(model, model.labels_).predict_proba(), model.predict_proba())
    True
    """
    after = _copy_for(model, labels)
    after._choose(labels)
    return after


def _copy_for(model: KernelRidge, labels: Tensor) -> KernelRidge:
    checked = Labels.checked(labels, torch.full_like(labels, -1))
    after = copy.copy(model)
    after.labels_, after.num_classes_ = checked.train.clone(), checked.num_classes
    after.additions_, after.metadata_ = list(model.additions_), dict(model.metadata_)
    return after
