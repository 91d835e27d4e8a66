"""Digests are for ever: a shipped run is found by its digest, so no change of code may change one unasked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from fp3o.config import Cell, Change, Settings, changes, load_suite, resolve
from fp3o.config.domains import OPTIONS
from fp3o.config.options import MpeOptions
from fp3o.errors import UserError
from fp3o.fields import AddedLater, Bounds, restored

ROOT = Path(__file__).resolve().parents[2]

# One cell per domain and algorithm. If a line fails: a new field needs `AddedLater`, a new default a new layer.
PINNED = {
    "mamujoco/ant-2x4/full": {
        "fp3o": "57f0c0793a",
        "mappo": "bbf59679eb",
        "ippo": "2fcba0e7c1",
        "happo": "d13fcd9d43",
        "coppo": "f225253148",
        "a2po": "61810449cb",
    },
    "smac/3s5z/full": {
        "fp3o": "8f6943987f",
        "mappo": "627940d311",
        "ippo": "455cbf3548",
        "happo": "9bfc43760e",
        "coppo": "7572fe88c9",
        "a2po": "31df8ddd09",
    },
    "mpe/simple-reference/full": {
        "fp3o": "21f4acb4c7",
        "mappo": "6fe47ccc64",
        "ippo": "74b48fa362",
        "happo": "ae90afb078",
        "coppo": "c1c1090542",
        "a2po": "6ed5a945c3",
    },
    "matrix/climbing/full": {
        "fp3o": "78640e28f0",
        "mappo": "1f599f9574",
        "ippo": "bb3faa8651",
        "happo": "94ce23a734",
        "coppo": "3e54f8c8cc",
        "a2po": "05b67952cd",
    },
    "pettingzoo/simple-spread/full": {
        "fp3o": "3214d6a4ef",
        "mappo": "01dcdd4d14",
        "ippo": "b2c443d1cc",
        "happo": "0a3d84f4f7",
        "coppo": "3fbcec81b5",
        "a2po": "180c0c8fb9",
    },
}


@pytest.mark.parametrize("row", PINNED)
def test_one_cell_per_domain_and_algorithm(row: str) -> None:
    assert {name: resolve(Cell.parse(f"{row}/{name}")).digest for name in PINNED[row]} == PINNED[row]


# Of the battle engine's revision 2.
REVISION_2 = {
    "fp3o": "0fc51a83ba",
    "mappo": "d70bf239c6",
    "ippo": "e4934a308e",
    "happo": "8b2ca0c9ce",
    "coppo": "b345b88896",
    "a2po": "c5518089a4",
}


def test_an_older_revision_of_an_engine() -> None:
    older = {"engine_revision": 2}
    assert {name: resolve(Cell.parse(f"smac/3s5z/full/{name}"), older).digest for name in REVISION_2} == REVISION_2


def test_every_domain_and_algorithm_that_ships_is_pinned() -> None:
    """The smoke suite has all of them; what somebody adds has no runs yet that could be asked for again."""
    cells = [plan.cell for plan, _ in load_suite("smoke").runs()]
    assert {row.split("/")[0] for row in PINNED} == {cell.domain for cell in cells}
    assert all(set(row) == {cell.algorithm for cell in cells} for row in PINNED.values())


def test_every_shipped_run_is_found_by_its_digest() -> None:
    shipped = json.loads((ROOT / "results" / "paper" / "manifest.json").read_text())["runs"]
    planned = {f"{plan.digest}-s{seed}": plan.cell.id for plan, seeds in load_suite("paper").runs() for seed in seeds}
    assert len(shipped) >= 105
    assert {name: planned.get(name) for name in shipped} == {name: run["cell"] for name, run in shipped.items()}


# --- A field added later --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LaterSettings(Settings):
    """Settings of a later version; its default leaves the old behaviour, so that old runs need the mark's value."""

    weight_decay: Annotated[float, Bounds(0, 1), AddedLater(0.0)] = 0.0
    """Of both networks."""


