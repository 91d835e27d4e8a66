"""Just enough to write HTML without forgetting to escape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Content: TypeAlias = "str | Html | Iterable[Content]"
# Without an end tag; the slash matters for the elements of SVG.
VOID = {"img", "meta", "link", "input", "line", "polyline"}


def render(content: Content) -> str:
    """Escape plain text, keep markup, join sequences."""
    if isinstance(content, Html):
        return str(content)
    if isinstance(content, str):
        return escape(content)
    return "".join(render(part) for part in content)


def tag(name: str, /, *content: Content, **attributes: str | None) -> Html:
    """An element; `class_` and `stroke_width` become class and stroke-width, None is left out."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{shown}/>" if name in VOID else f"<{name}{shown}>{render(content)}</{name}>")


def table(header: Sequence[Content], rows: Iterable[Sequence[Content]], class_: str | None = None) -> Html:
    """A plain table; it scrolls by itself where it is too wide."""
    head = tag("thead", tag("tr", *(tag("th", cell) for cell in header)))
    body = tag("tbody", *(tag("tr", *(cell if _is_cell(cell) else tag("td", cell) for cell in row)) for row in rows))
    return tag("div", tag("table", head, body, class_=class_), class_="wide")


def _is_cell(content: Content) -> bool:
    return isinstance(content, Html) and content.startswith(("<td", "<th"))


def pairs(entries: Iterable[tuple[str, Content]]) -> Html:
    """A list of names and values."""
    return tag("dl", *(Html(tag("dt", name) + tag("dd", value)) for name, value in entries))


def anchor(cell: str) -> str:
    """The id of a cell's section."""
    return "cell-" + cell.replace("/", "--")
