"""Evaluation: never changes training, the same episodes for every algorithm, and to be had again from the files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from short_runs import files, tiny_plan, train

from fp3o.envs.interface import BatchEnv
from fp3o.rollout.evaluation import Evaluator, evaluate_run, final_rows
from fp3o.runs import checkpoint, records

CELLS = ("mamujoco/hopper-3x1", "mpe/simple-speaker-listener", "matrix/endless")


def run_of(folder: Path) -> Path:
    (run,) = (path.parent for path in folder.rglob(records.RUN))
    return run


@pytest.mark.parametrize("sharing", ["full", "partial", "none"])
@pytest.mark.parametrize("task", CELLS)
def test_a_finished_run_plays_its_last_evaluation_again(tmp_path: Path, task: str, sharing: str) -> None:
    """The policy of the checkpoint, on the start states of the last evaluation or of the final score."""
    train(tiny_plan(f"{task}/{sharing}/mappo", final_episodes=4), tmp_path, seeds=(3,))
    run = run_of(tmp_path)
    recorded = records.read_table(run / records.EVALUATIONS)
    again = evaluate_run(run, 2, 3, stream="evaluation", iteration=1)
    assert written(again) == rows(recorded, recorded["iteration"] == 1)
    final = records.read_table(run / records.FINAL)
    assert written(evaluate_run(run, 4, 3, stream="final")) == rows(final, final["episode"] >= 0)
    # Start states of its own otherwise, the same each time.
    assert written(evaluate_run(run, 2, 3)) == written(evaluate_run(run, 2, 3))


def test_drawn_actions(tmp_path: Path) -> None:
    """Other episodes than those of the most likely actions, from the same start states; the same each time."""
    train(tiny_plan("mpe/simple-speaker-listener/none/mappo"), tmp_path, seeds=(3,))
    run = run_of(tmp_path)
    drawn = evaluate_run(run, 4, 0, stochastic=True)
    assert written(drawn) == written(evaluate_run(run, 4, 0, stochastic=True))
    greedy = evaluate_run(run, 4, 0)
    assert all(a.total_return != b.total_return for a, b in zip(drawn, greedy, strict=True))
    starts = []
    for stochastic in (True, False):
        seen: list[list[float]] = []
        evaluate_run(run, 4, 0, partial(note, seen), stochastic=stochastic)
        starts.append(seen[0])
    assert starts[0] == starts[1]


def note(seen: list[list[float]], env: BatchEnv, actions: Any) -> None:
    seen.append([float(number) for number in env.snapshot().observation.ravel()])


def written(episodes: list[Any]) -> list[list[str]]:
    """Episodes as the files write them."""
    return [[records.cell_text(row[name]) for name in records.FINAL_COLUMNS] for row in final_rows(episodes)]


def rows(table: records.Columns, chosen: Any) -> list[list[str]]:
    """The same of a table read from a file; whole numbers and empty fields as they were."""

    def text(name: str, value: float) -> str:
        if np.isnan(value):
            return ""
        return records.cell_text(int(value) if name in ("episode", "length", "won") else value)

    return [[text(name, table[name][i]) for name in records.FINAL_COLUMNS] for i in np.flatnonzero(chosen)]


@pytest.mark.parametrize("cell", [f"{task}/partial/fp3o" for task in CELLS])
def test_how_often_one_evaluates_changes_nothing(tmp_path: Path, cell: str) -> None:
    """Interval and number of episodes: the parameters trained, and every line of iterations.csv, stay the same."""
    often, seldom = tiny_plan(cell, 4), tiny_plan(cell, 4, evaluation_interval=3, evaluation_episodes=5)
    a, b = train(often, tmp_path / "often"), train(seldom, tmp_path / "seldom")
    assert a["seed-0/iterations.csv"] == b["seed-0/iterations.csv"]
    assert tensors(tmp_path / "often") == tensors(tmp_path / "seldom")
    # What is evaluated in both has the same start states too: the first episodes of the first evaluation agree.
    at = [records.read_table(run_of(tmp_path / name) / records.EVALUATIONS) for name in ("often", "seldom")]
    assert sorted(set(at[0]["iteration"])) == [0, 1, 2, 3]
    assert sorted(set(at[1]["iteration"])) == [0, 3]
    for iteration in (0, 3):
        returns = [table["return"][table["iteration"] == iteration][:2].tolist() for table in at]
        assert returns[0] == returns[1]


def tensors(folder: Path) -> dict[str, bytes]:
    found, _ = checkpoint.load(run_of(folder) / records.CHECKPOINT)
    return {name: np.asarray(value).tobytes() for name, value in found.items()}


def test_all_algorithms_start_from_the_same_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[np.ndarray[Any, Any]]] = {}
    real = Evaluator.run

    def watched(self: Evaluator, *arguments: Any) -> Any:
        def watch(env: BatchEnv, actions: Any) -> None:
            if first:
                seen[name].append(env.snapshot().state.copy())
                first.clear()

        first = [True]
        trunks, heads, seeds, stream, iteration, *_ = arguments
        return real(self, trunks, heads, seeds, stream, iteration, watch)

    monkeypatch.setattr(Evaluator, "run", watched)
    for algorithm, sharing in (("fp3o", "full"), ("mappo", "none"), ("happo", "partial"), ("mappo", "full")):
        name = f"{algorithm} {sharing}"
        seen[name] = []
        train(tiny_plan(f"mamujoco/hopper-3x1/{sharing}/{algorithm}"), tmp_path / name, seeds=(0, 1))
    first, *others = seen.values()
    assert len(first) == 2
    for states in others:
        assert [s.tobytes() for s in states] == [s.tobytes() for s in first]
    # Other seeds and other evaluations begin elsewhere.
    assert len({row.tobytes() for states in first for row in states[:, 0]}) == 2 * 2 * 2


def test_every_slot_plays_one_episode(tmp_path: Path) -> None:
    """Hopper falls at different times: each of the episodes is one slot's first, not the first to end."""
    plan = tiny_plan("mamujoco/hopper-3x1/full/mappo", 1, evaluation_episodes=6, episode_limit=200)
    train(plan, tmp_path, seeds=(0, 1))
    for path in sorted(tmp_path.rglob(records.EVALUATIONS)):
        table = records.read_table(path)
        assert table["episode"].tolist() == list(range(6))
        assert len(set(table["length"])) > 1
    assert len(files(tmp_path)) == 2 * 4
