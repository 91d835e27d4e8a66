"""`fp3o compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.cli.arguments import Imports
from fp3o.cli.chosen_runs import METRIC_HELP, RUNS_HELP, Chosen, chosen_runs
from fp3o.cli.plot import check_picture, picture, text_plot
from fp3o.errors import UserError

if TYPE_CHECKING:
    from fp3o.statistics.paired import Paired


def compare(
    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="RUNS", help=f"Two or more. {RUNS_HELP}")],
    *,
    out: Annotated[Path | None, arg(metavar="FILE", help="Also write the curves as .png, .pdf or .svg.")] = None,
    metric: Annotated[str, arg(metavar="NAME", help=METRIC_HELP)] = "",
    import_: Imports = (),
) -> int:
    """Compare runs of one task with the first, seed by seed: difference, interval, verdict, settings, curves."""
    check_picture(out)
    found = chosen_runs(runs, metric)
    if len(found) < 2:
        raise UserError(f"{' '.join(runs)}: runs of one cell with the same settings; allowed: two or more to compare")
    print("\n".join(report(found)))
    if out is not None:
        picture(found, out)
        print(f"curves: {out}")
    return 0


def report(found: Sequence[Chosen]) -> list[str]:
    """Scores and comparisons with the first, then what differs in settings, then the curves."""
    from fp3o.config.differences import changes
    from fp3o.statistics.margins import margin_of
    from fp3o.statistics.paired import against_baseline
    from fp3o.statistics.tables.digits import decimals

    steps = [int(one.runs.runs[0].document["settings"]["total_steps"]) for one in found]
    equal = [one._replace(runs=one.runs.until(min(steps))) for one in found] if len(set(steps)) > 1 else list(found)
    lines = [f"score: {found[0].runs.scoring.words}"]
    if len(set(steps)) > 1:
        lines = [f"score: evaluations up to {min(steps):,} steps, which all have"]
    first, *others = equal
    domain = config.Cell.of(first.runs.cell).domain
    digits = decimals(domain, [score for one in equal for score in one.runs.scores()])
    lines.append(f"{first.name}: {_score(first, digits)}")
    for other in others:
        margin = None if first.metric else margin_of(first.runs.cell)
        paired = against_baseline(other.runs, first.runs, margin)
        lines.append(f"{other.name}: {_score(other, digits)}; {_words(paired, digits)}")
    for other in found[1:]:
        differences = changes(found[0].runs.runs[0].document, other.runs.runs[0].document)
        told = "; ".join(f"{change.name} {change.old} → {change.new}" for change in differences) or "none"
        lines.append(f"settings of {other.name} that differ: {told}")
    return [*lines, "", *text_plot(found)]


def _score(one: Chosen, digits: int) -> str:
    summary = one.runs.summary()
    if summary is None:
        return "no score"
    diverged = f", {one.runs.diverged} diverged" if one.runs.diverged else ""
    return f"{summary.centre:.{digits}f} ± {summary.spread:.{digits}f} (n = {summary.n}{diverged})"


def _words(paired: Paired | None, digits: int) -> str:
    """`+0.3 [0.1, 0.5] against the first: better`."""
    if paired is None:
        return "no seed in common with the first: not compared"
    interval = f" [{paired.low:.{digits}f}, {paired.high:.{digits}f}]" if paired.n > 1 else ""
    few = f" ({paired.n} of at least 3 seeds)" if paired.n < 3 else ""
    verdict = "undecided: both at the floor" if paired.verdict == "floor" else paired.verdict
    return f"{paired.difference:+.{digits}f}{interval} against the first: {verdict}{few}"
