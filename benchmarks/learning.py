"""Training distances compared with the authors' method, and adding labels compared with retraining."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

import lggd
from benchmarks.record import Run
from benchmarks.timing import Row, Table, race
from lggd.backbones import build_seeded, trainable_backbones
from lggd.inputs import Labels
from lggd.training.engine import Engine, train

STEP, EPOCHS = 0.1, 3


class AuthorsEquation(nn.Module):
    """The right-hand side by gather and scatter over edges, as in the authors' code; weights are learned or 1."""

    def __init__(self, data: Any, alpha: float, learned: bool) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.rand(data.edge_index.shape[1]) * 2 - 1) if learned else None
        self.register_buffer("edge_index", data.edge_index)
        degree = torch.bincount(data.edge_index[0], minlength=data.num_nodes).clamp(min=1).float()
        self.register_buffer("rho", degree.pow(alpha).unsqueeze(1))
        self.free: Tensor | float = 1.0

    def forward(self, t: Tensor, f: Tensor) -> Tensor:
        rows, columns = self.edge_index
        difference = (f[rows] - f[columns]).clamp(min=0)
        if self.theta is not None:
            difference = torch.sigmoid(self.theta).sqrt().unsqueeze(1) * difference
        norm = torch.zeros_like(f).scatter_add_(0, rows.unsqueeze(1).expand_as(difference), difference)
        return self.free * (1 - self.rho * norm)


class AuthorsModel:
    """The authors' model of one time, on the device of the data.

    An MLP on dense node features, torchdiffeq's adjoint, and a boundary in validation.
    """

    def __init__(self, data: Any, labels: Labels, horizon: float, learned: bool = True) -> None:
        device = data.x.device
        self.data, self.labels, self.times = data, labels, torch.tensor([0.0, horizon], device=device)
        sizes = (data.num_features, 512, 128, labels.num_classes)
        self.mlp = nn.Sequential(
            nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Dropout(0.5),
            nn.Linear(sizes[1], sizes[2]), nn.ReLU(), nn.Dropout(0.5),
            nn.Linear(sizes[2], sizes[3]),
        ).to(device)  # fmt: skip
        self.equation = AuthorsEquation(data, -0.5, learned).to(device)
        boundary_mask = one_hot(labels.train.clamp(min=0), sizes[3]).bool() & (labels.train >= 0).unsqueeze(1)
        self.free = (~boundary_mask).float()
        self.optimizer = torch.optim.Adam(
            [*self.mlp.parameters(), *self.equation.parameters()], lr=0.01, weight_decay=0.005
        )

    def epoch(self) -> float:
        from torchdiffeq import odeint, odeint_adjoint

        options = {"method": "rk4", "options": {"step_size": STEP}}
        train, validation = self.labels.train >= 0, self.labels.validation >= 0
        self.mlp.train()
        self.equation.free = 1.0
        self.optimizer.zero_grad()
        f = odeint_adjoint(self.equation, self.mlp(self.data.x).abs(), self.times, **options)[-1]
        cross_entropy(-f[train], self.labels.train[train]).backward()
        self.optimizer.step()
        self.mlp.eval()
        self.equation.free = self.free
        with torch.no_grad():
            f = odeint(self.equation, self.mlp(self.data.x).abs() * self.free, self.times, **options)[-1]
            return float(cross_entropy(-f[validation], self.labels.validation[validation]))


def epochs_on_cora() -> Table:
    data = lggd.load("cora")
    labels = Labels.read(data)
    models = [AuthorsModel(data, labels, t) for t in (1.0, 2.0, 3.0, 4.0, 5.0)]
    ends: list[float] = []

    def ours() -> None:
        """A whole fit; the times between its epochs are measured, without what precedes the first."""
        features = lggd.LGGD.release(optimization=lggd.Optimization(weight_decay=0.005, epochs=EPOCHS + 1))
        features.fit(data, callback=lambda progress: ends.append(time.perf_counter()))

    def peer() -> None:
        for model in models:
            model.epoch()

    best = race({"ours": 2, "peer": 2}, ours=ours, peer=peer)
    lengths = [after - before for before, after in pairwise(ends) if after - before < best["peer"]]
    table = Table("Learning: Cora, one split, five horizons, step 0.1, one epoch with validation")
    note = "512-128, learned edge weights; sparse first layer, five models in one pass"
    table.rows.append(
        Row("release's settings", min(lengths) * 1e3, best["peer"] * 1e3, "odeint_adjoint rk4, scatter", 10, note)
    )
    return table


def labels_on_pubmed() -> Table:
    data = lggd.load("pubmed", dynamic=True)
    new = data.new_mask[:, 0]
    # Twenty epochs are enough: the time of adding labels does not depend on how well distances were trained.
    features = lggd.LGGD(optimization=lggd.Optimization(weight_decay=0.002, epochs=20))
    model = lggd.LGGDClassifier(features, lggd.GCN()).fit(data)
    before, trained = model.labels_, [0]

    def ours() -> None:
        model._set_labels(before)
        model.add_labels(new, data.y[new]).predict()

    def peer() -> None:
        """A GCN alone, on distances that exist already: less than a user would have to wait for."""
        x = model.features_.inputs(data)
        module = build_seeded(lggd.GCN(), x.shape[1], model.num_classes_, seed=0)
        validation = torch.where(data.val_mask, data.y, -1)
        networks = trainable_backbones([module], x, data.edge_index)
        engine = Engine(networks, model.labels_[None], validation[None])
        trained[0] = len(train(engine, "backbone")["train_loss"])

    ours()
    best = race({"ours": 5, "peer": 1}, ours=ours, peer=peer)
    table = Table(f"New labels: PubMed, {int(new.sum())} labels added, to predictions for all nodes")
    against = f"retraining the GCN, {trained[0]} epochs"
    table.rows.append(
        Row("add_labels and predict", best["ours"] * 1e3, best["peer"] * 1e3, against, 30, "default settings")
    )
    return table


def tables(run: Run) -> list[Table]:
    return [epochs_on_cora()] if run.quick else [epochs_on_cora(), labels_on_pubmed()]
