"""Users' modules are checked before training: widths of input and output, and finite outputs."""

import time

import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphSAGE

import lggd
from lggd.backbones.network import check_user_module
from lggd.errors import InputError
from support.small_data import CLASSES, Averages, blocks
from support.small_models import TIMES, WIDTH, distances

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


class Net(nn.Module):
    def __init__(self, width, classes=3, factor=1.0):
        super().__init__()
        self.first, self.second, self.factor = nn.Linear(width, 8), nn.Linear(8, classes), factor

    def forward(self, x, edge_index):
        return self.second(self.first(x).relu()) * self.factor


def check(module, width=5):
    check_user_module(module, width, num_classes=3, num_nodes=3, edge_index=EDGES, width_of="2 + 3")


@pytest.mark.parametrize("module", [Net(5), GraphSAGE(5, 8, 2, 3), GraphSAGE(-1, 8, 2, 3)])
def test_modules_of_the_right_width_pass_unchanged(module):
    state = torch.get_rng_state()
    before = {name: value.clone() for name, value in module.state_dict().items() if not nn.parameter.is_lazy(value)}
    module.train()
    check(module)
    assert torch.equal(torch.get_rng_state(), state)
    assert module.training
    # A bias beside a lazy weight is uninitialized memory, which may read as NaN.
    after = module.state_dict()
    assert all(torch.equal(after[name].nan_to_num(), value.nan_to_num()) for name, value in before.items())


@pytest.mark.parametrize("width", [1, 4, 6, 64])
@pytest.mark.parametrize("kind", [Net, lambda width: GraphSAGE(width, 8, 2, 3), Averages])
def test_a_wrong_input_width_is_named_beside_the_right_one(kind, width):
    module = kind(width)
    with pytest.raises(InputError) as refused:
        check_user_module(module, 5, num_classes=3, num_nodes=3, edge_index=EDGES, width_of="2 + 3")
    assert str(refused.value) == (
        f"`backbone` must accept node features of width 5 (2 + 3), but {type(module).__name__} expects width {width}. "
        "Build it with in_channels=5, which model.in_channels(data) computes."
    )


@pytest.mark.parametrize("classes", [2, 4])
def test_a_wrong_output_width_is_named(classes):
    with pytest.raises(InputError, match=rf"must return logits \[3, 3\].*Net returned \[3, {classes}\]"):
        check(Net(5, classes))


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_outputs_that_are_not_finite_are_refused(factor):
    with pytest.raises(InputError, match=r"`backbone` must return finite logits, but Net returned \[.*\] for node 0"):
        check(Net(5, factor=factor))


def test_other_errors_of_a_module_are_reported_with_its_inputs():
    class Broken(Net):
        def forward(self, x, edge_index):
            raise KeyError("weights")

    with pytest.raises(
        InputError, match=r"must accept node features \[N, 5\] \(2 \+ 3\) and edges \[2, E\]"
    ) as refused:
        check(Broken(5))
    assert "Broken raised KeyError: 'weights'" in str(refused.value)
    assert isinstance(refused.value.__cause__, KeyError)


@pytest.mark.parametrize(
    "features",
    [
        distances(),
        distances(concat=True),
        lggd.GGD(TIMES, reachable=False),
        lggd.Ensemble(distances(), members=2),
        None,
    ],
    ids=["lggd", "concat", "not reachable", "ensemble", "none"],
)
def test_in_channels_is_the_width_of_what_the_backbone_gets(features):
    data, seen = blocks(), []

    class Watching(Averages):
        def forward(self, x, edge_index):
            seen.append(x.shape[1])
            return super().forward(x, edge_index)

    model = lggd.LGGDClassifier(features, optimization=lggd.Optimization(epochs=2))
    model.backbone = Watching(model.in_channels(data))
    model.fit(data)
    assert set(seen) == {model.in_channels(data)}
    assert model.predict_proba().shape == (data.num_nodes, CLASSES)


def test_the_check_comes_before_any_training():
    epochs = []
    model = lggd.LGGDClassifier(distances(), Averages(WIDTH + 1))
    with pytest.raises(InputError, match=f"must accept node features of width {WIDTH} .*expects width {WIDTH + 1}"):
        model.fit(blocks(), callback=epochs.append)
    assert epochs == []
    assert not hasattr(model, "labels_")


def test_the_check_itself_can_fail(monkeypatch):
    monkeypatch.setattr("lggd.models.classifier.check_user_module", lambda *_, **__: time.sleep(0))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        lggd.LGGDClassifier(distances(), Averages(WIDTH + 1)).fit(blocks())
