"""Environment steps per second of the particle engine (128 worlds) over the mpe2 package; one JSON line per task.

Both sides in one process, in turns, best of several: ratios hold on a busy machine where rates do not.
"""

from __future__ import annotations

import importlib
import json
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from fp3o.envs import make
from fp3o.envs.options import MpeOptions
from fp3o.envs.protocol import slot_seeds

WORLDS = 128
EPISODE = 25
ROUNDS = 7
NEEDED = 300.0
PACKAGE = {
    "simple-reference": "simple_reference_v3",
    "simple-speaker-listener": "simple_speaker_listener_v4",
    "simple-spread": "simple_spread_v3",
}


def engine_rate(task: str, flavour: str) -> float:
    """Resets, observations, critic states and rewards included; actions drawn beforehand."""
    env = make("mpe", task, WORLDS, options=MpeOptions(flavour=flavour))  # type: ignore[arg-type]
    env.reset(slot_seeds(0, "speed", WORLDS))
    sizes = (3,) if "speaker" in task else env.spec.action.sizes
    shape = (EPISODE, WORLDS, env.spec.agents, len(sizes))
    actions = np.random.default_rng(0).integers(sizes, size=shape)
    begin = time.process_time()
    for _ in range(8):
        for chosen in actions:
            env.step(chosen)
    return 8 * EPISODE * WORLDS / (time.process_time() - begin)


def package_rate(task: str) -> float:
    """One world through the package's parallel interface."""
    env = importlib.import_module(f"mpe2.{PACKAGE[task]}").parallel_env()
    generator = np.random.default_rng(0)
    choices = {name: env.action_space(name).n for name in env.possible_agents}
    actions = [{name: int(generator.integers(n)) for name, n in choices.items()} for _ in range(EPISODE)]
    begin = time.process_time()
    for episode in range(20):
        env.reset(seed=episode)
        for chosen in actions:
            env.step(dict(chosen))
    return 20 * EPISODE / (time.process_time() - begin)


def main() -> None:
    for task in PACKAGE:
        for flavour in ("mappo", "mpe2"):
            engine = package = 0.0
            for _ in range(ROUNDS):
                engine = max(engine, engine_rate(task, flavour))
                package = max(package, package_rate(task))
            line = {
                "task": f"mpe/{task}",
                "flavour": flavour,
                "worlds": WORLDS,
                "engine_steps_per_second": round(engine),
                "mpe2_steps_per_second": round(package),
                "ratio": round(engine / package, 1),
                "needed": NEEDED,
                "ok": engine / package >= NEEDED,
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
