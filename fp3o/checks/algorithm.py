"""`fp3o check-algorithm shy.py:shy`: trains an algorithm on tiny games and reports what holds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fp3o.algorithms import ALGORITHMS
from fp3o.algorithms.turns import Context, Turn
from fp3o.config import SHARINGS, Cell, algorithms, resolve
from fp3o.envs.matrix.engine import best_return
from fp3o.errors import UserError, unknown
from fp3o.execution.compute import Compute
from fp3o.fields import Scalar
from fp3o.registry import load_file
from fp3o.runs import checkpoint, records
from fp3o.runs.interrupt import Stopped
from fp3o.training.callbacks import Callback
from fp3o.training.run import train

Finding = tuple[Literal["yes", "no", "note"], str]

PLAIN = Compute("cpu", "eager")
SEEDS = (0, 1)
# Settings of every training here: a small network and high learning rates solve the games in about 20 iterations.
QUICK: dict[str, Scalar] = {
    "rollout_length": 4,
    "rollout_threads": 32,
    "minibatches": 1,
    "actor_lr": 7e-3,
    "critic_lr": 5e-3,
    "entropy_coef": 0.01,
    "hidden_size": 16,
    "head_lr_scale": "one",
    "evaluation_interval": 1000,
    "evaluation_episodes": 8,
    "final_episodes": 8,
}
LEARN, TRY = 20, 3
"""Iterations of a training: LEARN is enough to solve a game, TRY to see that nothing fails."""
REPEATED = ("full", "none")  # Kinds of sharing; two extremes, to save time.
GAMES = ("coordination", "coordination-3", "two-step", "uneven", "leaving", "climbing")
SAME = 1e-5  # Parameters that differ by at most this after TRY iterations count as equal: it is rounding.


def name_of(text: str) -> str:
    """The algorithm's name, from `file.py:name`, `file.py` (if it declares only one) or a known name."""
    file, _, name = text.rpartition(":") if ".py:" in text else (text, "", "")
    if file.endswith(".py"):
        load_file(file)
        here = [key for key, one in ALGORITHMS.items() if one.file == str(Path(file).resolve())]
        if not here:
            raise UserError(
                f"{file} declares no algorithm; allowed: @fp3o.algorithm('name') above a generator of turns"
            )
        if name and name not in here:
            raise unknown("algorithm", name, here, file)
        if not name and len(here) > 1:
            raise UserError(f"{file} declares {', '.join(here)}; allowed: {file}:{here[0]} and so on")
        return name or here[0]
    if text not in algorithms():
        raise unknown("algorithm", text, (*algorithms(), "file.py:name"))
    return text


def check(name: str) -> Iterator[Finding]:
    """Run all checks (less than a minute) and yield each finding as soon as it is known."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        try:
            solved = yield from _sharings(name, root / "stack")
            yield from _kinds(name, root / "kinds")
            yield from _repeated(name, root)
            yield from _one_agent(name, root / "single")
            yield from _games(name, root / "games", solved)
        except UserError as error:
            yield ("no", str(error))


def _train(
    cell: str, root: Path, seeds: tuple[int, ...] = SEEDS, iterations: int = LEARN, stop: int = 0, **settings: Scalar
) -> list[dict[str, Any]]:
    """Train a tiny game and return each seed's run.json, with its "folder" added; UserError if a seed diverges.

    stop: interrupt the run once after this many iterations, then resume it; 0: do not interrupt.
    """
    steps = iterations * int(settings.get("rollout_length", QUICK["rollout_length"])) * int(QUICK["rollout_threads"])
    plan = resolve(Cell.parse(f"matrix/{cell}"), {**QUICK, "total_steps": steps, **settings})
    if stop:
        with suppress(Stopped):
            train(plan, seeds, root, root / "scratch", PLAIN, [_Stop(stop)])
    folders = train(plan, seeds, root, root / "scratch", PLAIN)
    documents = [records.read_run(folder / records.RUN) for folder in folders]
    for document in documents:
        if document["status"] == "diverged":
            where = document["diverged"]
            raise UserError(f"on {cell} it diverges in iteration {where['iteration']} ({where['quantity']})")
    return [{**document, "folder": folder} for document, folder in zip(documents, folders, strict=True)]


class _Stop(Callback):
    may_stop = True

    def __init__(self, iteration: int) -> None:
        self._left = iteration

    def advance(self, env_steps: int) -> bool:
        self._left -= 1
        return self._left <= 0


def _sharings(name: str, root: Path) -> Generator[Finding, None, dict[str, list[float]]]:
    """Check that it trains under every sharing; returns the seeds' scores on the coordination game, by sharing."""
    solved: dict[str, list[float]] = {}
    for kind in SHARINGS:
        documents = _train(f"coordination/{kind}/{name}", root)
        solved[kind] = [document["score"]["return"] for document in documents]
    yield ("yes", f"it runs under every sharing: {', '.join(SHARINGS)}")
    return solved


