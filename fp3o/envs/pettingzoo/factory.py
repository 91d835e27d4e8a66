"""From `module:factory` or a known name to a function that builds a ParallelEnv."""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from fp3o.envs.pettingzoo.spaces import Unfit
from fp3o.envs.pettingzoo.tuples import as_parallel, has_tuples
from fp3o.errors import UserError
from fp3o.registry import ENVIRONMENTS, failure, load_file


def parse_arguments(text: str) -> dict[str, Any]:
    """Keyword arguments from `name=value,name=value`, or from a JSON object (for lists, or text with commas)."""
    try:
        if text.lstrip().startswith("{"):
            return dict(json.loads(text))
        pairs = [pair.partition("=") for pair in text.split(",") if text]
        if all(name.strip().isidentifier() and equals for name, equals, _ in pairs):
            return {name.strip(): _value(value) for name, _, value in pairs}
    except ValueError:
        pass  # invalid JSON
    raise UserError(f"env_args = {text!r} is not understood; allowed: name=value,name=value or a JSON object")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def located(env: str) -> str:
    """How another process locates the environment: for a plug-in, by its file and factory."""
    return ENVIRONMENTS[env].factory if env in ENVIRONMENTS and ENVIRONMENTS[env].file else env


def load_factory(env: str, given: Mapping[str, Any]) -> Callable[[], Any]:
    """The function that `env` (`module:factory` or a known name) stands for, with these arguments bound."""
    known = ENVIRONMENTS.get(env)
    location, arguments = (known.factory, {**known.arguments, **given}) if known else (env, given)
    module_name, _, names = location.rpartition(":")
    if not module_name or not names:
        raise Unfit(f"{env!r} is not of the form module:factory; known by name: {', '.join(ENVIRONMENTS)}")
    try:
        target = load_module(module_name)
    except Exception as error:
        advice = f"; pip install '{known.package}'" if known and isinstance(error, ImportError) else ""
        raise Unfit(f"module {module_name!r} cannot be imported: {failure(error)}{advice}") from error
    if not module_name.endswith(".py"):
        _check_not_hidden(module_name.partition(".")[0])
    for name in names.split("."):
        if not hasattr(target, name):
            close = difflib.get_close_matches(name, [n for n in vars(target) if not n.startswith("_")])
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise Unfit(f"module {module_name!r} has no {names!r}{hint}")
        target = getattr(target, name)
    if not callable(target):
        raise Unfit(f"{names!r} in module {module_name!r} is no function")
    return functools.partial(target, **arguments)


def load_module(name: str) -> ModuleType:
    """By its name, or by the path of its file."""
    return load_file(name) if name.endswith(".py") else importlib.import_module(name)


def _check_not_hidden(module_name: str) -> None:
    """Unfit if a file in the current folder, which the user may mean, has the name of the imported module."""
    taken = getattr(sys.modules[module_name], "__file__", None)
    for own in (Path(f"{module_name}.py"), Path(module_name, "__init__.py")):
        if own.is_file() and (taken is None or not own.samefile(taken)):
            raise Unfit(f"{own} has the name of an installed module ({taken or 'built in'}); give it another")


def build(factory: Callable[[], Any]) -> Any:
    """Call the factory; Unfit unless it returns a ParallelEnv, or a Gymnasium environment with tuples of agents."""
    try:
        env = factory()
    except Exception as error:
        raise Unfit(f"the factory fails: {failure(error)}") from error
    if has_tuples(env):
        env = as_parallel(env)
    missing = [name for name in ("reset", "step", "observation_space", "action_space") if not hasattr(env, name)]
    if missing:
        raise Unfit(f"the factory returns a {type(env).__name__}, no ParallelEnv: it has no {', '.join(missing)}")
    if hasattr(env, "agent_selection") or hasattr(env, "agent_iter"):
        raise Unfit(
            "the factory returns an AEC environment (agents take turns); "
            "return its parallel_env, or wrap it: pettingzoo.utils.aec_to_parallel(env), "
            "or turn_based_aec_to_parallel(env) where they really move one after the other"
        )
    return env


def module_digest(env: str) -> dict[str, str]:
    """Digest of the file that contains the factory, as `source_sha256`; empty if it is in none."""
    source = load_module(_module(env)).__file__
    return {"source_sha256": hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16]} if source else {}


def versions(env: str) -> dict[str, str]:
    """Versions of the packages that an environment comes from and runs on."""
    name = _module(env)
    used = ["pettingzoo", "gymnasium"]
    used += [] if name.endswith(".py") else _distributions().get(name.partition(".")[0], [])
    return {package: metadata.version(package) for package in used}


# Reads the list of files of every installed package: half a second.
_distributions = functools.cache(metadata.packages_distributions)


def _module(env: str) -> str:
    known = ENVIRONMENTS.get(env)
    return (known.factory if known else env).rpartition(":")[0]
