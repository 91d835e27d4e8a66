"""Rules name the code they run: an edited formula rebuilds what rests on it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from harness import ROOT, Checkout

from fp3o.workflow.code import files_of

RULES = (
    "cell",
    "table",
    "facts",
    "manifest",
    "metrics",
    "curves",
    "scorecard",
    "scores",
    "cost",
    "table_cost",
    "figure",
    "html",
)


def names_of(module: str, root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in files_of(module, root)]


def test_modules_are_found_through_packages_and_functions(tmp_path: Path) -> None:
    for name, text in {
        "fp3o/__init__.py": "",
        "fp3o/a/__init__.py": "import numpy\n",
        "fp3o/a/one.py": "from fp3o.a import two, NAME\nif TYPE_CHECKING:\n    import fp3o.a.other\n",
        "fp3o/a/two.py": "def late():\n    import fp3o.b.three\n",
        "fp3o/a/other.py": "",
        "fp3o/b/__init__.py": "",
        "fp3o/b/three.py": "",
        "fp3o/b/style.css": "",
        "fp3o/b/notes.md": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    wanted = ["__init__.py", "a/__init__.py", "a/one.py", "a/two.py", "b/__init__.py", "b/style.css", "b/three.py"]
    assert names_of("fp3o.a.one", tmp_path) == [f"fp3o/{name}" for name in wanted]


def test_a_package_that_is_run_is_its_main() -> None:
    found = names_of("fp3o.report", ROOT)
    assert {
        "fp3o/report/__main__.py",
        "fp3o/report/templates/script.js",
        "fp3o/report/templates/page.html.j2",
        "fp3o/statistics/scores.py",
    } <= set(found)
    assert not any("training" in name or name.startswith("paper_figures") for name in found)


@pytest.mark.slow  # runs every rule
@pytest.mark.workflow
def test_every_rule_names_what_its_command_imports(trained: Checkout) -> None:
    """Python itself says what was imported, in the log of each rule."""
    for name in ("tables", "figures", "scores", "curves", "report", "cells", "logs", "cost.csv"):
        path = trained.path / "results/paper" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for name in ("manifest.json", "metrics.json", "scorecard.json"):
        (trained.path / "results/paper" / name).unlink()
    cell = "results/paper/cells/smac/3s5z/full/fp3o.json"
    trained.snakemake("all", cell, PYTHONPROFILEIMPORTTIME="1")
    rows = [row.split("\t") for row in trained.snakemake("all", cell, "--detailed-summary").stdout.splitlines()]
    jobs = {(row[2], row[3], row[4]) for row in rows if len(row) == 8}  # rule, log, inputs
    found = dict.fromkeys(RULES, 0)
    for rule, log, inputs in sorted(job for job in jobs if job[0] in RULES):
        named = set(inputs.split(","))
        imported = re.findall(
            r"import time: .*\| +((?:fp3o|paper_figures)[\w.]*)$", (trained.path / log).read_text(), re.MULTILINE
        )
        files = {
            name
            for module in imported
            for name in (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py")
            if (trained.path / name).is_file()
        }
        assert len(files) >= 10, f"{rule}: {files}"
        assert files <= named, f"{rule}: {files - named}"
        found[rule] += 1
    assert all(found.values()), found
