"""Commands without their start: each is a fork of a process that has imported what the command would import.

A test of the workflow calls dozens of Python programs, and most of their time goes into importing Snakemake, Matplotlib
or SciPy. Here `python`, `snakemake`, `fp3o` and `dvc` are commands of a folder that is put first in PATH; each asks the
server below for a fork. Arguments, environment, folder, streams and exit code are the command's own, and so is all code
of the checkout: only packages of others are imported beforehand. What a test kills it starts without this.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

COMMANDS = ("python", "snakemake", "fp3o", "dvc")
_CONFIGURATION = ("yaml", "jsonschema", "numpy")
_NUMBERS = (*_CONFIGURATION, "numpy.random", "scipy.stats", "scipy.special")
_SNAKEMAKE = ("cli", "api", "profiles", "executors.local", "report.html_reporter", "storage")
_DVC = ("cli.parser", "data_cloud", "repo.open_repo", "repo.plots", "scm")
# What a program imports of other packages, imported before its first fork; what is not listed it imports itself.
IMPORTED: Mapping[str, Sequence[str]] = {
    "snakemake": (*_CONFIGURATION, "smart_open", "yte", *(f"snakemake.{name}" for name in _SNAKEMAKE)),
    "dvc": tuple(f"dvc.{name}" for name in _DVC),
    "fp3o": (*_CONFIGURATION, "tyro.extras", "typeguard", "rich.console"),
    "fp3o.workflow.manifest": _CONFIGURATION,
    "fp3o.workflow.cost": _CONFIGURATION,
    "fp3o.statistics.cost": _CONFIGURATION,
    "fp3o.statistics.tables": _NUMBERS,
    "fp3o.statistics.facts": (*_NUMBERS, "torch"),
    "fp3o.statistics.curves": _NUMBERS,
    "fp3o.statistics.scorecard": _NUMBERS,
    "fp3o.statistics.export": _NUMBERS,
    "fp3o.report": (*_NUMBERS, "torch", "jinja2", "bokeh.embed", "bokeh.plotting", "bokeh.resources"),
    "paper_figures": (*_NUMBERS, "matplotlib.pyplot", "matplotlib.backends.backend_pdf"),
}


# --- the side of the tests


class Warm:
    """The server of this process, and the folder of its commands."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="fp3o-warm-"))
        self.folder = self.home / "bin"
        self.folder.mkdir()
        ready, written = os.pipe()
        # Ends with us: nobody else writes to its standard input.
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(self.home / "socket"), str(written), str(self.folder)],
            stdin=subprocess.PIPE,
            pass_fds=[written],
            start_new_session=True,
        )
        os.close(written)
        assert os.read(ready, 1), "the server of warm commands did not start"
        os.close(ready)
        client = Path(__file__).with_name("warm_client.py")
        for name in COMMANDS:
            command = self.folder / name
            ask = f'exec "{sys.executable}" -IS "{client}" "{self.home / "socket"}" {name} "$@"'
            if name == "python":  # With other options it starts as ever: such processes are given open files, too.
                ask = f'case "$1" in -m|-c) {ask};; *) exec "{sys.executable}" "$@";; esac'
            command.write_text(f"#!/bin/sh\n{ask}\n")
            command.chmod(0o755)
        atexit.register(self.close)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


@functools.cache
def warm_commands() -> Path | None:
    """The folder of this process's warm commands; None where processes with loaded packages do not fork well."""
    return Warm().folder if sys.platform == "linux" else None


# --- the side of the server


def program(arguments: Sequence[str]) -> str:
    """What is run: a command's name, or the module after `python -m`."""
    return arguments[2] if arguments[:2] == ["python", "-m"] and len(arguments) > 2 else arguments[0]


def run(arguments: list[str], folder: str) -> None:
    """What Python would do with these arguments in a process of its own."""
    name, *rest = arguments
    path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [*path, *PACKAGES]
    sys.executable = str(Path(folder) / "python")
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    if name != "python":
        places = [place for place in os.environ["PATH"].split(os.pathsep) if place != folder]
        script = shutil.which(name, path=os.pathsep.join(places))
        assert script is not None, name
        sys.argv = [script, *rest]
        sys.path.insert(0, str(Path(script).parent))
        runpy.run_path(script, run_name="__main__")
    elif rest[:1] == ["-m"]:
        sys.argv = rest[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
    else:
        assert rest[0] == "-c", rest
        sys.argv = ["-c", *rest[2:]]
        sys.path.insert(0, "")
        exec(compile(rest[1], "<string>", "exec"), main.__dict__)


PACKAGES = sys.path[1:]


def become(request: Mapping[str, object], descriptors: Sequence[int], folder: str) -> NoReturn:
    """In the fork: the command, to its end."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    os.chdir(str(request["cwd"]))
    tempfile.tempdir = None
    code = 0
    try:
        run(list(request["arguments"]), folder)  # type: ignore[call-overload]
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else left.code is not None
        if left.code is not None and not isinstance(left.code, int):
            print(left.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def received(connection: socket.socket) -> tuple[dict[str, object], list[int]]:
    """A request and the streams that came with it."""
    length, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    text = bytearray()
    while len(text) < int.from_bytes(length, "little"):
        text += connection.recv(1 << 20)
    return json.loads(text), descriptors


def serve(address: str, ready: int, folder: str) -> None:
    """Fork for every request and answer with the process's number, then with how it ended, until our parent is gone."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    ended, woken = os.pipe()
    for descriptor in (ended, woken):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.write(ready, b"1")
    os.close(ready)
    selector = selectors.DefaultSelector()
    for source in (listening.fileno(), ended, 0):
        selector.register(source, selectors.EVENT_READ)
    running: dict[int, socket.socket] = {}
    while True:
        for key, _ in selector.select():
            if key.fd == 0:
                for process in running:
                    os.kill(process, signal.SIGKILL)
                return
            if key.fd == ended:
                os.read(ended, 4096)
                while running:
                    process, status = os.waitpid(-1, os.WNOHANG)
                    if not process:
                        break
                    with running.pop(process) as connection, _gone():
                        connection.sendall(status.to_bytes(4, "little"))
                continue
            connection, _ = listening.accept()
            request, descriptors = received(connection)
            for name in IMPORTED.get(program(list(request["arguments"])), ()):  # type: ignore[call-overload]
                importlib.import_module(name)
            gc.freeze()
            process = os.fork()
            if not process:
                for other in (listening, connection, *running.values()):
                    other.close()
                os.close(ended)
                os.close(woken)
                become(request, descriptors, folder)
            for descriptor in descriptors:
                os.close(descriptor)
            running[process] = connection
            with _gone():
                connection.sendall(process.to_bytes(4, "little"))


def _gone() -> contextlib.suppress:
    """A client that does not wait any more is no error."""
    return contextlib.suppress(BrokenPipeError)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
