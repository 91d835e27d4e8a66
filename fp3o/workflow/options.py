"""Checks what `snakemake --config key=value` gives: a mistake is one line with the key and the allowed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema

from fp3o.config import data_root
from fp3o.config.yaml_files import read_yaml
from fp3o.errors import UserError, unknown


def checked_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Every key of workflow/schemas/config.schema.yaml, with the value given or its default."""
    known = read_yaml(data_root() / "workflow" / "schemas" / "config.schema.yaml")["properties"]
    values = {name: about["default"] for name, about in known.items()}
    for name, value in given.items():
        if name not in known:
            raise unknown("key", name, known, "--config")
        error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(known[name]).iter_errors(value))
        if error is not None:
            said = " ".join(error.message.split())[:200]
            raise UserError(f"--config {name}: {said}; allowed: {known[name]['description']}")
        values[name] = value
    return values
