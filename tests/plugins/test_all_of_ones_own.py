"""A loss, a network, a metric and a schedule of one's own at the same time, under every sharing."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from short_runs import TINY, tiny_plan, train, train_interrupted

from fp3o.config import SHARINGS
from fp3o.registry import load_file
from fp3o.runs import records

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
NETWORK = """
import torch
from torch import nn

import fp3o


@fp3o.network("narrow")
class Narrow(nn.Module):
    def __init__(self, inputs, settings):
        super().__init__()
        self.layer = nn.Linear(inputs.size, settings.hidden_size)

    def forward(self, observation, available, memory):
        return torch.tanh(self.layer(observation))
"""
GAMES = {"matrix/two-step": (), "mpe/simple-reference": (), "pettingzoo/harvest": ("fruit", "idle/agent_0")}


@pytest.mark.usefixtures("one_worker")
@pytest.mark.parametrize("kind", SHARINGS)
@pytest.mark.parametrize("game", GAMES)
def test_they_train_and_resume_to_the_bit(
    game: str, kind: str, write: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TINY, "pettingzoo", {"rollout_length": 24})
    for file in (EXAMPLES / "penalty.py", EXAMPLES / "harvest.py", write("narrow.py", NETWORK)):
        load_file(file)
    plan = tiny_plan(f"{game}/{kind}/penalty", 3, network="narrow", recurrent=False, actor_lr="linear 5e-3 to 0")
    whole = train(plan, tmp_path / "whole", (0, 1))
    resumed = train_interrupted(plan, tmp_path / "interrupted", (0, 1))
    # An environment that cannot save its state goes on with new episodes.
    assert resumed == whole if not GAMES[game] else resumed.keys() == whole.keys()
    rows = list(csv.DictReader((next((tmp_path / "whole").rglob(f"seed-1/{records.EVALUATIONS}"))).open()))
    assert set(GAMES[game]) <= set(rows[0])
    steps = list(csv.DictReader((next((tmp_path / "whole").rglob(f"seed-1/{records.ITERATIONS}"))).open()))
    assert len({row["beta"] for row in steps}) > 1  # the penalty's weight adapts
