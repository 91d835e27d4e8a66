"""Saving adds, pulling brings what is absent, and neither loses a byte, whoever pulled what and whoever is killed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from stores import CELL, FILES, RUNS, dvc, git, here, killed_at, locked, publish, stored

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import store
from fp3o.workflow import guard, manifest, pulling, saving

# --- save ----------------------------------------------------------------------------------------------------------


def test_saving_a_checkout_with_one_cell_pulled_keeps_all_the_others(clone: Path) -> None:
    before = (store.lock_text(), manifest.manifest_path("paper").read_bytes(), stored())
    assert pulling.pull([CELL]) == (["5 runs brought, 0 were here"], [])
    lines, problems = saving.save()
    assert problems == []
    assert lines[:2] == [
        f"{FILES} files of {RUNS} runs are in artifacts/",
        "25 of these runs are not here and stay as they were saved",
    ]
    assert (store.lock_text(), manifest.manifest_path("paper").read_bytes(), stored()) == before
    assert git("status", "--short") == ""


def test_what_is_trained_again_replaces_its_own_entries_alone(clone: Path) -> None:
    before, objects_before = locked(), stored()
    folder = publish(CELL, 3, ended="2026-02-02T00:00:00Z")
    saving.save("Again")
    name = f"{folder.relative_to(store.runs_folder())}/run.json"
    after = locked()
    assert {path for path in before if after[path] != before[path]} == {name}
    assert locked().keys() == before.keys()
    assert stored() > objects_before  # what the last commit had is still there
    assert git("status", "--short") == ""
    shown = json.loads(manifest.manifest_path("paper").read_bytes())["runs"]
    assert len(shown) == RUNS


@pytest.mark.workflow
def test_dvc_agrees_with_what_was_saved_from_a_part(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(CELL, 3, ended="2026-02-02T00:00:00Z")
    saving.save("Again")
    git("clone", "--quiet", str(clone), str(tmp_path / "other"))
    monkeypatch.chdir(tmp_path / "other")
    dvc("pull", "--quiet")
    assert len(here()) == FILES
    # An interrupted `dvc pull` leaves such a file; it is no part of the run.
    next(store.runs_folder().rglob("seed-0")).joinpath(".Fx3aB9.tmp").write_text("half")
    assert "up to date" in dvc("status")
    assert "up to date" in dvc("push")
    lock = store.lock_text()
    dvc("commit", "--force", "runs")
    assert store.lock_text() == lock
    assert saving.save().problems == []
    assert store.lock_text() == lock


def test_a_table_with_gaps_is_not_staged(clone: Path) -> None:
    table = Path("results/paper/tables/table-smac.csv")
    table.write_text("cell,value\nsmac,not run\n")
    pulling.pull([CELL])
    assert any("tables not staged: 25 runs are not here" in line for line in saving.save().lines)
    assert git("diff", "--cached", "--name-only") == ""
    pulling.pull()
    saving.save()
    assert git("diff", "--cached", "--name-only").split() == [str(table)]


@pytest.mark.parametrize("damage", ["altered", "absent", "another"])
def test_a_damaged_run_is_named_and_not_saved(clone: Path, damage: str) -> None:
    pulling.pull()
    before = locked()
    folder = publish(CELL, 0)
    if damage == "altered":
        (folder / "evaluations.csv").write_text("env_steps\n")
    elif damage == "absent":
        (folder / "evaluations.csv").unlink()
    else:
        shutil.copytree(folder.with_name("seed-1"), folder, dirs_exist_ok=True)
    publish(CELL, 1, ended="2026-02-02T00:00:00Z")
    _, problems = saving.save()
    assert len(problems) == 1
    assert f"{CELL}/{folder.parent.name}/seed-0" in problems[0]
    assert problems[0].startswith("not saved: ")
    assert len(json.loads(manifest.manifest_path("paper").read_bytes())["runs"]) == RUNS
    after = locked()
    changed = {path for path in before if after[path] != before[path]}
    assert changed == {f"{CELL}/{folder.parent.name}/seed-1/run.json"}


def test_a_lock_that_a_killed_git_left_is_named_and_the_same_command_completes(clone: Path) -> None:
    publish(CELL, 3, ended="2026-02-02T00:00:00Z")
    Path(".git/index.lock").touch()
    with pytest.raises(UserError, match=r"failed: .*delete \.git/index\.lock .*the same command completes it"):
        saving.save("More")
    Path(".git/index.lock").unlink()
    assert any(line.startswith("committed: ") for line in saving.save("More").lines)


def test_the_store_in_git_has_a_limit_and_keeps_to_it(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(path.stat().st_size for path in stored())
    monkeypatch.setattr(saving, "STORE_LIMIT", size + 1000)
    pulling.pull()
    assert saving.save().problems == []
    publish(CELL, 3, ended="2026-02-02T00:00:00Z")
    before = (store.lock_text(), stored())
    with pytest.raises(UserError, match=rf"would hold .* MB \(largest: {CELL} .*`fp3o prune`.*remote of your own"):
        saving.save()
    assert (store.lock_text(), stored()) == before


@pytest.mark.workflow
def test_a_remote_of_ones_own_has_no_limit_and_is_asked_itself(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = tmp_path / "remote"
    with Path(".dvc/config.local").open("w") as file:
        file.write(f"[core]\n    remote = team\n['remote \"team\"']\n    url = {remote}\n")
    monkeypatch.setattr(saving, "STORE_LIMIT", 0)
    folder = publish(CELL, 3, ended="2026-02-02T00:00:00Z")
    before = stored()
    lines, problems = saving.save("Again")
    assert (lines[0], problems) == (f"{FILES} files of {RUNS} runs are in DVC's remote team", [])
    assert stored() == before
    assert all(store.intact(store.object_path(remote, md5), md5) is not None for md5 in locked().values())

    # A second machine that has nothing but that remote: one cell comes, saving keeps the rest.
    saved = yaml.safe_load(store.lock_text())["stages"]["runs"]["outs"]
    for gone in (".dvc/cache", "artifacts", "results/paper/runs"):
        shutil.rmtree(gone)
    pulling.pull([CELL])
    assert len(here()) == 20
    assert saving.save().problems == []
    assert len(locked()) == FILES
    now = yaml.safe_load(store.lock_text())["stages"]["runs"]["outs"]
    assert now[0]["md5"] == saved[0]["md5"]
    assert len(json.loads(manifest.manifest_path("paper").read_bytes())["runs"]) == RUNS

    # What the remote has lost is pushed again by whoever has it; what nobody has is not called saved.
    path = f"{folder.relative_to(store.runs_folder())}/run.json"
    lost = store.object_path(remote, locked()[path])
    lost.unlink()
    assert saving.save().problems == []
    assert store.intact(lost, locked()[path]) is not None
    away, md5 = next((path, md5) for path, md5 in locked().items() if not path.startswith(CELL))
    store.object_path(remote, md5).unlink()
    lock = store.lock_text()
    publish("smac/3s5z/full/happo", 0, ended="2026-02-02T00:00:00Z")
    with pytest.raises(UserError, match=f"DVC's remote team lacks 1 files, e.g. {away}: save again where"):
        saving.save()
    assert store.lock_text() == lock


def test_damaged_files_of_dvc_are_one_line(clone: Path) -> None:
    Path("dvc.lock").write_text("stages:\n  runs: [1, 2\n")
    with pytest.raises(UserError, match=r"dvc\.lock cannot be read .*git checkout HEAD dvc\.lock"):
        saving.save()
    git("checkout", "--quiet", "HEAD", "dvc.lock")
    name = store.listing_name(store.lock_text())
    store.object_path(store.STORE, str(name)).write_text("[]")
    for command in (saving.save, pulling.pull):
        with pytest.raises(UserError, match="the list of the saved runs, is damaged or not here: `git checkout HEAD"):
            command()


# --- manifest ------------------------------------------------------------------------------------------------------


def test_the_manifest_keeps_runs_that_are_not_here(clone: Path) -> None:
    suite = config.load_suite("paper")
    path = manifest.manifest_path("paper")
    before = path.read_bytes()
    path.unlink()  # as Snakemake does before it runs the rule
    manifest.main(["manifest", "--suite", "paper"])
    assert path.read_bytes() == before
    pulling.pull([CELL])
    manifest.main(["manifest", "--suite", "paper"])
    assert path.read_bytes() == before
    # With a remote elsewhere nothing but git knows them.
    shutil.rmtree(".dvc/cache")
    shutil.rmtree("artifacts")
    manifest.main(["manifest", "--suite", "paper"])
    assert path.read_bytes() == before
    assert len(guard.not_pulled(suite)) == 25


def test_the_manifest_of_a_suite_that_is_not_in_dvc_has_what_is_here(clone: Path) -> None:
    assert manifest.manifest(config.load_suite("quick"))["runs"] == {}


def test_a_damaged_manifest_or_run_is_one_line(clone: Path) -> None:
    suite = config.load_suite("paper")
    (publish(CELL, 0) / "run.json").write_text("{")
    with pytest.raises(UserError, match=r"cannot read .*run\.json"):
        manifest.manifest(suite)
    publish(CELL, 0)
    manifest.manifest_path("paper").write_text("<<<<<<< HEAD\n")
    git("add", "results/paper/manifest.json")
    with pytest.raises(UserError, match=r"manifest\.json has conflict markers of a merge: `fp3o merge`"):
        manifest.manifest(suite)


# --- pull ----------------------------------------------------------------------------------------------------------


def test_pulling_never_touches_a_file_that_is_here(clone: Path) -> None:
    mine = publish(CELL, 3, ended="2026-02-02T00:00:00Z")  # unsaved, and another than the saved one
    other = publish(CELL, 7)  # of no suite
    settings = publish(CELL, 0, clip="0.3")
    stray = store.runs_folder() / "notes.txt"
    stray.write_text("mine")
    half = store.runs_folder() / "smac/3s5z/full/happo"
    half = half / config.load_suite("paper").run("smac/3s5z/full/happo")[0].digest / "seed-0" / "evaluations.csv"
    half.parent.mkdir(parents=True)
    half.write_text("a training is just writing this")
    before = here()
    lines, problems = pulling.pull()
    assert problems == []
    assert lines[0] == "28 runs brought, 0 were here"
    assert "2 runs differ from the saved ones and were left as they are" in lines[1]
    assert before.items() <= here().items()
    assert len(here()) == 28 * 4 + len(before)
    assert list(half.parent.iterdir()) == [half]
    assert (mine / "run.json").is_file()
    assert (other / "run.json").is_file()
    assert (settings / "run.json").is_file()
    assert pulling.pull().lines[0] == "0 runs brought, 28 were here"


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        (CELL, 5),
        ("smac", 10),
        ("mamujoco/*/full/mappo", 10),
        (f"results/paper/runs/{CELL}/", 5),
        (f"{CELL}/*/seed-2", 1),
    ],
)
def test_part_of_the_runs_can_be_pulled(clone: Path, pattern: str, count: int) -> None:
    assert pulling.pull([pattern]).lines == [f"{count} runs brought, 0 were here"]
    assert len(here()) == 4 * count


def test_a_pattern_that_fits_nothing_is_a_mistake(clone: Path) -> None:
    """Those of the six saved cells that read most like it are named."""
    with pytest.raises(UserError, match=r"no saved run fits smac/3s6z; saved cells: smac/3s5z/full/.* and 1 more$"):
        pulling.pull([CELL, "smac/3s6z"])
    assert here() == {}


def test_an_altered_object_is_named_and_its_run_not_brought(clone: Path) -> None:
    path, md5 = next((path, md5) for path, md5 in locked().items() if path.endswith("seed-2/evaluations.csv"))
    altered = store.object_path(store.STORE, md5)
    altered.write_bytes(altered.read_bytes() + b"9,9\n")
    lines, problems = pulling.pull()
    assert lines == [f"{RUNS - 1} runs brought, 0 were here"]
    assert len(problems) == 1
    assert str(altered) in problems[0]
    assert path in problems[0]
    assert not (store.runs_folder() / store.run_of(path)).exists()
    with pytest.raises(UserError, match=f"{altered} is damaged"):
        saving.save()
    git("checkout", "HEAD", str(altered))
    assert pulling.pull() == ([f"1 runs brought, {RUNS - 1} were here"], [])


@pytest.mark.workflow
def test_an_altered_object_of_a_remote_is_named_with_a_remedy_that_works(clone: Path, tmp_path: Path) -> None:
    pulling.pull()
    remote = tmp_path / "remote"
    with Path(".dvc/config.local").open("w") as file:
        file.write(f"[core]\n    remote = team\n['remote \"team\"']\n    url = {remote}\n")
    saving.save()
    path, md5 = next((path, md5) for path, md5 in locked().items() if path.endswith("seed-2/evaluations.csv"))
    altered = store.object_path(remote, md5)
    altered.chmod(0o644)
    altered.write_bytes(altered.read_bytes() + b"9,9\n")
    for gone in (".dvc/cache", "artifacts", "results/paper/runs"):
        Path(gone).rename(tmp_path / gone.replace("/", "-"))
    for _ in range(2):  # The same bytes again do not help.
        (problem,) = pulling.pull().problems
        place = f"files/md5/{md5[:2]}/{md5[2:]} of DVC's remote team"
        assert problem == (
            f"object {place} is damaged or missing, {store.runs_folder() / path} was not brought: "
            "delete it there if it is; `fp3o save` where the run is puts it back"
        )
    altered.unlink()
    shutil.copytree(tmp_path / "artifacts", "artifacts")  # whoever has the run
    assert saving.save().problems == []
    shutil.rmtree("artifacts")
    shutil.rmtree(".dvc/cache")
    assert pulling.pull().problems == []


@pytest.mark.workflow
def test_an_edit_of_the_settings_does_not_make_saved_runs_stale(clone: Path) -> None:
    """Folders are named by what was trained; a comment in tasks.yaml changes none of them."""
    pulling.pull()
    with Path("benchmarks/tasks.yaml").open("a") as file:
        file.write("# a comment\n")
    assert "up to date" in dvc("status", "runs")


@pytest.mark.workflow
def test_dvc_itself_refuses_an_altered_object(clone: Path) -> None:
    md5 = next(md5 for path, md5 in locked().items() if path.startswith(CELL) and path.endswith("evaluations.csv"))
    altered = store.object_path(store.STORE, md5)
    altered.write_bytes(altered.read_bytes() + b"9,9\n")
    shown = dvc("pull", f"results/paper/runs/{CELL}", check=False)
    assert not shown.endswith("exit code 0")
    assert altered.is_file()
    assert len(list((store.runs_folder() / CELL).rglob("evaluations.csv"))) < 5


def test_a_saved_object_is_mended_by_whoever_has_its_bytes(clone: Path) -> None:
    pulling.pull()
    md5 = next(iter(locked().values()))
    altered = store.object_path(store.STORE, md5)
    altered.write_bytes(b"")
    assert saving.save().problems == []
    assert store.intact(altered, md5) is not None


def test_a_listing_cannot_write_elsewhere(clone: Path) -> None:
    content = store.listing_bytes({"../../../outside": next(iter(locked().values()))})
    name = f"{store.md5_of(content)}.dir"
    store.put(store.STORE, name, content)
    store.write_lock({"../../../outside": next(iter(locked().values()))}, store.setup())
    with pytest.raises(UserError, match="is no file below a suite's runs"):
        pulling.pull()
    assert not (clone.parent / "outside").exists()


# --- kill -9 -------------------------------------------------------------------------------------------------------


def test_a_save_killed_at_any_step_loses_nothing_and_the_next_completes(clone: Path) -> None:
    before, objects_before = locked(), stored()
    fresh = publish(CELL, 3, ended="2026-02-02T00:00:00Z")
    runs = here()
    step = 1
    while killed_at(step, saving.save):
        assert here() == runs
        assert stored() >= objects_before
        now = locked()  # readable: the old one or the new one
        assert now.keys() == before.keys()
        for md5 in now.values():
            assert store.intact(store.object_path(store.STORE, md5), md5) is not None
        assert saving.save().problems == []
        after = locked()
        assert len([path for path in before if after[path] != before[path]]) == 1
        # Back to the start, so that the next one is killed in a whole save too.
        git("reset", "--quiet", "--hard")
        git("clean", "-qfdx", "artifacts", ".dvc")
        step += 1
    assert step > 15
    assert saving.save("Again").problems == []
    assert (
        locked()[f"{fresh.relative_to(store.runs_folder())}/run.json"]
        != before[f"{fresh.relative_to(store.runs_folder())}/run.json"]
    )
    assert git("status", "--short") == ""
    assert not [path for path in git("ls-files", "artifacts").split() if "partial" in path]


def test_a_pull_killed_at_any_step_is_completed_by_the_next(clone: Path) -> None:
    pattern = [f"{CELL}/*/seed-2"]
    step = 1
    while killed_at(step, lambda: pulling.pull(pattern)):
        done = (store.runs_folder() / CELL).glob("*/seed-2/run.json")
        assert all(len([p for p in path.parent.iterdir() if not p.name.startswith(".")]) == 4 for path in done)
        if step % 2:
            shutil.rmtree(store.runs_folder(), ignore_errors=True)
        if step % 3 == 0:
            shutil.rmtree(".dvc/cache", ignore_errors=True)
        step += 1
    assert step > 5
    pulling.pull(pattern)
    expected = {path: md5 for path, md5 in locked().items() if path.startswith(CELL) and "/seed-2/" in path}
    assert {path: store.md5_of(content) for path, content in here().items() if "/." not in path} == expected


# --- git -----------------------------------------------------------------------------------------------------------


def test_git_never_rewrites_line_ends(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("-c", "core.autocrlf=true", "clone", "--quiet", str(origin), str(tmp_path / "windows"))
    monkeypatch.chdir(tmp_path / "windows")
    names = git("ls-files").split()
    assert any(name.startswith("artifacts/") for name in names)
    for name in names:
        assert Path(name).read_bytes() == (origin / name).read_bytes(), name
    assert pulling.pull().problems == []
