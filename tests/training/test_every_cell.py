"""Every algorithm on every task starts, trains, evaluates, saves, stops, resumes and ends: under one sharing here, so
that each algorithm and each task meets all three, and under the other two in the slow tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from short_runs import documents, tiny_plan, train, train_interrupted

from fp3o.config import Cell, Change, algorithms, resolve, tasks
from fp3o.envs import make
from fp3o.learner.update import initialise, networks
from fp3o.networks.sharing import sharing as owners
from fp3o.runs import checkpoint, records

SHARINGS = ("full", "partial", "none")
TASKS = [f"mamujoco/{task}" for task in tasks("mamujoco")]
TASKS += ["mpe/simple-reference", "mpe/simple-speaker-listener"]
AGENTS = {
    "mamujoco/reacher-2x1": 2,
    "mamujoco/ant-2x4": 2,
    "mamujoco/walker2d-2x3": 2,
    "mamujoco/hopper-3x1": 3,
    "mamujoco/halfcheetah-6x1": 6,
    "mamujoco/swimmer-8x2": 8,
    "mpe/simple-reference": 2,
    "mpe/simple-speaker-listener": 2,
}


def owners_in(run: Path) -> tuple[int, int, int]:
    """Trunks, heads and critics in a run's checkpoint."""
    tensors, _ = checkpoint.load(run / records.CHECKPOINT)
    trunks, heads, critics = (len(tensors[name]) for name in ("actor.trunk", "actor.head", "critic"))
    return trunks, heads, critics


@pytest.mark.parametrize(
    ("task", "sharing", "algorithm"),
    [
        pytest.param(task, sharing, algorithm, marks=() if (i + j + k) % 3 == 0 else pytest.mark.slow)
        for i, task in enumerate(TASKS)
        for j, sharing in enumerate(SHARINGS)
        for k, algorithm in enumerate(algorithms())
    ],
)
def test_cells_run_and_resume(tmp_path: Path, task: str, sharing: str, algorithm: str) -> None:
    """Two iterations with a stop in between, and the same without it."""
    plan = tiny_plan(f"{task}/{sharing}/{algorithm}")
    folder = tmp_path / "stopped"
    found = train_interrupted(plan, folder)
    (document,) = documents(folder).values()
    assert document["status"] == "finished"
    assert document["cell"] == plan.cell.id
    (run,) = (path.parent for path in folder.rglob(records.RUN))
    iterations = records.read_table(run / records.ITERATIONS)
    assert iterations["iteration"].tolist() == [0, 1]
    for name in ("policy_loss", "value_loss", "entropy", "actor_gradient_norm", "critic_gradient_norm"):
        assert np.isfinite(iterations[name]).all(), name
    assert (iterations["actor_gradient_norm"] > 0).all()
    evaluations = records.read_table(run / records.EVALUATIONS)
    assert evaluations["iteration"].tolist() == [0, 0, 1, 1]
    assert np.isfinite(evaluations["return"]).all()
    n = AGENTS[task]
    assert owners_in(run) == {"full": (1, 1, 1), "partial": (1, n, 1), "none": (n, n, n)}[sharing]
    assert not any((folder / "scratch").rglob("*.safetensors"))
    assert train(plan, tmp_path / "unbroken") == found


@pytest.mark.parametrize("algorithm", ["fp3o", "happo"])
def test_a_partial_sharing_checkpoint_holds_every_head(tmp_path: Path, algorithm: str) -> None:
    """Each agent's own, and trained: the release keeps its heads in a plain list, outside what it saves."""
    plan = tiny_plan(f"mamujoco/hopper-3x1/partial/{algorithm}")
    train(plan, tmp_path)
    (run,) = (path.parent for path in tmp_path.rglob(records.RUN))
    assert owners_in(run) == (1, 3, 1)
    heads = torch.as_tensor(checkpoint.load(run / records.CHECKPOINT)[0]["actor.head"])
    spec = make("mamujoco", "hopper-3x1", 1).spec
    actor, critic = networks(spec, owners("partial", spec.agent_types), algorithm, plan.settings)
    at_first = initialise(actor, critic, (0,)).head[0]
    assert heads.shape == at_first.shape == (3, actor.head_layout.size)
    assert (heads != at_first).any(1).all()
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (heads[one] != heads[other]).float().mean() > 0.5


# Once at the paper's own size: one iteration of 4 × 1000 steps of MuJoCo with 32 minibatches and 32 episodes after it,
# of 128 episodes of a recurrent MPE policy with 1000 at the end.
@pytest.mark.parametrize(
    "cell",
    [
        "mamujoco/halfcheetah-6x1/full/fp3o",
        pytest.param("mamujoco/ant-2x4/none/mappo", marks=pytest.mark.slow),
        pytest.param("mpe/simple-reference/full/fp3o", marks=pytest.mark.slow),
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
    assert [Change.read(line).name for line in document["deviations"]] == ["total_steps"]
    (run,) = (path.parent for path in tmp_path.rglob(records.RUN))
    evaluations = records.read_table(run / records.EVALUATIONS)
    assert len(evaluations["return"]) == 32
    assert document["score"]["episodes"] == max(32, paper.final_episodes)
    assert np.isfinite(document["score"]["return"])
    iterations = records.read_table(run / records.ITERATIONS)
    assert iterations["env_steps"].tolist() == [plan.settings.total_steps]
    assert all(np.isfinite(column).all() for column in iterations.values())
