"""Every algorithm under every sharing on every task: starts, trains, evaluates, saves, stops, resumes, ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from short_runs import documents, tiny_plan, train, train_interrupted

from fp3o.plan import Cell, algorithms, resolve, tasks
from fp3o.training import checkpoint, records

SHARINGS = ("full", "partial", "none")
TASKS = [f"mamujoco/{task}" for task in tasks("mamujoco")]
TASKS += ["mpe/simple-reference", "mpe/simple-speaker-listener"]


@pytest.mark.parametrize("algorithm", algorithms())
@pytest.mark.parametrize("task", TASKS)
def test_cells_run_and_resume(tmp_path: Path, task: str, algorithm: str) -> None:
    """Two iterations with a stop in between, every sharing; a third of the cells also against an unbroken run."""
    compared = SHARINGS[(TASKS.index(task) + algorithms().index(algorithm)) % 3]
    for sharing in SHARINGS:
        plan = tiny_plan(f"{task}/{sharing}/{algorithm}")
        folder = tmp_path / sharing
        found = train_interrupted(plan, folder)
        (document,) = documents(folder).values()
        assert document["status"] == "finished"
        assert document["cell"] == plan.cell.id
        (run,) = (path.parent for path in folder.rglob(records.RUN))
        iterations = records.read_iterations(run / records.ITERATIONS)
        assert iterations["iteration"].tolist() == [0, 1]
        for name in ("policy_loss", "value_loss", "entropy", "actor_gradient_norm", "critic_gradient_norm"):
            assert np.isfinite(iterations[name]).all(), name
        assert (iterations["actor_gradient_norm"] > 0).all()
        evaluations = records.read_evaluations(run / records.EVALUATIONS)
        assert evaluations["iteration"].tolist() == [0, 0, 1, 1]
        assert np.isfinite(evaluations["return"]).all()
        tensors, _ = checkpoint.load(run / records.CHECKPOINT)
        agents = {"full": 1, "partial": 1, "none": len(tensors["actor.trunk"])}
        assert len(tensors["actor.trunk"]) == len(tensors["critic"]) == agents[sharing]
        assert not any((folder / "scratch").rglob("*.safetensors"))
        if sharing == compared:
            assert train(plan, tmp_path / "unbroken") == found


# Once at the paper's own size: one iteration of 4 × 1000 steps of MuJoCo with 32 minibatches and 32 episodes after it,
# of 128 episodes of a recurrent MPE policy with 1000 at the end.
@pytest.mark.parametrize(
    "cell",
    [
        "mamujoco/halfcheetah-6x1/full/fp3o",
        "mamujoco/ant-2x4/none/mappo",
        "mpe/simple-reference/full/fp3o",
        "mpe/simple-speaker-listener/none/happo",
    ],
)
def test_full_size(tmp_path: Path, cell: str) -> None:
    paper = resolve(Cell.parse(cell)).settings
    plan = resolve(Cell.parse(cell), {"total_steps": paper.rollout_length * paper.rollout_threads})
    assert plan.iterations == 1
    train(plan, tmp_path)
    (document,) = documents(tmp_path).values()
    assert document["status"] == "finished"
    assert [line.split()[0] for line in document["deviations"]] == ["total_steps"]
    (run,) = (path.parent for path in tmp_path.rglob(records.RUN))
    evaluations = records.read_evaluations(run / records.EVALUATIONS)
    assert len(evaluations["return"]) == 32
    assert document["score"]["episodes"] == max(32, paper.final_episodes)
    assert np.isfinite(document["score"]["return"])
    iterations = records.read_iterations(run / records.ITERATIONS)
    assert iterations["env_steps"].tolist() == [plan.settings.total_steps]
    assert all(np.isfinite(column).all() for column in iterations.values())
