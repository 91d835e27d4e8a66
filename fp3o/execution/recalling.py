"""Which program a call needs, noted in the cache: the next process finds it without tracing."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fp3o.execution.allocator import no_garbage_collection
from fp3o.execution.call_signature import Inputs
from fp3o.execution.check_against_eager import compared
from fp3o.execution.program_cache import cache_folder, conditions, digest, load, nested, tell
from fp3o.runs.atomic import write_atomically

STARTED, STARTING = time.time(), 30.0  # when this module was imported, and how long the process had been there at most


def recalled(inputs: Inputs) -> Callable[..., Any] | None:
    """The program for these inputs, if one was noted, without tracing: four of 3s5z's took 1.4 s."""
    place = _note(inputs)
    if place is None or not place.exists():
        return None
    tell()
    with contextlib.suppress(Exception):  # damaged: it is traced, and made again if need be
        kept, example = pickle.loads(place.read_bytes())
        with torch.no_grad(), no_garbage_collection():
            return nested(load(place.with_name(kept)), pytree.tree_structure(example))
    return None


def note(inputs: Inputs, kept: Path | None, outputs: pytree.TreeSpec) -> None:
    """Remember which program these inputs need: the kept one, whose outputs are nested like this."""
    place = _note(inputs)
    if place is not None and kept is not None and kept.exists():
        # torch warns of the description of a nesting when that is read again; of an example it does not.
        example = pytree.tree_unflatten(range(outputs.num_leaves), outputs)
        with contextlib.suppress(OSError, pickle.PicklingError, TypeError, AttributeError):
            write_atomically(place, pickle.dumps((kept.name, example)))


def _note(inputs: Inputs) -> Path | None:
    """Where that is remembered; None: nowhere. Not of programs that are compared with what they were made from."""
    folder = cache_folder()
    if folder is None or compared(inputs.tensors) or (name := _name(inputs)) is None:
        return None
    return folder / f"note-{digest(name)}"


def _name(inputs: Inputs) -> str | None:
    """All that tracing depends on, without tracing: our code, the method, its object's `traits` and what it is called
    with. None if that is not known: the object does not say which of its attributes matter, or our code was changed
    when this process had perhaps been started."""
    if inputs.traits is None or code() is None:
        return None
    traits = {name: getattr(inputs.object, name) for name in inputs.traits}
    method = f"{inputs.function.__module__}.{inputs.function.__qualname__} of {type(inputs.object)}"
    return f"{code()}{method}{traits}{inputs.key}{conditions(inputs.tensors)}"


@functools.cache
def code() -> str | None:
    """A digest of our sources; None if one is not older than this process, which may have read the one before it."""
    package, sources = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        try:
            sources.update(path.read_bytes())
            changed = path.stat().st_mtime
        except OSError:  # editors' links to nothing
            continue
        if changed > STARTED - STARTING:
            return None
    return sources.hexdigest()
