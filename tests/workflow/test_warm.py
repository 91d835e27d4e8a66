"""Commands started warm are the commands: arguments, folder, environment, streams, exit code, the checkout's code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness import Checkout
from warm import warm_commands

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are started warm on Linux alone")


@pytest.fixture
def place(tmp_path: Path) -> Checkout:
    """A folder with a package of the name of ours."""
    (tmp_path / "fp3o").mkdir()
    (tmp_path / "fp3o" / "__init__.py").write_text("")
    code = "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['WORD'], flush=True)"
    (tmp_path / "fp3o" / "said.py").write_text(f"{code}\nprint('bad', file=sys.stderr)\nsys.exit(7)\n")
    return Checkout(tmp_path, {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)})


def test_a_module_is_run_as_python_would(place: Checkout) -> None:
    arguments = ("-m", "fp3o.said", "a b", "$HOME", "")
    warm = place.run("python", *arguments, check=False, WORD="ö")
    assert (warm.returncode, warm.stdout) == (7, f"['a b', '$HOME', ''] {place.path} ö\nbad\n")
    plain = place.run(sys.executable, *arguments, check=False, WORD="ö")
    assert (plain.returncode, plain.stdout) == (warm.returncode, warm.stdout)


def test_what_goes_wrong_is_seen(place: Checkout) -> None:
    failed = place.run("python", "-c", "raise ValueError('no')", check=False)
    assert failed.returncode == 1
    assert "ValueError: no" in failed.stdout
    left = place.run("python", "-c", "import sys; sys.exit('in words')", check=False)
    assert (left.returncode, left.stdout) == (1, "in words\n")


def test_a_signal_reaches_the_command_and_its_end_the_caller(place: Checkout) -> None:
    folder = warm_commands()
    assert folder is not None
    code = "import time; print('begun', flush=True); time.sleep(60)"
    command = [str(folder / "python"), "-c", code]
    with subprocess.Popen(command, env=place.environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
