"""`fp3o compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.cli.arguments import Imports
from fp3o.cli.chosen_runs import METRIC_HELP, RUNS_HELP, Chosen, chosen_runs
from fp3o.cli.plot import check_picture, picture, text_plot
from fp3o.errors import UserError
from fp3o.runs.atomic import write_atomically

if TYPE_CHECKING:
    from fp3o.config.differences import Change
    from fp3o.statistics.paired import Paired


def compare(
    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="RUNS", help=f"Two or more. {RUNS_HELP}")],
    *,
    out: Annotated[Path | None, arg(metavar="FILE", help="Also write the curves as .png, .pdf or .svg.")] = None,
    html: Annotated[Path | None, arg(metavar="FILE", help="Also write all of it as one page, FILE.html.")] = None,
    metric: Annotated[str, arg(metavar="NAME", help=METRIC_HELP)] = "",
    import_: Imports = (),
) -> int:
    """Compare runs of one task with the first, seed by seed: difference, interval, verdict, settings, curves."""
    check_picture(out)
    check_picture(html, "html")
    found = chosen_runs(runs, metric)
    if len(found) < 2:
        raise UserError(f"{' '.join(runs)}: runs of one cell with the same settings; allowed: two or more to compare")
    compared = comparison(found)
    print("\n".join(report(found, compared)))
    if out is not None:
        picture(found, out)
        print(f"curves: {out}")
    if html is not None:
        write_atomically(html, page(found, compared).encode())
        print(f"page: {html}")
    return 0


class Comparison(NamedTuple):
    """Runs against the first, in words."""

    rule: str
    """How scores are computed."""
    scores: list[tuple[str, str, str]]
    """Name, score, and difference from the first with its interval and verdict."""
    settings: list[tuple[str, list[Change]]]
    """Of each but the first: name, and in which settings it differs from it."""


def comparison(found: Sequence[Chosen]) -> Comparison:
    """All but the curves."""
    from fp3o.config.differences import changes
    from fp3o.statistics.margins import margin_of
    from fp3o.statistics.paired import against_baseline
    from fp3o.statistics.tables.digits import decimals

    steps = [int(one.runs.runs[0].document["settings"]["total_steps"]) for one in found]
    equal = [one._replace(runs=one.runs.until(min(steps))) for one in found] if len(set(steps)) > 1 else list(found)
    rule = found[0].runs.scoring.words
    if len(set(steps)) > 1:
        rule = f"evaluations up to {min(steps):,} steps, which all have"
    first, *others = equal
    domain = config.Cell.of(first.runs.cell).domain
    digits = decimals(domain, [score for one in equal for score in one.runs.scores()])
    scores = [(first.name, _score(first, digits), "")]
    for other in others:
        margin = None if first.metric else margin_of(first.runs.cell)
        paired = against_baseline(other.runs, first.runs, margin)
        scores.append((other.name, _score(other, digits), _words(paired, digits)))
    plain = found[0].runs.runs[0].document
    return Comparison(rule, scores, [(one.name, changes(plain, one.runs.runs[0].document)) for one in found[1:]])


def report(found: Sequence[Chosen], compared: Comparison) -> list[str]:
    """Scores and comparisons with the first, then what differs in settings, then the curves."""
    lines = [f"score: {compared.rule}"]
    lines += [f"{name}: {'; '.join(filter(None, texts))}" for name, *texts in compared.scores]
    for name, differences in compared.settings:
        told = "; ".join(f"{change.name} {change.old} → {change.new}" for change in differences) or "none"
        lines.append(f"settings of {name} that differ: {told}")
    return [*lines, "", *text_plot(found)]


def page(found: Sequence[Chosen], compared: Comparison) -> str:
    """The same as an HTML page that needs nothing else."""
    from fp3o.report.page import address, environment
    from fp3o.report.sheets import Sheet

    with TemporaryDirectory() as folder:
        picture(found, Path(folder) / "curves.png")
        curves = address(Path(folder) / "curves.png")
    settings = [(name, one.name, one.old, one.new) for name, differences in compared.settings for one in differences]
    return environment().get_template("comparison.html.j2").render(
        task=config.Cell.of(found[0].runs.cell).row,
        curves=curves,
        scores=Sheet(["Runs", "Score", "Difference"], compared.scores, 3, note=f"Score: {compared.rule}."),
        settings=Sheet(["Runs", "Setting", "Of the first", "Of these"], settings, 4),
    )  # fmt: skip


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
    if paired.difference == paired.low == paired.high == 0:
        return "every seed equal to the first's"
    interval = f" [{paired.low:.{digits}f}, {paired.high:.{digits}f}]" if paired.n > 1 else ""
    few = f" ({paired.n} of at least 3 seeds)" if paired.n < 3 else ""
    verdict = "undecided: both at the floor" if paired.verdict == "floor" else paired.verdict
    return f"{paired.difference:+.{digits}f}{interval} against the first: {verdict}{few}"
