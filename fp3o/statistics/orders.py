"""In how many variants of the environment one algorithm stays ahead of another.

    python -m fp3o.statistics.orders --suite smac-variants --artefact orders --out results/smac-variants/tables

Cells with the settings of one algorithm and different options of the environment are the same algorithm under variants
of the environment. The options of a row's first cell are the environment as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fp3o.config import Artefact, Cell, Row, Suite, algorithm_title
from fp3o.errors import as_command
from fp3o.runs.records import EVALUATIONS
from fp3o.statistics.compare import ALPHA
from fp3o.statistics.rank_tests import rank_sum
from fp3o.statistics.scores import scoring_of
from fp3o.statistics.suites import SuiteRuns, chosen_artefacts, csv_text, load, parser
from fp3o.statistics.tables.text_tables import TextTable

AS_IT_IS = "as it is"


class Order(NamedTuple):
    """Two algorithms in one variant of the environment."""

    chance: float
    """P(a seed of the first scores higher than one of the second), ties half."""
    p: float
    """Two-sided, of the exact rank-sum test."""
    centres: tuple[float, float]
    """Of both algorithms' seeds: the table's statistic."""

    @property
    def sign(self) -> int:
        return int(np.sign(self.chance - 0.5))

    @property
    def certain(self) -> bool:
        return self.p < ALPHA


class Comparison(NamedTuple):
    """A row of the table."""

    row: Row
    labels: tuple[str, str]
    orders: dict[str, Order]
    """By variant, those with scores of both; `AS_IT_IS` among them if it has."""

    @property
    def plain(self) -> Order | None:
        return self.orders.get(AS_IT_IS)

    @property
    def variants(self) -> dict[str, Order]:
        return {name: order for name, order in self.orders.items() if name != AS_IT_IS}

    def agreeing(self, sign: int) -> list[str]:
        """Variants in which the first is ahead (1), behind (−1) or neither (0)."""
        return [name for name, order in self.variants.items() if order.sign == sign]

    @property
    def verdict(self) -> str:
        """Whether the order of the environment as it is can be relied on."""
        if self.plain is None:
            return "not run"
        if max(centre for order in self.orders.values() for centre in order.centres) <= 0:
            return "floor: nobody wins"
        signs = {order.sign for order in self.orders.values() if order.certain}
        if len(signs) > 1:
            return "depends on the engine"
        if not signs:
            return "undecided everywhere"
        held = len(self.agreeing(next(iter(signs))))
        where = "in all" if held == len(self.variants) else f"in {held} of {len(self.variants)}"
        return f"{'ahead' if 1 in signs else 'behind'} {where}"


def variant_name(options: Mapping[str, object], usual: Mapping[str, object]) -> str:
    """The options that differ, `help_radius 2`."""
    changed = {name: value for name, value in options.items() if value != usual[name]}
    texts = [f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in changed.items()]
    return " and ".join(texts) or AS_IT_IS


def variants_of(suite: Suite, cells: Sequence[Cell]) -> dict[Cell, str]:
    """By cell the variant of its environment."""
    usual: dict[Row, Mapping[str, object]] = {}
    names = {}
    for cell in cells:
        options = asdict(suite.run(cell.id)[0].options)
        names[cell] = variant_name(options, usual.setdefault(cell.row, options))
    return names


def comparisons(data: SuiteRuns, artefact: Artefact) -> list[Comparison]:
    """Every pair of algorithms of every row, the first-named algorithm first. A variant that changes nothing on a task
    (its runs are those of the environment as it is, byte by byte) is left out."""
    found = []
    for row, algorithms in _by_algorithm(data, artefact).items():
        for first, second in combinations(algorithms, 2):
            labels = (_label(first), _label(second))
            both = [name for name in first if name in second]
            orders = {name: _order(data, first[name], second[name]) for name in both}
            found.append(Comparison(row, labels, {name: order for name, order in orders.items() if order}))
    return found


def _by_algorithm(data: SuiteRuns, artefact: Artefact) -> dict[Row, list[dict[str, Cell]]]:
    """Of every row its algorithms: their cells by variant."""
    groups: dict[Row, dict[tuple[str, str], dict[str, Cell]]] = {}
    for cell, variant in variants_of(data.suite, artefact.cells).items():
        key = (cell.algorithm, str(data.suite.run(cell.id)[0].configuration()["settings"]))
        groups.setdefault(cell.row, {}).setdefault(key, {})[variant] = cell
    return {
        row: [{v: one for v, one in cells.items() if not _changes_nothing(data, cells, v)} for cells in found.values()]
        for row, found in groups.items()
    }


def in_variants(data: SuiteRuns) -> dict[str, dict[str, str]]:
    """By variant: cells of the environment as it is, and the same there."""
    found: dict[str, dict[str, str]] = {}
    for artefact in data.suite.artefacts:
        if artefact.kind == "orders":
            for cells in (one for algorithms in _by_algorithm(data, artefact).values() for one in algorithms):
                for variant, cell in cells.items():
                    if AS_IT_IS in cells:
                        found.setdefault(variant, {})[cells[AS_IT_IS].id] = cell.id
    return found


def _changes_nothing(data: SuiteRuns, cells: Mapping[str, Cell], variant: str) -> bool:
    """Whether an algorithm's runs in a variant are those in the environment as it is."""

    def checksums(cell: Cell) -> list[tuple[int, str]]:
        return [(run.seed, run.document["sha256"][EVALUATIONS]) for run in data.cells[cell.id].runs]

    if variant == AS_IT_IS or AS_IT_IS not in cells:
        return False
    return bool(found := checksums(cells[variant])) and found == checksums(cells[AS_IT_IS])


