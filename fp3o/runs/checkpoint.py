"""Named arrays and JSON metadata in one safetensors file: no pickle, atomic writing, checksum verified on reading."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import safetensors
import safetensors.numpy
import torch
from numpy.typing import NDArray

from fp3o.config.resolve import canonical_json
from fp3o.errors import UserError
from fp3o.runs.atomic import write_atomically

FORMAT = 1
# All metadata in one entry: safetensors keeps entries in an unordered map and would write several in changing order.
_ENTRY = "fp3o"

Array: TypeAlias = torch.Tensor | NDArray[Any]


def save(path: Path, tensors: Mapping[str, Array], metadata: Mapping[str, Any]) -> None:
    """Write tensors and metadata. Equal content gives equal bytes; an interrupted write leaves the old file."""
    arrays = {name: _as_array(value) for name, value in sorted(tensors.items())}
    metadata = json.loads(canonical_json(metadata))  # As it will be read back: tuples are lists, keys are text.
    header = {
        "format": FORMAT,
        "metadata": metadata,
        "sha256": _digest(arrays, metadata),
        "torch": [name for name in arrays if isinstance(tensors[name], torch.Tensor)],
    }
    content = safetensors.numpy.save(arrays, metadata={_ENTRY: canonical_json(header)})
    write_atomically(path, content)


def load(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Tensors (on the CPU) and arrays as `save` wrote them, bit for bit, and the metadata."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get(_ENTRY, "null"))
            arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
    except FileNotFoundError:
        raise UserError(f"no checkpoint at {path}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, safetensors.SafetensorError) as error:
        raise UserError(f"{path} is damaged or no checkpoint: {str(error).splitlines()[0]}") from error
    if not isinstance(header, dict):
        raise UserError(f"{path} is a safetensors file of another program")
    if header.get("format") != FORMAT:
        raise UserError(f"{path} has checkpoint format {header.get('format')}; this version reads: {FORMAT}")
    metadata: dict[str, Any] = header.get("metadata", {})
    if header.get("sha256") != _digest(arrays, metadata):
        raise UserError(f"{path} is damaged: its content does not match its checksum")
    as_torch = set(header.get("torch", ()))
    return {name: torch.from_numpy(array) if name in as_torch else array for name, array in arrays.items()}, metadata


def require(metadata: Mapping[str, Any], expected: Mapping[str, Any], path: Path) -> None:
    """UserError unless the metadata has these values: the file belongs to another cell, configuration, seed …"""
    for name, value in expected.items():
        wanted = json.loads(canonical_json(value))
        if name not in metadata:
            raise UserError(f"{path} belongs to another run: it has no {name}; expected: {wanted}")
        if metadata[name] != wanted:
            raise UserError(f"{path} belongs to another run: its {name} is {metadata[name]}; expected: {wanted}")


def _as_array(value: Array) -> NDArray[Any]:
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
    return np.asarray(array, order="C")


def _digest(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(canonical_json(metadata).encode())
    for name, array in arrays.items():
        digest.update(canonical_json([name, array.dtype.str, array.shape]).encode())
        digest.update(array.data.cast("B") if array.size else b"")
    return digest.hexdigest()