def _kinds(name: str, root: Path) -> Iterator[Finding]:
    _train(f"continuous-uneven/partial/{name}", root, iterations=TRY)
    _train(f"leaving/none/{name}", root, iterations=TRY, recurrent=True, chunk_length=4)
    yield ("yes", "it runs with continuous actions of different sizes, with recurrent policies, with agents that leave")


def _repeated(name: str, root: Path) -> Iterator[Finding]:
    stack, alone, halted = [], [], []
    for kind in REPEATED:
        cell = f"coordination/{kind}/{name}"
        stack += _train(cell, root / "stack")  # Finished in `_sharings`: only read here.
        alone += [document for seed in SEEDS for document in _train(cell, root / "alone", (seed,))]
        halted += _train(cell, root / "halted", stop=LEARN // 2)
    for others, words, wrong in (
        (alone, "seeds trained side by side and alone are the same runs, bit for bit", "indexes or mixes replicas"),
        (halted, "an interrupted run goes on to the same bytes", "keeps something outside of the learner's state"),
    ):
        same = [one["sha256"] for one in stack] == [other["sha256"] for other in others]
        yield ("yes", words) if same else ("no", f"it is not so that {words}: it {wrong}")


def _one_agent(name: str, root: Path) -> Iterator[Finding]:
    """Check whether it is PPO when there is one agent: PPO with as many passes must reach the same parameters."""
    with _passes(name) as passes:
        [ours] = _train(f"single/full/{name}", root, (0,), TRY, adam_eps=1e-3)
    if len(set(passes)) != 1 or not passes[0]:
        yield ("note", f"with one agent it is not PPO: it takes {', '.join(map(str, passes))} passes over its rollouts")
        return
    plain = "mappo" if ALGORITHMS[name].critic_input == "state" else "ippo"
    [theirs] = _train(f"single/full/{plain}", root, (0,), TRY, adam_eps=1e-3, epochs=passes[0])
    gap = max(
        float(np.abs(np.asarray(one) - np.asarray(other)).max())
        for one, other in zip(*(_parameters(document["folder"]) for document in (ours, theirs)), strict=True)
    )
    times = f"{passes[0]} passes over a rollout"
    if gap <= SAME:
        yield ("yes", f"with one agent it is PPO with {times}")
    else:
        yield ("note", f"with one agent it is not PPO with {times}: parameters differ by up to {gap:.2g}")


@contextmanager
def _passes(name: str) -> Iterator[list[int]]:
    """While open, appends to the list it gives the passes (epochs) over the rollout in each iteration of `name`."""
    entry, counted = ALGORITHMS[name], list[int]()

    def counting(context: Context) -> Iterator[Turn]:
        counted.append(0)
        for turn in entry.turns(context):
            counted[-1] += turn.epochs if turn.go is None or bool(turn.go.any()) else 0
            yield turn

    ALGORITHMS[name] = replace(entry, turns=counting)
    try:
        yield counted
    finally:
        ALGORITHMS[name] = entry


def _parameters(folder: Path) -> list[Any]:
    tensors, _ = checkpoint.load(folder / records.CHECKPOINT)
    return [tensors[key] for key in sorted(tensors)]


def _games(name: str, root: Path, coordination: dict[str, list[float]]) -> Iterator[Finding]:
    for game in GAMES:
        best = best_return(game)
        scores = coordination if game == "coordination" else {}
        if not scores:
            scores = {
                kind: [document["score"]["return"] for document in _train(f"{game}/{kind}/{name}", root)]
                for kind in REPEATED
            }
        missed = [kind for kind, values in scores.items() if min(values) < best - 1e-6]
        reached = min(min(values) for values in scores.values())
        under = f"under {', '.join(scores)} sharing"
        if not missed:
            yield ("yes", f"it solves the game {game} {under}, {best:.4g}")
        else:
            where = f"under {', '.join(missed)} sharing"
            yield (
                "note",
                f"it does not solve the game {game} {where} in {LEARN} iterations: {reached:.4g} of {best:.4g}",
            )


def lines(findings: Iterator[Finding], tell: Callable[[str], None]) -> bool:
    """Pass each finding, then a conclusion, to `tell` as a line of text; returns whether no finding is a "no"."""
    fits = True
    for verdict, text in findings:
        fits &= verdict != "no"
        tell(f"{verdict + ':':5} {text}")
    tell("What must hold, holds." if fits else "Something must change; the line marked `no` says what.")
    return fits
