"""Where values come from: the comments of tasks.yaml that name the table of the paper or the code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fp3o.config.catalogue import data_root
from fp3o.config.yaml_files import LOADER


def comment_on(place: Sequence[str]) -> str:
    """The comment on the line of a value, named by its keys from the top, or else on a line it stands below; ""
    where there is none. A comment on a domain or algorithm as a whole is on no value."""
    lines, node = _parsed(data_root())
    found = ""
    for depth, name in enumerate(place):
        entries = {key.value: (key, value) for key, value in node.value} if isinstance(node, yaml.MappingNode) else {}
        if name not in entries:
            return ""
        key, node = entries[name]
        words = re.search(r"\s#\s+(.*)$", lines[key.start_mark.line])
        if words and depth >= 2:
            found = words[1]
    return found


@cache
def _parsed(root: Path) -> tuple[list[str], Any]:
    """The lines of tasks.yaml and the node at its top."""
    text = (root / "benchmarks" / "tasks.yaml").read_text(encoding="utf-8")
    return text.splitlines(), yaml.compose(text, Loader=LOADER)