@dataclass(frozen=True)
class LaterMpeOptions(MpeOptions):
    """Options of a later version."""

    wind: Annotated[bool, AddedLater(False)] = False
    """Blow agents about."""


def digests() -> dict[str, str]:
    suite = load_suite("paper")
    return {plan.cell.id: resolve(plan.cell, suite=suite).digest for plan, _ in suite.runs()}


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A later version of this program, with one more setting and one more option; the digests before."""
    before = digests()
    monkeypatch.setattr("fp3o.config.settings.Settings", LaterSettings)
    monkeypatch.setitem(OPTIONS, "mpe", LaterMpeOptions)
    return before


def test_a_new_field_leaves_every_digest_alone(later: dict[str, str]) -> None:
    assert len(later) > 250
    assert digests() == later


@pytest.mark.parametrize(("name", "value"), [("weight_decay", "0.01"), ("wind", "true")])
def test_a_new_field_enters_the_digest_where_it_changes_something(later: dict[str, str], name: str, value: str) -> None:
    cell = Cell.parse("mpe/simple-reference/none/happo")
    changed = resolve(cell, {name: value})
    assert changed.digest != later[cell.id] == resolve(cell).digest
    assert [change.name for change in changed.deviations] == [name]
    with pytest.raises(UserError, match="unknown setting"):
        resolve(cell, {f"{name}s": value})


def test_without_the_mark_every_digest_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pinned table above is what notices."""

    @dataclass(frozen=True)
    class Careless(Settings):
        weight_decay: Annotated[float, Bounds(0, 1)] = 0.0

    before = digests()
    monkeypatch.setattr("fp3o.config.settings.Settings", Careless)
    after = digests()
    assert not set(before.values()) & set(after.values())


def test_an_old_run_is_read_with_the_value_it_had() -> None:
    """Also where the default has moved on since."""

    @dataclass(frozen=True)
    class Moved(Settings):
        weight_decay: Annotated[float, Bounds(0, 1), AddedLater(0.0)] = 0.1

    stored = resolve(Cell.parse("mpe/simple-reference/none/mappo")).configuration()["settings"]
    assert restored(stored, Moved).weight_decay == 0.0
    assert restored({**stored, "weight_decay": 0.3}, Moved).weight_decay == 0.3
    with pytest.raises(UserError, match="momentum"):
        restored({**stored, "momentum": 0.3}, Moved)


# --- Differences ----------------------------------------------------------------------------------------------------


def test_two_configurations_are_compared_by_field(later: dict[str, str]) -> None:
    cell = Cell.parse("mpe/simple-reference/none/mappo")
    new = resolve(cell, {"epochs": 10, "wind": "true", "weight_decay": 0.5}).configuration()
    old = resolve(cell).configuration()
    assert [str(c) for c in changes(old, new)] == ["epochs 15 → 10", "weight_decay 0.0 → 0.5", "wind false → true"]
    assert [str(c) for c in changes(new, old)] == ["epochs 10 → 15", "weight_decay 0.5 → 0.0", "wind true → false"]
    assert changes(new, json.loads(json.dumps(new))) == []
    other = {**old, "protocol": 2, "revision": 7, "settings": {**old["settings"], "momentum": 0.9}}
    assert [str(c) for c in changes(other, old)] == ["protocol 2 → 1", "revision 7 → 1", "momentum 0.9 → absent"]


@pytest.mark.parametrize(
    "change",
    [
        Change("epochs", "5", "10", "variant mappo-10-epochs"),
        Change("env", "''", "a.b:c", "--set"),
        Change("epochs", "5", "10"),
    ],
)
def test_a_change_reads_back_from_its_text(change: Change) -> None:
    assert Change.read(str(change)) == change


def test_the_shipped_deviations_read_back() -> None:
    for plan, _ in load_suite("paper").runs():
        for change in plan.deviations:
            assert Change.read(str(change)) == change
    with pytest.raises(UserError, match="name old → new"):
        Change.read("five epochs more")
