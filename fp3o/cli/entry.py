"""The entry point: which command is called, and how it ends."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence

import tyro
from tyro.extras import subcommand_cli_from_dict

from fp3o.cli.arguments import load_imports
from fp3o.cli.check_smac import check_smac
from fp3o.cli.checks import check_algorithm, check_env, doctor
from fp3o.cli.compare import compare
from fp3o.cli.continue_ import continue_
from fp3o.cli.evaluate import evaluate
from fp3o.cli.listing import list_names
from fp3o.cli.next_ import next_
from fp3o.cli.out_of_memory import full_gpu, full_memory
from fp3o.cli.output import guarded_output
from fp3o.cli.plot import plot
from fp3o.cli.render import render
from fp3o.cli.robustness import robustness
from fp3o.cli.show import show
from fp3o.cli.storing import merge, pack, prune, pull, save, unpack
from fp3o.cli.suites import new_suite, snakefile
from fp3o.cli.sweep import rerun, status
from fp3o.cli.train import train
from fp3o.errors import UserError, unknown
from fp3o.runs.atomic import disk_trouble
from fp3o.runs.interrupt import Interrupt

ABOUT = "Reproduce the FP3O paper: train, evaluate and compare its cells. `fp3o --version` says which this is."

# In the order of `fp3o --help`.
COMMANDS: dict[str, Callable[..., int]] = {
    "train": train,
    "continue": continue_,
    "evaluate": evaluate,
    "compare": compare,
    "plot": plot,
    "render": render,
    "show": show,
    "list": list_names,
    "doctor": doctor,
    "check-env": check_env,
    "check-smac": check_smac,
    "check-algorithm": check_algorithm,
    "new-suite": new_suite,
    "snakefile": snakefile,
    "status": status,
    "robustness": robustness,
    "next": next_,
    "rerun": rerun,
    "save": save,
    "pull": pull,
    "merge": merge,
    "pack": pack,
    "unpack": unpack,
    "prune": prune,
}
WORKS = (["train"], ["continue"])
"""Commands that go on when nobody reads what they say: their exit code tells how the training went."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: a mistake of the user, or a full disk or GPU, is exit code 2; an interruption 128 + signal."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    code: int | None
    try:
        works = given[:1] in WORKS and not {"-h", "--help"} & {*given}
        with Interrupt("stopped"), guarded_output(survives=works):
            load_imports(given)
            code = run(given)
    except UserError as error:
        print(f"fp3o: {' '.join(str(error).split())}", file=sys.stderr)
        code = 2
    except BrokenPipeError:
        # The reader of the pipe (head, less) has gone. Without this, Python complains again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt as error:
        print(f"fp3o: {error or 'stopped'}", file=sys.stderr)
        code = getattr(error, "exit_code", 128 + signal.SIGINT)
    except Exception as error:
        code = getattr(error, "exit_code", None)
        resume = f"resume with: {shlex.join(['fp3o', *given])}"
        if code is not None:
            print(f"fp3o: {error}\n{resume}", file=sys.stderr)
        elif full := full_gpu(error) or full_memory(error):
            print(f"fp3o: {full}\n{resume}", file=sys.stderr)
            code = 2
        elif trouble := disk_trouble(error):
            print(f"fp3o: {trouble}", file=sys.stderr)
            code = 2
        else:
            raise
    sys.exit(code)


def run(given: Sequence[str]) -> int:
    """Parse the command line and call the command; to be quick, builds only the parser of that command."""
    code: int
    config = (tyro.conf.FlagCreatePairsOff,)
    if given and given[0] not in COMMANDS and not given[0].startswith("-"):
        raise unknown("command", given[0], COMMANDS)
    if given and given[0] in COMMANDS:
        code = tyro.cli(COMMANDS[given[0]], prog=f"fp3o {given[0]}", args=given[1:], config=config)
    else:
        code = subcommand_cli_from_dict(COMMANDS, prog="fp3o", description=ABOUT, args=given, config=config)
    return code
