"""Damaged or incomplete saved models: every one is refused, with its path in the message."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lggd import LGGDClassifier, Optimization, load_model
from lggd.errors import InputError, InputFileError
from lggd.estimator import storage
from small_data import CLASSES, Averages, blocks
from small_models import WIDTH, distances


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


def change_entry(file, name, value):
    return lambda folder: edit_tensors(folder, file, lambda t: t[name].flatten().__setitem__(-1, value))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("weights.safetensors", "features.weight.0"),
        ("weights.safetensors", "backbone.first.lin.weight"),
        ("weights.safetensors", "backbone.second.bias"),
        ("graph.safetensors", "x"),
    ],
)
def test_numbers_that_are_not_finite_are_refused_by_name(file, name, value, folder):
    change_entry(file, name, value)(folder)
    with pytest.raises(InputError) as refused:
        load_model(folder)
    assert str(refused.value).startswith(
        f"`{folder / file}` must contain finite numbers in the tensor {name!r}, but 1 "
    )
    assert f"such as {value} at [" in str(refused.value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["features.weight.0", "features.scale.temperature", "backbone.first.lin.weight"])
def test_tensors_of_another_type_are_refused_by_name(name, dtype, folder):
    edit_tensors(folder, "weights.safetensors", lambda t: t.update({name: t[name].to(dtype)}))
    with pytest.raises(InputError) as refused:
        load_model(folder)
    assert f"{folder / 'weights.safetensors'}` must contain the tensor {name!r} as float32 [" in str(refused.value)
    assert f"got {str(dtype).removeprefix('torch.')} [" in str(refused.value)


def test_tensors_of_another_shape_and_unknown_ones_are_refused_by_name(folder):
    edit_tensors(folder, "weights.safetensors", lambda t: t.update({"backbone.first.bias": torch.zeros(3)}))
    with pytest.raises(
        InputError, match=r"must contain the tensor 'backbone.first.bias' as float32 \[8\], got .*\[3\]"
    ):
        load_model(folder)


def test_unknown_tensors_are_refused_by_name(folder):
    edit_tensors(folder, "weights.safetensors", lambda t: t.update(more=torch.zeros(3)))
    with pytest.raises(InputError, match="must contain the saved tensors only, got also 'more'"):
        load_model(folder)


def test_models_saved_without_a_description_of_tensors_are_refused(folder):
    edit(folder, lambda content: content.pop("tensors"))
    with pytest.raises(InputError, match="must describe the tensors of"):
        load_model(folder)


@pytest.mark.parametrize("content", [3, {}, {"weights.safetensors": 3}, {"weights.safetensors": {"labels": {}}}])
def test_a_damaged_description_of_tensors_is_refused(content, folder):
    edit(folder, lambda settings: settings.update(tensors=content))
    check_refused(folder)


def test_infinite_buffers_of_users_are_kept(tmp_path):
    module = Averages(WIDTH)
    module.register_buffer("mask", torch.tensor([0.0, -float("inf")]))
    model = LGGDClassifier(distances(), module, Optimization(epochs=2)).fit(blocks())
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model", backbone=module)
    assert torch.equal(loaded.predict_proba(), model.predict_proba())


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(saved, folder, monkeypatch):
    """Settings of one model and tensors of another would be refused, or worse, not."""
    other, read, replaced = saved[0] / "ggd", storage.read_tensors, []

    def replacing_once(path, *arguments):
        if not replaced:
            replaced.append(path)
            shutil.move(folder, folder.with_name("old"))
            shutil.copytree(other, folder)
        return read(path, *arguments)

    monkeypatch.setattr(storage, "read_tensors", replacing_once)
    assert torch.equal(load_model(folder).predict_proba(), load_model(other).predict_proba())
    assert replaced


def test_loading_unpickles_nothing(folder, monkeypatch):
    import pickle

    def refuse(*_, **__):
        pytest.fail("a model file must not execute code")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    load_model(folder).predict_proba()


def test_sparse_node_features_out_of_range_are_refused(saved, tmp_path):
    folder = Path(shutil.copytree(saved[0] / "sparse", tmp_path / "model"))
    edit_tensors(folder, "graph.safetensors", lambda t: t["x.places"].__setitem__((0, 0), 99))
    check_refused(folder)


def test_the_check_on_damage_catches_a_loader_that_does_not_check(folder, monkeypatch):
    edit(folder, lambda content: content.update(version=99))
    monkeypatch.setattr(storage, "VERSION", 99)
    with pytest.raises(pytest.fail.Exception):
        check_refused(folder)