def _label(cells: Mapping[str, Cell]) -> str:
    """Of the algorithm in the environment as it is, or else in the first variant."""
    return cells.get(AS_IT_IS, next(iter(cells.values()))).label


def _order(data: SuiteRuns, one: Cell, other: Cell) -> Order | None:
    a, b = data.cells[one.id].scores(), data.cells[other.id].scores()
    if not a or not b:
        return None
    centre = np.median if scoring_of(one.id).statistic == "median" else np.mean
    test = rank_sum([(a, b)])
    return Order(test.chance, test.p, (float(centre(a)), float(centre(b))))


HEADER = (*("Task", "Order", "As it is", "P, exact p", "Ahead in", "Behind in", "Certain in", "Range of P", "Verdict"),)
NOTES = (
    "Ahead, behind: variants of the engine in which the first of the two wins more often than the second (P above, "
    "below one half); in the others neither does.",
    "P: that a seed of the first scores higher than one of the second, ties half. p: exact rank-sum test, two-sided, "
    "not adjusted for the number of comparisons; five seeds against five cannot give less than .008.",
    "Certain: p < .05; the engine as it is counts too. Verdict: from the orders that are certain. Floor: both centres "
    "are 0 everywhere. Variants that change nothing on a task are not counted there.",
)


def table(found: Sequence[Comparison]) -> TextTable:
    """One line per comparison, for readers."""
    rows = []
    for one in found:
        total, base = len(one.variants), one.plain
        certain = sum(order.certain for order in one.orders.values())
        chances = [order.chance for order in one.orders.values()]
        rows.append(
            [
                f"{one.row.task}, {one.row.sharing}",
                f"{algorithm_title(one.labels[0])} over {algorithm_title(one.labels[1])}",
                f"{base.centres[0]:.1f} – {base.centres[1]:.1f}" if base else "not run",
                f"{base.chance:.2f}, {base.p:.3f}" if base else "",
                f"{len(one.agreeing(1))} of {total}",
                f"{len(one.agreeing(-1))} of {total}",
                f"{certain} of {len(one.orders)}",
                f"{min(chances):.2f} … {max(chances):.2f}" if chances else "",
                one.verdict,
            ]
        )
    return TextTable(HEADER, rows, NOTES)


def to_csv(found: Sequence[Comparison]) -> str:
    """One line per comparison and variant."""
    header = ["task", "sharing", "first", "second", "variant", "first_score", "second_score", "chance", "p"]
    rows = [
        [one.row.task, one.row.sharing, *one.labels, name]
        + [f"{number:.6g}" for number in (*order.centres, order.chance, order.p)]
        for one in found
        for name, order in one.orders.items()
    ]
    return csv_text(header, rows)


def main(argv: Sequence[str] | None = None) -> None:
    about = "Orders of algorithms under variants of the environment."
    chosen = parser(about, out="folder for <artefact>.{csv,md,tex}", artefacts=True).parse_args(argv)
    data = load(chosen)
    for artefact in chosen_artefacts(data.suite, chosen, "orders"):
        found = comparisons(data, artefact)
        place, caption = chosen.out / artefact.name, f"{artefact.caption}."
        table(found).write(place, to_csv(found), caption, artefact.name, "ll" + "r" * 7)


if __name__ == "__main__":
    as_command(main)
