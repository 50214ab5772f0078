"""Damaged or incomplete saved models: every one is refused, with its path in the message."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lggd import load_model
from lggd.errors import InputError, InputFileError
from lggd.estimator import storage
from small_data import CLASSES


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved[0] / "plain", tmp_path / "model"))


def check_refused(folder, error=InputError):
    with pytest.raises(error) as refused:
        load_model(folder).predict_proba()
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


def test_the_folder_of_these_tests_is_complete(folder):
    load_model(folder).predict_proba()
    edit(folder, lambda content: None)
    edit_tensors(folder, "weights.safetensors", lambda tensors: None)
    load_model(folder).predict_proba()


@pytest.mark.parametrize("file", ["model.json", "weights.safetensors", "graph.safetensors"])
def test_a_missing_file_is_named(file, folder):
    (folder / file).unlink()
    check_refused(folder, InputFileError)


def test_no_folder_at_all_is_named(tmp_path):
    check_refused(tmp_path / "nowhere", InputFileError)
    (tmp_path / "file").write_text("{}")
    check_refused(tmp_path / "file", InputFileError)


@pytest.mark.parametrize("file", ["weights.safetensors", "graph.safetensors"])
@pytest.mark.parametrize(
    "damage", [lambda b: b[:-7], lambda b: b[:5], lambda b: b"", lambda b: b"\x80\x04" + b, lambda b: b"\xff" * 99]
)
def test_damaged_tensors_are_refused(file, damage, folder):
    path = folder / file
    path.write_bytes(damage(path.read_bytes()))
    check_refused(folder)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"format": "lggd model"', b"\xff\xfe\x00", b"null", b"[]", b"3", b'{"a": 1}', b'{"format": "other"}'],
)
def test_files_that_are_no_settings_are_refused(content, folder):
    (folder / "model.json").write_bytes(content)
    check_refused(folder)


@pytest.mark.parametrize("version", [0, 1, 3, 99, "2", None])
def test_another_version_is_refused(version, folder):
    edit(folder, lambda content: content.update(version=version))
    check_refused(folder)


KEYS = ["model", "num_classes", "additions", "history", "metadata"]


@pytest.mark.parametrize("key", KEYS)
def test_incomplete_settings_are_refused(key, folder):
    edit(folder, lambda content: content.pop(key))
    check_refused(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["model"]["features"].update(kind="SuperLGGD"),
        lambda c: c["model"]["features"].pop("kind"),
        lambda c: c["model"]["features"]["scale"].update(kind="os.system"),
        lambda c: c["model"]["features"]["initial"].update(kind=["MLP"]),
        lambda c: c["model"]["features"].update(horizons="each"),
        lambda c: c["model"]["features"]["scheme"].update(tableau=3),
        lambda c: c["model"]["backbone"].update(kind="LGGD"),
        lambda c: c["model"]["backbone"].update(layers=3),
        lambda c: c["model"]["optimization"].update(lr=-1),
        lambda c: c["model"]["features"].update(times=[2, 1]),
        lambda c: c["model"]["features"].update(times="soon"),
        lambda c: c["model"]["features"].update(cross_fit=1),
        lambda c: c["model"]["features"]["initial"].update(hidden=[9]),
        lambda c: c["model"]["features"]["initial"].update(hidden=-1),
        lambda c: c["model"]["backbone"].update(hidden=9),
        lambda c: c["model"].update(features="LGGD"),
        lambda c: c["model"].update(backbone=[1]),
        lambda c: c["model"].update(features={"kind": "GCN"}),
        lambda c: c.update(num_classes=4),
        lambda c: c.update(num_classes=0),
        lambda c: c.update(num_classes="many"),
        lambda c: c.update(model="LGGDClassifier"),
        lambda c: c.update(model={"kind": "GCN"}),
        lambda c: c["model"].update(kind="LGGDPlus"),
        lambda c: c.update(additions=3),
        lambda c: c.update(history=[1]),
        lambda c: c.update(metadata=3),
    ],
    ids=[
        "unknown kind", "no kind", "unknown kind within", "kind is a list", "unknown setting", "unknown setting within",
        "wrong kind", "unknown setting of the backbone", "wrong value", "times fall", "times are a word", "one fold",
        "other width", "negative width", "other width of the backbone", "word for features", "list for the backbone",
        "backbone for features", "one more class", "no classes", "classes are a word", "word for the model",
        "backbone for the model", "another model", "additions", "history", "metadata",
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(change, folder):
    edit(folder, change)
    check_refused(folder)


WEIGHTS = [
    "labels", "features.priority", "features.scale.temperature", "features.weight.0", "features.bias.1",
    "backbone.first.lin.weight",
]  # fmt: skip


def test_these_are_names_of_weights(folder):
    assert set(WEIGHTS) <= load_file(folder / "weights.safetensors").keys()


@pytest.mark.parametrize("name", WEIGHTS)
def test_incomplete_weights_are_refused(name, folder):
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
def test_labels_out_of_range_are_refused(wrong, folder):
    edit_tensors(folder, "weights.safetensors", lambda tensors: tensors["labels"].__setitem__(0, wrong))
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
        "no edges", "no number of nodes", "no node features", "an edge out of range", "fractions", "directed",
        "one node less", "two numbers of nodes", "one row less", "one column less", "not a number",
    ],
)  # fmt: skip
def test_a_graph_that_makes_no_sense_is_refused(change, folder):
    edit_tensors(folder, "graph.safetensors", change)
    check_refused(folder)


def test_sparse_node_features_out_of_range_are_refused(saved, tmp_path):
    folder = Path(shutil.copytree(saved[0] / "sparse", tmp_path / "model"))
    edit_tensors(folder, "graph.safetensors", lambda t: t["x.places"].__setitem__((0, 0), 99))
    check_refused(folder)


def test_the_check_on_damage_catches_a_loader_that_does_not_check(folder, monkeypatch):
    edit(folder, lambda content: content.update(version=99))
    monkeypatch.setattr(storage, "VERSION", 99)
    with pytest.raises(pytest.fail.Exception):
        check_refused(folder)
