"""Numbers of docs/smac-engine.md that stand in committed tables."""

from __future__ import annotations

from pathlib import Path

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
