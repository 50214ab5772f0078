"""The training loop: order, history and resuming."""

import pytest
import torch

from lggd import Checkpoint, Progress
from lggd.training.engine import train


class Counter:
    """Learns to count; finishes by itself after `stop` epochs."""

    def __init__(self, epochs=5, stop=None, log=None):
        self.epochs, self.stop, self.log = epochs, stop, log
        self.count = torch.zeros(2, dtype=torch.float64)

    @property
    def finished(self):
        return self.stop is not None and self.count[0] >= self.stop

    def step(self):
        self.count += torch.tensor([1.0, 0.1], dtype=torch.float64)
        if self.log is not None:
            self.log.append(("step", int(self.count[0])))
        return {"count": float(self.count[0]), "loss": 1 / float(self.count[0])}

    def state(self):
        return {"count": self.count}

    def restore(self, state):
        self.count = state["count"].clone()

    def load_best(self):
        pass


def interrupt_at(epoch):
    def callback(progress):
        if progress.done == epoch:
            raise KeyboardInterrupt

    return callback


def after(epoch, tmp_path, key="key"):
    """A checkpoint of learning that was interrupted during the callback of that epoch."""
    with pytest.raises(KeyboardInterrupt):
        train(Counter(), "stage", interrupt_at(epoch), Checkpoint(tmp_path, key, every=0))
    return tmp_path / "stage.safetensors"


def test_history_holds_all_epochs():
    learner = Counter(epochs=4)
    assert train(learner, "stage") == {"count": [1, 2, 3, 4], "loss": [1, 1 / 2, 1 / 3, 1 / 4]}
    assert learner.count[0] == 4


def test_training_stops_when_the_engine_has_finished():
    assert train(Counter(epochs=9, stop=3), "stage")["count"] == [1, 2, 3]


def test_a_finished_engine_takes_no_step():
    assert train(Counter(epochs=9, stop=0), "stage") == {}


def test_each_step_comes_before_its_callback_and_the_callback_before_the_save(tmp_path, monkeypatch):
    log = []
    right = Checkpoint.save

    def save(self, stage, state):
        log.append(("save", int(state["epoch"])))
        right(self, stage, state)

    monkeypatch.setattr(Checkpoint, "save", save)
    train(
        Counter(2, log=log),
        "stage",
        lambda p: log.append(("callback", p.done)),
        Checkpoint(tmp_path, "key", every=0),
    )
    each = [[("step", e), ("callback", e), ("save", e)] for e in (1, 2)]
    assert log == [*each[0], *each[1], ("save", 2)]


def test_the_callback_receives_the_metrics():
    heard = []
    train(Counter(3), "some stage", heard.append)
    assert heard == [Progress("some stage", e, 3, {"count": float(e), "loss": 1 / e}) for e in (1, 2, 3)]


def test_a_metric_may_begin_late():
    class Late(Counter):
        def step(self):
            measured = super().step()
            return measured if measured["count"] > 2 else {"count": measured["count"]}

    assert train(Late(4), "stage") == {"count": [1, 2, 3, 4], "loss": [1 / 3, 1 / 4]}


@pytest.mark.parametrize("epoch", [1, 2, 4, 5])
def test_interrupted_training_resumes(epoch, tmp_path):
    after(epoch, tmp_path)
    whole, resumed, heard = Counter(), Counter(), []
    expected = train(whole, "stage")
    assert train(resumed, "stage", heard.append, Checkpoint(tmp_path, "key", every=0)) == expected
    assert [one.done for one in heard] == list(range(epoch, 6))
    assert torch.equal(resumed.count, whole.count)


def test_finished_training_is_not_repeated(tmp_path):
    expected = train(Counter(), "stage", checkpoint=Checkpoint(tmp_path, "key", every=1e9))
    learner, heard = Counter(), []
    assert train(learner, "stage", heard.append, Checkpoint(tmp_path, "key")) == expected
    assert heard == []
    assert learner.count[0] == 5


def test_a_restart_would_be_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(Counter, "restore", lambda self, state: None)
    with pytest.raises(AssertionError):
        test_interrupted_training_resumes(4, tmp_path)


def test_saves_are_due_at_intervals(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("lggd.training.engine.time.monotonic", lambda: now[0])
    checkpoint = Checkpoint(tmp_path, "key", every=5.0)
    assert not checkpoint.is_due()
    now[0] = 104.9
    assert not checkpoint.is_due()
    now[0] = 105.0
    assert checkpoint.is_due()
    checkpoint.save("stage", {"a": torch.ones(1)})
    assert not checkpoint.is_due()


def test_stages_are_separate(tmp_path):
    checkpoint = Checkpoint(tmp_path / "new" / "folder", "key")
    checkpoint.save("one", {"a": torch.ones(1)})
    checkpoint.save("two", {"a": torch.zeros(1)})
    assert float(checkpoint.load("one")["a"]) == 1
    assert float(checkpoint.load("two")["a"]) == 0
    assert checkpoint.load("three") is None


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(6).view(2, 3).t(),
        torch.ones(3)[::2],
        torch.ones(2, requires_grad=True),
        torch.tensor(3),
        torch.ones(3, 1).expand(3, 4),
    ],
)
def test_tensors_round_trip(value, tmp_path):
    checkpoint = Checkpoint(tmp_path, "key")
    checkpoint.save("stage", {"a": value, "b": value})
    found = checkpoint.load("stage")
    assert found.keys() == {"a", "b"}
    assert torch.equal(found["a"], value.detach())
    assert found["a"].dtype == value.dtype


def test_a_checkpoint_of_other_settings_is_rejected(tmp_path):
    path = after(3, tmp_path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"`{path}`.*same data and settings"):
        train(Counter(), "stage", checkpoint=Checkpoint(tmp_path, "another key", every=0))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b[:4], lambda b: b"", lambda b: b"\xff" * len(b)]
)
def test_a_damaged_file_is_rejected_by_name(damage, tmp_path):
    path = after(3, tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"`{path}`.*damaged"):
        train(Counter(), "stage", checkpoint=Checkpoint(tmp_path, "key"))


def test_a_file_without_a_key_is_rejected(tmp_path):
    from safetensors.torch import save_file

    save_file({"epoch": torch.tensor(1)}, tmp_path / "stage.safetensors")
    with pytest.raises(ValueError, match="same data and settings"):
        train(Counter(), "stage", checkpoint=Checkpoint(tmp_path, "key"))


def test_a_failed_save_keeps_the_last_one(tmp_path, monkeypatch):
    path = after(3, tmp_path)
    before = path.read_bytes()

    def fail(tensors, filename, metadata):
        filename.write_bytes(b"half of it")
        raise OSError("no space left")

    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(OSError, match="no space"):
        train(Counter(), "stage", checkpoint=Checkpoint(tmp_path, "key", every=0))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_not_a_pickle(tmp_path):
    import pickle

    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(after(3, tmp_path).read_bytes())


def test_a_stage_of_several_passes_has_a_file_of_its_own(tmp_path):
    checkpoint = Checkpoint(tmp_path / "training", key="a")
    for number in (1, 2):
        checkpoint.save(f"backbone {number}/2", {"weight": torch.tensor([float(number)])})
    assert sorted(path.name for path in (tmp_path / "training").iterdir()) == [
        "backbone 1 of 2.safetensors",
        "backbone 2 of 2.safetensors",
    ]
    assert [checkpoint.load(f"backbone {number}/2")["weight"].item() for number in (1, 2)] == [1.0, 2.0]
