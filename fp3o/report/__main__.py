"""Write the report of a suite.

python -m fp3o.report --suite paper --figures results/paper/figures --out results/paper/report/index.html
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fp3o.errors import as_command
from fp3o.statistics import cost
from fp3o.statistics.suites import load, parser, write


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser("HTML report of a suite.", out="the HTML file; curves of sweeps go beside it, into sweeps.html")
    arguments.add_argument("--figures", type=Path, help="folder of the figures; default: beside the runs")
    arguments.add_argument("--films", type=Path, help="folder of films, <cell>.webp; default: beside the runs")
    arguments.add_argument("--cost", type=Path, help="cost.csv, where cost was measured")
    arguments.add_argument("--scorecard", type=Path, help="scorecard.json of the same runs; default: computed")
    chosen = arguments.parse_args(argv)
    from fp3o.report.page import INDEX, pages  # needs Bokeh

    data = load(chosen)
    costs = cost.read(chosen.cost) if chosen.cost else ()
    folders = (chosen.figures or data.root.parent / "figures", chosen.films or data.root.parent / "films")
    card = json.loads(chosen.scorecard.read_text(encoding="utf-8")) if chosen.scorecard else None
    for name, text in pages(data, *folders, costs, card).items():
        write(chosen.out if name == INDEX else chosen.out.with_name(name), text)


if __name__ == "__main__":
    as_command(main)
