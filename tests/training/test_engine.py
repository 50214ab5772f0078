"""The training loop: order and history."""

import torch

from lggd import Progress
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

    def load_best(self):
        pass


def test_history_holds_all_epochs():
    learner = Counter(epochs=4)
    assert train(learner, "stage") == {"count": [1, 2, 3, 4], "loss": [1, 1 / 2, 1 / 3, 1 / 4]}
    assert learner.count[0] == 4


def test_training_stops_when_the_engine_has_finished():
    assert train(Counter(epochs=9, stop=3), "stage")["count"] == [1, 2, 3]


def test_a_finished_engine_takes_no_step():
    assert train(Counter(epochs=9, stop=0), "stage") == {}


def test_each_step_comes_before_its_callback():
    log = []
    train(Counter(2, log=log), "stage", lambda progress: log.append(("callback", progress.done)))
    assert log == [("step", 1), ("callback", 1), ("step", 2), ("callback", 2)]


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
