"""The one command that removes: lists first, and offers nothing that is needed, newer or in use."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from stores import CELL, FILES, git, here, locked, publish, stored

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import layout, store
from fp3o.workflow import pulling, saving
from fp3o.workflow.prune import prune

OLD = "2025-01-01T00:00:00Z"
NEW = "2027-01-01T00:00:00Z"


@pytest.fixture
def suite(clone: Path) -> config.Suite:
    pulling.pull()
    return config.load_suite("paper")


def scratch(seed: int, **settings: str) -> Path:
    plan = config.resolve(config.Cell.parse(CELL), settings, config.load_suite("paper"))
    folder = layout.scratch_directory(layout.suite_root("paper") / "scratch", plan, (seed,))
    folder.mkdir(parents=True)
    (folder / "resume.safetensors").write_bytes(b"state")
    return folder


def hold(*locks: Path) -> subprocess.Popen[str]:
    """A process that holds these locks until it is sent a line."""
    code = (
        "import sys; from pathlib import Path; from fp3o.runs.folder import Lock\n"
        "held = [Lock(Path(name), name) for name in sys.argv[1:]]\n"
        "print('held', flush=True); sys.stdin.readline()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, locks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


@pytest.mark.parametrize("lock", ["", "schema: '2.0'\nstages: {}\n"])
def test_without_the_stage_nothing_is_removed(suite: config.Suite, lock: str) -> None:
    before = (stored(), here())
    Path("dvc.lock").write_text(lock)
    for delete in (False, True):
        with pytest.raises(UserError, match=r"dvc\.lock has no stage `runs`.*nothing was removed"):
            prune(suite, delete)
    assert (stored(), here()) == before


def test_a_checkout_of_one_cell_loses_nothing(clone: Path) -> None:
    pulling.pull([CELL])
    before = (stored(), here(), store.lock_text())
    assert prune(config.load_suite("paper"), delete=True) == []
    assert (stored(), here(), store.lock_text()) == before


def test_only_a_run_that_is_older_than_its_replacement_is_offered(suite: config.Suite) -> None:
    older = publish(CELL, 0, ended=OLD, clip="0.3")
    publish(CELL, 1, ended=NEW, clip="0.3")  # newer than the planned one
    publish(CELL, 2, ended="2026-01-01T00:00:00Z", clip="0.3")  # as old
    publish(CELL, 3, ended="then", clip="0.3")  # nobody can tell
    publish(CELL, 7, ended=OLD, clip="0.3")  # replaced by nothing
    publish(CELL, 8, ended=OLD)  # a seed the suite does not plan
    publish("smac/corridor/full/fp3o", 0, ended=OLD)  # a cell it does not plan
    before = here()
    lines = prune(suite)
    assert len(lines) == 1
    assert lines[0].startswith(f"{older} (")
    assert here() == before
    prune(suite, delete=True)
    assert not older.parent.joinpath("seed-0").exists()
    assert {path: content for path, content in before.items() if f"{older.parent.name}/seed-0/" not in path} == here()


def test_a_saved_run_goes_in_two_steps_and_never_before_two_commits(suite: config.Suite) -> None:
    old = publish(CELL, 0, ended=OLD, clip="0.3")
    saving.save("With an old run")
    before = locked()
    assert len(before) == FILES + 4
    files = {store.object_path(store.STORE, md5) for path, md5 in before.items() if old.parent.name in path}
    # Also where it was not pulled: what is locked counts.
    for path in old.iterdir():
        path.unlink()
    old.rmdir()
    assert prune(suite)[0] == f"{old} (in DVC)"
    assert locked() == before
    prune(suite, delete=True)
    assert len(locked()) == FILES
    assert files <= stored()  # the last commit names them
    assert not any(str(path) in line for path in files for line in prune(suite))
    saving.save("Without")
    assert prune(suite) == []  # its parent names them
    git("commit", "--quiet", "--allow-empty", "-m", "Next")
    offered = prune(suite)
    assert {line.split(" (")[0] for line in offered} >= {str(path) for path in files} - {
        str(store.object_path(store.STORE, md5)) for md5 in locked().values()
    }
    prune(suite, delete=True)
    assert prune(suite) == []
    assert git("diff", "--cached", "--name-only", "--diff-filter=D").split()
    assert git("diff", "--name-only") == ""
    for md5 in locked().values():
        assert store.object_path(store.STORE, md5).is_file()


def test_a_list_that_was_lost_here_is_read_from_the_last_commit(suite: config.Suite) -> None:
    name = str(store.listing_name(store.lock_text()))
    publish(CELL, 0, ended=NEW)
    publish(CELL, 0, ended=OLD, clip="0.3")
    saving.save()
    for folder in (store.STORE, store.setup().cache):
        store.object_path(folder, name).unlink(missing_ok=True)
    before = stored()
    prune(suite, delete=True)
    assert stored() >= before - {store.object_path(store.STORE, name)}


def test_what_is_being_trained_is_spared(suite: config.Suite) -> None:
    free, busy = scratch(0), scratch(1)
    publish(CELL, 1, ended=OLD, clip="0.3")
    other = scratch(1, clip="0.3")
    unfinished = scratch(9)
    locks = [folder.parent / "seed-1.lock" for folder in (busy, other)]
    holder = hold(*locks)
    before = here()
    assert [line.split(" (")[0] for line in prune(suite)] == [str(free)]
    prune(suite, delete=True)
    assert not free.exists()
    assert all((folder / "resume.safetensors").exists() for folder in (busy, other, unfinished))
    assert all(lock.exists() for lock in locks)
    assert here() == before
    holder.communicate("\n")
    assert len(prune(suite)) == 3  # the run, and both folders of scratch
    prune(suite, delete=True)
    assert (unfinished / "resume.safetensors").exists()
    assert prune(suite) == []


def test_what_was_kept_on_request_is_listed_and_stays_unless_asked_for(suite: config.Suite) -> None:
    finished, begun = scratch(0), scratch(9, clip="0.1")
    folder, spared, busy = (place.parent / "kept" for place in (finished, begun, scratch(1, clip="0.3")))
    for place in (folder, spared, busy):
        (place / "seed-0").mkdir(parents=True)
        for name in ("seeds-0.safetensors", "seed-0/best.safetensors"):
            (place / name).write_bytes(bytes(500_000))
    lock = busy.parent / "seed-1.lock"
    holder = hold(lock)
    line = f"{folder} (1.0 MB, kept on request: goes only with --kept)"
    prune(suite, delete=True)
    assert not finished.exists()
    assert prune(suite) == [line]
    assert (folder / "seeds-0.safetensors").exists()
    prune(suite, delete=True, kept=True)
    assert not folder.exists()
    assert all((place / "seed-0" / "best.safetensors").exists() for place in (spared, busy))
    assert prune(suite) == []
    holder.communicate("\n")
    prune(suite, delete=True)
    assert prune(suite) == [line.replace(str(folder), str(busy))]  # the other's training can still go on


def test_a_replaced_run_goes_once_its_replacement_is_later_and_unaltered(suite: config.Suite) -> None:
    def keep(seed: int, ended: str, number: int = 1) -> Path:
        """As `fp3o rerun` leaves it."""
        folder = publish(CELL, seed, ended=ended)
        kept = layout.suite_root("paper") / "replaced" / folder.relative_to(store.runs_folder())
        kept.parent.mkdir(parents=True, exist_ok=True)
        return folder.rename(kept.with_name(f"{kept.name}.{number}"))

    offered = [keep(0, OLD, 1), keep(0, OLD, 2)]
    spared = [keep(0, NEW, 3), keep(1, OLD), keep(2, OLD), keep(3, "then"), keep(4, "2025-01-01T00:00:00")]
    for seed in (0, 2, 3, 4):
        place = publish(CELL, seed)  # of seed 1 there is none
        if seed == 2:
            (place / "evaluations.csv").write_text("altered")
    lines = prune(suite)
    assert [line.split(" (")[0] for line in lines] == [str(folder) for folder in offered]
    assert all(re.search(r" \(\d+\.\d MB, \d+ days old\)$", line) for line in lines)
    assert all(folder.exists() for folder in offered)
    prune(suite, delete=True)
    assert not any(folder.exists() for folder in offered)
    assert all((folder / "run.json").exists() for folder in spared)


def test_files_of_killed_writers_are_leftovers_once_they_are_old(
    suite: config.Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = next(store.runs_folder().rglob("seed-0"))
    names = [folder / name for name in (".aB3.tmp", ".run.json.partial", ".probe-17")]
    for path in names:
        path.write_text("half")
    assert prune(suite) == []
    monkeypatch.setattr("fp3o.workflow.prune.LEFTOVER_SECONDS", -1.0)
    assert len(prune(suite)) == 3
    prune(suite, delete=True)
    assert not any(path.exists() for path in names)
