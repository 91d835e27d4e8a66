"""Two people, one suite: their saves are united by `fp3o merge`, and nothing of either side is lost."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from stores import CELL, RUNS, git, locked, publish, stored

from fp3o import config
from fp3o.config import suites
from fp3o.errors import UserError
from fp3o.runs import store
from fp3o.workflow import guard, manifest, merging, pulling, saving
from fp3o.workflow.prune import prune

SUITE = Path("benchmarks/suites/paper.yaml")
MINE, YOURS = "smac/3s5z/none/fp3o", "smac/3s5z/partial/fp3o"


def add_cell(cell: str, seeds: int, ended: str = "2026-02-02T00:00:00Z") -> None:
    """Somebody plans another cell, trains it, saves and commits."""
    _, task, sharing, algorithm = cell.split("/")
    planned = f"{{domain: smac, tasks: [{task}], sharing: [{sharing}], algorithms: [{algorithm}]}}"
    with SUITE.open("a") as file:
        file.write(f"  table-{sharing}: {{kind: table, caption: {sharing}, cells: [{planned}]}}\n")
    for seed in range(seeds):
        publish(cell, seed, ended=ended)
    assert saving.save(f"Runs of {cell}").problems == []
    git("commit", "--quiet", "--all", "-m", "The suite")


def in_conflict(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stdout


@pytest.fixture
def two_sides(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A merge of two clones' work that has stopped at conflicts; the one in the suite's file is resolved."""
    for name, cell in (("yours", YOURS), ("mine", MINE)):
        git("clone", "--quiet", str(origin), str(tmp_path / name))
        monkeypatch.chdir(tmp_path / name)
        add_cell(cell, 2)
    in_conflict("pull", "--quiet", "--no-rebase", str(tmp_path / "yours"), "HEAD")
    return tmp_path


def resolve_suite() -> None:
    lines = [line for line in SUITE.read_text().splitlines() if not line.startswith(("<<<<<<<", "=======", ">>>>>>>"))]
    SUITE.write_text("\n".join([*lines, ""]))
    git("add", str(SUITE))
    suites._suite.cache_clear()  # A command reads it once; this test is several commands.


