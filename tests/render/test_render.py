"""Episodes as pictures: something is drawn, it moves, and it can be read back."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from fp3o import cli
from fp3o.errors import UserError
from fp3o.render import animation

PICTURES = [np.full((24, 32, 3), value, dtype=np.uint8) for value in (0, 100, 200)]


@pytest.mark.parametrize("kind", [".webp", ".gif", ".png"])
def test_every_frame_is_in_the_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "new" / f"episode{kind}"
    assert animation.write(path, iter(PICTURES), frames_per_second=20) == 3
    with Image.open(path) as image:
        assert image.size == (32, 24)
        assert len(list(ImageSequence.Iterator(image))) == 3
        image.seek(2)
        assert abs(int(np.asarray(image.convert("RGB"))[0, 0, 0]) - 200) < 10


def test_unknown_kind_of_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"allowed: \.webp, \.gif, \.png, \.mp4"):
        animation.write(tmp_path / "a.avi", PICTURES, 20)
    assert not any(tmp_path.iterdir())


def test_mp4_without_the_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match="needs the package imageio-ffmpeg"):
        animation.write(tmp_path / "a.mp4", PICTURES, 20)


# In a process of its own: MuJoCo chooses its drawing library when it is first imported.
DRAW = """
import sys, numpy as np
from fp3o.render.mamujoco import choose_backend, frames
choose_backend()
from fp3o.envs import make
from fp3o.config.options import MamujocoOptions
env = make("mamujoco", sys.argv[1], 1)
env.reset(np.array([3], dtype=np.uint64))
positions = [env.state_dict()["qpos"][0]]
for _ in range(5):
    env.step(np.ones((1, env.spec.agents, env.spec.action.width)))
positions.append(env.state_dict()["qpos"][0])
np.save(sys.argv[2], np.stack(list(frames(sys.argv[1], MamujocoOptions(), positions, 64, 48))))
"""


@pytest.mark.parametrize("task", ["halfcheetah-6x1", "swimmer-8x2", "reacher-2x1"])
def test_mujoco_draws_what_moves(tmp_path: Path, task: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRAW, task, str(tmp_path / "a.npy")], capture_output=True, text=True, check=False
    )
    if "cannot draw with" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    first, second = np.load(tmp_path / "a.npy")
    assert first.shape == (48, 64, 3)
    assert first.std() > 5
    assert (first != second).any()


TINY = (
    *("total_steps=20", "rollout_length=10", "rollout_threads=2", "minibatches=1", "epochs=1"),
    *("evaluation_episodes=1", "final_episodes=1"),
)


@pytest.mark.parametrize(
    ("cell", "extra", "between"),
    [
        ("mamujoco/hopper-3x1/none/mappo", ("episode_limit=8",), 1),
        # The smoke suite, run before every landing, has a film of a battle too.
        pytest.param("smac/3m/full/mappo", (), 4, marks=pytest.mark.slow),
    ],
    ids=["mamujoco", "smac"],
)
def test_from_a_trained_run_to_a_film(tmp_path: Path, cell: str, extra: tuple[str, ...], between: int) -> None:
    overrides = [part for pair in (*TINY, *extra) for part in ("--set", pair)]
    with contextlib.suppress(SystemExit):
        cli.main(["train", cell, "--seeds", "0", "--out", str(tmp_path), *overrides])
    (run,) = (path.parent for path in tmp_path.rglob("run.json"))
    film = tmp_path / "film.webp"
    # A process of its own: drawing needs a context of the graphics library, which a test process should not keep.
    command = ["-m", "fp3o", "render", str(run), "--out", str(film), "--every", "4", "--width", "64", "--height", "48"]
    drawn = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    if "cannot draw with" in drawn.stderr:
        pytest.skip(drawn.stderr.splitlines()[-1])
    assert drawn.returncode == 0, drawn.stderr
    told = re.search(r": (\d+) pictures, return .*, (\d+) steps\n$", drawn.stdout)
    assert told is not None, drawn.stdout
    pictures, steps = (int(number) for number in told.groups())
    assert pictures == between * (steps // 4 + 1)  # every fourth step, the start and, if it is one of them, the end
    with Image.open(film) as image:
        assert image.size == (64, 48)
        assert 1 < len(list(ImageSequence.Iterator(image))) <= pictures  # equal ones are stored once
