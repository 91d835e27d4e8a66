"""How does an iteration compare with BenchMARL's and JaxMARL's at the same sizes? One JSON line per row (`make peers`).

On a CPU: processor seconds, one core. On a GPU (`--device cuda`): seconds by the clock. No evaluations; ours and theirs
one after the other in one run; time to compile apart. Each peer has an environment of its own (peers_*.txt), as it
needs other packages than we do. What is asked for is the same, not how it is done: BenchMARL steps PettingZoo's
environments one after the other, JaxMARL's games are programs of its own (SMAX is another game than SMAC, with simpler
enemies), and its networks have no layer or value normalisation. `plain`: ours without them, for this comparison alone;
on a GPU for MLPs only, where JaxMARL is ahead.

  python benchmarks/speed/peers.py --benchmarl PYTHON --jaxmarl PYTHON CHECKOUT
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "10000")  # as `import fp3o` sets it, if before torch

import torch
from torch import Tensor

import fp3o
from fp3o.execution.compute import Device
from fp3o.execution.compute import Path as Form
from fp3o.fields import Scalar
from fp3o.networks.stacked import padded
from fp3o.networks.trunk import StandardTrunk

HERE = Path(__file__).parent
SEEDS = (1, 5)
WARM_UP = 3  # iterations, besides the first


@dataclass(frozen=True)
class Work:
    """The sizes of one row of the comparison."""

    cell: str
    environments: int
    steps: int
    epochs: int
    minibatches: int
    hidden: int
    recurrent: bool
    iterations: dict[str, int]
    """By device: so many are timed."""

    @property
    def settings(self) -> dict[str, Scalar]:
        sizes: dict[str, Scalar] = {
            "recurrent": self.recurrent,
            "chunk_length": self.steps,  # JaxMARL's GRUs learn from whole rollouts
            "hidden_size": self.hidden,
            "rollout_threads": self.environments,
            "rollout_length": self.steps,
            "epochs": self.epochs,
            "minibatches": self.minibatches,
            "evaluation_interval": 100_000,
            "final_episodes": 1,
        }
        return sizes | ({"flavour": "mpe2"} if self.cell.startswith("mpe/") else {})


WORKS = {
    "mpe-mlp": Work("mpe/simple-reference/full/ippo", 128, 25, 15, 1, 64, False, {"cpu": 5, "cuda": 100}),
    "mpe-gru": Work("mpe/simple-reference/full/mappo", 128, 25, 15, 1, 64, True, {"cpu": 3, "cuda": 100}),
    # JaxMARL's own sizes for SMAX; its script has 128 units written into it.
    "battle": Work("smac/3s5z/full/mappo", 128, 128, 4, 4, 128, True, {"cpu": 1, "cuda": 15}),
}


PLACES = {"cpu": "one ARM core", "cuda": "H200"}
WORDS = {"mpe-mlp": "MPE, MLPs", "mpe-gru": "MPE, GRUs", "battle": "3s5z and SMAX, GRUs of 128 units"}


class Watch(fp3o.Callback):
    """When each iteration ended, by the clock and in processor time."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []
        self.rollouts: list[float] = []

    def advance(self, env_steps: int) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append((time.perf_counter(), time.process_time()))

    def timed(self, iteration: int, seconds: Mapping[str, float]) -> None:
        self.rollouts.append(seconds["rollout"])


@contextmanager
def without_layer_normalisation() -> Iterator[None]:
    """Networks without LayerNorm, its scales and shifts included."""

    def layers(_: StandardTrunk, p: dict[str, Tensor], head: str) -> dict[str, Tensor]:
        names = (f"{head}.weight", f"{head}.bias")
        last = padded(*(p[name] for name in names))
        return {name: x for name, x in p.items() if "norm" not in name} | dict(zip(names, last, strict=True))

    with (
        mock.patch("fp3o.networks.trunk.standardised", lambda x: x),
        mock.patch("fp3o.networks.critic.standardised", lambda x: x),
        mock.patch.object(StandardTrunk, "layers", layers),
    ):
        yield


def ours(work: Work, seeds: int, device: Device, plain: bool) -> dict[str, float]:
    iterations, repeats, watch = work.iterations[device], 3, Watch()
    per_iteration = work.environments * work.steps
    total = (1 + WARM_UP + repeats * iterations) * per_iteration
    settings = work.settings | {"total_steps": total} | ({"value_normalisation": False} if plain else {})
    path: Form = "compiled"  # as `auto` chooses in long runs
    networks = without_layer_normalisation() if plain else nullcontext()
    before = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, networks:
        fp3o.train(
            work.cell,
            seeds=list(range(seeds)),
            settings=settings,
            out=folder,
            callbacks=[watch],
            device=device,
            path=path,
            threads=1 if device == "cpu" else 0,
        )
    marks = watch.times[WARM_UP::iterations]
    wall, processor = (
        min(end[of] - start[of] for start, end in itertools.pairwise(marks)) / iterations for of in (0, 1)
    )
    rollout = statistics.median(watch.rollouts[WARM_UP:])
    return {"start": watch.times[0][0] - before, "wall": wall, "processor": processor, "rollout": rollout}


