"""Numbers of a short run of every algorithm, pinned: whoever changes them bumps PROTOCOL in fp3o/config/resolution.py.

A thousandth of tolerance lets rounding differ between machines and versions; another formula shows at once.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fp3o import config
from fp3o.envs import make
from fp3o.networks.sharing import sharing
from fp3o.training.randomness import Draws
from fp3o.training.rollout import Collector
from fp3o.training.update import Learner, initialise, networks

PINNED_PROTOCOL = 1
PINNED = {
    "fp3o": (-0.663103, -0.0684539, 0.353299),
    "mappo": (-0.273102, -0.0174888, 0.476612),
    "ippo": (-0.362633, -0.0778929, -0.0963105),
    "happo": (0.159033, 0.0179142, 0.286148),
    "coppo": (-0.871547, -0.112884, 0.481858),
    "a2po": (0.645232, 0.0849074, 0.215093),
}


def fingerprint(algorithm: str) -> tuple[float, float, float]:
    """Projections of trunk, head and critic on fixed random directions after three iterations of a small game."""
    torch.set_num_threads(1)
    plan = config.resolve(config.Cell.parse(f"matrix/continuous/partial/{algorithm}"))
    env = make("matrix", "continuous", plan.settings.rollout_threads)
    owners = sharing("partial", env.spec.agent_types)
    initial = initialise(*networks(env.spec, owners, algorithm, plan.settings), [7])
    learner = Learner(env.spec, owners, algorithm, plan.settings, initial)
    collector = Collector(env, learner, plan.settings)
    env.reset(np.arange(plan.settings.rollout_threads, dtype=np.uint64))
    for iteration in range(3):
        learner.update(collector.collect([7], iteration).rollout, Draws([7], iteration))
    values = []
    for parameters, start in zip(learner.stepper.parameters, initial, strict=True):
        moved = (parameters.detach() - start).flatten().double().numpy()
        direction = np.random.default_rng(0).standard_normal(len(moved))
        values.append(float(moved @ direction))
    return values[0], values[1], values[2]


@pytest.mark.parametrize("algorithm", config.algorithms())
def test_numbers_of_the_protocol(algorithm: str) -> None:
    assert config.PROTOCOL == PINNED_PROTOCOL, "pin the new protocol's numbers: they are printed by this test"
    found = fingerprint(algorithm)
    assert found == pytest.approx(PINNED[algorithm], rel=1e-3), f"{algorithm}: {found}; bump PROTOCOL if this is meant"
