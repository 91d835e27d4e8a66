"""A user-supplied environment: the example of the documentation, trained by the command the documentation gives."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from short_runs import documents

import fp3o
from fp3o import cli
from fp3o.envs.interface import slot_seeds
from fp3o.envs.pettingzoo.factory import load_factory
from fp3o.envs.pettingzoo.worker import episode_seed
from fp3o.runs import records
from fp3o.training.callbacks.progress import Progress

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CELL = "pettingzoo/meeting/full/fp3o"
ITERATIONS, ENVIRONMENTS, LENGTH = 4, 8, 200


@pytest.fixture(autouse=True)
def in_the_examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("meeting", None)


def command(out: Path) -> int:
    arguments = (
        "train",
        CELL,
        "--set",
        "env=meeting:Meeting",
        "--set",
        f"total_steps={ITERATIONS * ENVIRONMENTS * LENGTH}",
        "--set",
        f"rollout_length={LENGTH}",
        "--seeds",
        "0-1",
    )
    speed = ("--set", "actor_lr=0.005", "--set", "critic_lr=0.005", "--set", f"evaluation_interval={ITERATIONS - 1}")
    try:
        cli.main([*arguments, *speed, "--out", str(out), "--device", "cpu", "--path", "eager"])
    except SystemExit as left:
        return int(left.code or 0)
    return 0


@pytest.mark.usefixtures("one_worker")
def test_it_learns_to_meet_and_a_stopped_run_goes_on_with_fresh_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = Progress.advance

    def stop(self: Progress, steps: int) -> None:
        real(self, steps)
        if steps == 2 * ENVIRONMENTS * LENGTH:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(Progress, "advance", stop)
        assert command(tmp_path) == 128 + signal.SIGTERM
    assert not documents(tmp_path)
    capsys.readouterr()
    assert command(tmp_path) == 0
    shown = capsys.readouterr()
    assert "updates eager on cpu: asked for; goes on after iteration 2" in shown.err
    assert f"{CELL}: " in shown.out
    assert "no published value" in shown.out
    found: dict[int, dict[str, Any]] = documents(tmp_path)
    assert [run["volatile"]["resumes"] for run in found.values()] == [1, 1]
    for seed, run in found.items():
        assert run["status"] == "finished"
        assert run["exact_resume"] is False
        assert run["options"]["env"] == "meeting:Meeting"
        (path,) = (p for p in tmp_path.rglob(records.ITERATIONS) if p.parent.name == f"seed-{seed}")
        iterations = records.read_table(path)
        assert iterations["iteration"].tolist() == list(range(ITERATIONS))
        untrained = iterations["train_return"][0]
        assert run["score"]["return"] > untrained + 0.4  # never meeting is −1, as good as it gets 0.9
    (folder, _) = sorted(path.parent for path in tmp_path.rglob(records.RUN))
    with pytest.raises(SystemExit) as left:
        cli.main(["evaluate", str(folder), "--episodes", "4"])
    assert left.value.code == 2
    refused = "wants to run code of yours or of a package, meeting:Meeting; --trust allows it"
    assert capsys.readouterr().err == f"fp3o: {folder / records.RUN} {refused}\n"
    with pytest.raises(SystemExit):
        cli.main(["evaluate", str(folder), "--episodes", "4", "--trust"])
    assert "4 episodes from seed 0" in capsys.readouterr().out
    # The team meets in a loop of one's own, too, and plays the very episodes of the engine.
    loaded = fp3o.Run(folder, trust=True)
    env = load_factory("meeting:Meeting", {})()
    team = loaded.team(env)
    for episode, slot in zip(fp3o.play(loaded, 3), slot_seeds(0, "evaluate", 3), strict=True):
        observations, _ = env.reset(seed=episode_seed(int(slot), 0))
        rewards = []
        while env.agents:
            actions, _ = team.act(observations)
            observations, reward, _, _, _ = env.step(actions)
            rewards.append(reward["walker_0"])
        assert episode.length == len(rewards)
        assert episode.total_return == pytest.approx(sum(rewards))
