"""Settings of methods that must be refused: the method, the setting, a value, and a part of the message."""

from __future__ import annotations

import math
from typing import Any

# The message follows "`name` must be".
OF_ANOTHER_TYPE: list[tuple[str, str, Any, str]] = [
    ("GGD", "time", "1", "a finite number, got '1'. Write for example time = 1.0."),
    ("GGD", "reachable", "no", "true or false, got 'no'. Write for example reachable = true."),
    ("GGD", "reachable", 1, "true or false, got 1."),
    ("GGD", "p", "big", "a finite number or inf, got 'big'."),
    ("GGD", "p", "2", "a finite number or inf, got '2'."),
    ("GGD", "cross_fit", True, "a whole number, got True."),
    ("LGGD", "alpha", "x", "a finite number, got 'x'."),
    ("LGGD", "alpha", math.nan, "a finite number, got nan."),
    ("LGGD", "alpha", False, "a finite number, got False."),
    ("LGGD", "mlp_input_dropout", "a", "a finite number, got 'a'."),
    ("LGGD", "mlp_hidden", 64, 'a text, got 64. Write for example mlp_hidden = "128".'),
    ("LGGD+", "self_training", "x", "a finite number, got 'x'."),
    ("LGGD+", "members", "3", "a whole number, got '3'."),
    ("Backbone", "lr", "fast", "a finite number, got 'fast'."),
    ("Backbone", "max_epochs", 5.0, "a whole number, got 5.0."),
    ("Backbone", "contents", True, "a text, got True."),
    ("GOAL", "k", "a", "a whole number, got 'a'."),
    ("GPRGNN", "hops", 2.0, "a whole number, got 2.0."),
    ("MLP", "hidden", 2.5, "a whole number, got 2.5."),
    ("ScikitNetwork", "damping", "a", "a finite number, got 'a'."),
    ("CorrectAndSmooth", "model", 1, "a text, got 1."),
]
OUT_OF_RANGE: list[tuple[str, str, Any, str]] = [
    ("GDC", "k", 0, "`k` must be a whole number from 1, got 0"),
    ("MixUp", "alpha", -1, "`alpha` must be positive and finite, got -1"),
    ("DropEdge", "p", math.inf, "must lie in [0, 1], got inf"),
    ("GAugM", "remove", 1.5, "`remove` must lie in [0, 1], got 1.5"),
    ("GAugO", "temperature", 0.0, "`temperature` must be positive and finite, got 0"),
    ("GPRGNN", "hops", 0, "`hops` must be a whole number from 1, got 0"),
    ("GOAL", "pretrain_epochs", 0, "`pretrain_epochs` must be a whole number from 1, got 0"),
    ("GOAL", "complement_hidden", 0, "`complement_hidden` must be a whole number from 1, got 0"),
    ("GraphMix", "ramp_end", 3, "`ramp_end` must be a whole number from 501, got 3"),
    ("Backbone", "max_epochs", 0, "`max_epochs` must be a whole number from 1, got 0"),
    ("GGD", "time", -1.0, "`time` must be positive"),
    ("GGD", "p", 0.5, "must lie in [1, inf], got 0.5"),
    ("GGD", "mode", "add", "`mode` must be one of replace, concat, got 'add'"),
    ("LGGD", "mlp_lr", 0.0, "`mlp_lr` must be positive and finite, got 0"),
    ("LGGD", "mlp_dropout", 1.5, "`mlp_dropout` must"),
    ("KernelRidge", "members", 0, "`members` must be a whole number from 1, got 0"),
    ("SolvedLGGD", "members", -1, "`members` must be a whole number from 1, got -1"),
    ("SolvedLGGD+", "members", 0, "`members` must be a whole number from 1, got 0"),
    ("LGGD+", "members", 0, "`members` must be a whole number from 1, got 0"),
    ("LGGD+", "self_training", 2, "`self_training` must lie in [0, 1], got 2"),
    ("SGC", "hops", 0, "`hops` must be a whole number from 1, got 0"),
    ("APPNP", "alpha", 2.0, "`alpha` must lie in [0, 1], got 2.0"),
    ("LabelPropagation", "alpha", 1.0, "`alpha` must lie in [0, 1), got 1.0"),
    ("CorrectAndSmooth", "hidden", 0, "`hidden` must be a whole number from 1, got 0"),
    ("CorrectAndSmooth", "scale", 0.0, "`scale` must be positive and finite, got 0"),
    ("ScikitNetwork", "neighbours", 0, "`neighbours` must be a whole number from 1, got 0"),
    ("Backbone+", "self_training", 2, "`self_training` must lie in [0, 1], got 2"),
    ("LGGD+", "diffusion_t", -1.0, "`diffusion_t` must be positive"),
]
