"""`fp3o robustness`."""

from __future__ import annotations

from typing import Annotated

from tyro.conf import arg

from fp3o import config


def robustness(
    *,
    suite: Annotated[str, arg(metavar="NAME", help="Which suite.")] = "paper",
    all_: Annotated[bool, arg(name="all", help="Also list verdicts that no choice changes.")] = False,
) -> int:
    """Re-evaluate every claim and cell under each reasonable choice of the analysis, and show what flips verdicts."""
    from fp3o.runs import layout
    from fp3o.statistics.robustness import notes, ordered
    from fp3o.statistics.robustness import robustness as judged
    from fp3o.statistics.suites import SuiteRuns

    chosen = config.load_suite(suite)
    rows = judged(SuiteRuns(chosen, layout.suite_root(chosen.name) / "runs"))
    for row in ordered(rows):
        if all_ or row.flips:
            held = f"{row.holds} of {len(row.others)}"
            print(f"{row.name} {row.about if row.kind == 'baseline' else ''}".rstrip() + f": {row.usual} in {held}")
            for verdict, choices in row.flips.items():
                print(f"    {verdict}: {', '.join(choices)}")
    for note in notes(rows)[:1]:
        print(note)
    return 0
