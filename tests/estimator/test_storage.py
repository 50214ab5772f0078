"""Saved models: the same predictions in another process, and clear errors where they cannot be written."""

import json
import pickle
import subprocess
import sys
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from lggd import (
    GGD,
    LGGD,
    MLP,
    RK4,
    SSPRK3,
    BackboneReadout,
    ChebNet,
    DegreePotential,
    Euler,
    LearnedEdgeWeights,
    LearnedPotential,
    LGGDClassifier,
    LGGDPlus,
    baselines,
    diffusion,
    filters,
    load_model,
)
from lggd.errors import InputError, InputTypeError
from lggd.estimator import saveable, settings, storage
from lggd.learning.networks import Activation
from lggd.scales import MaxScale, SoftmaxScale, Standardize, Unscaled
from support.processes import finish
from support.small_data import CLASSES, Averages, Perceptron, blocks, random, same
from support.small_models import MODELS, TIMES, WIDTH, classifier, distances, learned

NAMES = [
    "plain", "sparse", "weighted", "no-backbone", "no-features", "ggd", "paper", "release", "concat", "modules",
]  # fmt: skip
every_model = pytest.mark.parametrize("name", NAMES)


def modules(name):
    """The modules of the user's, which are passed again to load a model."""
    return {"initial": Perceptron(), "backbone": Averages(WIDTH)} if name == "modules" else {}


# -- There and back ----------------------------------------------------------------------------------------------------

ELSEWHERE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import torch
from safetensors.torch import save_file
from lggd import load_model
from support.small_data import Averages, Perceptron
torch.set_num_threads(1)
found = {}
for folder in Path(sys.argv[1]).iterdir():
    own = {"initial": Perceptron(), "backbone": Averages(7)} if folder.name == "modules" else {}
    model = load_model(folder, **own)
    found[folder.name] = model.predict_proba()
    if model.accepts_labels:
        found[folder.name + " later"] = model.add_labels([23], [2]).predict_proba()
