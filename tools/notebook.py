"""Writes docs/getting_started.ipynb from docs/getting_started.py, without outputs; `--check` only compares them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "docs" / "getting_started.py"
TARGET = SOURCE.with_suffix(".ipynb")


def notebook(text: str) -> dict[str, Any]:
    """A notebook of the cells of a script: `# %%` starts code, `# %% [markdown]` text in comments."""
    cells = []
    for number, (kind, body) in enumerate(re.findall(r"^# %%( \[markdown\])?\n(.*?)(?=^# %%|\Z)", text, re.S | re.M)):
        body = re.sub(r"^# ?", "", body, flags=re.M) if kind else body
        lines = body.strip("\n").splitlines(keepends=True)
        cell: dict[str, Any] = {"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": lines}
        cells.append(cell if kind else cell | {"cell_type": "code", "execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def as_text(source: str) -> str:
    return json.dumps(notebook(source), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    text = as_text(SOURCE.read_text(encoding="utf-8"))
    if "--check" in sys.argv[1:]:
        return int(TARGET.read_text(encoding="utf-8") != text)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
