"""Seed blocks and their marks: what is finished, what Snakemake is asked for, what a job checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import layout
from fp3o.workflow.blocks import RETRAIN, Block, Sweep, blocks_of, check_digest, plans_digest


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Suite:
    monkeypatch.setattr(layout, "suite_root", lambda name: tmp_path / name)
    return config.load_suite("smoke")


@pytest.fixture
def block(suite: config.Suite) -> Block:
    found = blocks_of(suite, suite.runs()[0][0].cell.id)[0]
    assert found.seeds == (0, 1)
    return found


def finish(block: Block, seed: int, score: float = 1.0) -> Path:
    """The files of a finished run, as far as the plan of jobs looks at them."""
    folder = block.document(seed).parent
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in layout.RUN_FILES if name != "run.json"]
    for name in names:
        (folder / name).write_text(f"{name} {seed}")
    block.document(seed).write_text(json.dumps({"sha256": dict.fromkeys([*names, "final.csv"], "-"), "score": score}))
    (folder / "final.csv").touch()
    return folder


def mark(block: Block, name: str) -> Path:
    path = block.next_mark().with_name(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.mark_text())
    return path


def test_a_block_that_is_not_finished_is_asked_for_by_a_new_mark(suite: config.Suite, block: Block) -> None:
    cell, digest = block.plan.cell.id, block.plan.digest
    finish(block, 0)
    sweep = Sweep(suite)
    (wanted,) = sweep.needs([cell])
    assert wanted.endswith(f"/smoke/marks/{cell}/{digest}-s0-1.train-1")
    assert list(sweep.missing) == [(cell, 1)]
    assert Sweep(suite, available=True).needs([cell]) == [str(block.document(0))]


def test_finished_runs_are_sources_themselves_or_by_their_mark(suite: config.Suite, block: Block) -> None:
    cell, digest = block.plan.cell.id, block.plan.digest
    for seed in block.seeds:
        finish(block, seed)
    by_hand = [str(block.document(seed)) for seed in block.seeds]
    assert Sweep(suite).needs([cell]) == by_hand
    path = mark(block, f"{digest}-s0-1.train-3")
    for available in (False, True):
        sweep = Sweep(suite, available)
        assert sweep.needs([cell]) == [str(path)]
        assert not sweep.missing
    finish(block, 1, score=2.0)  # Another run than the mark's.
    assert Sweep(suite).needs([cell]) == by_hand


@pytest.mark.parametrize("name", [*layout.RUN_FILES, "final.csv"])
def test_a_lost_file_is_a_job_although_there_is_a_mark(suite: config.Suite, block: Block, name: str) -> None:
    folder = [finish(block, seed) for seed in block.seeds][1]
    mark(block, f"{block.plan.digest}-s0-1.train-1")
    mark(block, f"{block.plan.digest}-s0-1.retrain-2")
    mark(block, "0123456789-s0-1.train-7")  # of other settings
    assert block.complete()
    (folder / name).unlink()
    (wanted,) = Sweep(suite).needs([block.plan.cell.id])
    assert wanted.endswith("-s0-1.train-3")
    assert block.next_mark(RETRAIN).name.endswith("-s0-1.retrain-3")


def test_a_damaged_run_json_counts_as_not_finished(block: Block) -> None:
    finish(block, 0)
    for text in ("", "[]", "{}", '{"sha256": 3}'):
        block.document(0).write_text(text)
        assert not block.finished(0)


def test_no_mark_for_an_unfinished_block(block: Block, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="seeds 0-1 are not finished"):
        block.write_mark(tmp_path / "mark")
    assert not (tmp_path / "mark").exists()


def test_a_job_of_other_settings_is_refused(block: Block) -> None:
    check_digest(block.plan, "")
    check_digest(block.plan, block.plan.digest)
    with pytest.raises(UserError, match=rf"resolves to {block.plan.digest}, this job was planned for 0123456789"):
        check_digest(block.plan, "0123456789")


def test_the_word_of_a_plan_changes_with_what_it_says(suite: config.Suite) -> None:
    (first, _), (second, _) = suite.runs()[:2]
    word = plans_digest(suite, [first.cell.id], "caption")
    assert word == plans_digest(suite, [first.cell.id], "caption")
    others = {
        plans_digest(suite, [first.cell.id], "another caption"),
        plans_digest(suite, [second.cell.id], "caption"),
        plans_digest(suite, [first.cell.id, second.cell.id], "caption"),
    }
    assert len({word, *others}) == 4


def test_the_newest_log_of_a_block(block: Block) -> None:
    first = block.last_log()
    assert first.name == f"{block.plan.digest}-s0-1.train-1.log"
    first.parent.mkdir(parents=True)
    for name in ("train-2", "retrain-10"):
        (first.parent / f"{block.plan.digest}-s0-1.{name}.log.all").touch()
    assert block.last_log().name.endswith("retrain-10.log")
