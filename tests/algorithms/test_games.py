"""Two small games solved by every algorithm under every kind of sharing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fp3o.algorithms import ALGORITHMS
from fp3o.algorithms.full_pipeline import Fp3oSettings
from fp3o.algorithms.sequential import A2poSettings, HappoSettings
from fp3o.algorithms.simultaneous import CoppoSettings
from fp3o.config import Cell
from fp3o.config.options import MatrixOptions
from fp3o.config.settings import Settings, with_own
from fp3o.envs import make
from fp3o.envs.interface import slot_seeds
from fp3o.envs.matrix.engine import best_return
from fp3o.learner.randomness import Draws
from fp3o.learner.update import Learner
from fp3o.networks.sharing import sharing
from fp3o.rollout.collector import Collector
from fp3o.rollout.evaluation import Evaluator

SEEDS = (0, 1)
SETTINGS = with_own(Settings, Fp3oSettings, CoppoSettings, HappoSettings, A2poSettings)(
    rollout_length=4,
    rollout_threads=32,
    epochs=3,
    epochs_dependent=3,
    minibatches=1,
    actor_lr=7e-3,
    critic_lr=5e-3,
    entropy_coef=0.01,
    hidden_size=16,
    head_lr_scale="one",
)
ITERATIONS = 18


@pytest.mark.parametrize("kind", ["full", "partial", "none"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("task", ["coordination", pytest.param("two-step", marks=pytest.mark.slow)])
def test_solved(task: str, algorithm: str, kind: str) -> None:
    order = "semi-greedy" if algorithm == "a2po" else "random"
    settings = replace(SETTINGS, agent_order=order)
    env = make("matrix", task, len(SEEDS) * settings.rollout_threads)
    owners = sharing(kind, env.spec.agent_types)
    learner = Learner.fresh(env.spec, owners, algorithm, settings, SEEDS)
    collector = Collector(env, learner, settings)
    env.reset(np.concatenate([slot_seeds(seed, "training", settings.rollout_threads) for seed in SEEDS]))
    for iteration in range(ITERATIONS):
        learner.update(collector.collect(SEEDS, iteration).rollout, Draws(SEEDS, iteration))
    evaluator = Evaluator(Cell("matrix", task, kind, algorithm), MatrixOptions(), learner.actor, len(SEEDS), 2)
    trunks, heads, _ = learner.stepper.parameters
    returns = [
        np.mean([e.total_return for e in episodes]) for episodes in evaluator.run(trunks, heads, SEEDS, "evaluation", 0)
    ]
    assert returns == pytest.approx([best_return(task)] * len(SEEDS))
