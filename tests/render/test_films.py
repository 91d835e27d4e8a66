"""Films of every domain, and several side by side."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command import call
from PIL import Image, ImageSequence
from short_runs import tiny_plan, train

from fp3o.config.options import MatrixOptions, MpeOptions
from fp3o.envs import make
from fp3o.envs.interface import Episode, slot_seeds
from fp3o.envs.matrix.engine import GAMES
from fp3o.envs.mpe.engine import TASKS
from fp3o.errors import UserError
from fp3o.render import matrix, mpe
from fp3o.render.films import Film, Shape, grid, tiled
from fp3o.render.pettingzoo import _picture
from fp3o.runs import records

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def film_of(path: Path) -> list[np.ndarray]:
    with Image.open(path) as image:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]


@pytest.mark.parametrize("task", ["simple-reference", "simple-speaker-listener"])
def test_nothing_is_said_before_the_first_step(task: str) -> None:
    env = make("mpe", task, 1, auto_reset=False)
    env.reset(slot_seeds(0, "evaluation", 1))
    assert {mpe.word_text(task, word) for word in mpe.observe(env, 0, None).word.tolist()} == {"–"}
    assert mpe.word_text(task, 2) == "C"


@pytest.mark.parametrize("task", TASKS)
def test_particles_move_and_landmarks_stay(task: str) -> None:
    env = make("mpe", task, 2, auto_reset=False)
    env.reset(slot_seeds(0, "film", 2))
    scenes = [mpe.observe(env, 1, None)]
    for _ in range(5):
        choices = np.full((2, env.spec.agents, env.spec.action.width), 1)
        env.step(choices)
        scenes.append(mpe.observe(env, 1, choices))
    pictures = list(mpe.frames(task, MpeOptions(), scenes, 160, 120))
    assert [picture.shape for picture in pictures] == [(120, 160, 3)] * 6
    assert (pictures[0] != pictures[-1]).any()
    for colour in mpe._LANDMARKS:
        near = [(np.abs(picture.astype(int) - colour).sum(-1) < 30).sum() for picture in (pictures[0], pictures[-1])]
        assert min(near) > 1  # an agent may stand on it


@pytest.mark.parametrize("task", GAMES)
def test_the_joint_choice_is_marked(task: str) -> None:
    """Every game can be drawn; the mark stands where the choice is, and another choice moves it."""
    env = make("matrix", task, 1, auto_reset=False)

    def picture(choice: float) -> np.ndarray:
        env.reset(slot_seeds(0, "film", 1))
        scenes = [matrix.observe(env, 0, None)]
        legal = env.snapshot().available
        actions = np.full((1, env.spec.agents, env.spec.action.width), choice)
        if legal is not None:
            ordered = [np.flatnonzero(row)[int(choice)] for row in legal[0]]
            actions = np.array(ordered)[None, :, None]
        env.step(actions)
        scenes.append(matrix.observe(env, 0, actions))
        first, last = matrix.frames(task, MatrixOptions(), scenes, 160, 120)
        assert np.array_equal(first, last)
        return first

    one, other = picture(0), picture(1)
    assert one.shape == (120, 160, 3)
    marks = [(np.abs(drawn.astype(int) - matrix._CHOSEN).sum(-1) < 10) for drawn in (one, other)]
    assert all(mark.sum() > 20 for mark in marks)
    assert (one != other).any()


def test_side_by_side() -> None:
    def film(values: list[int]) -> Film:
        pictures = (np.full((24, 32, 3), value, np.uint8) for value in values)
        return Film(Episode(0, 1.0, 1.0, len(values), None), pictures, len(values), 5.0, "task algorithm seed 0")

    assert [grid(count) for count in (1, 2, 3, 4, 5, 7)] == [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (3, 3)]
    sheets = list(tiled([film([10, 20, 30]), film([100]), film([50, 60]), film([7])], Shape(1, 32, 24)))
    assert [sheet.shape for sheet in sheets] == [(48, 64, 3)] * 3
    corners = [(sheet[0, 0, 0], sheet[0, 32, 0], sheet[24, 0, 0], sheet[24, 32, 0]) for sheet in sheets]
    assert corners == [(10, 100, 50, 7), (20, 100, 60, 7), (30, 100, 60, 7)]  # what has ended stays


def test_two_runs_of_two_episodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tiny_plan("mpe/simple-reference/full/mappo"), tmp_path, seeds=(0, 1))
    runs = sorted(path.parent for path in tmp_path.rglob(records.RUN))
    film = tmp_path / "film.png"
    size = ("--width", "64", "--height", "48", "--every", "5", "--out", str(film))
    assert call("render", *map(str, runs), "--episodes", "2", *size) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{film}: 6 pictures of 4 episodes"
    assert all(line.endswith(", 25 steps") for line in shown[1:])
    assert call("render", str(runs[0]), *size, "--steps", "12") == 0
    shown_part = capsys.readouterr().out
    assert shown_part.startswith(f"{film}: 3 pictures, return ")  # steps 0, 5 and 10
    assert shown_part.endswith(", 25 steps, the first 12 of them drawn\n")
    assert call("render", *map(str, runs), "--episodes", "2", *size) == 0
    capsys.readouterr()
    assert [line.split(":")[0] for line in shown[1:]] == [f"  seed-{s} episode {e}" for s in (0, 1) for e in (0, 1)]
    assert film_of(film)[0].shape == (96, 128, 3)
    assert call("render", *map(str, runs), "--episodes", "100", *size[:1], "8000", *size[2:]) == 2
    assert "too large" in capsys.readouterr().err


@pytest.fixture
def drawn_meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the tutorial's environment, which draws itself: a white pixel per walker."""
    source = (EXAMPLES / "meeting.py").read_text()
    lines = (
        "class Drawn(Meeting):",
        "    metadata = {'name': 'drawn', 'render_fps': 4}",
        "    def __init__(self, render_mode=None):",
        "        self.render_mode = render_mode",
        "    def render(self):",
        "        if self.render_mode != 'rgb_array':",
        "            return None",
        "        picture = np.zeros((6, 42, 3), np.uint8)",
        "        for place in self.places:",
        "            picture[:, 6 * place : 6 * place + 6] = 255",
        "        return picture",
        "",
    )
    (tmp_path / "drawn_meeting.py").write_text(source + "\n\n" + "\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("drawn_meeting", None)


@pytest.mark.usefixtures("one_worker")
def test_environments_that_draw_themselves(drawn_meeting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The film shows the very episodes of `fp3o evaluate`; one that cannot draw says so in a line."""
    settings = ("total_steps=160", "rollout_length=10", "rollout_threads=2", "minibatches=1", "evaluation_episodes=1")
    sets = [part for one in (*settings, "final_episodes=1") for part in ("--set", one)]
    more = ("--set", "env=drawn_meeting:Drawn", "--seeds", "0", "--out", "runs", "--device", "cpu", "--path", "eager")
    assert call("train", "pettingzoo/drawn/full/mappo", *sets, *more) == 0
    [drawn] = (path.parent for path in Path("runs").rglob(records.RUN))
    assert call("render", str(drawn), "--out", "film.png") == 2
    assert "--trust allows it" in capsys.readouterr().err
    size = ("--width", "42", "--height", "6", "--every", "1", "--trust")
    assert call("render", str(drawn), "--out", "film.png", *size) == 0
    told = capsys.readouterr().out
    assert call("evaluate", str(drawn), "--episodes", "1", "--trust") == 0
    value = capsys.readouterr().out.splitlines()[2].split()[1]
    assert f", return {value}, " in told
    assert {int((picture > 128).any(-1).any(0).sum()) for picture in film_of(Path("film.png"))} <= {6, 12}
    game = importlib.import_module("drawn_meeting")
    for env, words in (
        (game.Meeting(), "fails with NotImplementedError"),
        (game.Drawn(), "gives NoneType, no picture"),
    ):
        env.reset(seed=0)
        with pytest.raises(UserError, match=words):
            _picture(env, Shape(1, 42, 6))