def test_both_sides_are_united_and_pruning_takes_nothing(two_sides: Path) -> None:
    for command in (saving.save, pulling.pull, lambda: prune(config.load_suite("preview"))):
        with pytest.raises(UserError, match=r"dvc\.lock has conflict markers of a merge: `fp3o merge`"):
            command()
    with pytest.raises(UserError, match=r"suites/paper\.yaml: resolve these conflicts first"):
        merging.merge()
    resolve_suite()
    assert "paper: 34 runs of both sides are in dvc.lock" in merging.merge().lines
    assert git("ls-files", "--unmerged") == ""
    git("commit", "--quiet", "-m", "Merge")
    suite = config.load_suite("paper")
    assert {run.cell for run in manifest.planned_runs(suite)} >= {MINE, YOURS}
    assert len(json.loads(manifest.manifest_path("paper").read_bytes())["runs"]) == RUNS + 4
    before = stored()
    prune(suite, delete=True)
    assert stored() == before
    # A third clone gets every run.
    git("clone", "--quiet", ".", str(two_sides / "third"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(two_sides / "third")
        assert pulling.pull() == ([f"{RUNS + 4} runs brought, 0 were here"], [])
        assert guard.not_pulled(config.load_suite("paper")) == []


def test_a_side_that_was_dropped_by_hand_is_not_pruned(two_sides: Path) -> None:
    resolve_suite()
    theirs = store.locked_listing(store.setup(), text=store.committed(store.LOCK, ":3"))
    git("checkout", "--ours", "dvc.lock", "results/paper/manifest.json")
    git("add", "--all")
    git("commit", "--quiet", "-m", "Merge, the other side's runs forgotten")
    assert not theirs.keys() <= locked().keys()
    prune(config.load_suite("paper"), delete=True)
    assert {store.object_path(store.STORE, md5) for md5 in theirs.values()} <= stored()
    # Even if the files were deleted: they are in the commit, and so can be brought back.
    for md5 in theirs.values():
        store.object_path(store.STORE, md5).unlink(missing_ok=True)
        store.object_path(store.setup().cache, md5).unlink(missing_ok=True)
    git("checkout", "HEAD", "--", *(str(store.object_path(store.STORE, md5)) for md5 in locked().values()))
    assert merging.merge(revision="HEAD^2").lines[0] == f"paper: {RUNS + 4} runs of both sides are in dvc.lock"
    assert theirs.items() <= locked().items()
    assert merging.merge(revision="HEAD^2").lines == ["dvc.lock has every run of HEAD^2"]
    assert saving.save().problems == []
    assert len(json.loads(manifest.manifest_path("paper").read_bytes())["runs"]) == RUNS + 4
    with pytest.raises(UserError, match="nowhere is no commit"):
        merging.merge(revision="nowhere")


@pytest.mark.parametrize("kept", ["branch", "stash"])
def test_what_a_branch_or_a_stash_names_is_not_pruned(clone: Path, kept: str) -> None:
    publish(CELL, 3, ended="2026-02-02T00:00:00Z")
    if kept == "branch":
        git("checkout", "--quiet", "-b", "idea")
        saving.save("Again")
        wanted = set(locked().values())
        git("checkout", "--quiet", "-")
    else:
        saving.save()
        wanted = set(locked().values())
        git("stash", "--quiet")
    for md5 in wanted - set(locked().values()):  # As `git stash apply` or a merge begun would leave them.
        content = store.intact(store.object_path(Path(".dvc/cache"), md5), md5)
        assert content is not None
        store.put(store.STORE, md5, content)
    prune(config.load_suite("paper"), delete=True)
    assert {store.object_path(store.STORE, md5) for md5 in wanted} <= stored()


def test_a_run_saved_on_both_sides_is_refused_until_one_is_preferred(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours: dict[str, str] = {}
    theirs: dict[str, str] = {}
    for name, month, saved in (("yours", "02", theirs), ("mine", "03", ours)):
        git("clone", "--quiet", str(origin), str(tmp_path / name))
        monkeypatch.chdir(tmp_path / name)
        publish(CELL, 3, ended=f"2026-{month}-02T00:00:00Z")
        saving.save("Again")
        saved.update(locked())
    in_conflict("pull", "--quiet", "--no-rebase", str(tmp_path / "yours"), "HEAD")
    lock = store.lock_text()
    with pytest.raises(UserError, match=rf"1 runs were saved on both sides and differ: .*{CELL}/.*/seed-3; nothing"):
        merging.merge()
    assert store.lock_text() == lock
    merging.merge("theirs")
    assert locked() == theirs


def test_each_run_is_taken_from_the_side_that_changed_it() -> None:
    base = {"a/run.json": "1", "b/run.json": "1", "c/run.json": "1", "d/run.json": "1"}
    ours = {"a/run.json": "2", "b/run.json": "1", "d/run.json": "1", "e/run.json": "1"}
    theirs = {"a/run.json": "1", "b/run.json": "2", "c/run.json": "2", "f/run.json": "1"}
    both = merging.unite(base, ours, theirs)
    wanted = {"a/run.json": "2", "b/run.json": "2", "c/run.json": "2", "e/run.json": "1", "f/run.json": "1"}
    assert both == (wanted, [])
    assert merging.unite(base, {"a/run.json": "2"}, {"a/run.json": "3"}).differing == ["a"]


def test_without_a_conflict_nothing_is_done(clone: Path) -> None:
    assert merging.merge() == (["nothing to unite: no file is in conflict"], [])
    Path("dvc.lock").write_text("<<<<<<< HEAD\n=======\n>>>>>>> theirs\n")
    with pytest.raises(UserError, match=r"dvc\.lock has conflict markers, and git has forgotten the conflict"):
        merging.merge()
