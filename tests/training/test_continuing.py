"""A longer budget goes on from a finished run and equals one that was trained in one go; what is kept on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import call
from short_runs import PLAIN, StopAfter, documents, files, tiny_plan, train

import fp3o
from fp3o.config import Cell, Plan, resolve
from fp3o.errors import UserError
from fp3o.rollout.evaluation import evaluate_run
from fp3o.runs import checkpoint, layout, records
from fp3o.runs.extend import extend
from fp3o.runs.interrupt import Interrupted
from fp3o.training import run
from fp3o.training.callbacks.checkpoints import ExtraCheckpoints

SEEDS = (0, 1)


def train_keeping(plan: Plan, folder: Path, stop: int = 0, **what: Any) -> ExtraCheckpoints:
    """Train the seeds in `folder`; stop: after so many steps, then go on."""
    kept = [ExtraCheckpoints(plan, folder / "scratch", **what) for _ in range(2)]  # a resumed process has its own
    if stop:
        with pytest.raises(Interrupted):
            run.train(plan, SEEDS, folder, folder / "scratch", PLAIN, [kept[0], StopAfter(stop)])
    run.train(plan, SEEDS, folder, folder / "scratch", PLAIN, [kept[1]])
    return kept[1]


@pytest.mark.parametrize("cell", ["mpe/simple-speaker-listener/none/fp3o", "matrix/endless/full/a2po"])
def test_going_on_equals_one_go(tmp_path: Path, cell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Evaluated every third iteration and at the end: the shorter run has an evaluation that the longer has not."""
    short, long = (tiny_plan(cell, iterations, evaluation_interval=3) for iterations in (2, 5))
    wanted = train(long, tmp_path / "one-go", SEEDS)
    folder = tmp_path / "parts"
    train_keeping(short, folder, state=True)
    run = layout.run_directory(folder, short, 1)
    rows = records.read_table(run / records.EVALUATIONS)
    assert sorted(set(rows["iteration"])) == [0, 1]
    assert call("continue", str(run), "--total-steps", str(long.settings.total_steps)) == 0
    steps = f"{short.settings.total_steps:,} to {long.settings.total_steps:,} steps each"
    assert f"{cell} {long.digest}: seeds 0-1 from {steps}\n" in capsys.readouterr().out
    assert files(folder / cell / long.digest) == wanted
    assert all(f"continued from {short.digest}" in str(one["volatile"]["notes"]) for one in _volatile(folder, long))
    # The shorter run and its state are still there.
    assert len(files(folder / cell / short.digest)) == len(wanted)
    assert call("continue", str(run), "--total-steps", str(long.settings.total_steps)) == 0
    assert "already finished, nothing to do" in capsys.readouterr().out


def _volatile(folder: Path, plan: Plan) -> list[dict[str, Any]]:
    return list(documents(folder / plan.cell.id / plan.digest).values())


def test_what_cannot_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tiny_plan("matrix/endless/full/mappo")
    train_keeping(plan, tmp_path)
    run = layout.run_directory(tmp_path, plan, 0)
    each = plan.settings.rollout_length * plan.settings.rollout_threads
    assert call("continue", str(run), "--total-steps", str(4 * each)) == 2
    assert "kept no state of seed 0 to go on from" in capsys.readouterr().err
    assert call("continue", str(run), "--total-steps", str(2 * each)) == 2
    assert f"{2 * each} steps are done; allowed: {3 * each} or more" in capsys.readouterr().err
    document = records.read_run(run / records.RUN)
    with pytest.raises(UserError, match="made by another version"):
        extend({**document, "digest": "0123456789"}, 4 * each)


def test_the_longer_plan_is_the_one_set_by_hand() -> None:
    """The same settings, and the same words on where they are from: derived ones follow, variants stay variants."""
    cell = "mamujoco/hopper-3x1/none/fp3o-double-clip"
    short, long = tiny_plan(cell, 2, clip=0.1), tiny_plan(cell, 5, clip=0.1)
    document = {"cell": cell, "digest": short.digest, **short.configuration()}
    plans = extend(document, long.settings.total_steps)
    assert (plans.old.digest, plans.new) == (short.digest, long)
    assert {"variant fp3o-double-clip", "follows clip", "--set"} <= {one.source for one in plans.new.deviations}


def test_checkpoints_on_the_way(tmp_path: Path) -> None:
    """The last one is the run's own; the best is that of the best evaluation, also after a stop; runs do not change."""
    plan = tiny_plan("mpe/simple-speaker-listener/full/mappo", 4)
    plain = train(plan, tmp_path / "plain", SEEDS)
    each = plan.settings.rollout_length * plan.settings.rollout_threads
    keeps = [
        train_keeping(plan, tmp_path / name, stop, every=2, best=True) for name, stop in (("a", 0), ("b", 2 * each))
    ]
    assert files(tmp_path / "a" / plan.cell.id) == files(tmp_path / "b" / plan.cell.id) == plain
    names = ["best.safetensors", f"step-{2 * each}.safetensors", f"step-{4 * each}.safetensors"]
    for seed in SEEDS:
        run, kept = layout.run_directory(tmp_path / "a", plan, seed), keeps[0].folder / f"seed-{seed}"
        assert sorted(path.name for path in kept.iterdir()) == names
        for name in names:
            assert (kept / name).read_bytes() == (keeps[1].folder / f"seed-{seed}" / name).read_bytes()
        last, _ = checkpoint.load(kept / names[2])
        own, _ = checkpoint.load(run / records.CHECKPOINT)
        assert all(np.array_equal(last[name], own[name]) for name in own)
        rows = records.read_table(run / records.EVALUATIONS)
        means = {step: rows["return_per_agent"][rows["env_steps"] == step].mean() for step in set(rows["env_steps"])}
        _, about = checkpoint.load(kept / names[0])
        assert about["env_steps"] == max(means, key=lambda step: (means[step], -step))
        iteration = about["env_steps"] // each - 1
        played = evaluate_run(run, 2, seed, stream="evaluation", iteration=iteration, weights=kept / names[0])
        assert np.mean([one.return_per_agent for one in played]) == pytest.approx(about["return_per_agent"], rel=1e-6)
    run = layout.run_directory(tmp_path / "a", plan, 0)
    teams = [fp3o.Run(run).team(checkpoint=keeps[0].folder / "seed-0" / name) for name in names[1:]]
    early, final, own_heads = (np.asarray(team._run.heads) for team in (*teams, fp3o.Run(run).team()))
    assert np.array_equal(final, own_heads)
    assert not np.array_equal(early, final)
    other = keeps[0].folder / "seed-1" / names[0]
    with pytest.raises(UserError, match="belongs to another run: its seed is 1"):
        evaluate_run(layout.run_directory(tmp_path / "a", plan, 0), 2, 0, weights=other)


def test_of_battles_neither_won_nor_lost_none_is_best(tmp_path: Path) -> None:
    plan = resolve(Cell.parse("smac/3s5z/full/mappo"))
    keeper = ExtraCheckpoints(plan, tmp_path, best=True)
    row = {"env_steps": 400, "return": 3.0, "return_per_agent": 3.0, "won": None, "length": 80}
    keeper.evaluated_policy(0, [row], lambda: {"x": np.zeros(1)})
    assert not any(tmp_path.iterdir())
    keeper.evaluated_policy(0, [row, {**row, "won": True}], lambda: {"x": np.ones(1)})
    assert checkpoint.load(keeper.folder / "seed-0" / "best.safetensors")[1]["won"] == 1.0
