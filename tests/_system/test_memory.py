"""Estimates of memory, and what is said when there is too little."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from lggd import GCN, GGD, LGGD, RK4, DegreePotential, Euler, Graph, LearnedPotential, evolve
from lggd._system.files import size_in_words
from lggd._system.memory import Memory, Scratch, equal, explaining_shortage, free_memory
from lggd.solvers.scheme import evolution_memory

CPU = torch.device("cpu")


def grid(side=40):
    return Graph.from_grid(np.ones((side, side), bool))


def estimate(graph, columns=1, scheme=RK4(), outputs=1, gradient_steps=0, dtype=torch.float32):
    return evolution_memory(graph, columns, scheme, outputs, gradient_steps, dtype).total


def test_settings_and_tensors_are_compared_by_their_entries():
    assert equal((1, torch.ones(2), GCN()), (1, torch.ones(2), GCN()))
    assert not equal((1, torch.ones(2)), (1, torch.zeros(2)))
    assert not equal(torch.ones(2), torch.ones(2, dtype=torch.float64))
    assert not equal((1, 2), (1,))
    assert not equal(1, 1.0)
    assert equal(LearnedPotential(torch.ones(3)), LearnedPotential(torch.ones(3)))
    assert not equal(LearnedPotential(torch.ones(3)), LearnedPotential(DegreePotential(-1)))
    assert not equal(GGD, LGGD)
    assert equal(GGD, GGD)


def test_a_memory_is_the_sum_of_its_parts():
    memory = Memory({"graph": 1024, "states": 3 * 2**20, "nothing": 0}, CPU)
    assert memory.total == 1024 + 3 * 2**20
    assert str(memory) == "about 3.0 MiB (graph 1.0 KiB, states 3.0 MiB)"
    assert memory.fits
    assert not Memory({"too much": 2**60}, CPU).fits


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (2048, "2.0 KiB"), (2**40, "1.0 TiB"), (2**45, "32.0 TiB")],
)
def test_sizes_in_words(size, words):
    assert size_in_words(size) == words


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_memory_is_that_of_the_system():
    lines = open("/proc/meminfo").read().splitlines()  # noqa: SIM115, PTH123
    total = int(next(line for line in lines if line.startswith("MemTotal")).split()[1]) * 1024
    assert 0 < free_memory(CPU) < total
    assert free_memory(torch.device("meta")) is None


def test_more_work_is_never_estimated_to_take_less():
    graph = grid()
    one = estimate(graph)
    assert one < estimate(graph, columns=8) < estimate(graph, columns=80)
    assert one < estimate(graph, outputs=5) < estimate(graph, outputs=5, gradient_steps=10)
    assert estimate(graph, scheme=Euler()) < one < estimate(graph, dtype=torch.float64)


def test_checkpoints_bound_what_gradients_keep():
    """Ten times the steps must not take ten times the memory where states are large."""
    graph = Graph.from_edges([], num_nodes=2_000_000)
    few, many = (estimate(graph, columns=16, gradient_steps=steps) for steps in (100, 1000))
    assert many < 4 * few


@pytest.mark.parametrize(
    "short",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_running_out_of_memory_is_explained(short):
    with (
        pytest.raises(MemoryError, match=r"^It takes about 1\.0 GiB \(states 1\.0 GiB\) on cpu, .* Use less\.$"),
        explaining_shortage("It", lambda: Memory({"states": 2**30}, CPU), "Use less."),
    ):
        raise short


def test_other_errors_are_unchanged():
    with (
        pytest.raises(RuntimeError, match=r"^something else$"),
        explaining_shortage("It", lambda: Memory({}, CPU), ""),
    ):
        raise RuntimeError("something else")


def test_evolve_explains_running_out_of_memory(monkeypatch):
    def no_memory(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("lggd.solvers.adjoint.run", no_memory)
    with pytest.raises(MemoryError, match=r"The evolution takes about .* Use fewer columns"):
        evolve(grid(), [0])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_space_of_a_tensor_in_a_file_is_free_when_the_tensor_is(tmp_path, monkeypatch):
    monkeypatch.setattr("lggd._system.memory.MIN_ON_DISK", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    scratch = Scratch()
    kept, dropped = scratch.empty(100, 7).fill_(1.0), scratch.empty(200, 7).fill_(2.0)

    def files():
        return sum(str(tmp_path) in line for line in Path("/proc/self/maps").read_text().splitlines())

    assert files() == 2
    del dropped
    assert files() == 1
    scratch.release()
    assert bool((kept == 1).all())
    assert scratch.empty(10).data_ptr() != 0  # small: in memory
    assert files() == 1


MEASURE = """
import torch, numpy as np
from pathlib import Path
import lggd
from lggd.solvers.scheme import evolution_memory

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024

def work(n, steps):
    graph = lggd.Graph.from_points(np.random.default_rng(0).random((n, 2)), k=8, dtype=torch.float32)
    graph.layout(100).csr, graph.degree
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    start = torch.rand(n, 16, requires_grad=steps > 0)
    potential = lggd.DegreePotential(-1)
    solution = lggd.evolve(graph, None, start=start, times=[steps or 4.0], potential=potential, scheme=lggd.RK4(1.0))
    if steps:
        solution.value.sum().backward()
    estimate = evolution_memory(graph, 16, lggd.RK4(1.0), 1, steps, torch.float32)
    return status("VmHWM") - before, estimate.total - estimate.parts["graph"]

for steps in (0, 8):
    work(100, steps)
    print(*work(60_000, steps))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_estimates_are_close_to_measurements():
    # What is freed must go back at once, or what comes later finds it and seems to take nothing.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, env=environment)
    lines = done.stdout.splitlines()
    assert len(lines) == 2  # without gradients, and with
    for line in lines:
        measured, estimated = map(int, line.split())
        assert 0.4 * estimated < measured < 1.3 * estimated
