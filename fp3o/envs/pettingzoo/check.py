"""`fp3o check-env module:factory`: what of a stranger's environment fits, in plain words."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from fp3o.envs.options import KNOWN_ENVIRONMENTS
from fp3o.envs.pettingzoo.child import child_command, child_environment, how_it_ended

SECONDS = 120.0


@dataclass(frozen=True)
class Report:
    """The findings, one line each (yes, no or note), and the conclusion as the last line."""

    fits: bool
    lines: tuple[str, ...]


def check(env: str, seconds: float = SECONDS) -> Report:
    """Try the environment out in a process of its own; a crash or a hang is a finding like any other."""
    command = child_command("fp3o.envs.pettingzoo.examine", env, json.dumps(sys.path))
    trouble = None
    try:
        done = subprocess.run(
            command,
            env=child_environment(),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
        output = done.stdout
        if done.returncode:
            trouble = f"its process dies, {how_it_ended(done.returncode, done.stderr)}"
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        trouble = f"it has not come back for {seconds:g} s: it hangs"
    findings = [json.loads(line) for line in output.decode().splitlines()]
    if trouble is not None:
        findings.append(["no", trouble])
    fits = bool(findings) and all(verdict != "no" for verdict, _ in findings)
    cell = f"{env}/full/fp3o" if env in KNOWN_ENVIRONMENTS else f"my-game/full/fp3o --set env={env}"
    conclusion = (
        f"It fits: fp3o train pettingzoo/{cell}"
        if fits
        else "It does not fit; the line marked `no` says what to change."
    )
    return Report(fits, (*(f"{verdict + ':':5} {text}" for verdict, text in findings), conclusion))
