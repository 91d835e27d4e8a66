"""A cell's learning curve as inline SVG: every seed, their centre, the published value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fp3o.report.html import Html, tag
from fp3o.statistics.published import Published
from fp3o.statistics.scores import CellRuns, protocol_of

WIDTH, HEIGHT = 560, 240
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 12, 34


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers within the range, about `count` of them."""
    if high <= low:
        return [low]
    raw = (high - low) / count
    power = 10 ** np.floor(np.log10(raw))
    step = float(min(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw))
    first = np.ceil(low / step)
    return [float(value) * step + 0.0 for value in np.arange(first, np.floor(high / step) + 1)]  # no minus zero


def text(x: float, y: float, content: str, anchor: str = "middle") -> Html:
    return tag("text", content, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def curve_svg(cell: CellRuns, published: Published | None) -> Html:
    """Thin lines are seeds, the thick one their mean or median where all have an evaluation; dotted is the paper."""
    curves = [run.curve for run in cell.runs if len(run.curve.value)]
    if not curves:
        return tag("p", "No evaluation.", class_="muted")
    values = np.concatenate([curve.value for curve in curves])
    levels = [*values.tolist(), *([published.value] if published else [])]
    low, high = float(min(levels)), float(max(levels))
    if protocol_of(cell.cell).metric == "win_rate":
        low, high = 0.0, 100.0
    room = 0.05 * (high - low) or 1.0
    low, high = low - room, high + room
    last = max(float(curve.env_steps[-1]) for curve in curves) or 1.0

    def x_of(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def y_of(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    def line(steps: Sequence[float], heights: Sequence[float], class_: str) -> Html:
        points = " ".join(f"{x_of(s):.1f},{y_of(v):.1f}" for s, v in zip(steps, heights, strict=True))
        return tag("polyline", points=points, class_=class_)

    parts: list[Html] = []
    for value in ticks(low, high):
        y = y_of(value)
        parts.append(tag("line", x1=str(LEFT), x2=str(WIDTH - RIGHT), y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid"))
        parts.append(text(LEFT - 6, y + 4, f"{value:g}", "end"))
    parts += [text(x_of(step * 1e6), HEIGHT - BOTTOM + 16, f"{step:g}") for step in ticks(0, last / 1e6)]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 3, "environment steps (millions)"))
    parts += [line(curve.env_steps.tolist(), curve.value.tolist(), "seed") for curve in curves]
    common = min(len(curve.value) for curve in curves)
    stack = np.stack([curve.value[:common] for curve in curves])
    centre = np.median(stack, 0) if protocol_of(cell.cell).statistic == "median" else stack.mean(0)
    parts.append(line(curves[0].env_steps[:common].tolist(), centre.tolist(), "centre"))
    if published is not None:
        level = f"{y_of(published.value):.1f}"
        parts.append(tag("line", x1=str(LEFT), x2=str(WIDTH - RIGHT), y1=level, y2=level, class_="published"))
        parts.append(text(WIDTH - RIGHT, y_of(published.value) - 4, f"published {published.text}", "end"))
    label = f"Learning curve of {cell.cell}, {len(curves)} seeds"
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label, class_="curve")
