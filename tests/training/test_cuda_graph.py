"""CUDA graphs of training steps, as far as a CPU can tell."""

import gc
import weakref

from lggd.training import cuda_graph


class _Probe:
    """Garbage as soon as nobody else knows it, but only the collector can tell."""


def test_no_garbage_collection_while_captured():
    """An earlier recording that went then would spoil the new one."""
    probe = _Probe()
    probe.itself, gone = probe, weakref.finalize(probe, list)
    del probe
    with cuda_graph._no_garbage_collected():
        assert not gone.alive
        assert not gc.isenabled()
    assert gc.isenabled()
