"""Which processes are asked to stop with a sweep."""

from __future__ import annotations

import signal
import subprocess
import sys

# Shells with a command each, as Snakemake's jobs have; `exit $?` keeps a shell from becoming its last command.
SWEEP = """
import os, psutil, signal, subprocess
from fp3o.workflow.stopping import Stopping

def shell():
    return subprocess.Popen(["sh", "-c", "sleep 60; exit $?"])

signal.signal(signal.SIGTERM, lambda *_: None)
inherited = shell()
Stopping().start()
job = shell()
os.kill(os.getpid(), signal.SIGTERM)
print(job.wait(30))
try:
    print(inherited.wait(1))
except subprocess.TimeoutExpired:
    print("goes on")
    for process in (*psutil.Process(inherited.pid).children(), inherited):
        process.kill()
"""


def test_only_jobs_are_asked() -> None:
    """What a script had in the background when it became Snakemake (`monitor & exec snakemake`) is left alone."""
    done = subprocess.run([sys.executable, "-c", SWEEP], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [str(128 + signal.SIGUSR1), "goes on"]
