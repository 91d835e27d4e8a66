"""The guard: what exists elsewhere is not trained again by accident, and only what is asked for counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fp3o import cli, config
from fp3o.errors import UserError
from fp3o.runs import layout, store
from fp3o.workflow import guard, manifest

CELL = "mpe/simple-reference/full/fp3o"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Plan:
    """A clone of a repository with two saved seeds of a cell, nothing pulled."""
    monkeypatch.setattr(layout, "suite_root", lambda name: tmp_path / name)
    monkeypatch.setattr(guard, "in_dvc", lambda name: name == "paper")
    monkeypatch.setattr(store, "saved_runs", lambda name: None)
    plan = config.load_suite("paper").run(CELL)[0]
    for suite in ("paper", "smoke"):
        save(suite, plan, plan.digest)
    return plan


def save(suite: str, plan: config.Plan, digest: str) -> None:
    runs = {f"{digest}-s{seed}": {"cell": plan.cell.id, "digest": digest, "seed": seed} for seed in (0, 1)}
    manifest.write_json(manifest.manifest_path(suite), {"suite": suite, "runs": runs})


def test_only_what_is_asked_for_counts(plan: config.Plan) -> None:
    assert guard.refusal("paper", {}, training=True) == ""
    assert guard.refusal("paper", {(CELL, 2): plan}, training=True) == ""
    text = guard.refusal("paper", {(CELL, seed): plan for seed in range(5)}, training=True)
    assert text == (
        f"2 runs of suite paper are in DVC and not here: `fp3o pull {CELL}`, "
        "or `--config retrain=True` to train them again"
    )
    assert "to do without them" in guard.refusal("paper", {(CELL, 0): plan}, training=False)


def test_a_suite_that_is_not_in_dvc_has_no_guard(plan: config.Plan) -> None:
    assert guard.refusal("smoke", {(CELL, 0): plan}, training=True) == ""


def test_other_settings_are_named(plan: config.Plan) -> None:
    save("paper", plan, "0123456789")
    text = guard.refusal("paper", {(CELL, seed): plan for seed in range(5)}, training=True)
    assert text.startswith("2 runs of 1 cells of suite paper exist with other settings")
    assert f"({CELL} is planned as {plan.digest}, saved as 0123456789)" in text
    assert guard.refusal("paper", {(CELL, 0): plan}, training=False) == ""


def test_what_changed_is_named_by_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the shipped runs: their settings come from the store, whether they are pulled or not."""
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    edited = config.resolve(config.Cell.parse(CELL), {"epochs": 10}, config.load_suite("paper"))
    text = guard.refusal("paper", {(CELL, 0): edited}, training=True)
    assert f"planned as {edited.digest}, saved as " in text
    assert "epochs 15 → 10, epochs_dependent 15 → 10)" in text


def test_train_names_the_pull_command_before_it_trains(
    plan: config.Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as left:
        cli.main(["train", CELL, "--seeds", "1-2"])
    assert left.value.code == 2
    assert capsys.readouterr().err == (
        f"fp3o: seeds 1 of {CELL} are in DVC and not here: `fp3o pull {CELL}`, or `--retrain` to train them again\n"
    )
    assert sorted(tmp_path.rglob("*")) == before


def test_train_refuses_another_digest_before_it_trains(
    plan: config.Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as left:
        cli.main(["train", CELL, "--seeds", "7", "--digest", "0123456789"])
    assert left.value.code == 2
    assert f"resolves to {plan.digest}, this job was planned for 0123456789" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_mark_is_for_runs_of_a_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(tmp_path.rglob("*"))
    for other in (["--seeds", "77"], ["--out", "elsewhere"], ["--set", "clip=0.1"]):
        with pytest.raises(SystemExit) as left:
            cli.main(["train", CELL, *other, "--mark", "mark"])
        assert left.value.code == 2
        assert "--mark mark: not a run of a suite; allowed: " in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("text", ["x", "[]", '{"runs": 3}', '{"runs": {"a": {}}}'])
def test_a_damaged_manifest_is_one_line(plan: config.Plan, text: str) -> None:
    manifest.manifest_path("paper").write_text(text)
    with pytest.raises(UserError, match=r"manifest.json is damaged \(.*`git checkout HEAD"):
        guard.refusal("paper", {(CELL, 0): plan}, training=True)
