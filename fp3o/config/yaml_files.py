"""Reading hand-edited YAML files: mistakes and hostile input are a UserError of one line, never a hang.

Beyond what the parser refuses: a key given twice, a key that is not text, aliases that expand without end, and files,
numbers or nestings larger than any real one. Merge keys (`<<: *anchor`) work; a mapping's own keys win.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fp3o.errors import UserError

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # The C parser is eight times as fast.

MOST_BYTES = 1_000_000  # The largest of ours has 13,000.
MOST_DEPTH = 30  # Ours: 8. The C parser overflows its stack beyond some ten thousand.
LONGEST_NUMBER = 400  # Characters. Python refuses to print numbers of more than 4,300 digits.
MOST_NODES = 100_000  # With every alias written out; the paper's suite has 1,000.


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping at the top of a file."""
    try:
        size = path.stat().st_size
        text = path.read_text(encoding="utf-8") if size <= MOST_BYTES else ""
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    if size > MOST_BYTES:
        raise UserError(f"{path}: {size} bytes are too many; allowed: {MOST_BYTES}")
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str) -> dict[str, Any]:
    """The mapping at the top of a YAML text; `name` is for messages."""
    try:
        _check_depth(text, name)
        loader = LOADER(text)
        try:
            node = loader.get_single_node()
            if node is not None:
                _Checker(name).size(node, "")
            content = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except UserError:
        raise
    # Also what looks like a number or date and is none.
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise UserError(f"{name}: not valid YAML: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(content, dict):
        raise UserError(f"{name}: expected a mapping at the top")
    return content


def _check_depth(text: str, name: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_DEPTH:
            raise UserError(f"{name}, line {event.start_mark.line + 1}: nested deeper than {MOST_DEPTH} levels")


class _Checker:
    """Checks the parsed nodes before values are built from them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sizes: dict[int, int] = {}
        """Nodes below and including each checked node, aliases counted as often as they occur; 0: being checked now."""

    def size(self, node: yaml.Node, place: str) -> int:
        """Check a node and everything below it; how many nodes these are."""
        known = self.sizes.get(id(node))
        if known == 0:
            raise self.error(node, place, "an alias may not stand inside what it names")
        if known is not None:
            return known
        self.sizes[id(node)] = 0
        total = 1
        if isinstance(node, yaml.ScalarNode) and node.tag != _TEXT and len(node.value) > LONGEST_NUMBER:
            raise self.error(node, place, f"a number of {len(node.value)} characters; in quotes it would be text")
        if isinstance(node, yaml.SequenceNode):
            total += sum(self.size(item, f"{place}/{k}") for k, item in enumerate(node.value))
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag not in (_TEXT, _MERGE):
                    shown = getattr(key, "value", "")
                    hint = f": {shown!r} (in quotes it is text)" if isinstance(shown, str) else ""
                    raise self.error(key, place, f"a key should be text{hint}")
                if key.value in seen:
                    raise self.error(key, place, f"key {key.value!r} is given twice")
                seen.add(key.value)
                total += 1 + self.size(value, f"{place}/{key.value}")
        if total > MOST_NODES:
            raise self.error(node, place, f"aliases expand to more than {MOST_NODES} values")
        self.sizes[id(node)] = total
        return total

    def error(self, node: yaml.Node, place: str, message: str) -> UserError:
        where = f"{self.name}, line {node.start_mark.line + 1}"
        return UserError(f"{where}{', ' if place else ''}{place.lstrip('/')[:200]}: {message[:200]}")


_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
