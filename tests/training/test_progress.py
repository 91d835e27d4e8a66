"""Progress: lines in a log now and then, a bar on a terminal, TensorBoard only where it exists."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from short_runs import tiny_plan

from fp3o.config import Cell, resolve
from fp3o.config.domains import Metric
from fp3o.errors import UserError
from fp3o.execution.program_cache import PROGRESS
from fp3o.progress import Bar
from fp3o.training.callbacks import Callback
from fp3o.training.callbacks.progress import Progress
from fp3o.training.callbacks.tensorboard import TensorBoard
from fp3o.training.callbacks.wandb import WeightsAndBiases
from fp3o.training.run import train
from fp3o.training.run_files import RunFiles


class Clock:
    """A time the test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def episodes(env_steps: int, *returns: float, won: bool | None = None) -> list[dict[str, Any]]:
    """Rows of evaluations.csv."""
    rest = {"env_steps": env_steps, "iteration": 0, "won": won, "length": 2}
    return [{**rest, "episode": i, "return": x, "return_per_agent": x / 2} for i, x in enumerate(returns)]


def test_lines_are_limited_and_count_this_process_only() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress("cell", 10_000, stream=stream, clock=clock) as progress:
        progress.begin(4_000)  # resumed
        clock.now += 10
        progress.advance(5_000)
        clock.now += 1
        progress.advance(5_100)  # too soon for another line
        progress.evaluation(0, episodes(5_000, 8.0))
        progress.evaluation(0, episodes(5_100, 0.5, 1.5))
        progress.evaluation(1, episodes(5_100, 4.0))
        clock.now += 39
        progress.advance(6_000)
        progress.advance(10_000)  # the end is always told
    assert stream.getvalue().splitlines() == [
        "cell: 5,000 of 10,000 steps (50 %), 100 steps/s, ETA 0:00:50",
        "cell: 6,000 of 10,000 steps (60 %), 40 steps/s, ETA 0:01:40, return 2.5 at 5,100",
        "cell: 10,000 of 10,000 steps (100 %), 120 steps/s, ETA 0:00:00, return 2.5 at 5,100",
    ]


def test_rates_begin_after_compiling() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress("cell", 10_000, stream=stream, clock=clock) as progress:
        progress.begin(0)
        progress.compiling(1)
        clock.now += 20
        progress.compiling(2)  # too soon for another line
        clock.now += 25
        progress.compiling(3)
        clock.now += 60
        progress.advance(1_000)
        clock.now += 30
        progress.advance(4_000)
    assert stream.getvalue().splitlines() == [
        "cell: compiling (program 1), 0 s",
        "cell: compiling (program 3), 45 s",
        "cell: 1,000 of 10,000 steps (10 %)",
        "cell: 4,000 of 10,000 steps (40 %), 100 steps/s, ETA 0:01:00",
    ]


def test_a_bar_counts_the_seconds_of_compiling() -> None:
    clock, stream = Clock(), Terminal()
    with Progress("the-cell", 100, stream=stream, clock=clock) as progress:
        progress.begin(0)
        progress.compiling(1)
        clock.now += 7
        progress.compiling(2)
        progress.advance(50)
    assert "compiling (program 2), 7 s" in stream.getvalue()


def test_a_bar_on_a_terminal() -> None:
    clock, stream = Clock(), Terminal()
    with Progress("the-cell", 100, stream=stream, clock=clock) as progress:
        progress.begin(0)
        progress.evaluation(0, episodes(50, 12.25))
        clock.now += 1
        progress.advance(50)
        progress.say("a line [that] stays")
        progress.advance(100)
    shown = stream.getvalue()
    assert "the-cell" in shown
    assert "100 %" in shown
    assert "12.25" in shown
    assert "a line [that] stays" in shown


def test_percentage_and_time_left_fit_into_any_terminal() -> None:
    clock = Clock()
    bar = Bar("mamujoco/halfcheetah-6x1/full/fp3o 0123456789 seeds 0-4", 10_000_000, stream=io.StringIO(), clock=clock)
    with bar:
        bar.begin(0)
        clock.now += 100
        bar.advance(1_000_000)
        bar.note = "return per agent -1234.5 at 1,000,000"
        for width in (120, 79, 60, 40):
            done, left, text = bar.line(width)
            assert len(done + left) >= 8
            assert len(done + left) + 1 + len(text) <= width
            assert text.startswith("10 %")
            assert "ETA 0:15:00" in text
            assert ("10,000 steps/s" in text) == (width > 40)
        assert bar.line(120)[2].endswith(bar.note)


def test_what_may_end_early_has_a_bound_on_the_time_left() -> None:
    clock, stream = Clock(), io.StringIO()
    with Bar("playing", 50, "rounds", at_most=True, stream=stream, clock=clock) as bar:
        clock.now += 4
        bar.advance(2)  # what takes seconds leaves no line in a log
        clock.now += 36
        bar.advance(20)
        bar.advance(50)
    assert stream.getvalue().splitlines() == [
        "playing: 20 of 50 rounds (40 %), 0.5 rounds/s, ETA at most 0:01:00",
        "playing: 50 of 50 rounds (100 %), 1.2 rounds/s, ETA at most 0:00:00",
    ]


