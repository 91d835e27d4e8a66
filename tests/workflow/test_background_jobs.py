"""Which processes are asked to stop with a sweep."""

from __future__ import annotations

import signal
import subprocess
import sys

# Shells with a command each, as Snakemake's jobs have; `exit $?` keeps a shell from becoming its last command.
SWEEP = """
import os, psutil, signal, subprocess, sys
from fp3o.workflow import stopping

def shell(command):
    return subprocess.Popen(["sh", "-c", f"{command}; exit $?"], stdout=subprocess.PIPE, text=True)

deaf = "import signal, time; signal.signal(signal.SIGUSR1, lambda number, _: signal.signal(number, signal.SIG_DFL));"
deaf += "print(flush=True); time.sleep(60)"
stopping.AGAIN = 0.5
signal.signal(signal.SIGTERM, lambda *_: None)
inherited = shell("sleep 60")
stopping.Stopping().start()
job, ignores_the_first = shell("sleep 60"), shell(f"{sys.executable} -c '{deaf}'")
ignores_the_first.stdout.readline()
os.kill(os.getpid(), signal.SIGTERM)
print(job.wait(30), ignores_the_first.wait(30))
try:
    print(inherited.wait(1))
except subprocess.TimeoutExpired:
    print("goes on")
    for process in (*psutil.Process(inherited.pid).children(), inherited):
        process.kill()
"""


def test_only_jobs_are_asked_and_again() -> None:
    """What a script had in the background when it became Snakemake (`monitor & exec snakemake`) is left alone."""
    done = subprocess.run([sys.executable, "-c", SWEEP], capture_output=True, text=True, timeout=60, check=True)
    code = str(128 + signal.SIGUSR1)
    assert done.stdout.splitlines() == [f"{code} {code}", "goes on"]