def jaxmarl(python: str, checkout: str, name: str, seeds: int, device: str) -> dict[str, Any]:
    work = WORKS[name]
    sizes = {
        "environments": work.environments,
        "steps": work.steps,
        "epochs": work.epochs,
        "minibatches": work.minibatches,
        "hidden": work.hidden,
        "iterations": work.iterations[device],
        "seeds": seeds,
    }
    command = [python, str(HERE / "peers_jaxmarl.py"), "--jaxmarl", checkout, "--task", name]
    one_core = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    more = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": one_core} if device == "cpu" else {}
    return _run([*command, *(word for item in sizes.items() for word in (f"--{item[0]}", str(item[1])))], more)


def benchmarl(python: str, work: Work) -> dict[str, Any]:
    sizes = (work.environments, work.steps, work.epochs, work.hidden, 2 * work.iterations["cpu"])
    return _run([python, str(HERE / "peers_benchmarl.py"), *map(str, sizes)], {})


def _run(command: list[str], more: dict[str, str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=os.environ | more, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(name: str, seeds: int, device: str, who: str, found: dict[str, Any], base: float | None) -> float:
    """Print a row; returns the seconds per seed that count on this device. base: our own."""
    seconds = float(found["wall" if device == "cuda" else "processor"]) / seeds
    work, row = WORKS[name], {"benchmark": "peers", "row": name, "who": who, "seeds": seeds, "device": device}
    row |= {"ms_per_seed": round(1e3 * seconds, 2), "start_s": round(found.get("start", 0.0), 1)}
    row["steps_per_s"] = round(work.environments * work.steps / seconds)
    if "rollout" in found:  # by the clock
        row["rollout_ms_per_seed"] = round(1e3 * found["rollout"] / seeds, 2)
    if base is not None:
        row["times_ours"] = round(seconds / base, 2)
    row |= {"machine": platform.machine(), "versions": found.get("versions", {"torch": metadata.version("torch")})}
    print(json.dumps(row), flush=True)
    return seconds


def table(lines: Iterable[str]) -> str:
    """The Markdown table of docs/speed.md, from lines that were printed (docs/evidence/peers.jsonl)."""
    rows = [json.loads(line) for line in lines]
    who = list(dict.fromkeys(row["who"] for row in rows))
    found = {(row["device"], row["row"], row["seeds"], row["who"]): f"{row['ms_per_seed']:,.1f}" for row in rows}
    head = ["ms per iteration and seed", *who]
    body = [
        [f"{PLACES[device]}, {WORDS[name]}, {seeds} seed{'s' * (seeds > 1)}"]
        + [found.get((device, name, seeds, one), "–") for one in who]
        for device, name, seeds in dict.fromkeys(key[:3] for key in found)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *body])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarl", metavar="PYTHON", help="the interpreter of an environment with BenchMARL")
    parser.add_argument("--jaxmarl", nargs=2, metavar=("PYTHON", "CHECKOUT"), help="likewise, and its repository")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rows", nargs="+", choices=sorted(WORKS), default=["mpe-mlp", "mpe-gru"])
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    chosen = parser.parse_args()
    device = chosen.device
    if device == "cpu" and hasattr(os, "sched_setaffinity"):  # not on macOS
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in chosen.rows:
        for seeds in chosen.seeds:
            base = report(name, seeds, device, "fp3o", ours(WORKS[name], seeds, device, plain=False), None)
            if device == "cpu" or not WORKS[name].recurrent:
                report(name, seeds, device, "fp3o, plain", ours(WORKS[name], seeds, device, plain=True), base)
            if chosen.jaxmarl:  # its interpreter not resolved: it is a link, which names its environment
                python, checkout = str(Path(chosen.jaxmarl[0]).absolute()), str(Path(chosen.jaxmarl[1]).resolve())
                report(name, seeds, device, "JaxMARL", jaxmarl(python, checkout, name, seeds, device), base)
            if chosen.benchmarl and device == "cpu" and name == "mpe-mlp" and seeds == 1:
                found = benchmarl(str(Path(chosen.benchmarl).absolute()), WORKS[name])
                report(name, seeds, device, "BenchMARL", found, base)


if __name__ == "__main__":
    main()
