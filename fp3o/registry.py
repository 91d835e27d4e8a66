"""The algorithms, environments, networks and metrics that cells can name, as data: the package's own and those of
plug-ins.

`@fp3o.algorithm` and its like (fp3o/config/declare.py) fill the tables. Modules with
declarations are loaded by name, so that this one imports nothing above it: fp3o/algorithms, entry points of installed
packages (group `fp3o.plugins`), and files of the user's.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from fp3o.errors import UserError
from fp3o.fields import Declared, Scalar, declared, meanings
from fp3o.source_files import source_digest


@dataclass(frozen=True)
class Setting:
    """A setting that an algorithm brings along: read as `context.settings.<name>`, set by --set, part of the digest."""

    default: Scalar
    """A number, true or false, or a text; whole numbers stay whole."""
    meaning: str = ""
    """For --help and `fp3o list settings`."""
    least: float = -1e38
    greatest: float = 1e38


@dataclass(frozen=True, eq=False)
class Algorithm:
    """A generator of turns and everything else there is to know about it."""

    turns: Callable[[Any], Iterator[Any]]
    title: str
    colour: str
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    """Values of settings, where they differ from each task's."""
    own: type[Any] | None = None
    """A dataclass of the settings that not all algorithms read …"""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """… and what those of a plug-in are; others have it in the source."""
    critic_input: Literal["state", "observation"] = "state"
    """What each agent's critic sees: the environment's state, or the agent's own observation."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """What it keeps from one iteration to the next, as of the first: numbers, lists, or functions of the number of
    agents that return them; for each seed."""
    check: Callable[[Any, str, int], str] | None = None
    """Given settings, sharing and number of agents (0: not known yet), why they do not fit; "" if they do."""
    file: str = ""
    """Of a plug-in: the file that declares it, or "a notebook"."""
    digest: str = ""
    """Of a plug-in: digest of its source, 16 hexadecimal digits; part of the digest of its runs."""


@dataclass(frozen=True)
class Environment:
    """A PettingZoo environment that can be used by name."""

    factory: str
    """`module:factory`, or `<file>.py:factory`: from where worker processes import it."""
    package: str = ""
    """Its name for pip."""
    arguments: Mapping[str, Scalar] = field(default_factory=dict)
    """Keyword arguments of the factory."""
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    options: Mapping[str, Scalar] = field(default_factory=dict)
    file: str = ""
    digest: str = ""
    """Settings, file and digest are as of an Algorithm; options are those of the domain pettingzoo."""


@dataclass(frozen=True, eq=False)
class Network:
    """Networks of a plug-in: classes of torch.nn.Module that are built with `fp3o.Inputs` and the settings."""

    actor: type[Any]
    critic: type[Any]
    file: str = ""
    digest: str = ""
    """As of an Algorithm."""


@dataclass(frozen=True, eq=False)
class Metric:
    """A plug-in's number of an episode: a function of the rewards and infos of its steps, each by agent."""

    function: Callable[[dict[str, list[float]], dict[str, list[dict[str, Any]]]], float | None]
    module: str
    """From where worker processes import it: a name, or a path that ends with .py."""
    file: str = ""
    digest: str = ""
    """As of an Algorithm."""


STANDARD = "standard"
"""The networks of the paper, which no plug-in declares."""

ALGORITHMS: dict[str, Algorithm] = {}
NETWORKS: dict[str, Network] = {}
METRICS: dict[str, Metric] = {}
ENVIRONMENTS: dict[str, Environment] = {
    "simple-spread": Environment("mpe2.simple_spread_v3:parallel_env", "mpe2"),
    "simple-reference": Environment("mpe2.simple_reference_v3:parallel_env", "mpe2"),
    "simple-speaker-listener": Environment("mpe2.simple_speaker_listener_v4:parallel_env", "mpe2"),
    "multiwalker": Environment("pettingzoo.sisl.multiwalker_v9:parallel_env", "pettingzoo[sisl]"),
    "pursuit": Environment("pettingzoo.sisl.pursuit_v5:parallel_env", "pettingzoo[sisl]"),
    **{
        f"mamujoco-{scenario.lower()}-{partition}": Environment(
            "gymnasium_robotics:mamujoco_v1.parallel_env",
            "gymnasium-robotics",
            {"scenario": scenario, "agent_conf": partition},
        )
        for scenario, partition in (
            ("HalfCheetah", "6x1"),
            ("HalfCheetah", "2x3"),
            ("Ant", "2x4"),
            ("Ant", "4x2"),
            ("Walker2d", "2x3"),
            ("Hopper", "3x1"),
            ("Reacher", "2x1"),
        )
    },
}

