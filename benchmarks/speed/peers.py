"""How does an iteration compare with BenchMARL's on the same task? One JSON line (`make peers`).

MAPPO with MLPs (64, 64) on simple reference: 128 environments × 25 steps, 15 epochs of one minibatch, one seed, one
thread, no evaluation. Processor time, the best of several iterations after the first, both in one run. BenchMARL has an
environment of its own (peers.txt), because it needs older packages than we do. The work asked for is the same, not how
it is done: BenchMARL steps PettingZoo's environments one after the other, our engine steps ours together.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import fp3o
from fp3o.fields import Scalar

ENVIRONMENTS, STEPS, EPOCHS, HIDDEN = 128, 25, 15, 64
ITERATIONS = 6
TARGET = 10.0  # times as much processor time as ours, at least


class Watch(fp3o.Callback):
    """Processor seconds of every iteration after the first."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = 0.0

    def advance(self, env_steps: int) -> None:
        now = time.process_time()
        if self._last:
            self.seconds.append(now - self._last)
        self._last = now


def ours() -> float:
    settings: dict[str, Scalar] = {
        "flavour": "mpe2",
        "recurrent": False,
        "hidden_size": HIDDEN,
        "rollout_threads": ENVIRONMENTS,
        "rollout_length": STEPS,
        "epochs": EPOCHS,
        "minibatches": 1,
        "total_steps": ITERATIONS * ENVIRONMENTS * STEPS,
        "evaluation_interval": 1000,
        "final_episodes": 1,
    }
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        fp3o.train(
            "mpe/simple-reference/full/mappo",
            seeds=[0],
            settings=settings,
            out=folder,
            callbacks=[watch],
            device="cpu",
            path="compiled",
        )
    return min(watch.seconds)


def theirs(python: Path) -> dict[str, object]:
    script = Path(__file__).with_name("peers_benchmarl.py")
    sizes = [str(number) for number in (ENVIRONMENTS, STEPS, EPOCHS, HIDDEN, ITERATIONS)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(python), str(script), *sizes], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
        )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="the interpreter of the environment with BenchMARL")
    chosen = parser.parse_args()
    peer, mine = theirs(chosen.python.absolute()), ours()  # not resolved: it is a link, which names its environment
    seconds = peer["seconds"]
    assert isinstance(seconds, float)
    line = {
        "benchmark": "peers",
        "machine": platform.machine(),
        "torch": metadata.version("torch"),
        "peer": peer,
        "seconds": round(mine, 4),
        "ratio": round(seconds / mine, 1),
        "target": TARGET,
    }
    print(json.dumps(line))
    sys.exit(seconds / mine < TARGET)


if __name__ == "__main__":
    main()
