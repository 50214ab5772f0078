"""Training curves of the stages."""

import math

from page_reader import text_of
from sample_reports import small


def test_curves_without_finite_values():
    report = small(curves={"stage": {"train_loss": [math.nan, math.inf]}, "empty": {"train_loss": []}})
    text = text_of(report)
    assert "No finite value was recorded." in text
    assert "empty" not in text


def test_best_epoch_is_reported(digits):
    text = text_of(digits)
    assert "best validation at 3: 90.0\N{NO-BREAK SPACE}%" in text
    assert "best validation at 60\N{NO-BREAK SPACE}(t=1), 60\N{NO-BREAK SPACE}(t=2)" in text
