"""JaxMARL's part of peers.py, run by an interpreter that has it: seconds of one iteration, as JSON.

Its training functions are not in its wheel, so they are imported from a checkout of its repository. A whole training is
one compiled program; each is run three times, and the fastest counts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import jax

SCRIPTS = {
    "mpe-mlp": "baselines/IPPO/ippo_ff_mpe.py",
    "mpe-gru": "baselines/MAPPO/mappo_rnn_mpe.py",
    "battle": "baselines/MAPPO/mappo_rnn_smax.py",
}
TASKS: dict[str, dict[str, Any]] = {
    "mpe-mlp": {"ENV_NAME": "MPE_simple_reference_v3", "ENV_KWARGS": {}},
    "mpe-gru": {"ENV_NAME": "MPE_simple_reference_v3", "ENV_KWARGS": {}},
    "battle": {
        "MAP_NAME": "3s5z",
        "OBS_WITH_AGENT_ID": True,
        "ENV_KWARGS": {"see_enemy_actions": True, "walls_cause_death": True, "attack_mode": "closest"},
    },
}
LEARNING: dict[str, Any] = {
    "LR": 7e-4,
    "GAMMA": 0.99,
    "GAE_LAMBDA": 0.95,
    "CLIP_EPS": 0.2,
    "SCALE_CLIP_EPS": False,
    "ENT_COEF": 0.01,
    "VF_COEF": 0.5,
    "MAX_GRAD_NORM": 10.0,
    "ACTIVATION": "relu",
    "ANNEAL_LR": False,
}
REPEATS = 3


def script(checkout: Path, task: str) -> ModuleType:
    # It logs to W&B and reads its configuration by Hydra; neither is needed to train.
    for name in ("hydra", "omegaconf", "wandb"):
        sys.modules[name] = MagicMock(log=lambda *_, **__: None)
    spec = importlib.util.spec_from_file_location("jaxmarl_script", checkout / SCRIPTS[task])
    if spec is None or spec.loader is None:
        sys.exit(f"{checkout}: no {SCRIPTS[task]}; needed: a checkout of JaxMARL's repository")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jaxmarl", type=Path, required=True, metavar="CHECKOUT")
    parser.add_argument("--task", choices=sorted(SCRIPTS), required=True)
    for option in ("environments", "steps", "epochs", "minibatches", "hidden", "iterations", "seeds"):
        parser.add_argument(f"--{option}", type=int, required=True)
    chosen = parser.parse_args()
    sizes = {
        "NUM_ENVS": chosen.environments,
        "NUM_STEPS": chosen.steps,
        "UPDATE_EPOCHS": chosen.epochs,
        "NUM_MINIBATCHES": chosen.minibatches,
        "FC_DIM_SIZE": chosen.hidden,
        "GRU_HIDDEN_DIM": chosen.hidden,
        "TOTAL_TIMESTEPS": chosen.iterations * chosen.environments * chosen.steps,
    }
    train = script(chosen.jaxmarl, chosen.task).make_train(LEARNING | TASKS[chosen.task] | sizes)
    keys = jax.random.split(jax.random.PRNGKey(0), chosen.seeds)
    before = time.perf_counter()
    program = jax.jit(jax.vmap(train)).lower(keys).compile()
    compiling = time.perf_counter() - before
    wall, processor = [], []
    for _ in range(REPEATS):
        start = time.perf_counter(), time.process_time()
        jax.block_until_ready(program(keys))
        wall.append((time.perf_counter() - start[0]) / chosen.iterations)
        processor.append((time.process_time() - start[1]) / chosen.iterations)
    versions = {name: metadata.version(name) for name in ("jaxmarl", "jax", "flax", "optax")}
    found = {"start": compiling, "wall": min(wall), "processor": min(processor)}
    print(json.dumps({name: round(seconds, 5) for name, seconds in found.items()} | {"versions": versions}))


if __name__ == "__main__":
    main()
