"""A team as a plain module: the same actions, log-probabilities and values; and as an ONNX file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fp3o
from fp3o.rollout.evaluation import Trained, trained
from fp3o.rollout.policy import Policy

CELLS = (
    "matrix/uneven/full/mappo",
    "matrix/masked/partial/happo",
    "matrix/two-step/none/fp3o",
    "matrix/continuous-uneven/none/mappo",
)
cells = pytest.mark.parametrize("cell", CELLS)
SLOTS = 5


def played(run: fp3o.Run, steps: int = 6) -> list[dict[str, Any]]:
    """What the team saw and did in some environments, step by step."""
    env, team, rows = run.make_env(SLOTS), run.team(), []
    size = team.to_torch().memory_sizes[0]
    memory = np.zeros((SLOTS, env.spec.agents, size), np.float32) if size else None
    snapshot = env.reset(np.arange(SLOTS, dtype=np.uint64))
    for _ in range(steps):
        row: dict[str, Any] = {
            "observation": snapshot.observation.copy(),
            "state": snapshot.state.copy(),
            "memory": memory,
        }
        row["available"] = None if snapshot.available is None else snapshot.available.copy()
        row["action"], memory = team.act(row["observation"], memory, row["available"])
        rows.append(row | {"after": memory})
        transition = env.step(row["action"])
        snapshot = transition.snapshot
        if memory is not None:
            memory = memory * ~(transition.terminated | transition.truncated)[:, None, None]
    return rows


def tensor(x: Any) -> Tensor | None:
    return None if x is None else torch.from_numpy(np.asarray(x))


@cells
def test_it_acts_as_the_team_does(cell: str, team_runs: dict[str, fp3o.Run]) -> None:
    module = team_runs[cell].team().to_torch()
    for row in played(team_runs[cell]):
        action, location, after = module(*(tensor(row[name]) for name in ("observation", "available", "memory")))
        assert location.requires_grad
        np.testing.assert_allclose(action.detach().numpy(), row["action"], atol=1e-5)
        assert (after is None) == (row["after"] is None)
        if after is not None:
            np.testing.assert_allclose(after.detach().numpy(), row["after"], atol=1e-5)


def by_agent(x: Any) -> Tensor | None:
    """[N, A, …] → [1, A, N, 1, …], as networks of many seeds and steps take it."""
    return None if x is None else torch.from_numpy(np.asarray(x))[None].transpose(1, 2)[:, :, :, None]


def of_learner(found: Trained, row: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """log π and V, [A, N] each, as training computes them."""
    policy, agents = Policy(found.actor, 1, SLOTS), found.spec.agents
    policy.load(found.trunks, found.heads)
    keep = torch.zeros(1, agents, SLOTS, 1)
    seen, legal, state = (by_agent(row[name]) for name in ("observation", "available", "state"))
    assert seen is not None
    assert state is not None
    distribution, _ = found.actor.distribution(policy._layers, seen, legal, policy.hidden, keep)
    action = by_agent(np.asarray(row["action"], np.float32))
    assert action is not None
    used = found.spec.action.used
    exists = None if used is None else torch.arange(action.shape[-1]) < torch.tensor(used)[:, None, None, None]
    log_prob = found.actor.log_prob(distribution, action, exists)
    owners = torch.tensor(found.critic.sharing.trunk)
    layers = found.critic.layers(found.critic.rows(found.critics, owners[None]))
    memory = torch.zeros(1, agents, SLOTS, found.critic.trunk.memory) if found.critic.trunk.memory else None
    value, _ = found.critic.value(layers, state, memory, keep)
    mean, std = (x[owners][:, None] for x in found.value_units)
    return log_prob[0, :, :, 0], value[0, :, :, 0] * std + mean


@cells
def test_log_probabilities_and_values_are_the_learners(cell: str, team_runs: dict[str, fp3o.Run]) -> None:
    run = team_runs[cell]
    row, team = played(run)[0], run.team()
    log_prob, value = of_learner(trained(run.path), row)
    got = team.log_prob(row["observation"], row["action"], row["memory"], row["available"])
    np.testing.assert_allclose(got.T, log_prob.numpy(), atol=2e-5)
    assert log_prob.unique().numel() > 1
    returns, after = team.value(row["state"])
    np.testing.assert_allclose(returns.T, value.numpy(), atol=2e-5)
    assert (after is None) == (row["memory"] is None)
    one, _ = team.value(row["state"][0])
    np.testing.assert_allclose(one, returns[0], atol=2e-5)


def test_parameters_have_the_names_that_are_documented(team_runs: dict[str, fp3o.Run]) -> None:
    names = set(team_runs["matrix/continuous-uneven/none/mappo"].team().to_torch().state_dict())
    assert {"trunks.1.fc2.weight", "heads.1.bias", "log_std.0", "critics.0.feature_norm.weight", "value_std"} <= names
    shared = set(team_runs["matrix/masked/partial/happo"].team().to_torch().state_dict())
    assert {name.rpartition(".")[0] for name in shared if "heads" in name} == {"heads.0", "heads.1"}
    assert not any(name.startswith("trunks.1") for name in shared)


@cells
def test_onnx_does_what_the_team_does(cell: str, team_runs: dict[str, fp3o.Run], tmp_path: Path) -> None:
    import onnxruntime

    run = team_runs[cell]
    run.team().to_torch().to_onnx(tmp_path / "team.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "team.onnx")
    for row in played(run):
        given = {name: row[name] for name in ("observation", "available", "memory") if row[name] is not None}
        outputs = dict(zip((x.name for x in session.get_outputs()), session.run(None, given), strict=True))
        np.testing.assert_allclose(outputs["action"], row["action"], atol=1e-5)
        if row["after"] is not None:
            np.testing.assert_allclose(outputs["memory_after"], row["after"], atol=1e-5)


def test_mistakes_are_one_line(team_runs: dict[str, fp3o.Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team = team_runs[CELLS[0]].team()
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(fp3o.UserError, match=r"^to_onnx needs onnx and onnxscript: pip install 'fp3o\[onnx\]'$"):
        team.to_torch().to_onnx(tmp_path / "team.onnx")
    shapes = r"^states have shape \(3, 4\); allowed: \(2, \d+\) or \(environments, 2, \d+\)$"
    with pytest.raises(fp3o.UserError, match=shapes):
        team.value(np.zeros((3, 4)))
