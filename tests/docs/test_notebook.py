"""docs/quickstart.ipynb: its cells run, one after the other, as a kernel would run them."""

from __future__ import annotations

import ast
import json
import linecache
from pathlib import Path
from typing import Any

import pytest

from fp3o.registry import ALGORITHMS

NOTEBOOK = Path(__file__).parents[2] / "docs" / "quickstart.ipynb"


def run_cell(source: str, number: int, names: dict[str, Any]) -> Any:
    """The value of the last line, if that is an expression. The source can be inspected, as in a notebook."""
    file = f"<cell {number}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), names)
    return eval(compile(ast.Expression(last.value), file, "eval"), names) if isinstance(last, ast.Expr) else None


def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook["nbformat"] == 4
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in notebook["cells"])
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        values = [run_cell(source, number, names) for number, source in enumerate(cells)]
    finally:
        ALGORITHMS.pop("careful", None)
        names["env"].close()
    assert [run.status for run in values[0]] == ["finished", "finished"]
    means = [float(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()]
    assert len(means) > 2
    assert means[-1] > means[0]  # It learns.
    assert len(values[2]) == 5
    assert len(values[-1]) == 2
