"""docs/examples/search.py: pruning through a callback, always; the whole search where Optuna is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import fp3o

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "search.py"


@pytest.fixture
def search() -> ModuleType:
    spec = importlib.util.spec_from_file_location("search_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Trial:
    """Of Optuna, what a callback needs; pruned at its second evaluation."""

    def __init__(self) -> None:
        self.reported: list[tuple[float, int]] = []

    def report(self, value: float, step: int) -> None:
        self.reported.append((value, step))

    def should_prune(self) -> bool:
        return len(self.reported) == 2


def test_a_pruned_trial_finishes_all_its_seeds(search: ModuleType, tmp_path: Path) -> None:
    trial = Trial()
    settings = {"total_steps": 1_280, "rollout_threads": 2, "evaluation_interval": 1, "evaluation_episodes": 2}
    runs = fp3o.train(search.CELL, search.SEEDS, settings, tmp_path, [search.Prune(trial)], quiet=True)
    assert [run.status for run in runs] == ["stopped"] * 3
    first, second = (steps for _, steps in trial.reported)
    assert second == 2 * first
    rows = [run.evaluations["env_steps"] == second for run in runs]
    means = [run.evaluations["return"][row].mean() for run, row in zip(runs, rows, strict=True)]
    assert trial.reported[1][0] == pytest.approx(sum(means) / 3, rel=1e-5)


def test_the_page_shows_the_example(search: ModuleType) -> None:
    page = (EXAMPLE.parents[1] / "python.md").read_text()
    assert f"```python\n{EXAMPLE.read_text()}```" in page


def test_the_search_runs_and_goes_on(search: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optuna = pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    storage = f"sqlite:///{tmp_path / 'search.db'}"
    train = fp3o.train

    def interrupted(*arguments: object, **named: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(fp3o, "train", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        search.search(2, storage)
    shorter = lambda cell, seeds, settings, *rest, **named: train(  # noqa: E731
        cell, seeds, {**settings, "total_steps": 1_280, "rollout_threads": 2}, *rest, **named
    )
    monkeypatch.setattr(fp3o, "train", shorter, raising=False)
    study = search.search(2, storage)
    begun, again, *_ = study.trials
    assert again.params == begun.params
    assert again.state == optuna.trial.TrialState.COMPLETE
    assert len(again.intermediate_values) > 1
    count = len(study.trials)
    assert len(search.search(2, storage).trials) == count
