"""Estimates of memory, and what is said when there is too little."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import lggd
from lggd import GCN, GGD, LGGD, Euler, Graph, LGGDClassifier, Optimization, SolvedLGGD, estimate_memory, evolve
from lggd._system.files import size_in_words
from lggd._system.memory import Memory, Scratch, explaining_shortage, free_memory
from support.small_data import blocks, random

CPU = torch.device("cpu")


def grid(side=40):
    return Graph.from_grid(np.ones((side, side), bool))


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
    one = estimate_memory(graph).total
    assert one < estimate_memory(graph, columns=8).total < estimate_memory(graph, columns=80).total
    assert one < estimate_memory(graph, outputs=5).total < estimate_memory(graph, outputs=5, gradient_steps=10).total
    assert estimate_memory(graph, scheme=Euler()).total < one < estimate_memory(graph, dtype=torch.float64).total
    data = blocks()
    sizes = [estimate_memory(data, LGGD(), models=models).total for models in (1, 10, 100)]
    assert sizes == sorted(sizes)
    assert estimate_memory(data, LGGD(per_time=False)).total < sizes[0]
    assert sizes[0] < estimate_memory(data, LGGD.release()).total
    assert estimate_memory(data, LGGDClassifier.trained()).total == sizes[0]
    assert estimate_memory(data, GGD()).total < sizes[0]
    assert estimate_memory(data, GGD()).total < estimate_memory(data, SolvedLGGD(GGD().times)).total


def test_node_features_are_required_for_learning():
    data = blocks()
    data.x = None
    with pytest.raises(TypeError, match=r"`data\.x`"):
        estimate_memory(data, LGGD())
    assert estimate_memory(data, GGD()).total > 0
    assert estimate_memory(data, SolvedLGGD()).total > 0  # rows of the adjacency instead


def test_checkpoints_bound_what_gradients_keep():
    """Ten times the steps must not take ten times the memory where states are large."""
    graph = Graph.from_edges([], num_nodes=2_000_000)
    few, many = (estimate_memory(graph, columns=16, gradient_steps=steps).total for steps in (100, 1000))
    assert many < 4 * few


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"columns": 0}, "`columns`"),
        ({"models": 1.5}, "`models`"),
        ({"outputs": True}, "`outputs`"),
        ({"gradient_steps": -1}, "`gradient_steps`"),
        ({"scheme": "rk4"}, "`scheme`"),
        ({"dtype": torch.int32}, "`dtype`"),
        ({"model": LGGD()}, "`graph` must be PyG data"),
        ({"model": "LGGD"}, "`model`"),
        ({"model": LGGDClassifier(None, GCN())}, "`model`"),
    ],
)
def test_wrong_arguments_are_named(wrong, named):
    with pytest.raises((TypeError, ValueError), match=named):
        estimate_memory(grid(), **wrong)
    with pytest.raises(TypeError, match="`graph`"):
        estimate_memory(blocks())


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


def test_evolve_and_fit_explain_running_out_of_memory(monkeypatch):
    def no_memory(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("lggd.solvers.adjoint.run", no_memory)
    with pytest.raises(MemoryError, match=r"The evolution takes about .* Use fewer columns"):
        evolve(grid(), [0])
    monkeypatch.setattr("lggd.features.distance_training.DistanceProblems.training_step", no_memory)
    model = LGGD(optimization=Optimization(epochs=2))
    with pytest.raises(MemoryError, match=r"takes about .*networks.* Fit fewer models"):
        model.fit(blocks())
    assert not hasattr(model, "labels_")


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
    estimate = lggd.estimate_memory(graph, columns=16, gradient_steps=steps)
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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("make", [LGGD, LGGD.paper, LGGD.release], ids=["default", "paper", "release"])
def test_estimates_of_learning_are_close_to_measurements_on_a_gpu(make):
    data = blocks(each=3000, labelled=20, validated=20).to("cuda")
    compare_on_a_gpu(make(optimization=Optimization(epochs=5)), data)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_estimates_include_dropout_of_node_features(sparse):
    data = blocks(sparse=sparse)
    dropped = {
        share: estimate_memory(data, LGGD((1, 2), initial=lggd.MLP(input_dropout=share)), models=3).parts[
            "input dropout"
        ]
        for share in (0.0, 0.5)
    }
    entries, left = (data.x._nnz(), 8) if sparse else (data.x.numel(), 4)
    assert dropped == {0.0: 0, 0.5: entries * (3 * 2 + left)}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_estimates_include_dropout_of_node_features_on_a_gpu(kind):
    data = blocks(each=1000, labelled=20, validated=20)
    if kind == "sparse":
        row, column = (torch.randint(n, (2_000_000,), generator=random(n)) for n in (data.num_nodes, 20_000))
        places = torch.stack([row, column])
        data.x = torch.sparse_coo_tensor(places, torch.ones(len(row)), (data.num_nodes, 20_000)).coalesce()
    else:
        data.x = torch.rand(data.num_nodes, 2000, generator=random(0))
    initial = lggd.MLP((8,), input_dropout=0.5)
    compare_on_a_gpu(LGGD(initial=initial, optimization=Optimization(epochs=5)), data.to("cuda"))


def compare_on_a_gpu(model, data):
    LGGD(**model.get_params(deep=False)).fit(blocks().to("cuda"))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    model.fit(data)
    measured, estimated = torch.cuda.max_memory_allocated() - before, estimate_memory(data, model).total
    assert 0.3 * estimated < measured < 1.5 * estimated