SHIPPED_ENVIRONMENTS = len(ENVIRONMENTS)


def algorithms() -> Mapping[str, Algorithm]:
    """All declared algorithms, by name."""
    if _WAITING:
        _load(_WAITING.pop())
    return ALGORITHMS


def readers(setting: str) -> tuple[str, ...]:
    """The algorithms that have a setting of this name for their own."""
    return tuple(name for name, one in algorithms().items() if one.own and setting in declared(one.own))


def own_settings(algorithm: str) -> dict[str, tuple[Declared, str]]:
    """An algorithm's own settings and what they mean."""
    entry = algorithms()[algorithm]
    if entry.own is None:
        return {}
    texts = entry.meanings or meanings(entry.own)
    return {name: (field, texts[name]) for name, field in declared(entry.own).items()}


def networks() -> tuple[str, ...]:
    """The names of all networks."""
    algorithms()  # loads installed plug-ins
    return (STANDARD, *NETWORKS)


def metrics() -> Mapping[str, Metric]:
    """All declared metrics, by name."""
    algorithms()  # loads installed plug-ins
    return METRICS


def digests(algorithm: str, environment: str, network: str, metrics: Iterable[str] = ()) -> dict[str, str]:
    """Source digests of the plug-ins that a run uses, by what they are; empty if it uses none."""
    used: dict[str, Algorithm | Environment | Network | Metric | None] = {
        "algorithm": ALGORITHMS.get(algorithm),
        "environment": ENVIRONMENTS.get(environment),
        "network": NETWORKS.get(network),
        **{f"metric {name}": METRICS.get(name) for name in metrics},
    }
    return {kind: one.digest for kind, one in used.items() if one and one.digest}


# --- Plug-ins -------------------------------------------------------------------------------------------------------

_LOADED: dict[Path, tuple[str, ModuleType]] = {}  # by file: digest of the source that was run, module
_WAITING = ["fp3o.plugins"]  # entry points to load at the first question; empty while they are, for plug-ins ask too


def _load(group: str) -> None:
    """Import the package's algorithms, then installed plug-ins. One that fails is left out, with a line on stderr."""
    importlib.import_module("fp3o.algorithms")
    for entry in metadata.entry_points(group=group):
        try:
            entry.load()
        except (Exception, SystemExit) as error:
            package = entry.dist.name if entry.dist else "a package"
            print(f"fp3o: plug-in {entry.name} of {package} is left out: {failure(error)}", file=sys.stderr)


def load_file(path: str | Path, where: str = "") -> ModuleType:
    """Run a file that declares algorithms or environments; again only if its source has changed.

    where: what named the file (such as --import), for messages.
    """
    given = Path(path)
    place = f"{where} {given}".strip()
    if given.suffix != ".py":
        raise UserError(f"{place}: a plug-in is a Python file; allowed: a path that ends with .py")
    if not given.is_file():
        raise UserError(f"{place}: there is no such file")
    file = given.resolve()
    digest = source_digest(file)
    if file in _LOADED and _LOADED[file][0] == digest:
        return _LOADED[file][1]
    name = f"fp3o_plugin_{file.stem}"
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) != str(file):
        name = f"{name}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # It may import modules beside it; last, so that none hides an installed one.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{place} cannot be imported: {failure(error, file)}") from error
    _LOADED[file] = (digest, module)
    return module


def failure(error: BaseException, file: Path | None = None) -> str:
    """An exception as one line of text, with the last line number in `file` that its traceback has."""
    text = " ".join(str(error).split())
    if isinstance(error, UserError):
        return text
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, SyntaxError):
        return said  # Its text has file and line already.
    frames = traceback.extract_tb(error.__traceback__) if file else ()
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f"{said} (line {lines[-1]})" if lines else said
