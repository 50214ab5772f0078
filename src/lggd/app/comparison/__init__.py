"""Comparing methods under one protocol, and what a comparison does unless told otherwise.

Imports nothing, so that the command line can show the defaults in its help.
"""

# Names of lggd.app.runs.methods: from none to all of labels, features and training.
DEFAULTS = (
    "label-propagation", "sgc", "gcn", "gdc-ppr", "appnp", "kernel-ridge", "lggd-plus",
)  # fmt: skip
# Names of lggd.app.comparison.candidates, which take part where their packages are installed.
PEERS = ("label-spreading",)
# Other names that people use for a method.
ALIASES = {"closed-form": "kernel-ridge", "lggd+": "lggd-plus"}
SPLITS = 10
# The fraction of the labels of own tables that is used for training.
TRAINING = 0.6
# The learning curve: fractions of the training labels, and the number of splits that it is measured on.
SHARES = (0.25, 0.5)
CURVE_SPLITS = 3
