"""BenchMARL's part of peers.py, run by the interpreter that has it: processor seconds of one iteration, as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from importlib import metadata

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from benchmarl.algorithms import MappoConfig
from benchmarl.environments import PettingZooTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig


class Watch(Callback):
    """Processor seconds from batch to batch."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def on_batch_collected(self, batch: object) -> None:
        self.times.append(time.process_time())


def main(environments: int, steps: int, epochs: int, hidden: int, iterations: int) -> None:
    torch.set_num_threads(1)
    config = ExperimentConfig.get_from_yaml()
    config.sampling_device = config.train_device = config.buffer_device = "cpu"
    config.on_policy_n_envs_per_worker = environments
    config.on_policy_collected_frames_per_batch = config.on_policy_minibatch_size = environments * steps
    config.on_policy_n_minibatch_iters = epochs
    config.max_n_iters, config.max_n_frames = iterations, None
    config.evaluation = config.render = config.create_json = False
    config.loggers = []
    config.checkpoint_interval = 0
    task = PettingZooTask.SIMPLE_REFERENCE.get_from_yaml()
    task.config["max_cycles"] = steps
    model = MlpConfig.get_from_yaml()
    model.num_cells = [hidden, hidden]
    watch = Watch()
    with contextlib.redirect_stdout(sys.stderr):
        experiment = Experiment(
            task=task,
            algorithm_config=MappoConfig.get_from_yaml(),
            model_config=model,
            critic_model_config=model,
            seed=0,
            config=config,
            callbacks=[watch],
        )
        experiment.run()
    each = [after - before for before, after in zip(watch.times[1:], watch.times[2:], strict=False)]
    versions = {name: metadata.version(name) for name in ("benchmarl", "torchrl", "torch", "pettingzoo")}
    print(json.dumps({"processor": round(min(each), 4), "versions": versions}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
