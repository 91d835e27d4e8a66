"""The file formats of a run, read and written: evaluations.csv, iterations.csv, final.csv and run.json.

The CSV files contain no timings: a run that was killed and resumed gives the same bytes as one that was not (on the
same kind of processor).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import io
import json
import lzma
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import jsonschema
import numpy as np
from numpy.typing import NDArray

from fp3o.config.catalogue import data_root
from fp3o.config.metrics import PLACES
from fp3o.config.yaml_files import read_yaml
from fp3o.errors import UserError
from fp3o.runs.atomic import disk_errors, write_atomically

EVALUATIONS = "evaluations.csv"
ITERATIONS = "iterations.csv"
FINAL = "final.csv"
CHECKPOINT = "checkpoint.safetensors"
RUN = "run.json"

EVALUATION_COLUMNS = (*PLACES, "return", "return_per_agent", "won", "length")
FINAL_COLUMNS = ("episode", "return", "return_per_agent", "won", "length")
FIRST_COLUMNS = {EVALUATIONS: EVALUATION_COLUMNS, FINAL: FINAL_COLUMNS}
"""By file; metrics of the environment's own follow. Columns of iterations.csv depend on the algorithm."""
SCHEMA_VERSION = 1
COMPRESSED = ".xz"
"""Added to the names of files that are saved compressed (fp3o/runs/compressed.py)."""

Value: TypeAlias = float | int | bool | None
Columns: TypeAlias = dict[str, NDArray[np.float64]]


# ---------------------------------------------------------------------------------------------------------- CSV


def cell_text(value: Value) -> str:
    """A CSV field: integers in full, floats with 6 significant digits, booleans as 0 or 1, None as an empty field."""
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "1" if value else "0"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return f"{float(value):.6g}"