save_file(found, sys.argv[3])
"""


@pytest.fixture(scope="module")
def elsewhere(saved, tmp_path_factory):
    """What another process predicts with all models: as loaded, and after one more label."""
    predictions = tmp_path_factory.mktemp("predictions") / "predictions.safetensors"
    status, _, errors = finish(saved[0], Path(__file__).parents[1], predictions, code=ELSEWHERE)
    assert status == 0, errors
    return load_file(predictions)


@every_model
def test_another_process_predicts_the_same_bits(name, saved, elsewhere):
    assert torch.equal(elsewhere[name], saved[1][name].predict_proba())
    if name != "no-features":
        model = load_model(saved[0] / name, **modules(name)).add_labels([23], [2])
        assert torch.equal(elsewhere[f"{name} later"], model.predict_proba())
        assert not torch.equal(elsewhere[f"{name} later"], elsewhere[name])


@every_model
def test_a_loaded_model_is_the_one_that_was_saved(name, saved, tmp_path):
    model, loaded = saved[1][name], load_model(saved[0] / name, **modules(name))
    assert torch.equal(loaded.predict_proba(), model.predict_proba())
    assert same(learned(loaded), learned(model))
    assert torch.equal(loaded.labels_, model.labels_)
    assert (loaded.history_, loaded.additions_) == (model.history_, model.additions_)
    assert (loaded.metadata_, loaded.num_classes_) == (model.metadata_, CLASSES)
    if model.features_ is not None:
        assert loaded.features_.feature_names_ == model.features_.feature_names_
    if name != "modules":
        assert repr(loaded) == repr(model)
    loaded.save(tmp_path / "again")
    for file in (saved[0] / name).iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name


@every_model
def test_files_are_json_and_safetensors_without_hidden_labels(name, saved):
    folder = saved[0] / name
    assert sorted(one.name for one in folder.iterdir()) == ["graph.safetensors", "model.json", "weights.safetensors"]
    content = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert (content["format"], content["version"], content["model"]["kind"]) == ("lggd model", 2, "LGGDClassifier")
    assert not load_file(folder / "graph.safetensors").keys() & {"y", "train_mask", "val_mask", "test_mask"}
    labels = load_file(folder / "weights.safetensors")["labels"]
    assert int((labels >= 0).sum()) == 12 + 2 * (name != "no-features")


@pytest.mark.parametrize("name", ["plain", "modules"])
def test_no_pickle_is_written_or_read(name, saved, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a pickle")

    for module, functions in ((pickle, ("load", "loads", "dump", "dumps")), (torch, ("load", "save"))):
        for function in functions:
            monkeypatch.setattr(module, function, refuse)
    load_model(saved[0] / name, **modules(name)).save(tmp_path / "again")


@pytest.mark.parametrize("scheme", [RK4(), SSPRK3(step=0.1), RK4(step=0.01, force=True)], ids=repr)
@pytest.mark.parametrize(
    "scale", [Unscaled(), MaxScale(), Standardize(), SoftmaxScale(0.5), SoftmaxScale(None)], ids=repr
)
def test_settings_come_back_as_they_were(scheme, scale):
    for model in (
        GGD((0.5, 3), p=inf, potential=None, scale=scale, scheme=scheme, cap=inf, seed=7),
        LGGD((0.5, 3), p=2.0, scale=scale, scheme=scheme, cap=inf, validation=0.0, seed=7, attr_name="f"),
        LGGD(
            potential=LearnedEdgeWeights(LearnedPotential(DegreePotential(-0.3))),
            initial=MLP((), 0.1, "tanh", True, 3, 0.2),
        ),
        LGGD.paper(),
        LGGD.release(cross_fit=5),
        GGD(attr_name="inf"),
    ):
        plain = json.loads(json.dumps(settings.to_plain(model, "model"), allow_nan=False))
        assert settings.from_plain(plain, "model", {}).get_params() == model.get_params()


@pytest.mark.parametrize("times", [range(1, 3), [1, 2], torch.tensor([1.0, 2.0])], ids=["range", "list", "tensor"])
@pytest.mark.parametrize("kind", [GGD, LGGD])
def test_times_in_any_form_can_be_saved(kind, times, tmp_path):
    model = (GGD(times) if kind is GGD else distances(times=times)).fit(blocks())
    model.save(tmp_path / "model")
    assert torch.equal(load_model(tmp_path / "model").predict_proba(), model.predict_proba())


def test_numbers_of_numpy_can_be_saved(tmp_path):
    model = GGD((1.0,), p=np.float32(2), cross_fit=np.int32(2), seed=np.int64(3)).fit(blocks())
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").get_params() == model.get_params()


def test_a_generator_as_a_seed_can_be_saved(tmp_path):
    model = classifier(distances(seed=random(1)), seed=random(2)).fit(blocks())
    model.save(tmp_path / "model")
    assert torch.equal(load_model(tmp_path / "model").predict_proba(), model.predict_proba())


@pytest.mark.parametrize("name", ["plain", "weighted"])
def test_loaded_tensors_are_aligned_as_new_ones_are(name, saved):
    """Matrix products round by the alignment of what they read: the same bits need the same alignment."""
    loaded = load_model(saved[0] / name).data_.to_pyg().to_dict()
    assert [part for part, value in loaded.items() if isinstance(value, torch.Tensor) and value.data_ptr() % 64] == []


def test_a_class_loads_models_of_its_kind_only(saved):
    assert isinstance(LGGDClassifier.load(saved[0] / "plain"), LGGDClassifier)
    for kind in (LGGDPlus, GGD):
        with pytest.raises(InputError, match=f"contain a saved {kind.__name__}, got a LGGDClassifier. Use"):
            kind.load(saved[0] / "plain")


# -- Where models are written ------------------------------------------------------------------------------------------


def test_saving_replaces_a_model(saved, tmp_path):
    folder = tmp_path / "model"
    saved[1]["plain"].save(folder)
    saved[1]["ggd"].save(folder)
    assert torch.equal(load_model(folder).predict_proba(), saved[1]["ggd"].predict_proba())
    assert list(tmp_path.iterdir()) == [folder]


def test_an_empty_folder_is_filled(saved, tmp_path):
    saved[1]["plain"].save(str(tmp_path))
    assert torch.equal(load_model(str(tmp_path)).predict(), saved[1]["plain"].predict())


def test_a_folder_with_other_files_is_refused(saved, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OSError, match=str(tmp_path)):
        saved[1]["plain"].save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_place_is_refused(saved, tmp_path):
    (tmp_path / "model").write_text("a file")
    with pytest.raises(OSError, match="model"):
        saved[1]["plain"].save(tmp_path / "model")


def test_a_save_that_fails_leaves_the_old_model(saved, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    saved[1]["plain"].save(folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(storage, "write_json", fail)
    with pytest.raises(OSError, match="no space"):
        saved[1]["ggd"].save(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    "potential", [torch.full((36,), 0.5), lambda graph: torch.ones(graph.num_nodes)], ids=["tensor", "function"]
)
def test_settings_that_no_file_can_hold_are_refused_by_name(potential, tmp_path):
    model = GGD(TIMES, potential=potential).fit(blocks())
    with pytest.raises(InputTypeError, match="`potential`"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_history_with_an_infinite_loss_can_be_saved(tmp_path):
    model = distances().fit(blocks())
    model.history_["distances"]["validation_loss t=1"][0] = inf
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").history_["distances"]["validation_loss t=1"][0] == inf


# -- Modules of the user's ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["initial", "backbone"])
def test_modules_must_be_passed_again(missing, saved):
    others = {name: module for name, module in modules("modules").items() if name != missing}
    with pytest.raises(InputError, match=rf"^`{missing}` must be passed.*Use load_model\(folder, {missing}=…\)\.$"):
        load_model(saved[0] / "modules", **others)


@pytest.mark.parametrize(
    "wrong",
    [{"initial": nn.Linear(6, 3)}, {"backbone": Averages(5)}, {"initial": Perceptron(5)}],
    ids=["other", "narrow", "wide"],
)
def test_modules_of_another_kind_are_refused(wrong, saved):
    with pytest.raises(InputError, match=str(saved[0] / "modules")):
        load_model(saved[0] / "modules", **{**modules("modules"), **wrong})


def test_modules_that_are_passed_again_are_not_changed(saved):
    own = modules("modules")
    load_model(saved[0] / "modules", **own).predict()
    for name, module in modules("modules").items():
        assert same(module.state_dict(), own[name].state_dict())


@dataclass(frozen=True)
class OwnPotential:
    """A potential of the user's."""

    exponent: float = -1.0

    def __call__(self, graph):
        return DegreePotential(self.exponent)(graph)


