"""`fp3o plot`: learning curves as a picture, or as text."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from fp3o.cli.arguments import Imports, check_folder_of
from fp3o.cli.chosen_runs import METRIC_HELP, RUNS_HELP, Chosen, chosen_runs
from fp3o.errors import FIGURE_PACKAGES, UserError

if TYPE_CHECKING:
    from fp3o.statistics.curves import Band

COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")  # Okabe and Ito's
WIDTH, HEIGHT = 64, 14
PICTURES = (".png", ".pdf", ".svg")


def plot(
    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="RUNS", help=RUNS_HELP)],
    *,
    out: Annotated[Path | None, arg(metavar="FILE", help="Write a picture (.png, .pdf or .svg) instead.")] = None,
    metric: Annotated[str, arg(metavar="NAME", help=METRIC_HELP)] = "",
    import_: Imports = (),
) -> int:
    """Draw the learning curves of runs of one task: mean over seeds with its 95 % interval."""
    check_picture(out)
    found = chosen_runs(runs, metric)
    if out is None:
        print("\n".join(text_plot(found)))
    else:
        picture(found, out)
    return 0


def check_picture(out: Path | None, option: str = "out") -> None:
    """UserError if the picture, or the page with one, could not be written."""
    if out is None:
        return
    check_folder_of(option, out)
    allowed, packages = ((".html",), FIGURE_PACKAGES) if option == "html" else (PICTURES, ("matplotlib",))
    if out.suffix not in allowed:
        raise UserError(f"--{option} {out}: allowed: a name that ends with {', '.join(allowed)}")
    if missing := [name for name in packages if find_spec(name) is None]:
        raise UserError(
            f"--{option} needs {' and '.join(missing)}: pip install {' '.join(missing)}; "
            f"allowed: no --{option}, for a plot in text"
        )


def bands(found: Sequence[Chosen]) -> dict[str, Band]:
    """The curves that have an evaluation, by name."""
    from fp3o.statistics.curves import band

    curves = {one.name: band(one.runs) for one in found}
    return {name: curve for name, curve in curves.items() if curve is not None}


def metric_name(found: Sequence[Chosen]) -> str:
    from fp3o.statistics.curves import METRIC_NAMES
    from fp3o.statistics.scores import scoring_of

    return found[0].metric or METRIC_NAMES[scoring_of(found[0].runs.cell).metric]


def picture(found: Sequence[Chosen], out: Path) -> None:
    """Write the curves with their intervals."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.0, 3.6), layout="constrained")
    for place, (name, curve) in enumerate(bands(found).items()):
        colour = COLOURS[place % len(COLOURS)]
        axes.plot(curve.env_steps, curve.centre, color=colour, label=f"{name} (n = {curve.n.max()})")
        axes.fill_between(curve.env_steps, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="environment steps", ylabel=metric_name(found))
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(out, dpi=200)
    plt.close(figure)


def text_plot(found: Sequence[Chosen]) -> list[str]:
    """The curves drawn with letters, the first on top; below, what each letter stands for."""
    curves = bands(found)
    if not curves:
        return ["no evaluations to draw"]
    last = max(curve.env_steps[-1] for curve in curves.values())
    low = min(curve.centre.min() for curve in curves.values())
    high = max(curve.centre.max() for curve in curves.values())
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    letters = {name: chr(ord("A") + place % 26) for place, name in enumerate(curves)}
    for name, curve in reversed(curves.items()):
        for steps, value in zip(curve.env_steps, curve.centre, strict=True):
            row = round((HEIGHT - 1) * (high - value) / (high - low)) if high > low else HEIGHT // 2
            grid[row][round((WIDTH - 1) * steps / last)] = letters[name]
    ends = {0: f"{high:.4g}", HEIGHT - 1: f"{low:.4g}"}
    margin = max(map(len, ends.values()))
    lines = [f"{ends.get(row, ''):>{margin}} │{''.join(cells).rstrip()}" for row, cells in enumerate(grid)]
    lines += [
        f"{'':>{margin}} └{'─' * WIDTH}",
        f"{metric_name(found)}, up to {int(last):,} steps".rjust(margin + WIDTH + 2),
    ]
    return [*lines, *(f"{letter}  {name}" for name, letter in letters.items())]
