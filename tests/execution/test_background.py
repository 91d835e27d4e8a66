"""Evaluations during training leave the same files, kept checkpoints and told rows as evaluations in turn."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from short_runs import PLAIN, files, tiny_plan, train

from fp3o.envs import make
from fp3o.envs.interface import Episode
from fp3o.envs.mamujoco.engine import MamujocoBatch
from fp3o.envs.smac.embedded import EmbeddedBattles
from fp3o.execution import background as module
from fp3o.execution.background import Background
from fp3o.execution.compute import Compute
from fp3o.rollout.collector import Collector
from fp3o.rollout.evaluation import Evaluator, Watch
from fp3o.runs.interrupt import Interrupted
from fp3o.training.callbacks import Callback, Callbacks, Record
from fp3o.training.callbacks.checkpoints import ExtraCheckpoints
from fp3o.training.run import train as run_training

SEEDS = (0, 1)
GAME = tiny_plan("matrix/two-step/partial/fp3o", 6, evaluation_interval=2, rollout_length=16)

# Classes in the place of environments: what is asked of them are attributes of the class.
MUJOCO: Any = MamujocoBatch
BATTLES: Any = EmbeddedBattles


class Notes(Callback):
    """All that is told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def iteration(self, seed: int, record: Record) -> None:
        self.told.append(("iteration", seed, dict(record)))

    def evaluation(self, seed: int, records: Sequence[Record]) -> None:
        self.told.append(("evaluation", seed, [dict(record) for record in records]))

    def advance(self, env_steps: int) -> None:
        self.told.append(("advance", env_steps))

    def timed(self, iteration: int, seconds: Mapping[str, float]) -> None:
        self.told.append(("timed", iteration))


class Late(Future[Any]):
    """Played when the result is asked for: as late as can be."""

    def __init__(self, play: Callable[[Watch], Any]) -> None:
        super().__init__()
        self._play = play

    def result(self, timeout: float | None = None) -> Any:
        return self._play(lambda env, actions: None)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(Background, "start", lambda self, play, rehearse: Late(play))


class Run(NamedTuple):
    """What a run leaves behind."""

    files: dict[str, Any]
    kept: dict[str, bytes]
    told: list[tuple[Any, ...]]


def run(folder: Path) -> Run:
    notes, extra = Notes(), ExtraCheckpoints(GAME, folder / "scratch", every=2, best=True)
    run_training(GAME, SEEDS, folder / "runs", folder / "scratch", PLAIN, [notes, extra])
    kept = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(extra.folder.rglob("*.safetensors"))}
    return Run(files(folder / "runs"), kept, notes.told)


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("in turn"))


def test_a_late_evaluation_changes_nothing(tmp_path: Path, in_turn: Run, late: Callable[[], None]) -> None:
    late()
    assert run(tmp_path / "late") == in_turn
    assert [event[0] for event in in_turn.told].count("evaluation") == len(SEEDS) * 4
    assert any("best" in name for name in in_turn.kept)


def test_interrupted_while_an_evaluation_is_pending(
    tmp_path: Path, in_turn: Run, late: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    late()
    collect = Collector.collect

    def interrupted(self: Collector, seeds: Sequence[int], iteration: int) -> Any:
        if iteration == 1:
            signal.raise_signal(signal.SIGINT)
        return collect(self, seeds, iteration)

    monkeypatch.setattr(Collector, "collect", interrupted)
    with pytest.raises(Interrupted, match="after iteration 2 of 6"):
        train(GAME, tmp_path, SEEDS)
    monkeypatch.setattr(Collector, "collect", collect)
    assert train(GAME, tmp_path, SEEDS) == in_turn.files


def test_a_thread_plays_what_the_main_thread_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With simulators on two threads evaluations run beside training, also the first."""
    plan = tiny_plan("mamujoco/hopper-3x1/partial/fp3o", 3)
    played: list[bool] = []
    play = Evaluator.run

    def noted(self: Evaluator, *arguments: Any) -> Any:
        played.append(threading.current_thread() is threading.main_thread())
        return play(self, *arguments)

    monkeypatch.setattr(Evaluator, "run", noted)
    monkeypatch.setattr(module, "processors", lambda: 2)
    found = []
    for threads in (1, 2):
        folder = tmp_path / str(threads)
        run_training(plan, SEEDS, folder, folder / "scratch", Compute("cpu", "eager", threads))
        found.append(files(folder))
    assert found[0] == found[1]
    half = len(played) // 2
    assert all(played[:half])
    assert played[half:] == [False] * half


def test_where_evaluations_run_beside_training(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = 16
    monkeypatch.setattr(module, "processors", lambda: cores)
    assert [Background(MUJOCO, threads, False).pays for threads in (0, 1, 2)] == [True, False, True]
    assert not Background(BATTLES, 8, False).pays
    assert Background(MUJOCO, 8, True).pays
    cores = 1
    assert not Background(MUJOCO, 0, False).pays


def test_a_run_that_stops_at_once_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processors", lambda: 2)
    background = Background(MUJOCO, 2, False)
    rehearsed: list[str] = []
    assert background.start(lambda watch: [], lambda: rehearsed.append("once")).result() == []
    env = make("matrix", "climbing", 1)

    def endless(watch: Watch) -> list[list[Episode]]:
        while True:
            watch(env, None)

    played = background.start(endless, lambda: rehearsed.append("again"))
    background.close()
    assert isinstance(played.exception(), CancelledError)
    assert rehearsed == ["once"]


def test_an_evaluation_is_paused_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processors", lambda: 2)
    background, env = Background(MUJOCO, 2, False), make("matrix", "climbing", 1)
    steps = threading.Semaphore(0)

    def play(watch: Watch) -> list[list[Episode]]:
        for _ in range(3):
            watch(env, None)
            steps.release()
        return []

    with background.paused():
        played = background.start(play, lambda: None)
        assert not steps.acquire(timeout=0.05)
    assert played.result() == []
    for _ in range(3):
        assert steps.acquire(timeout=0)
    background.close()


def test_closing_does_not_wait_for_a_paused_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processors", lambda: 2)
    background, env = Background(MUJOCO, 2, False), make("matrix", "climbing", 1)

    def play(watch: Watch) -> list[list[Episode]]:
        watch(env, None)
        return []

    with background.paused():
        played = background.start(play, lambda: None)
        background.close()
    assert isinstance(played.exception(), CancelledError)


def test_an_evaluation_beside_training_leaves_a_processor_to_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processors", lambda: 16)
    chosen = [Background(MUJOCO, threads, False).simulator_threads(threads) for threads in (8, 2, 0, 1)]
    assert chosen == [7, 1, 15, 1]
    assert Background(BATTLES, 4, False).simulator_threads(4) == 4


def test_what_stops_a_run() -> None:
    class Writer(Callback):
        def say(self, text: str) -> None:
            return len(text)  # type: ignore[return-value]

        def advance(self, env_steps: int) -> bool:
            return env_steps > 1

    told = Callbacks([Writer()])
    told.say("as a file's write does")
    told.advance(1)
    assert not told.stop
    told.advance(2)
    assert told.stop