def test_classes_of_the_users_can_be_registered(tmp_path):
    model = GGD(TIMES, potential=OwnPotential(-0.5)).fit(blocks())
    with pytest.raises(InputTypeError, match=r"`potential` must be of a class .*lggd.estimator.saveable"):
        model.save(tmp_path / "model")
    assert saveable(OwnPotential) is OwnPotential
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.potential == OwnPotential(-0.5)
    assert torch.equal(loaded.predict_proba(), model.predict_proba())
    file = tmp_path / "model" / "model.json"
    file.write_text(file.read_text().replace("OwnPotential", "ItsPotential"))
    with pytest.raises(InputError, match=r"`potential` must name a public dataclass .* got 'ItsPotential'. Was it"):
        load_model(tmp_path / "model")


def test_a_class_that_only_has_the_name_of_a_public_one_is_refused():
    """It would come back as the public one."""
    with pytest.raises(InputTypeError, match="`scale` must be of a class that can be saved"):
        settings.to_plain(type("MaxScale", (OwnPotential,), {})(), "scale")


def test_settings_of_every_model_are_known_to_a_process_that_has_imported_none(tmp_path):
    models = {name: make(0) for name, make in MODELS.items()}
    models = {name: model for name, model in models.items() if type(model).__module__.startswith("lggd.")}
    models["GDC of other choices"] = baselines.GDC(filters.Heat(2.0), backbone=ChebNet())
    spread = BackboneReadout(diffusion=diffusion.DiffusionGraph(filters.PPR(0.2)))
    models["LGGDPlus of other choices"] = LGGDPlus(readout=spread)
    models["LGGD of other choices"] = LGGD(initial=MLP(activation=Activation.TANH), scheme=Euler(0.1))
    plain = {name: settings.to_plain(model, "model") for name, model in models.items()}
    (tmp_path / "plain.json").write_text(json.dumps(plain))
    code = (
        "import json, sys; from lggd.estimator.settings import from_plain; assert 'lggd.models' not in sys.modules;"
        "plain = json.load(open(sys.argv[1]));"
        "print(json.dumps({name: repr(from_plain(plain[name], name, {})) for name in plain}))"
    )
    command = [sys.executable, "-c", code, tmp_path / "plain.json"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(found) == {name: repr(model) for name, model in models.items()}


@pytest.mark.parametrize(
    "kind",
    ["cluster", "studio", "sklearn", "baselines", "_EXPORTS", "__all__", "load", "Status", "Member", "Graph",
     "KNNGraphClassifier", "os.system", "cluster.connect", "", 3, None, True],
)  # fmt: skip
def test_only_public_dataclasses_can_be_named(kind):
    """No name in a file imports a module."""
    before = set(sys.modules)
    with pytest.raises(InputError, match="`scale` must name a public dataclass of lggd"):
        settings.from_plain({"kind": kind}, "scale", {})
    assert not {name for name in set(sys.modules) - before if name.startswith(("lggd.cluster", "lggd.app.studio"))}
