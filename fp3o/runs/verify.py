"""Checks that a finished run is unaltered; every table, figure, summary and resumed command reads runs through it.

run.json says what was run and has a checksum of every file. A run is accepted only if run.json names the folder it is
in, its digest is that of its settings, and the files have the checksums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fp3o.config.resolve import digest_of
from fp3o.errors import UserError, more_said
from fp3o.runs import compressed, records
from fp3o.runs.layout import RunId


def remedy(folder: Path) -> str:
    """How to replace a damaged run: the end of every message here."""
    return f"delete {folder}, then `fp3o pull` it or train it again"


def read_verified(folder: Path, expected: RunId | None = None, files: Iterable[str] | None = None) -> dict[str, Any]:
    """run.json of a folder, after checking that its files (all, or `files`) are unaltered; UserError otherwise.

    expected: the run that the folder must contain; None: any. Of a run saved without checkpoint, all is all but that.
    """
    path = folder / records.RUN
    with more_said(after=f"; {remedy(folder)}"):
        document = records.read_run(path)
        for name, value in (expected or RunId.of(document))._asdict().items():
            if document[name] != value:
                raise UserError(f"{path} is another run: its {name} is {document[name]}, not {value}")
        named = ("protocol", "revision", "cell", "settings", "options", "plugins")
        if digest_of({name: document[name] for name in named if name in document}) != document["digest"]:
            raise UserError(f"{path} was altered: its settings, protocol or revision do not give its digest")
        checksums = document["sha256"]
        if unnamed := sorted(needed(document) - checksums.keys()):
            raise UserError(f"{path} has no checksum of {unnamed[0]}")
        left_out = {records.CHECKPOINT} if compressed.lacks_checkpoint(folder) else set()
        asked = set(checksums) - left_out if files is None else set(files)
        for name in sorted(asked & checksums.keys() - left_out):
            _check_file(folder, name, checksums[name])
    if asked & left_out:
        raise UserError(compressed.without_checkpoint(folder, document["cell"], document["seed"]))
    return document


def named_run(folder: Path, where: str) -> str:
    """`<cell>/<digest>/seed-<k>` of the finished run in a folder; UserError if there is none. where: what named it."""
    if not (folder / records.RUN).is_file():
        raise UserError(f"{where} {folder} is no finished run: it has no {records.RUN}")
    return RunId.of(read_verified(folder, files=())).path


def copies(documents: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """By folder, why a finished run must be a copy of another seed's: both have the same checkpoint or log.

    documents: run.json by folder. Evaluations may be equal: a simple game can have one best return.
    """
    found: dict[str, str] = {}
    for name in (records.CHECKPOINT, records.ITERATIONS):
        seen: dict[tuple[str, str], str] = {}
        for folder, document in documents.items():
            if document.get("status") != "diverged" and name in document.get("sha256", {}):
                other = seen.setdefault((document["digest"], document["sha256"][name]), folder)
                if other != folder:
                    text = f"{other} and {folder} have the same {name}: one is a copy"
                    text += "; delete that one, then `fp3o pull` it or train it again"
                    found = {other: text, folder: text, **found}
    return found


def check_distinct(documents: Mapping[str, Mapping[str, Any]]) -> None:
    """UserError if one of these runs (run.json by folder) is a copy of another seed's."""
    for problem in copies(documents).values():
        raise UserError(problem)


def needed(document: Mapping[str, Any]) -> set[str]:
    """Names of the files, beside run.json, that a run with this run.json must have."""
    settings = document["settings"]
    names = {records.EVALUATIONS, records.ITERATIONS, records.CHECKPOINT}
    scored = document["score"]["source"] == records.FINAL
    if scored or (document["status"] != "diverged" and has_final(settings)):
        names.add(records.FINAL)
    return names


def has_final(settings: Mapping[str, Any]) -> bool:
    """Whether the final policy is scored on episodes of its own, in final.csv."""
    return bool(settings["final_episodes"] > settings["evaluation_episodes"])


def _check_file(folder: Path, name: str, checksum: str) -> None:
    path = folder / name
    try:
        actual = records.sha256_of(path)
    except FileNotFoundError:
        raise UserError(f"{folder} has run.json but no {name}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if actual != checksum:
        raise UserError(f"{path} does not match run.json")


def foreign_code(document: Mapping[str, Any]) -> str:
    """`module:factory` that playing the run imports, of the user or of a package; "" where it plays an own engine."""
    named = str(document["options"].get("env") or document["cell"].split("/")[1])
    return named if ":" in named else ""


class Tables(NamedTuple):
    """The episodes that a run's score is computed from."""

    evaluations: records.Columns
    final: records.Columns | None
    """Of final.csv; None where the run has none."""


def read_tables(folder: Path, document: Mapping[str, Any]) -> Tables:
    """The episodes of a verified run, checked to be complete, finite and in agreement with run.json's score."""
    final = None
    with more_said(after=f"; {remedy(folder)}"):
        evaluations = records.read_table(folder / records.EVALUATIONS)
        _check_episodes(folder, records.EVALUATIONS, evaluations, evaluations["env_steps"], document)
        if records.FINAL in document["sha256"]:
            final = records.read_table(folder / records.FINAL)
            _check_episodes(folder, records.FINAL, final, np.zeros(len(final["episode"])), document)
        if records.summary_of(evaluations, final) != document["score"]:
            raise UserError(f"{folder / records.RUN} shows another score than its files give")
    return Tables(evaluations, final)


def _check_episodes(
    folder: Path, name: str, table: records.Columns, groups: np.ndarray[Any, Any], document: Mapping[str, Any]
) -> None:
    """UserError unless every evaluation has all episodes, numbered from 0, and (diverged runs apart) finite numbers.

    groups: which evaluation each row belongs to.
    """
    count = document["settings"]["final_episodes" if name == records.FINAL else "evaluation_episodes"]
    starts = np.unique(groups)
    wanted = np.tile(np.arange(count), len(starts))
    if not np.array_equal(table["episode"], wanted) or not np.array_equal(groups, np.repeat(starts, count)):
        raise UserError(f"{folder / name} misses rows: expected {count} episodes per evaluation")
    if not len(starts) and document["status"] != "diverged":
        raise UserError(f"{folder / name} has no rows")
    columns = [table[key] for key in ("return", "return_per_agent", "length")]
    if document["status"] != "diverged" and not all(np.isfinite(column).all() for column in columns):
        raise UserError(f"{folder / name} holds numbers that are not finite")
