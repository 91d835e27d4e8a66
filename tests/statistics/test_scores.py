"""From files to scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fp3o.errors import UserError
from fp3o.runs import records
from fp3o.runs.layout import RunId
from fp3o.statistics import scores
from fp3o.statistics.scores import Planned

REACHER = "mamujoco/reacher-2x1/full/fp3o"
BANE = "smac/bane_vs_bane/full/fp3o"
COMMUNICATION = "mpe/simple-speaker-listener/none/mappo"


def load(folder: Path) -> scores.Run:
    return scores.load_run(folder, RunId.of(records.read_run(folder / records.RUN)))


def planned(folder: Path, cell: str, seeds: tuple[int, ...]) -> Planned:
    return Planned(cell, folder.parent.name, seeds)


def test_named_reductions(tmp_path: Path, write_run: Any) -> None:
    folder = write_run(tmp_path, REACHER, 0, -30.0)
    run = load(folder)
    assert len(run.curve.value) == 24
    assert scores.reduce(run, "final") == pytest.approx(-30.0)
    rewritten = scores.Curve(run.curve.env_steps, np.arange(24.0))
    changed = scores.Run(0, folder, run.document, rewritten)
    assert scores.reduce(changed, "final") == 23.0
    assert scores.reduce(changed, "last-10-mean") == 18.5
    skewed = scores.Curve(run.curve.env_steps, np.array([0.0] * 20 + [1.0] * 3 + [100.0]))
    assert scores.reduce(scores.Run(0, folder, run.document, skewed), "last-10-median") == 0.0


def test_a_short_run_is_not_scored_by_its_beginning() -> None:
    assert scores.last_ten(np.arange(8.0)).tolist() == [4.0, 5.0, 6.0, 7.0]
    assert scores.last_ten(np.arange(1.0)).tolist() == [0.0]
    assert len(scores.last_ten(np.arange(100.0))) == 10


def test_each_domain_has_its_metric(tmp_path: Path, write_run: Any) -> None:
    assert load(write_run(tmp_path, BANE, 0, 75.0)).curve.value[-1] == 75.0
    final = [-10.0, -14.0, -9.0, -11.0]
    run = load(write_run(tmp_path, COMMUNICATION, 0, -12.0, final=final))
    assert run.curve.value[-1] == pytest.approx(-12.0)  # per agent: half of the sum of two
    assert scores.reduce(run, "final") == pytest.approx(-11.0)  # final.csv, not the last evaluation
    assert run.episode_spread == pytest.approx(np.std(final * 250, ddof=1))


def test_seeds_that_are_missing_or_diverged_are_told(tmp_path: Path, write_run: Any) -> None:
    for seed in (0, 1, 3):
        folder = write_run(tmp_path, REACHER, seed, -30.0 - seed)
    diverged = {"status": "diverged", "diverged": {"iteration": 3, "quantity": "loss"}}
    write_run(tmp_path, REACHER, 4, -90.0, changes=diverged)
    (found,) = scores.collect(tmp_path, [planned(folder, REACHER, (0, 1, 2, 3, 4))])
    assert [run.seed for run in found.runs] == [0, 1, 3, 4]
    assert found.diverged == 1
    assert found.scores() == pytest.approx([-30, -31, -33, -90])  # the diverged seed counts


def test_a_seed_that_diverged_at_once_has_no_score(tmp_path: Path, write_run: Any) -> None:
    diverged = {"status": "diverged", "diverged": {"iteration": 0, "quantity": "loss"}}
    folder = write_run(tmp_path, REACHER, 0, -30.0, changes=diverged, evaluations=0)
    (found,) = scores.collect(tmp_path, [planned(folder, REACHER, (0,))])
    assert (found.scores(), found.summary(), found.diverged) == ([], None, 1)


def test_evaluations_that_are_not_finite_are_left_out() -> None:
    table = {"env_steps": np.array([1.0, 1, 2, 2]), "return": np.array([1.0, 3.0, np.nan, 5.0])}
    assert scores.curve(table, "return").value.tolist() == [2.0]


def test_a_folder_of_another_configuration_is_never_looked_at(tmp_path: Path, write_run: Any) -> None:
    write_run(tmp_path, REACHER, 0, -30.0, overrides={"epochs": 7})
    right = write_run(tmp_path, REACHER, 1, -31.0)
    (found,) = scores.collect(tmp_path, [planned(right, REACHER, (0, 1))])
    assert [run.seed for run in found.runs] == [1]


def test_engines_are_never_mixed(tmp_path: Path, write_run: Any) -> None:
    folder = write_run(tmp_path, BANE, 0, 50.0)
    write_run(tmp_path, BANE, 1, 50.0, changes={"environment": {"engine": "starcraft2"}})
    found = scores.collect(tmp_path, [planned(folder, BANE, (0, 1))])
    with pytest.raises(UserError, match=r"table-smac would mix engines: .*embedded.*; .*starcraft2"):
        scores.engine_of(found, "table-smac")


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({"unit_data": "aa"}, {"unit_data": "bb"}, "engines: .*unit data aa.*unit data bb"),
        ({"terrain": "aa"}, {"terrain": "bb"}, "terrains of .*: aa; bb"),
        ({"versions": {"game": "Base1"}}, {"versions": {"game": "Base2"}}, "engines: .*game Base1.*game Base2"),
        ({"versions": {"smac": "1.0"}}, {"versions": {"smac": "2.0"}}, "engines: .*smac 1.0.*smac 2.0"),
        ({"map_data": "aa"}, {"map_data": "bb"}, "terrains of .*: aa; bb"),
        ({"versions": {"numpy": "2.4"}}, {"versions": {"numpy": "2.5"}}, None),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_data_and_versions_are_never_mixed(
    tmp_path: Path, write_run: Any, first: dict[str, Any], second: dict[str, Any], what: str | None
) -> None:
    for seed, environment in enumerate((first, second)):
        changes = {"environment": {"engine": "embedded", **environment}}
        folder = write_run(tmp_path, BANE, seed, 50.0, changes=changes)
    found = scores.collect(tmp_path, [planned(folder, BANE, (0, 1))])
    if what is None:
        assert scores.battles_by(found) == "embedded engine, not StarCraft II"
        return
    with pytest.raises(UserError, match=f"table-smac would mix {what}"):
        scores.engine_of(found, "table-smac")


def test_deviations_of_the_variant_itself_do_not_count(tmp_path: Path, write_run: Any) -> None:
    cell = "mamujoco/reacher-2x1/full/mappo-10-epochs"
    folder = write_run(tmp_path, cell, 0, -30.0, overrides={"evaluation_episodes": 4})
    (found,) = scores.collect(tmp_path, [planned(folder, cell, (0,))])
    assert found.deviations == ()
    folder = write_run(tmp_path, cell, 1, -30.0, overrides={"total_steps": 8000})
    (found,) = scores.collect(tmp_path, [planned(folder, cell, (1,))])
    assert [str(change) for change in found.deviations] == ["total_steps 10000000 → 8000 (--set)"]


def test_pooled_median_takes_all_seeds_evaluations_together(tmp_path: Path, write_run: Any) -> None:
    for seed, score in enumerate((0.0, 50.0, 100.0)):
        folder = write_run(tmp_path, BANE, seed, score)
    (found,) = scores.collect(tmp_path, [planned(folder, BANE, (0, 1, 2))])
    pooled = scores.pooled_median(found)
    assert pooled is not None
    assert (pooled.centre, pooled.n) == (50.0, 3)
    assert pooled.spread == pytest.approx(np.std([0.0, 50.0, 100.0] * 10, ddof=1))
