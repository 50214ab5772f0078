"""Triton's kernels on edges that stay on disk, through its interpreter: the same as the plain ones."""

import pytest
import torch

from lggd import Graph
from lggd._kernels import cuda, reference
from lggd.equation import Field
from lggd.errors import InputError
from lggd.graph import csr as rows
from support.fields import check_stage, close, random_field

pytest.importorskip("triton", reason="needs triton, which runs on Linux")

interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="Triton compiles where there is a CUDA device")


@interpreted
@pytest.mark.parametrize("shape", [(6, 1, None), (6, 3, 1)])
def test_norm_and_stage_block_by_block(tmp_path, monkeypatch, shape):
    monkeypatch.setattr(rows, "EDGES_PER_BLOCK", 15)
    field, y = random_field(1.0, torch.float64, shape, boundary_mask=True, n=20)
    Graph.from_edges(torch.stack([field.csr.rows, field.csr.indices.long()]), num_nodes=20, dtype=torch.float64).save(
        tmp_path / "graph"
    )
    csr = Graph.open(tmp_path / "graph").csr
    assert len(csr.row_ranges()) > 2
    streamed = Field(csr, field.p, field.rho, field.root_weight, field.boundary_mask)
    close(cuda.norm(streamed, y), reference.norm(field, y))
    check_stage(cuda, streamed, y)
    with pytest.raises(InputError, match="on the device for gradients"):
        cuda.vjp(streamed, y, [y], [1.0], False, False)


def test_edges_that_do_not_fit_stay_on_disk(tmp_path, monkeypatch):
    graph = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    graph.save(tmp_path / "graph")
    csr = Graph.open(tmp_path / "graph").csr
    monkeypatch.setattr("lggd._system.memory.free_memory", lambda device: 10)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *_, **__: self)  # there is no such device here
    moved = csr.to(torch.device("cuda"))
    assert moved.mapped is csr.mapped
    assert moved.indices is csr.indices