@pytest.mark.parametrize(
    ("metric", "text"), [("return", "return 4"), ("return_per_agent", "return per agent 2"), ("win_rate", "100.0 %")]
)
def test_progress_shows_what_scores_are_made_of(metric: Metric, text: str) -> None:
    stream = io.StringIO()
    with Progress("cell", 10, metric, stream=stream, clock=Clock()) as progress:
        progress.evaluation(0, episodes(5, 4.0, won=True))
        progress.advance(10)
    assert f"{text} at 5\n" in stream.getvalue()


def test_the_metric_is_the_domains() -> None:
    """MPE is scored per agent: a sum on the way would not be comparable with the score at the end."""
    plan = resolve(Cell.parse("mpe/simple-reference/full/mappo"))
    stream = io.StringIO()
    progress = Progress.of(plan, (0,))
    progress._bar._stream = stream
    with progress:
        progress.evaluation(0, episodes(5, 4.0))
        progress.advance(10**12)
    assert "return per agent 2 at 5" in stream.getvalue()


def test_tensorboard_is_refused_in_one_line_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError, match="need the tensorboard package"):
        TensorBoard(tmp_path)


def test_wandb_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run per seed, whose name a resumed process finds again; imported only when it is asked for."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match="needs the wandb package: pip install wandb"):
        WeightsAndBiases(tmp_path, "cell")
    monkeypatch.setitem(sys.modules, "wandb", ModuleType("wandb"))  # a folder of logs
    with pytest.raises(UserError, match="needs the wandb package"):
        WeightsAndBiases(tmp_path, "cell")
    told: list[Any] = []

    class Run:
        def __init__(self, seed: int) -> None:
            self.seed = seed

        def log(self, values: dict[str, float], step: int) -> None:
            told.append((self.seed, values, step))

        def finish(self) -> None:
            told.append((self.seed, "finished"))

    def init(**options: Any) -> Run:
        told.append(options)
        return Run(options["config"]["seed"])

    module = ModuleType("wandb")
    module.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    names = []
    for _ in range(2):
        told.clear()
        logger = WeightsAndBiases(tmp_path / "logs", "cell", {"clip": 0.1}, "mine")
        for seed in (3, 4):
            logger.iteration(seed, {"iteration": 0, "env_steps": 5, "loss": 0.5, "train_return": None})
        logger.evaluation(3, episodes(5, 7.0, 8.0))
        logger.end()
        begun = [one for one in told if isinstance(one, dict)]
        names.append([one.pop("id") for one in begun])
        assert begun[0] == {
            "project": "mine",
            "group": "cell",
            "name": "cell seed 3",
            "resume": "allow",
            "reinit": "create_new",
            "dir": str(tmp_path / "logs"),
            "config": {"clip": 0.1, "seed": 3},
        }
    assert [one for one in told if not isinstance(one, dict)] == [
        (3, {"training/loss": 0.5}, 5),
        (4, {"training/loss": 0.5}, 5),
        (3, {"evaluation/return": 7.5, "evaluation/return_per_agent": 3.75, "evaluation/length": 2.0}, 5),
        (3, "finished"),
        (4, "finished"),
    ]
    assert names[0] == names[1]
    assert len(set(names[0])) == 2
    assert (tmp_path / "logs").is_dir()


def test_tensorboard_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[Any, ...]] = []

    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int) -> None:
            written.append((Path(folder), purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def close(self) -> None:
            written.append(("closed",))

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    board = TensorBoard(tmp_path)
    board.iteration(3, {"iteration": 0, "env_steps": 5, "loss": 0.5, "train_return": None})
    board.evaluation(3, episodes(5, 7.0, 8.0, won=True))
    board.end()
    assert written == [
        (tmp_path / "seed-3", 5),
        ("training/loss", 0.5, 5),
        ("evaluation/return", 7.5, 5),
        ("evaluation/return_per_agent", 3.75, 5),
        ("evaluation/won", 1.0, 5),
        ("evaluation/length", 2.0, 5),
        ("closed",),
    ]
    assert not any(tmp_path.iterdir())


def test_who_watches_learns_of_a_failure_and_of_nothing_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    class Heard(Callback):
        def end(self) -> None:
            ended.append("once")

    def fails(files: RunFiles, metrics: object) -> None:
        assert PROGRESS.report is not None
        raise OSError("no disk")

    monkeypatch.setattr(RunFiles, "open", fails)
    with pytest.raises(OSError, match="no disk"):
        train(tiny_plan("matrix/two-step/full/mappo"), (0,), tmp_path, tmp_path / "scratch", callbacks=[Heard()])
    assert ended == ["once"]
    assert PROGRESS.report is None
