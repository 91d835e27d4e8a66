"""`fp3o doctor`, `fp3o check-env` and `fp3o check-algorithm`."""

from __future__ import annotations

from typing import Annotated

from tyro.conf import Positional, arg

from fp3o.cli.arguments import Imports, find_local_modules


def doctor() -> int:
    """Check this machine: what is there, what is missing, and how to get it."""
    from fp3o.doctor import examine, report

    checks = examine()
    print(report(checks))
    return 1 if any(check.required and not check.found for check in checks) else 0


def check_env(
    factory: Annotated[
        Positional[str], arg(metavar="MODULE:FACTORY", help="Import path of a function returning a ParallelEnv.")
    ],
    *,
    env_args: Annotated[
        str, arg(metavar="NAME=VALUE,…", help="What the factory is called with; in training --set env_args=….")
    ] = "",
    import_: Imports = (),
) -> int:
    """Check whether a PettingZoo environment can be trained on, and say what does not fit."""
    find_local_modules()
    from fp3o.envs.pettingzoo import check

    report = check(factory, env_args)
    print("\n".join(report.lines))
    return 0 if report.fits else 1


def check_algorithm(
    algorithm: Annotated[
        Positional[str], arg(metavar="FILE.py:NAME", help="An algorithm of a plug-in, or one that is known by name.")
    ],
    *,
    import_: Imports = (),
) -> int:
    """Check an algorithm on tiny games, which it is trained on for half a minute, and say what holds."""
    from fp3o.checks.algorithm import check, lines, name_of

    return 0 if lines(check(name_of(algorithm)), lambda line: print(line, flush=True)) else 1
