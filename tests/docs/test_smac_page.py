"""Numbers of docs/smac-engine.md that stand in committed tables and measurements."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "smac-engine.md").read_text()
ORDERS = (ROOT / "results" / "smac-variants" / "tables" / "orders.md").read_text()


def test_orders_under_variants_are_those_of_the_table() -> None:
    shown = [line for line in PAGE.splitlines() if " over " in line and line.startswith("| ") and ", full |" in line]
    assert len(shown) == 10
    assert set(shown) <= set(ORDERS.splitlines())


def test_no_order_is_said_to_hold_that_another_engine_reverses() -> None:
    assert "No order that is certain in one engine is reversed with certainty in another." in PAGE
    assert "depends on the engine" not in ORDERS


def measured() -> list[dict[str, Any]]:
    """What benchmarks/fidelity/smac.py printed."""
    return [json.loads(line) for line in (ROOT / "docs/evidence/smac-fidelity.jsonl").read_text().splitlines()]


def test_the_tables_of_scripts_and_mirror_matches_are_what_was_measured() -> None:
    plain = [one for one in measured() if not one["changed"]]
    found: dict[tuple[str, int], list[str]] = {}
    mirrors: dict[str, list[str]] = {}
    for one in plain:
        wins = f"{one['wins']:.3f} ± {one['plus_minus']:.3f}"
        if one["script"] == "mirror":
            mirrors.setdefault(one["map"], []).append(wins)
        else:
            found.setdefault((one["map"], one["revision"]), []).append(f"{wins} ({one['mean_return']:.1f})")
    assert (len(found), len(mirrors)) == (20, 5)
    for (name, revision), cells in found.items():
        assert f"| {name} | {revision} | {' | '.join(cells)} |" in PAGE
    for name, cells in mirrors.items():
        assert f"| {name} | {' | '.join(cells)} |" in PAGE


def test_the_table_of_sensitivities_is_what_was_measured() -> None:
    rows: dict[str, dict[tuple[str, str], list[str]]] = {}
    for one in measured():
        if one["changed"]:
            cells = rows.setdefault(one["changed"], {})
            cells.setdefault((one["map"], one["script"]), []).append(f"{one['wins']:.3f}")
    assert len(rows) == 31
    for label, found in rows.items():
        texts = [" / ".join(cells) for cells in found.values()]
        assert f"| {label} | {' | '.join(texts)} |" in PAGE


def unaided() -> dict[tuple[str, str, str], list[dict[str, str]]]:
    """What benchmarks/fidelity/unaided.py printed, by revision, map and algorithm."""
    found: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    with (ROOT / "docs/evidence/smac-unaided.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["revision"], row["map"], row["algorithm"]), []).append(row)
    return found


def test_policies_that_wait_hardly_win_and_mostly_reach_the_time_limit() -> None:
    with (ROOT / "docs/evidence/smac-recovery.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    waiting = [row for row in rows if float(row["recovery"]) > 1]
    assert waiting
    assert all(float(row["won"]) <= 0.05 and float(row["limit"]) > 0.5 for row in waiting)
    assert all(float(row["won"]) > 0.5 for row in rows if row not in waiting)
    assert "hardly win a battle; more than half of their battles last to the time limit" in PAGE


def losing(rows: list[dict[str, str]]) -> int:
    """Seeds that lose more than 5 points when the enemies are helped."""
    return sum(float(row["won"]) - float(row["helped"]) > 0.05 for row in rows)


def test_the_table_of_enemies_that_look_on_is_what_was_measured() -> None:
    start = PAGE.index("| full sharing | won | helped |")
    body = PAGE[start : PAGE.index("\n\n", start)].splitlines()[2:]
    shown = sorted(line.split(" | ", 1)[1] for line in body)
    expected = []
    for rows in unaided().values():
        won, helped = (f"{mean(float(row[name]) for row in rows):.3f}"[1:] for name in ("won", "helped"))
        idle, near = (f"{mean(float(row[name]) for row in rows):.2f}"[1:] for name in ("idle", "near"))
        expected.append(f"{won} | {helped} | {idle} | {near} | {losing(rows)} |")
    assert shown == sorted(expected)


def test_how_many_policies_lose_to_helped_enemies_is_said_as_measured() -> None:
    lost = {key: losing(rows) for key, rows in unaided().items() if key[0] == "3"}
    assert sum(count for (_, name, _), count in lost.items() if name == "5m_vs_6m") == 0
    assert sum(count for (_, name, _), count in lost.items() if name == "3s5z") == 11
    assert "eleven of 25 policies still lose more than 5 points" in PAGE
    assert "On 3s5z 11 of the 25 policies lose more than 5 points" in (ROOT / "docs/results.md").read_text()
