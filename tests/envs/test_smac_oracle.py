"""The compiled kernel against a plain NumPy game loop, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fidelity import smac_oracle as oracle
from fp3o.config.options import SmacOptions
from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.battle import Battles, steering_numbers
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.scenarios import SCENARIOS

STEPS = {"2c_vs_64zg": 36, "bane_vs_bane": 14, "corridor": 30}


# Revision 2 with one kind of play, and slow: it does not change any more, and digests pin it on all maps.
@pytest.mark.parametrize(
    ("revision", "eager"),
    [
        pytest.param(3, True, id="attacking"),
        pytest.param(3, False, id="random"),
        pytest.param(2, True, id="revision 2", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_kernel_equals_oracle(name: str, revision: int, eager: bool) -> None:
    env = EmbeddedBattles(SCENARIOS[name], 1, auto_reset=False, options=SmacOptions(engine_revision=revision))
    env.reset(slot_seeds(11, "oracle", 1))
    numbers = steering_numbers(env.steering)
    mirror = Battles(*(array.copy() for array in env.battles))
    generator = np.random.default_rng(4)
    died = 0
    for step in range(STEPS.get(name, 50)):
        available = env.snapshot().available
        assert available is not None
        weight = np.ones(env.scenario.actions)
        if eager:
            weight[6:] = 50.0
        actions = (generator.random(available.shape) * available * weight).argmax(-1)
        frozen = not env.battles.running[0]
        env.step(actions[..., None])
        if frozen:
            break
        oracle.step(env.rules, env.ground, numbers, oracle.one_battle(mirror, 0), actions[0])
        for field, ours, theirs in zip(Battles._fields, mirror, env.battles, strict=True):
            if field not in ("step", "running", "total"):
                np.testing.assert_array_equal(ours, theirs, err_msg=f"{field} after step {step}")
        died = int((~env.battles.alive).sum())
    assert died > 0 or not eager
