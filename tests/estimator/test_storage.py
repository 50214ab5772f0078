"""Saved models: the same answers in another process, and clear refusals of whatever is not a whole saved model."""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from lggd import (
    GAT,
    GCN,
    GGD,
    LGGD,
    MLP,
    RK4,
    SSPRK3,
    ChebNet,
    DegreePotential,
    JKNet,
    LearnedEdgeWeights,
    LearnedPotential,
    LGGDClassifier,
    MaxScale,
    Optimization,
    PropagatedMLP,
    SoftmaxScale,
    Standardize,
    Unscaled,
)
from lggd.estimator import storage
from small_data import CLASSES, Averages, Perceptron, blocks, random, same

TIMES = (1.0, 2.0)
WIDTH = len(TIMES) * CLASSES + 1
FEW = Optimization(lr=0.02, weight_decay=0.002, epochs=3, patience=None)
inf = float("inf")


def features(**settings):
    return LGGD(**{"times": TIMES, "optimization": FEW, "initial": MLP((8,)), **settings})


MODELS = {
    "plain": (features(), GCN(hidden=8), {}),
    "sparse": (features(initial=PropagatedMLP((8,))), GCN(hidden=8), {"sparse": True}),
    "weighted": (
        features(potential=LearnedEdgeWeights(LearnedPotential()), cross_fit=2),
        GAT(hidden=4),
        {"weighted": True},
    ),
    "no-backbone": (features(scale=Standardize(), horizons="shared"), None, {}),
    "no-features": (None, JKNet(hidden=6), {"sparse": True}),
    "ggd": (GGD(TIMES, p=inf, scale=SoftmaxScale(None), cap=inf, potential=None), ChebNet(hidden=8), {"lonely": 2}),
    "paper": (LGGD(TIMES, preset="paper", optimization=FEW), GCN(hidden=8), {}),
    "release": (LGGD(TIMES, preset="release", optimization=FEW), GCN(hidden=8), {}),
    "beside-x": (features(mode="concat", scale=MaxScale(), attr_name="f"), GCN(hidden=8), {}),
    "modules": (features(initial=Perceptron()), Averages(WIDTH), {}),
}
every_model = pytest.mark.parametrize("name", MODELS)


def passed_again(name):
    return {"initial": Perceptron(), "backbone": Averages(WIDTH)} if name == "modules" else {}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """All models, fitted and saved; with labels added where that is possible."""
    root, models = tmp_path_factory.mktemp("models"), {}
    for name, (given, backbone, kind) in MODELS.items():
        model = LGGDClassifier(given, backbone, Optimization(epochs=5)).fit(blocks(**kind))
        if given is not None:
            model.add_labels([21], [0]).add_labels([22], [1])
        model.metadata_ = {"class_names": ["Fuchs", "Wölfin", "狐"], "name": name}
        model.save(root / name)
        models[name] = model
    return root, models


# -- There and back ----------------------------------------------------------------------------------------------------

ELSEWHERE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import torch
from safetensors.torch import save_file
from lggd import LGGDClassifier
from small_data import Averages, Perceptron
torch.set_num_threads(1)
found = {}
for folder in Path(sys.argv[1]).iterdir():
    own = {"initial": Perceptron(), "backbone": Averages(7)} if folder.name == "modules" else {}
    model = LGGDClassifier.load(folder, **own)
    found[folder.name] = model.predict_proba()
    if model.features is not None:
        found[folder.name + " later"] = model.add_labels([23], [2]).predict_proba()