class CsvLog:
    """An append-only CSV file. To resume it takes the number of valid bytes and their sha256, which the run saves."""

    def __init__(
        self, path: Path, columns: Sequence[str] | None = None, offset: int = 0, checksum: str | None = None
    ) -> None:
        """Continue after the first `offset` bytes, by default with an empty file; what else a killed process wrote is
        removed. Without `columns` the header is taken from the file or from the first row.

        The kept bytes must have the sha256 `checksum`; states saved by older versions have none.
        """
        self.path = path
        self._columns = None if columns is None else tuple(columns)
        self._header_written = offset > 0
        kept = b""
        with disk_errors(path):
            if offset and path.exists():
                with path.open("rb") as file:
                    kept = file.read(offset)
            if len(kept) < offset:
                raise UserError(f"cannot resume: {path} has {len(kept)} bytes, the saved state needs {offset}")
            self._sha256 = hashlib.sha256(kept)
            if checksum not in (None, self.checksum):
                raise UserError(f"cannot resume: {path} was altered since the state was saved")
            if offset:
                header = tuple(kept.partition(b"\n")[0].decode().split(","))
                if self._columns not in (None, header):
                    raise UserError(f"cannot resume: {path} has the columns {','.join(header)}")
                self._columns = header
            self._file: BinaryIO = path.open("r+b" if offset else "wb")
            if offset:
                self._file.truncate(offset)
                self._file.seek(offset)

    def append(self, rows: Iterable[Mapping[str, Value]]) -> None:
        """Write rows; each must have exactly the header's columns."""
        lines: list[str] = []
        for row in rows:
            if self._columns is None:
                self._columns = tuple(row)
            if set(row) != set(self._columns):
                raise ValueError(f"{self.path.name} has the columns {self._columns}, the row {tuple(row)}")
            if not self._header_written:
                lines.append(",".join(self._columns))
                self._header_written = True
            lines.append(",".join(cell_text(row[name]) for name in self._columns))
        if lines:
            content = ("\n".join(lines) + "\n").encode()
            self._sha256.update(content)
            with disk_errors(self.path):
                self._file.write(content)

    def flush(self) -> int:
        """Force everything to disk; returns the number of bytes, for `resume`."""
        with disk_errors(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    @property
    def checksum(self) -> str:
        """sha256 of everything appended so far."""
        return self._sha256.hexdigest()

    def close(self) -> None:
        with disk_errors(self.path):
            self._file.close()


def read_table(path: Path) -> Columns:
    """The columns of a run's CSV file; empty fields are NaN: of `won`, where episodes are neither won nor lost, and of
    metrics that an episode did not report."""
    columns = FIRST_COLUMNS.get(path.name)
    try:
        lines = read_bytes(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if not lines:
        # A run may diverge before its first evaluation; a header is written with the first row.
        return {name: np.empty(0) for name in columns or ()}
    header, rows = lines[0].split(","), lines[1:]
    if columns is not None and tuple(header[: len(columns)]) != tuple(columns):
        raise UserError(f"{path} has the columns {','.join(header)}; expected: {','.join(columns)}")
    if len(set(header)) < len(header):
        raise UserError(f"{path} has a column twice: {','.join(header)}")
    for number, row in enumerate(rows, start=2):
        if (fields := row.count(",") + 1) != len(header):
            raise UserError(f"{path}, line {number}: {fields} fields; expected: {len(header)}")
    text = "\n".join(["", *rows, ""])
    for before, after in (",,", ",,", "\n,", ",\n"):  # twice, as an empty field may follow another
        text = text.replace(before + after, f"{before}nan{after}")
    try:
        numbers = np.loadtxt(io.StringIO(text), delimiter=",", comments=None, ndmin=2) if rows else np.empty(0)
        numbers = numbers.reshape(len(rows), len(header))
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    table = dict(zip(header, np.ascontiguousarray(numbers.T), strict=True))
    if "won" in table and not np.isin(table["won"][~np.isnan(table["won"])], (0.0, 1.0)).all():
        raise UserError(f"{path}: column won holds other values than 0, 1 and nothing")
    return table


def score_summary(evaluations: Path, final: Path | None = None) -> dict[str, Any]:
    """`score` of run.json, computed from the files on disk."""
    last = read_table(final) if final is not None and final.exists() else None
    return summary_of(read_table(evaluations), last)


def summary_of(evaluations: Columns, final: Columns | None = None) -> dict[str, Any]:
    """Means over the episodes of final.csv if there is one, else over those of the last finite evaluation."""
    if final is not None and len(final["return"]) and np.isfinite(final["return"]).all():
        return _summary(FINAL, None, final)
    table = evaluations
    for steps in np.unique(table["env_steps"])[::-1]:
        rows = table["env_steps"] == steps
        if np.isfinite(table["return"][rows]).all():
            return _summary(EVALUATIONS, int(steps), {name: column[rows] for name, column in table.items()})
    return _summary(None, None, {name: np.empty(0) for name in FINAL_COLUMNS})


def _summary(source: str | None, env_steps: int | None, table: Columns) -> dict[str, Any]:
    def mean(name: str) -> float | None:
        column = table[name]
        return float(f"{column.mean():.6g}") if len(column) and np.isfinite(column).all() else None

    def reported(name: str) -> float | None:
        column = table[name][np.isfinite(table[name])]
        return float(f"{column.mean():.6g}") if len(column) else None

    own = [name for name in table if name not in EVALUATION_COLUMNS]
    return {
        "source": source,
        "env_steps": env_steps,
        "episodes": len(table["return"]),
        "return": mean("return"),
        "return_per_agent": mean("return_per_agent"),
        "win_rate": mean("won"),
        "length": mean("length"),
        **({"metrics": {name: reported(name) for name in own}} if own else {}),
    }


# ----------------------------------------------------------------------------------------------------- run.json


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(read_yaml(data_root() / "workflow" / "schemas" / "run.schema.yaml"))


def run_bytes(document: Mapping[str, Any]) -> bytes:
    """run.json's bytes, equal for equal documents: sorted keys, two spaces, a newline at the end."""
    return (json.dumps(document, sort_keys=True, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def check_run(document: Mapping[str, Any], where: str = RUN) -> None:
    """UserError naming the first place where the document does not fit workflow/schemas/run.schema.yaml."""
    error = jsonschema.exceptions.best_match(_validator().iter_errors(document))
    if error is not None:
        place = "/".join(str(part) for part in error.absolute_path) or "top level"
        raise UserError(f"{where}, {place}: {_first_line(error.message)}")


def _first_line(message: str) -> str:
    line = message.splitlines()[0]
    return line if len(line) <= 200 else line[:200] + " …"


def write_run(path: Path, document: Mapping[str, Any]) -> None:
    """Check run.json and write it atomically."""
    check_run(document, str(path))
    write_atomically(path, run_bytes(document))


def read_run(path: Path) -> dict[str, Any]:
    """Read and check run.json."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"cannot read {path}: damaged: {_first_line(str(error))}") from error
    if not isinstance(document, dict):
        raise UserError(f"{path}, top level: not an object")
    check_run(document, str(path))
    return document


def without_volatile(document: Mapping[str, Any]) -> dict[str, Any]:
    """run.json without `volatile` (times, host …): equal for repetitions of a run."""
    return {name: value for name, value in document.items() if name != "volatile"}


def sha256_of(path: Path) -> str:
    """Of a file's content; where only the compressed file is there, of what it holds."""
    if not path.exists() and compressed(path).is_file():
        return hashlib.sha256(read_bytes(path)).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compressed(path: Path) -> Path:
    """The name of the file if it is compressed."""
    return path.with_name(path.name + COMPRESSED)


def read_bytes(path: Path) -> bytes:
    """The content of a run's file, also where only the compressed one is there; FileNotFoundError if neither is."""
    if path.exists() or not compressed(path).is_file():
        return path.read_bytes()
    try:
        return _decompressed(compressed(path).read_bytes())
    except lzma.LZMAError as error:
        raise UserError(f"cannot read {compressed(path)}: damaged: {error}") from error


@functools.lru_cache(maxsize=4)
def _decompressed(content: bytes) -> bytes:
    """Remembered for a while: a file is read once to check it and once to take its numbers."""
    return lzma.decompress(content)


# --------------------------------------------------------------------------------------------------- provenance

_PACKAGES = ("fp3o", "torch", "numpy", "scipy", "mujoco", "numba", "gymnasium", "pettingzoo", "safetensors", "smac")


def installed_versions() -> dict[str, str]:
    """Versions of Python and of every installed package that may change results."""
    found = {name: version for name in _PACKAGES if (version := _installed_version(name)) is not None}
    return {"python": platform.python_version(), **found}


@functools.cache
def _installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def git_state() -> dict[str, Any] | None:
    """Commit of the source tree this package runs from and whether it has local changes; None outside git.

    FP3O_COMMIT names the commit (with a + for local changes) where a tree was copied to a machine without its history.
    """
    if commit := os.environ.get("FP3O_COMMIT"):
        return {"commit": commit.removesuffix("+"), "dirty": commit.endswith("+")}
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ("git", *arguments), cwd=folder, capture_output=True, text=True, check=True, timeout=30
        ).stdout

    try:
        # An installed copy inside some other repository's environment is not that repository's code.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return {
            "commit": git("rev-parse", "HEAD").strip(),
            "dirty": bool(git("status", "--porcelain", "--untracked-files=no", "--", ":/fp3o", ":/benchmarks").strip()),
        }
    except (OSError, subprocess.SubprocessError):
        return None
