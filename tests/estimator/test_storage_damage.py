"""Damaged or incomplete saved models: every one is refused, with its path in the message."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lggd import LGGDClassifier, Optimization, load_model
from lggd._system.files import describe_file
from lggd.errors import InputError, InputFileError
from lggd.estimator import storage
from support.small_data import CLASSES, Averages, blocks
from support.small_models import WIDTH, distances


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
    """Changes tensors behind the back of the settings."""
    tensors = load_file(folder / file)
    change(tensors)
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / file)


def forge_tensors(folder, file, change):
    """Changes tensors, and describes the file in the settings as if it had been saved so."""
    edit_tensors(folder, file, change)
    edit(folder, lambda content: content["files"].update({file: describe_file(folder / file)}))


def test_the_folder_of_these_tests_is_complete(folder):
    load_model(folder).predict_proba()
    edit(folder, lambda content: None)
    forge_tensors(folder, "weights.safetensors", lambda tensors: None)
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
    forge_tensors(folder, "weights.safetensors", lambda tensors: tensors.pop(name))
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

    forge_tensors(folder, "weights.safetensors", change)
    check_refused(folder)


@pytest.mark.parametrize("wrong", [CLASSES, 99, -2])
def test_labels_out_of_range_are_refused(wrong, folder):
    forge_tensors(folder, "weights.safetensors", lambda tensors: tensors["labels"].__setitem__(0, wrong))
    check_refused(folder)


@pytest.mark.parametrize("file", ["model.json", "weights.safetensors", "graph.safetensors"])
@pytest.mark.parametrize("other", ["ggd", "concat"])
def test_files_of_two_models_are_refused(file, other, folder, saved):
    shutil.copy(saved[0] / other / file, folder)
    if (saved[0] / other / file).read_bytes() != (saved[0] / "plain" / file).read_bytes():
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
    forge_tensors(folder, "graph.safetensors", change)
    check_refused(folder)


def last_entry(name, value):
    return lambda tensors: tensors[name].flatten().__setitem__(-1, value)


NUMBERS = (float("nan"), float("inf"), -float("inf"), 0.5)
CHANGES = {
    "a missing tensor": lambda t: t.pop("features.bias.1"),
    "one more tensor": lambda t: t.update(more=torch.zeros(3)),
    "another shape": lambda t: t.update({"backbone.first.bias": torch.zeros(3)}),
    "another shape of the same size": lambda t: t.update({"features.weight.0": t["features.weight.0"].mT}),
    "another type": lambda t: t.update({"features.weight.0": t["features.weight.0"].double()}),
    "another type of the same size": lambda t: t.update({"features.bias.1": t["features.bias.1"].int()}),
    **{f"{value} in distances": last_entry("features.weight.0", value) for value in NUMBERS},
    **{f"{value} in the backbone": last_entry("backbone.second.bias", value) for value in NUMBERS},
}


def check_changed(folder, file):
    with pytest.raises(InputFileError) as refused:
        load_model(folder)
    assert re.match(rf"`{folder}/{file}` must (match its checksum|have \d+ bytes), but it ", str(refused.value))
    assert str(refused.value).endswith(" Use a copy of the model, or fit and save it again.")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_weights_that_changed_since_they_were_saved_are_refused(change, folder):
    edit_tensors(folder, "weights.safetensors", change)
    check_changed(folder, "weights.safetensors")


@pytest.mark.parametrize("value", NUMBERS)
def test_node_features_that_changed_since_they_were_saved_are_refused(value, folder):
    edit_tensors(folder, "graph.safetensors", last_entry("x", value))
    check_changed(folder, "graph.safetensors")


@pytest.mark.parametrize("file", ["weights.safetensors", "graph.safetensors"])
def test_a_single_bit_is_noticed(file, folder):
    content = bytearray((folder / file).read_bytes())
    content[-3] ^= 1
    (folder / file).write_bytes(content)
    check_changed(folder, file)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["features.weight.0", "backbone.first.lin.weight", "backbone.second.bias"])
def test_predictions_that_are_not_finite_are_refused_whatever_the_settings_say(name, value, folder):
    forge_tensors(folder, "weights.safetensors", last_entry(name, value))
    check_refused(folder)


def test_models_saved_without_checksums_are_refused(folder):
    edit(folder, lambda content: content.pop("files"))
    with pytest.raises(InputError, match=r"model.json` must describe \w+.safetensors by its size and .* save it again"):
        load_model(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda files: files.clear(),
        lambda files: files.pop("graph.safetensors"),
        lambda files: files.update({"weights.safetensors": 3}),
        lambda files: files.update({"weights.safetensors": "bytes"}),
        lambda files: files["weights.safetensors"].clear(),
        lambda files: files["weights.safetensors"].pop("crc32"),
        lambda files: files["weights.safetensors"].update(bytes=3),
        lambda files: files["weights.safetensors"].update(crc32=None),
        lambda files: files["weights.safetensors"].update(crc32=[]),
        lambda files: files["weights.safetensors"].update(crc32=["0"]),
        lambda files: files["weights.safetensors"]["crc32"].append(0),
        lambda files: files.update({"graph.safetensors": files["weights.safetensors"]}),
    ],
    ids=[
        "empty", "no graph", "a number", "a word", "empty within", "no checksums", "another size", "null",
        "no checksum", "a word for a checksum", "one more", "those of another file",
    ],
)  # fmt: skip
def test_a_damaged_description_of_files_is_refused(change, folder):
    edit(folder, lambda settings: change(settings["files"]))
    check_refused(folder)


@pytest.mark.parametrize("content", [3, "files", None, [], ["weights.safetensors"]])
def test_a_description_of_files_of_another_kind_is_refused(content, folder):
    edit(folder, lambda settings: settings.update(files=content))
    check_refused(folder)


def test_content_that_is_no_safetensors_is_refused_whatever_the_settings_say(folder):
    file = "weights.safetensors"
    (folder / file).write_bytes(b"\xff" * 99)
    edit(folder, lambda content: content["files"].update({file: describe_file(folder / file)}))
    check_refused(folder)


def test_infinite_buffers_of_users_are_kept(tmp_path):
    module = Averages(WIDTH)
    module.register_buffer("mask", torch.tensor([0.0, -float("inf")]))
    model = LGGDClassifier(distances(), module, Optimization(epochs=2)).fit(blocks())
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model", backbone=module)
    assert torch.equal(loaded.predict_proba(), model.predict_proba())


def replace_folder(folder, other):
    shutil.move(folder, folder.with_name(f"old {len(list(folder.parent.iterdir()))}"))
    shutil.copytree(other, folder)


@pytest.mark.parametrize("moment", ["before the graph", "after the graph", "after the weights"])
def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(moment, saved, folder, monkeypatch):
    """Settings of one model and tensors of another would be refused, or worse, not."""
    other, read, calls = saved[0] / "ggd", storage.read_tensors, []

    def replacing_once(*arguments):
        calls.append(arguments)
        if (moment, len(calls)) in (("before the graph", 1), ("after the graph", 2)):
            replace_folder(folder, other)
        tensors = read(*arguments)
        if (moment, len(calls)) == ("after the weights", 2):
            replace_folder(folder, other)
        return tensors

    monkeypatch.setattr(storage, "read_tensors", replacing_once)
    assert torch.equal(load_model(folder).predict_proba(), load_model(other).predict_proba())
    assert len(calls) > 2


def test_a_folder_that_is_replaced_by_another_and_by_an_equal_one_is_read_again(saved, folder, monkeypatch):
    """Two processes that save in turn: the settings are the same again, but those of what was read are not."""
    plain, other, read, replaced = saved[0] / "plain", saved[0] / "ggd", storage.read_tensors, []

    def replacing_twice(*arguments):
        if replaced:
            return read(*arguments)
        replaced.append(arguments)
        replace_folder(folder, other)
        try:
            return read(*arguments)
        finally:
            replace_folder(folder, plain)

    monkeypatch.setattr(storage, "read_tensors", replacing_twice)
    assert torch.equal(load_model(folder).predict_proba(), load_model(plain).predict_proba())
    assert replaced


def test_a_folder_that_is_always_replaced_is_refused(saved, folder, monkeypatch):
    read = storage.read_tensors

    def replacing(*arguments):
        replace_folder(folder, saved[0] / "ggd" if len(list(folder.parent.iterdir())) % 2 else saved[0] / "plain")
        return read(*arguments)

    monkeypatch.setattr(storage, "read_tensors", replacing)
    check_refused(folder)


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
    forge_tensors(folder, "graph.safetensors", lambda t: t["x.places"].__setitem__((0, 0), 99))
    check_refused(folder)


def test_the_check_on_damage_catches_a_loader_that_does_not_check(folder, monkeypatch):
    edit(folder, lambda content: content.update(version=99))
    monkeypatch.setattr(storage, "VERSION", 99)
    with pytest.raises(pytest.fail.Exception):
        check_refused(folder)
