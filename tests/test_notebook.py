"""The notebook is made from its script, and runs from its first to its last cell in a kernel of its own."""

import json
import os
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "notebook.py"))


def test_the_notebook_is_that_of_its_script():
    remedy = "Run make notebook."
    assert TOOL["TARGET"].read_text() == TOOL["as_text"](TOOL["SOURCE"].read_text()), remedy


def test_cells_are_text_and_code_in_order():
    made = TOOL["notebook"]("# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1\nx\n")
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", "code"]
    assert ["".join(cell["source"]) for cell in made["cells"]] == ["# Title\n\nText.", "x = 1\nx"]


def test_the_notebook_runs_and_shows_something_at_every_step(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    for threads in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(threads, "1")  # beside other tests, more would wait for each other
    made = nbformat.reads(TOOL["TARGET"].read_text(), as_version=4)
    nbformat.validate(made)
    fewer = "import sys, sklearn.datasets; sys.path.append({!r}); from support import few_digits as few\n"
    fewer += "sklearn.datasets.load_digits = few.load_digits; few.COUNT"
    made.cells.insert(0, nbformat.v4.new_code_cell(fewer.format(str(Path(__file__).parent))))
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(made, timeout=300, resources=resources).execute()
    outputs = [cell.outputs for cell in made.cells if cell.cell_type == "code"]
    assert all(outputs)
    shown = json.dumps(outputs)
    for title in ("<b>Graph</b>", "<b>Solution</b>", "KernelRidge, fitted", "<b>Comparison</b>", "image/png"):
        assert title in shown
