"""What is installed, and what works without the rest."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fp3o.errors import as_command

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

TRAIN = """
import sys
for name in ("matplotlib", "bokeh", "jinja2", "snakemake", "dvc", "tensorboard", "wandb", "imageio_ffmpeg", "mpe2"):
    sys.modules[name] = None  # not installed
from fp3o.cli import main
main(["train", "matrix/climbing/full/mappo", "--seeds", "0", "--set", "total_steps=512", "--out", sys.argv[1]])
"""


def test_training_needs_no_drawing_and_no_workflow(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", TRAIN, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "matrix/climbing/full/mappo: " in done.stdout
    required = {re.split(r"[^\w-]", line)[0] for line in PROJECT["dependencies"]}
    assert not required & {"matplotlib", "bokeh", "snakemake", "dvc"}


@pytest.mark.parametrize("module", ["paper_figures", "fp3o.report"])
def test_figures_without_their_packages_are_one_line(tmp_path: Path, module: str) -> None:
    hidden = "import sys; sys.modules['matplotlib'] = sys.modules['bokeh'] = None; import runpy; sys.argv[0] = 'x'; "
    command = [sys.executable, "-c", f"{hidden}runpy.run_module({module!r}, run_name='__main__')"]
    more = ("--suite", "smoke", "--runs", str(tmp_path), "--out", str(tmp_path / "x"))
    artefact = ("--artefact", "figure-quick") if module == "paper_figures" else ()
    done = subprocess.run([*command, *more, *artefact], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    advice = "pip install bokeh matplotlib"
    assert done.stderr == f"figures and the report need packages that are not here: {advice}\n"


def test_our_own_missing_modules_keep_their_traceback() -> None:
    def main() -> None:
        raise ModuleNotFoundError("No module named 'ours'", name="ours")

    with pytest.raises(ModuleNotFoundError, match="ours"):
        as_command(main)


def test_the_container_has_a_python_that_is_promised() -> None:
    text = (ROOT / "Dockerfile").read_text()
    [version] = re.findall(r"^FROM python:([\d.]+)-slim$", text, re.MULTILINE)
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert re.findall(r"^RUN make (\S+)$", text, re.MULTILINE) == ["setup"]


def test_the_container_does_not_run_as_root() -> None:
    """Nor is it set up by root: the user must be able to write compiled kernels beside the sources."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert users[-1] not in ("root", "0")
    assert lines.index(f"USER {users[-1]}") < lines.index("RUN make setup")
    assert f"COPY --chown={users[-1]} . ." in lines


def test_every_extra_is_named_for_readers() -> None:
    readme = (ROOT / "README.md").read_text()
    named = set(re.findall(r"'\.\[(\w+)\]'", readme))
    assert named <= set(PROJECT["optional-dependencies"])
    assert {"figures", "workflow", "envs"} <= named
