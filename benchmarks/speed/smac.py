"""Speed of the embedded SMAC engine: one thread, batches of 40, random legal actions. One JSON line per map.

    python benchmarks/speed/smac.py [--maps 3s5z corridor] [--threads 1 2 4 8 16] [--processes 2 4 8 16] [--slots 40]

A step includes observations, states, legality and automatic resets. Rates are the best of several slices by the
thread's processor clock (the same as wall time on a quiet machine); the wall's rate and the load are printed beside it.
With one thread the engine's revision 2 is measured too, in turns with revision 3: its rate, and how much slower 3 is.
The same actions are played by the plain NumPy game loop of our own oracle, which sees nothing and rewards nothing.
Threads share one batch of 40 each, or of --slots in all (then milliseconds per lock-step are printed); processes have a
batch each. Both are rated by the wall clock: the best slice of threads, the mean over all slices of processes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np

from benchmarks.fidelity import smac_oracle as oracle
from fp3o.config.options import SmacOptions
from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.battle import steering_numbers
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.envs.smac.scenarios import SCENARIOS
from fp3o.machine import processors

# Environment steps per second to reach, and to aim at.
TARGETS = {
    "3s5z": (12_000, 20_000),
    "5m_vs_6m": (16_000, 20_000),
    "bane_vs_bane": (2_000, 4_000),
    "corridor": (2_000, 4_000),
    "2c_vs_64zg": (2_000, 4_000),
}
LEAST_RATIO = 15.0  # to the oracle
MOST_SLOWER = 1.1  # revision 3 than revision 2
SLOTS = 40
SLICE = 50  # lock-steps
PATIENCE = 300.0  # seconds for processes to start and to finish


def random_legal(env: EmbeddedBattles, generator: np.random.Generator) -> np.ndarray:
    available = env.snapshot().available
    assert available is not None
    return (generator.random(available.shape, np.float32) * available).argmax(-1)[..., None]


def engine_rates(
    name: str, threads: int, slices: int, slots: int, ready: Barrier | None = None, revision: int = 3
) -> tuple[float, float]:
    """Steps per second by processor clock and by wall clock: the best slice, or of several processes the mean."""
    env = EmbeddedBattles(SCENARIOS[name], slots, threads=threads, options=SmacOptions(engine_revision=revision))
    env.reset(slot_seeds(0, "speed", slots))
    generator = np.random.default_rng(0)
    processor, wall = [], []
    if ready is not None:
        env.step(random_legal(env, generator))
        ready.wait(PATIENCE)
    for _ in range(slices):
        spent_processor = spent_wall = 0.0
        for _ in range(SLICE):
            actions = random_legal(env, generator)
            before = time.thread_time(), time.perf_counter()
            env.step(actions)
            spent_processor += time.thread_time() - before[0]
            spent_wall += time.perf_counter() - before[1]
        processor.append(SLICE * env.slots / spent_processor)
        wall.append(SLICE * env.slots / spent_wall)
    env.close()
    if ready is not None:
        return slices / sum(1 / x for x in processor), slices / sum(1 / x for x in wall)
    return max(processor), max(wall)


def _one_of_many(name: str, slices: int, ready: Barrier, rates: Any) -> None:
    rates.put(engine_rates(name, 1, slices, SLOTS, ready)[1])


def many_processes(name: str, processes: int, slices: int) -> float:
    """Steps per second of all processes together, by the wall clock, while all of them run."""
    start = multiprocessing.get_context("spawn")
    ready, rates = start.Barrier(processes), start.Queue()
    workers = [start.Process(target=_one_of_many, args=(name, slices, ready, rates)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    total = sum(rates.get(timeout=PATIENCE) for _ in workers)
    for worker in workers:
        worker.join()
    return float(total)


def slower_than_revision_2(name: str, slices: int) -> dict[str, Any]:
    """The best rate of either revision in as many turns as there are slices, and their ratio."""
    rates = dict.fromkeys((2, 3), 0.0)
    for _ in range(slices):
        for revision in rates:
            rates[revision] = max(rates[revision], engine_rates(name, 1, 1, SLOTS, revision=revision)[0])
    ratio = rates[2] / rates[3]
    return {
        "revision_2": round(rates[2]),
        "times_revision_2": round(ratio, 3),
        "as_fast_as_revision_2": bool(ratio <= MOST_SLOWER),
    }


def oracle_rate(name: str, steps: int = 40) -> float:
    """Steps per second of one battle in plain NumPy."""
    env = EmbeddedBattles(SCENARIOS[name], 1)
    env.reset(slot_seeds(0, "speed", 1))
    numbers = steering_numbers(env.steering)
    generator = np.random.default_rng(0)
    spent = 0.0
    for _ in range(steps):
        actions = random_legal(env, generator)[0, :, 0]
        saved = env.state_dict()
        before = time.thread_time()
        oracle.step(env.rules, env.ground, numbers, oracle.one_battle(env.battles, 0), actions)
        spent += time.thread_time() - before
        env.load_state_dict(saved)
        env.step(actions[None, :, None])
    return steps / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", nargs="+", choices=sorted(SCENARIOS), default=list(TARGETS), metavar="MAP")
    parser.add_argument("--threads", nargs="+", type=int, default=[1], help="more than one: by the wall clock only")
    parser.add_argument("--processes", nargs="+", type=int, default=[], help="by the wall clock, one thread each")
    parser.add_argument("--slots", type=int, default=0, help="battles of a batch, however many threads share it")
    parser.add_argument("--slices", type=int, default=6)
    arguments = parser.parse_args()
    if max(arguments.threads) > processors():
        parser.error(f"--threads {max(arguments.threads)}: allowed here: 1 to {processors()}")
    for name in arguments.maps:
        line: dict[str, Any] = {"map": name, "slots": arguments.slots or SLOTS}
        for threads in arguments.threads:
            processor, wall = engine_rates(name, threads, arguments.slices, arguments.slots or SLOTS * threads)
            line[f"wall_{threads}"] = round(wall)
            if arguments.slots:
                line[f"milliseconds_{threads}"] = round(arguments.slots / wall * 1e3, 3)
            if threads == 1:
                line["steps_per_second"] = round(processor)
        for processes in arguments.processes:
            line[f"wall_{processes}_processes"] = round(many_processes(name, processes, arguments.slices))
        if 1 in arguments.threads:
            plain = oracle_rate(name)
            line |= {"oracle": round(plain, 1), "ratio": round(line["steps_per_second"] / plain)}
            least, aim = TARGETS.get(name, (0, 0))
            line |= {"least": least, "aim": aim, "reached": bool(line["steps_per_second"] >= least)}
            line["ratio_reached"] = bool(line["ratio"] >= LEAST_RATIO)
            line |= slower_than_revision_2(name, arguments.slices)
        line |= {"load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