save_file(found, sys.argv[3])
"""


@pytest.fixture(scope="module")
def elsewhere(saved, tmp_path_factory):
    """What another process predicts with all of them: as loaded, and after one label more."""
    answers = tmp_path_factory.mktemp("answers") / "answers.safetensors"
    command = [sys.executable, "-c", ELSEWHERE, str(saved[0]), str(Path(__file__).parents[1]), str(answers)]
    subprocess.run(command, check=True)
    return load_file(answers)


@every_model
def test_another_process_predicts_the_same_bits(name, saved, elsewhere):
    assert torch.equal(elsewhere[name], saved[1][name].predict_proba())


@pytest.mark.parametrize("name", [name for name in MODELS if name != "no-features"])
def test_and_so_it_does_after_more_labels(name, saved, elsewhere):
    model = LGGDClassifier.load(saved[0] / name, **passed_again(name)).add_labels([23], [2])
    assert torch.equal(elsewhere[f"{name} later"], model.predict_proba())
    assert not torch.equal(elsewhere[f"{name} later"], elsewhere[name])


@every_model
def test_a_loaded_model_is_the_one_that_was_saved(name, saved):
    model, loaded = saved[1][name], LGGDClassifier.load(saved[0] / name, **passed_again(name))
    assert torch.equal(loaded.predict_proba(), model.predict_proba())
    assert torch.equal(loaded.labels_, model.labels_)
    assert loaded.num_classes_ == CLASSES
    assert loaded.additions_ == model.additions_
    assert loaded.history_ == model.history_
    assert loaded.metadata_ == model.metadata_
    assert (loaded.optimization, loaded.seed) == (model.optimization, model.seed)
    if model.features_ is not None:
        assert same(loaded.features_.state(), model.features_.state())
        assert loaded.features_.feature_names_ == model.features_.feature_names_
        assert loaded.features_.attr_name == model.features_.attr_name
        if name != "modules":
            assert loaded.features.settings == model.features.settings
    if name != "modules":
        assert loaded.backbone == model.backbone


@every_model
def test_a_loaded_model_can_be_saved_again(name, saved, tmp_path):
    loaded = LGGDClassifier.load(saved[0] / name, **passed_again(name))
    loaded.save(tmp_path / "again")
    for file in (saved[0] / name).iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize("name", ["plain", "ggd", "no-features"])
def test_a_loaded_model_can_be_fitted_again(name, saved):
    data = blocks(**MODELS[name][2])
    loaded = LGGDClassifier.load(saved[0] / name)
    fresh = LGGDClassifier(*MODELS[name][:2], Optimization(epochs=5)).fit(data)
    assert torch.equal(loaded.fit(data).predict_proba(), fresh.predict_proba())


@every_model
def test_files_are_json_and_safetensors_alone(name, saved):
    assert sorted(file.name for file in (saved[0] / name).iterdir()) == [
        "graph.safetensors",
        "model.json",
        "weights.safetensors",
    ]
    content = json.loads((saved[0] / name / "model.json").read_text(encoding="utf-8"))
    assert (content["format"], content["version"]) == ("lggd model", 1)


@pytest.mark.parametrize("name", ["plain", "modules"])
def test_no_pickle_is_written_or_read(name, saved, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a pickle")

    for module, function in (
        (pickle, "load"),
        (pickle, "loads"),
        (pickle, "dump"),
        (pickle, "dumps"),
        (torch, "load"),
        (torch, "save"),
    ):
        monkeypatch.setattr(module, function, refuse)
    LGGDClassifier.load(saved[0] / name, **passed_again(name)).save(tmp_path / "again")


@every_model
def test_hidden_labels_are_not_in_the_files(name, saved):
    """Those of the data; the files hold what predictions need and no more."""
    graph = load_file(saved[0] / name / "graph.safetensors")
    assert not graph.keys() & {"y", "train_mask", "val_mask", "test_mask"}
    weights = load_file(saved[0] / name / "weights.safetensors")
    assert int((weights["known"] >= 0).sum()) == 12 + 2 * (name != "no-features")


@pytest.mark.parametrize("scheme", [RK4(), SSPRK3(step=0.1), RK4(step=0.01, force=True)], ids=repr)
@pytest.mark.parametrize(
    "scale", [Unscaled(), MaxScale(), Standardize(), SoftmaxScale(0.5), SoftmaxScale(None)], ids=repr
)
def test_settings_come_back_as_they_were(scheme, scale):
    for given in (
        GGD((0.5, 3), p=inf, potential=None, scale=scale, scheme=scheme, cap=inf, seed=7),
        LGGD((0.5, 3), p=2.0, scale=scale, scheme=scheme, cap=inf, validation=0.0, seed=7, attr_name="f"),
        LGGD(
            potential=LearnedEdgeWeights(LearnedPotential(DegreePotential(-0.3))),
            initial=MLP((), 0.1, "tanh", True, 3, 0.2),
        ),
        LGGD(preset="paper"),
        LGGD(preset="release", cross_fit=5),
    ):
        plain = json.loads(json.dumps(storage.to_plain(given, "features"), allow_nan=False))
        again = storage.from_plain(plain, "features", {})
        assert again.settings == given.settings
        assert (again.seed, again.attr_name) == (given.seed, given.attr_name)


@pytest.mark.parametrize("times", [range(1, 3), [1, 2], torch.tensor([1.0, 2.0])], ids=["range", "list", "tensor"])
@pytest.mark.parametrize("kind", [GGD, LGGD])
def test_times_in_any_form_can_be_saved(kind, times, tmp_path):
    given = kind(times) if kind is GGD else features(times=times)
    model = LGGDClassifier(given, None).fit(blocks())
    model.save(tmp_path / "model")
    assert torch.equal(LGGDClassifier.load(tmp_path / "model").predict_proba(), model.predict_proba())


@pytest.mark.parametrize("name", ["inf", "f"])
def test_any_attr_name_comes_back(name):
    plain = storage.to_plain(GGD(attr_name=name), "features")
    assert storage.from_plain(plain, "features", {}).attr_name == name


def test_a_generator_as_a_seed_can_be_saved(tmp_path):
    model = LGGDClassifier(features(seed=random(1)), GCN(hidden=8), Optimization(epochs=3), seed=random(2)).fit(
        blocks()
    )
    model.save(tmp_path / "model")
    assert torch.equal(LGGDClassifier.load(tmp_path / "model").predict_proba(), model.predict_proba())


@pytest.mark.parametrize("name", ["plain", "weighted"])
def test_loaded_numbers_lie_in_memory_as_fresh_ones_do(name, saved):
    """Matrix products round by the alignment of what they read: the same bits need the same alignment."""
    loaded = LGGDClassifier.load(saved[0] / name).data_.to_dict()
    assert [part for part, value in loaded.items() if isinstance(value, torch.Tensor) and value.data_ptr() % 64] == []


# -- Where models are written ------------------------------------------------------------------------------------------


def test_saving_replaces_a_model(saved, tmp_path):
    folder = tmp_path / "model"
    saved[1]["plain"].save(folder)
    saved[1]["ggd"].save(folder)
    assert torch.equal(LGGDClassifier.load(folder).predict_proba(), saved[1]["ggd"].predict_proba())
    assert list(tmp_path.iterdir()) == [folder]


def test_an_empty_folder_is_filled(saved, tmp_path):
    saved[1]["plain"].save(str(tmp_path))
    assert torch.equal(LGGDClassifier.load(str(tmp_path)).predict(), saved[1]["plain"].predict())


def test_a_folder_with_other_things_in_it_is_refused(saved, tmp_path):
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
def test_what_no_file_can_hold_is_refused_by_name(potential, tmp_path):
    model = LGGDClassifier(GGD(TIMES, potential=potential), None).fit(blocks())
    with pytest.raises(TypeError, match="`potential`"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_history_with_a_loss_that_was_not_finite_can_be_saved(saved, tmp_path):
    model = LGGDClassifier(features(), None).fit(blocks())
    model.history_["distances"]["validation_loss t=1"][0] = inf
    model.save(tmp_path / "model")
    assert LGGDClassifier.load(tmp_path / "model").history_["distances"]["validation_loss t=1"][0] == inf


# -- Modules of the user's ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["initial", "backbone"])
def test_modules_must_be_passed_again(missing, saved):
    given = {name: module for name, module in passed_again("modules").items() if name != missing}
    with pytest.raises(ValueError, match=f"`{missing}` must be passed"):
        LGGDClassifier.load(saved[0] / "modules", **given)


@pytest.mark.parametrize(
    "given",
    [{"initial": nn.Linear(6, 3)}, {"backbone": Averages(5)}, {"initial": Perceptron(5)}],
    ids=["other", "narrow", "wide"],
)
def test_modules_of_another_kind_are_refused(given, saved):
    with pytest.raises(ValueError, match=str(saved[0] / "modules")):
        LGGDClassifier.load(saved[0] / "modules", **{**passed_again("modules"), **given})


def test_modules_that_are_passed_again_are_not_changed(saved):
    own = passed_again("modules")
    LGGDClassifier.load(saved[0] / "modules", **own).predict()
    for name, module in passed_again("modules").items():
        assert same(module.state_dict(), own[name].state_dict())


# -- What is damaged is refused, with the path in the message ----------------------------------------------------------


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved[0] / "plain", tmp_path / "model"))


def check_refused(folder, error=ValueError):
    with pytest.raises(error) as refused:
        LGGDClassifier.load(folder).predict_proba()
    assert str(folder) in str(refused.value)
    assert "`" in str(refused.value)


def edit(folder, change):
    path = folder / "model.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def edit_tensors(folder, file, change):
    tensors = load_file(folder / file)
    change(tensors)
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / file)


def test_the_folder_of_these_tests_is_whole(folder):
    LGGDClassifier.load(folder).predict_proba()
    edit(folder, lambda content: None)
    edit_tensors(folder, "weights.safetensors", lambda tensors: None)
    LGGDClassifier.load(folder).predict_proba()


@pytest.mark.parametrize("file", ["model.json", "weights.safetensors", "graph.safetensors"])
def test_a_missing_file_is_named(file, folder):
    (folder / file).unlink()
    check_refused(folder, FileNotFoundError)


def test_no_folder_at_all_is_named(tmp_path):
    check_refused(tmp_path / "nowhere", FileNotFoundError)
    (tmp_path / "file").write_text("{}")
    check_refused(tmp_path / "file", FileNotFoundError)


@pytest.mark.parametrize("file", ["weights.safetensors", "graph.safetensors"])
@pytest.mark.parametrize(
    "damage", [lambda b: b[:-7], lambda b: b[:5], lambda b: b"", lambda b: b"\x80\x04" + b, lambda b: b"\xff" * 99]
)
def test_damaged_numbers_are_refused(file, damage, folder):
    path = folder / file
    path.write_bytes(damage(path.read_bytes()))
    check_refused(folder)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"format": "lggd model"', b"\xff\xfe\x00", b"null", b"[]", b"3", b'{"a": 1}', b'{"format": "other"}'],
)
def test_settings_that_are_none_are_refused(content, folder):
    (folder / "model.json").write_bytes(content)
    check_refused(folder)


@pytest.mark.parametrize("version", [0, 2, 99, "1", None])
def test_another_version_is_refused(version, folder):
    edit(folder, lambda content: content.update(version=version))
    check_refused(folder)


KEYS = ["features", "backbone", "optimization", "seed", "num_classes", "num_inputs", "additions", "history", "about"]


@pytest.mark.parametrize("key", KEYS)
def test_settings_that_lack_something_are_refused(key, folder):
    edit(folder, lambda content: content.pop(key))
    check_refused(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["features"].update(kind="SuperLGGD"),
        lambda c: c["features"].pop("kind"),
        lambda c: c["features"]["scale"].update(kind="os.system"),
        lambda c: c["features"]["initial"].update(kind=["MLP"]),
        lambda c: c["features"].update(horizon="each"),
        lambda c: c["features"]["scheme"].update(tableau=3),
        lambda c: c["backbone"].update(kind="LGGD"),
        lambda c: c["backbone"].update(layers=3),
        lambda c: c["optimization"].update(lr=-1),
        lambda c: c["features"].update(times=[2, 1]),
        lambda c: c["features"].update(times="soon"),
        lambda c: c["features"].update(cross_fit=1),
        lambda c: c["features"]["initial"].update(hidden=[9]),
        lambda c: c["features"]["initial"].update(hidden=-1),
        lambda c: c["backbone"].update(hidden=9),
        lambda c: c.update(features="LGGD"),
        lambda c: c.update(backbone=[1]),
        lambda c: c.update(features={"kind": "GCN"}),
        lambda c: c.update(num_classes=4),
        lambda c: c.update(num_classes=0),
        lambda c: c.update(num_classes="many"),
        lambda c: c.update(num_inputs=9),
        lambda c: c.update(num_inputs=None),
        lambda c: c.update(num_inputs="all"),
        lambda c: c.update(additions=3),
        lambda c: c.update(history=[1]),
        lambda c: c.update(about=3),
    ],
    ids=[
        "unknown kind", "no kind", "unknown kind within", "kind is a list", "unknown setting", "unknown setting within",
        "wrong kind", "unknown setting of the backbone", "wrong value", "times fall", "times are a word", "one fold",
        "other width", "negative width", "other width of the backbone", "word for features", "list for the backbone",
        "backbone for features", "a class more", "no classes", "classes are a word", "more inputs", "no inputs",
        "inputs are a word", "additions", "history", "about",
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(change, folder):
    edit(folder, change)
    check_refused(folder)


WEIGHTS = [
    "known", "features.priority", "features.scale.temperature", "features.weight.0", "features.bias.1",
    "backbone.first.lin.weight",
]  # fmt: skip


def test_these_are_names_of_weights(folder):
    assert set(WEIGHTS) <= load_file(folder / "weights.safetensors").keys()


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_lack_something_are_refused(name, folder):
    edit_tensors(folder, "weights.safetensors", lambda tensors: tensors.pop(name))
    check_refused(folder)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("shape", ["one number", "one more row", "one more axis"])
def test_weights_of_another_shape_are_refused(name, shape, folder):
    def change(tensors):
        value = tensors[name]
        tensors[name] = {
            "one number": value.flatten()[:1],
            "one more row": torch.cat([value, value[:1]]),
            "one more axis": value.unsqueeze(0),
        }[shape]

    edit_tensors(folder, "weights.safetensors", change)
    check_refused(folder)


@pytest.mark.parametrize("wrong", [CLASSES, 99, -2])
def test_known_classes_out_of_range_are_refused(wrong, folder):
    edit_tensors(folder, "weights.safetensors", lambda tensors: tensors["known"].__setitem__(0, wrong))
    check_refused(folder)


def test_weights_of_another_model_are_refused(folder, saved):
    shutil.copy(saved[0] / "ggd" / "weights.safetensors", folder)
    check_refused(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.pop("edge_index"),
        lambda t: t.pop("num_nodes"),
        lambda t: t.pop("x"),
        lambda t: t["edge_index"].__setitem__((0, 0), 99),
        lambda t: t.update(edge_index=t["edge_index"].float()),
        lambda t: t.update(edge_index=t["edge_index"][:, :-1]),
        lambda t: t.update(num_nodes=torch.tensor(35)),
        lambda t: t.update(num_nodes=torch.tensor([1, 2])),
        lambda t: t.update(x=t["x"][:-1]),
        lambda t: t.update(x=t["x"][:, :-1]),
        lambda t: t["x"].__setitem__((0, 0), float("nan")),
    ],
    ids=[
        "no edges", "no number of nodes", "no contents", "a node too many", "broken edges", "directed", "a node less",
        "two numbers of nodes", "a row less", "a column less", "not a number",
    ],
)  # fmt: skip
def test_a_graph_that_makes_no_sense_is_refused(change, folder):
    edit_tensors(folder, "graph.safetensors", change)
    check_refused(folder)


def test_sparse_contents_out_of_range_are_refused(saved, tmp_path):
    folder = Path(shutil.copytree(saved[0] / "sparse", tmp_path / "model"))
    edit_tensors(folder, "graph.safetensors", lambda t: t["x.places"].__setitem__((0, 0), 99))
    check_refused(folder)


def test_the_check_on_damage_catches_a_loader_that_looks_away(folder, monkeypatch):
    edit(folder, lambda content: content.update(version=99))
    monkeypatch.setattr(storage, "VERSION", 99)
    with pytest.raises(pytest.fail.Exception):
        check_refused(folder)
