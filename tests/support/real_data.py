"""Where the tests find the paper's datasets: in $LGGD_DATA, else beside the repository, else nowhere."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[3] / "shared" / "data"
REAL_DATA = Path(os.environ.get("LGGD_DATA") or BESIDE)
needs_real_data = pytest.mark.skipif(
    not REAL_DATA.is_dir(), reason="the paper's datasets are not here: set LGGD_DATA to a folder in PyG's layout"
)
