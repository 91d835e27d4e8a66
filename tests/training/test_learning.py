"""Learning on a task of the paper: a speaker names a landmark, a listener goes there; nothing is shared.

Acting at random returns about −81, going where no message is needed about −28. Matrix games have tests of their
own with the algorithms.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from short_runs import documents, train

from fp3o.config import Cell, Scalar, resolve
from fp3o.runs import records

# Without the GRU, with more steps on smaller minibatches and a nearer horizon: a third of a minute instead of minutes.
SHORT: dict[str, Scalar] = {"recurrent": False, "minibatches": 8, "gamma": 0.9, "total_steps": 60 * 3200}
SHORT |= {"actor_lr": 0.001, "critic_lr": 0.001}


def learn(folder: Path, algorithm: str, overrides: dict[str, Scalar]) -> tuple[float, float]:
    """Mean return of the first rollout and of the final policy."""
    cell = Cell.parse(f"mpe/simple-speaker-listener/none/{algorithm}")
    train(resolve(cell, overrides | {"evaluation_interval": 100}), folder)
    (run,) = documents(folder).values()
    assert run["status"] == "finished"
    assert run["score"]["episodes"] == 1000
    (path,) = folder.rglob(records.ITERATIONS)
    return float(records.read_table(path)["train_return"][0]), float(run["score"]["return"])


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "epochs"), [("mappo", 4), ("fp3o", 2)])
def test_speaker_and_listener(tmp_path: Path, algorithm: str, epochs: int) -> None:
    random, learned = learn(tmp_path, algorithm, SHORT | {"epochs": epochs})
    assert random < -70
    assert learned > -25


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["mappo", "fp3o"])
def test_speaker_and_listener_with_the_settings_of_the_paper(tmp_path: Path, algorithm: str) -> None:
    """A tenth of its budget: two to five minutes of processor time."""
    random, learned = learn(tmp_path, algorithm, {"total_steps": 200_000})
    assert random < -70
    assert learned > -26
