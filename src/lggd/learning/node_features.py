"""Shim until the engine branch brings the real module."""

from lggd.learning import contents

SPARSE_BELOW, check_node_features = contents.SPARSE_BELOW, contents.check_contents
