"""`fp3o check-env module:factory`: whether a user-supplied environment can be trained on, and what is wrong with it."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from dataclasses import dataclass

from fp3o.envs.pettingzoo.child import Child
from fp3o.envs.pettingzoo.factory import located, parse_arguments
from fp3o.registry import ENVIRONMENTS

SECONDS = 120.0
# The last line of a complete examination. Without it the process ended halfway, even if its exit status says success.
END = ["end", ""]


@dataclass(frozen=True)
class Report:
    """The findings, one line each (starting with yes, no or note); the last line is the conclusion."""

    fits: bool
    lines: tuple[str, ...]


def check(env: str, arguments: str = "", seconds: float = SECONDS) -> Report:
    """Try the environment in a process of its own: a crash or a hang is a finding like any other."""
    told = json.dumps({"env": located(env), "arguments": parse_arguments(arguments), "path": sys.path})
    with tempfile.TemporaryFile() as output:
        child = Child("fp3o.envs.pettingzoo.examine", told, output=output)
        try:
            code = child.wait(seconds)
        finally:
            child.end()
        output.seek(0)
        findings = [json.loads(line) for line in output.read().splitlines()]
    trouble = None
    if code is None:
        trouble = f"it has not responded for {seconds:g} s: it hangs"
    elif code:
        trouble = f"its process died, {child.exit_message()}"
    elif findings[-1:] != [END]:
        trouble = f"its process exited early, {child.exit_message()}"
    else:
        findings.pop()
    if trouble is not None:
        findings.append(["no", trouble])
    fits = bool(findings) and all(verdict != "no" for verdict, _ in findings)
    cell = f"{env}/full/fp3o" if env in ENVIRONMENTS else f"my-game/full/fp3o --set env={env}"
    if env in ENVIRONMENTS and ENVIRONMENTS[env].file:
        cell += f" --import {os.path.relpath(ENVIRONMENTS[env].file)}"
    elif (file := env.rpartition(":")[0]).endswith(".py"):
        cell = f"my-game/full/fp3o --import {file}, with @fp3o.environment('my-game') above it"
    if arguments:
        cell += f" --set {shlex.quote(f'env_args={arguments}')}"
    conclusion = (
        f"It fits: fp3o train pettingzoo/{cell}"
        if fits
        else "It does not fit; the line marked `no` says what to change."
    )
    return Report(fits, (*(f"{verdict + ':':5} {text}" for verdict, text in findings), conclusion))
