"""The preview is saved small, compressed and without checkpoints, and new runs of the paper as its suite's rules say;
all are read like any other run, and nothing that was saved before changes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import call
from stores import CELL, RUNS, dvc, git, here, locked, publish, stored

import fp3o
from fp3o import config
from fp3o.errors import UserError
from fp3o.report.page import INDEX, pages
from fp3o.runs import records, store
from fp3o.runs.compressed import lacks_checkpoint, names, packed
from fp3o.statistics import published, scorecard
from fp3o.statistics.suites import SuiteRuns
from fp3o.statistics.tables.build import build
from fp3o.statistics.tables.writers import to_csv, to_latex, to_markdown
from fp3o.workflow import guard, manifest, pulling, saving, status
from fp3o.workflow.blocks import Sweep
from fp3o.workflow.prune import prune

OTHER = "smac/3s5z/full/happo"
ROOT = Path("results/preview/runs")
FILES = {"evaluations.csv.xz", "iterations.csv.xz", "run.json"}


@pytest.fixture(scope="module")
def shipped(origin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone where two cells of the preview were trained, saved and committed. Copied, never used."""
    folder = tmp_path_factory.mktemp("shipped") / "clone"
    git("clone", "--quiet", str(origin), str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for cell in (CELL, OTHER):
            for seed in range(5):
                publish(cell, seed, suite="preview")
        before = here("preview")
        assert saving.save("Preview", ["preview"]).problems == []
        assert here("preview") == before
    return folder


@pytest.fixture
def full(shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The current folder: that clone. The files that the trainer left, which are still there."""
    shutil.copytree(shipped, tmp_path / "clone", symlinks=True)
    monkeypatch.chdir(tmp_path / "clone")
    return here("preview")


@pytest.fixture
def small(full: dict[str, bytes]) -> Path:
    """The same where they were pulled: the folder of a run."""
    shutil.rmtree(ROOT)
    shutil.rmtree(".dvc/cache")
    pulling.pull(suites=["preview"])
    return next(ROOT.glob(f"{CELL}/*/seed-0"))


def suite() -> config.Suite:
    return config.load_suite("preview")


def test_what_is_saved_and_what_the_manifest_says(full: dict[str, bytes]) -> None:
    saved = locked("preview")
    assert {path.rpartition("/")[2] for path in saved} == FILES
    assert len(saved) == 10 * len(FILES)
    assert len(locked()) == 4 * RUNS
    assert git("status", "--short") == ""
    committed = set(git("ls-files", "artifacts").split())
    assert {str(store.object_path(store.STORE, md5)) for md5 in saved.values()} <= committed
    shown = json.loads(manifest.manifest_path("preview").read_bytes())["runs"].values()
    assert {entry["saved"] for entry in shown} == {"without checkpoint"}
    assert all("checkpoint.safetensors" in entry["sha256"] for entry in shown)  # to be held against, if trained again
    assert not any("saved" in entry for entry in manifest.manifest(config.load_suite("paper"))["runs"].values())


def test_numbers_are_read_as_if_it_were_whole(full: dict[str, bytes], small: Path) -> None:
    assert {path.name for path in small.iterdir()} == FILES
    run = fp3o.Run(small)
    plain = {name: full[f"{small.relative_to(ROOT)}/{name}"] for name in ("evaluations.csv", "iterations.csv")}
    assert {name: records.read_bytes(small / name) for name in plain} == plain
    assert run.evaluations["return"].size
    assert run.iterations["entropy"].tolist() == [0.5]
    assert status.damaged("preview") == (10, [])
    sweep = Sweep(suite(), available=True)
    assert len(sweep.needs([CELL, OTHER])) == 10
    assert sweep.missing == {}
    before = manifest.manifest_path("preview").read_bytes()
    manifest.main(["manifest", "--suite", "preview"])
    assert manifest.manifest_path("preview").read_bytes() == before
    assert call("train", CELL, "--suite", "preview") == 0  # finished: nothing to do


def test_its_tables_compare_its_algorithms_and_nothing_published(small: Path) -> None:
    data = SuiteRuns(suite(), ROOT)
    table = build(data, suite().artefact("table-smac"))
    fp3o_, happo = table.entries
    assert happo.paired is not None
    assert (fp3o_.published, happo.published) == (None, None)
    for text in (to_markdown(table), to_latex(table), to_csv(table)):
        assert published.scores()[CELL].text not in text
        assert "not compared" not in text
    assert f"difference to {config.algorithm_title('fp3o')}" in to_markdown(table)
    written = pages(data)[INDEX]
    assert published.scores()[CELL].text not in written
    assert f"published {published.scores()[CELL].value:g}" not in written
    assert "Dotted" not in written
    card = scorecard.scorecard(data)
    assert (card["claims"], card["published_cells"], card["verdicts"]) == ([], 0, {})
    assert card["between_algorithms"][0]["rows"] == ["smac/3s5z/full"]


def test_what_needs_the_checkpoint_says_so(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"`fp3o train {CELL} --suite preview --seeds 0 --replace` trains it again"
    for arguments in (["evaluate", str(small)], ["render", str(small), "--out", "film.webp"]):
        assert call(*arguments) == 2
        assert capsys.readouterr().err == f"fp3o: {small} was saved without its checkpoint; {command}\n"
    with pytest.raises(UserError, match="was saved without its checkpoint"):
        fp3o.Run(small).team()


def test_a_damaged_or_incomplete_run_is_still_refused(full: dict[str, bytes], small: Path) -> None:
    (small / "iterations.csv.xz").write_bytes((small / "iterations.csv.xz").read_bytes()[:-8])
    small.with_name("seed-1").joinpath("evaluations.csv.xz").unlink()
    altered = small.with_name("seed-2")
    (altered / "evaluations.csv.xz").write_bytes((small / "evaluations.csv.xz").read_bytes())
    lost = publish(CELL, 3, suite="preview")
    for path in lost.glob("*.xz"):
        path.unlink()
    (lost / "checkpoint.safetensors").unlink()
    count, problems = status.damaged("preview")
    assert count == 10
    assert len(problems) == 4
    assert "iterations.csv.xz: damaged" in problems[0]
    assert "seed-1 has run.json but no evaluations.csv" in problems[1]
    assert "does not match run.json" in problems[2]
    assert "seed-3 has run.json but no checkpoint.safetensors" in problems[3]
    before = locked("preview")
    assert len(saving.save().problems) == 4
    assert locked("preview") == before


def test_saving_again_changes_nothing_however_it_is_compressed(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (locked("preview"), stored())
    monkeypatch.setattr("fp3o.runs.compressed.packed", lambda *_: pytest.fail("compressed again"))
    assert saving.save().problems == []
    assert (locked("preview"), stored()) == before
    assert git("status", "--short") == ""


def test_a_trained_run_is_not_touched_by_a_pull(full: dict[str, bytes]) -> None:
    half = next(ROOT.glob(f"{CELL}/*/seed-4"))
    (half / "run.json").unlink()  # a training is just writing it
    shutil.rmtree(half.with_name("seed-3"))
    before = here("preview")
    lines, problems = pulling.pull(suites=["preview"])
    assert problems == []
    assert lines[0] == "1 runs brought, 8 were here"
    assert "1 runs differ" in lines[1]
    assert lacks_checkpoint(half.with_name("seed-3"))
    assert before.items() <= here("preview").items()
    assert len(here("preview")) == len(before) + len(FILES)


def test_a_pull_brings_both_suites(full: dict[str, bytes]) -> None:
    shutil.rmtree(ROOT)
    assert pulling.pull([f"{ROOT}/{OTHER}", "mamujoco"]).lines == ["25 runs brought, 0 were here"]
    assert pulling.pull().lines == [f"{RUNS + 10 - 25} runs brought, 25 were here"]
    assert call("pull", "--suite", "quick") == 2
    with pytest.raises(UserError, match="no saved run fits mamujoco"):
        pulling.pull(["mamujoco"], ["preview"])


def test_the_paper_is_not_saved_without_checkpoints(clone: Path) -> None:
    folder = publish(CELL, 0, ended="2026-02-02T00:00:00Z")
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    folder.mkdir()
    for name, content in packed(contents, names(contents, checkpoint=False)).items():
        (folder / name).write_bytes(content)
    before = locked()
    (problem,) = saving.save().problems
    assert problem.startswith(f"not saved: {folder} was saved without its checkpoint")
    assert locked() == before


def test_pruning_one_suite_keeps_what_the_other_needs(full: dict[str, bytes]) -> None:
    assert prune(config.load_suite("paper"), delete=True) == []
    assert prune(suite(), delete=True) == []
    for seed in range(5):
        publish(CELL, seed, ended="2025-01-01T00:00:00Z", suite="preview", clip="0.3")
    saving.save("Old ones")
    assert len(locked("preview")) == 15 * len(FILES)
    assert len([line for line in prune(suite(), delete=True) if line.startswith(str(ROOT))]) == 5
    assert len(locked("preview")) == 10 * len(FILES)
    saving.save("Without")
    prune(suite(), delete=True)
    for md5 in (*locked().values(), *locked("preview").values()):
        assert store.object_path(store.STORE, md5).is_file()


def test_the_guard_knows_the_preview_once_it_is_saved(clone: Path) -> None:
    plan, _ = suite().run(CELL)
    folder = publish(CELL, 0, suite="preview")
    manifest.main(["manifest", "--suite", "preview"])
    shutil.rmtree(folder)
    guard.check_training("preview", plan, [0])  # nowhere saved, so to be trained
    publish(CELL, 0, suite="preview")
    saving.save()
    shutil.rmtree(folder)
    with pytest.raises(UserError, match=r"seeds 0 of .* are in DVC and not here: `fp3o pull"):
        guard.check_training("preview", plan, [0])


@pytest.mark.workflow
def test_a_film_waits_for_a_run_with_its_checkpoint(small: Path) -> None:
    with Path("benchmarks/suites/preview.yaml").open("a") as file:
        file.write(f"films: [{CELL}]\n")

    def planned() -> set[str]:
        """Rules that have jobs, from Snakemake's table of them."""
        command = ["snakemake", "available", "-n", "--config", "suite=preview"]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return set(re.findall(r"^(\w+) +\d+$", shown, re.MULTILINE))

    rules = planned()
    assert "html" in rules
    assert rules.isdisjoint({"film", "train"})
    shutil.rmtree(small)
    publish(CELL, 0, suite="preview")
    assert "film" in planned()


@pytest.mark.workflow
def test_dvc_brings_the_same_files(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = here("preview")
    git("clone", "--quiet", ".", str(tmp_path / "other"))
    monkeypatch.chdir(tmp_path / "other")
    dvc("pull", "--quiet")
    assert here("preview") == wanted
    assert "up to date" in dvc("status")


def test_a_suite_that_cannot_be_saved_does_not_hold_back_the_other(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulling.pull()
    publish(CELL, 5)
    real = saving._save_suite

    def fails(suite: config.Suite, *rest: Any) -> Any:
        if suite.name == "preview":
            raise UserError("the store is full")
        return real(suite, *rest)

    monkeypatch.setattr(saving, "_save_suite", fails)
    outcome = saving.save("More")
    assert outcome.problems == ["suite preview was not saved: the store is full"]
    assert any(line.startswith("committed: dvc.lock") for line in outcome.lines)


# --- Rules of the paper's suite ------------------------------------------------------------------------------------

LATER = "2026-02-02T00:00:00Z"
ANT = "mamujoco/ant-2x4/full/mappo"
RULES = f"""
saving:
  - {{cells: "smac/*", checkpoints: first, above: 3}}
  - {{cells: {OTHER}, checkpoints: none}}
  - {{cells: {ANT}, checkpoints: none, above: 3_000}}
"""
WHOLE = {"checkpoint.safetensors", "evaluations.csv", "iterations.csv", "run.json"}


@pytest.fixture
def ruled(clone: Path) -> dict[str, str]:
    """The current folder: a clone with all runs saved whole, of which 13 were trained anew under a suite with rules.

    What dvc.lock lists of the others, some of which are here.
    """
    with Path("benchmarks/suites/paper.yaml").open("a") as file:
        file.write(RULES)
    before = locked()
    pulling.pull(["mamujoco/hopper-3x1", f"{ANT}/*/seed-4"])
    trained = ((CELL, range(5)), (OTHER, range(5)), (ANT, range(2)), ("mamujoco/ant-2x4/full/fp3o", range(1)))
    folders = [publish(cell, seed, ended=LATER) for cell, seeds in trained for seed in seeds]
    assert saving.save("More").problems == []
    runs = {folder.relative_to(store.runs_folder()).as_posix() for folder in folders}
    return {path: md5 for path, md5 in before.items() if store.run_of(path) not in runs}


def saved_files(cell: str) -> dict[int, set[str]]:
    """By seed, the names of a cell's saved files."""
    found: dict[int, set[str]] = {}
    for path in locked():
        if path.startswith(f"{cell}/"):
            *_, folder, name = path.split("/")
            found.setdefault(int(folder.removeprefix("seed-")), set()).add(name)
    return found


def test_each_new_run_is_saved_by_the_rule_of_its_cell(ruled: dict[str, str]) -> None:
    checkpoint = {"checkpoint.safetensors"}
    assert saved_files(CELL) == {0: FILES | checkpoint, **dict.fromkeys(range(1, 5), FILES)}
    assert saved_files(OTHER) == dict.fromkeys(range(5), FILES)
    assert saved_files(ANT) == {**dict.fromkeys(range(2), FILES | checkpoint), **dict.fromkeys(range(2, 5), WHOLE)}
    assert saved_files("mamujoco/ant-2x4/full/fp3o") == dict.fromkeys(range(5), WHOLE)  # no rule
    shown = json.loads(manifest.manifest_path("paper").read_bytes())["runs"].values()
    without = {(entry["cell"], entry["seed"]) for entry in shown if "saved" in entry}
    assert without == {*((CELL, seed) for seed in range(1, 5)), *((OTHER, seed) for seed in range(5))}


def test_what_was_saved_before_stays_to_the_byte(ruled: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(ruled) == 4 * (RUNS - 13)
    assert ruled.items() <= locked().items()
    state = (locked(), stored(), git("rev-parse", "HEAD"))
    assert set(git("ls-files", "artifacts").split()) == set(map(str, stored()))
    monkeypatch.setattr("fp3o.runs.compressed._compressed", lambda _: pytest.fail("compressed again"))
    saving.save("Again")
    for folder in (store.runs_folder(), Path(".dvc/cache")):
        shutil.rmtree(folder)
    pulling.pull()
    saving.save("Again")
    assert (locked(), stored(), git("rev-parse", "HEAD")) == state
    # An object that is lost is made again in the form it was saved in, whatever the rule says.
    pulling.pull()
    shutil.rmtree(".dvc/cache")
    lost = next(md5 for path, md5 in ruled.items() if path.endswith("seed-4/iterations.csv") and path.startswith(ANT))
    store.object_path(store.STORE, lost).unlink()
    assert saving.save("Again").problems == []
    assert (locked(), stored(), git("rev-parse", "HEAD")) == state


def test_what_was_pulled_gives_the_same_tables(ruled: dict[str, str]) -> None:
    def made() -> tuple[str, ...]:
        paper = config.load_suite("paper")
        data = SuiteRuns(paper, store.runs_folder())
        manifest.main(["manifest", "--suite", "paper"])
        manifest.main(["metrics", "--suite", "paper"])
        texts = [manifest.manifest_path("paper").read_text(), Path("results/paper/metrics.json").read_text()]
        return (*texts, *(to_csv(build(data, paper.artefact(f"table-{name}"))) for name in ("smac", "mamujoco")))

    pulling.pull()
    trained = made()
    assert git("diff", "--", str(manifest.manifest_path("paper"))) == ""
    shutil.rmtree(store.runs_folder())
    pulling.pull()
    assert status.damaged("paper") == (RUNS, [])
    assert made() == trained
    shutil.rmtree(".dvc/cache")
    shutil.rmtree("artifacts")  # with a remote elsewhere the last commit alone knows how they were saved
    assert made() == trained


def test_a_seed_without_checkpoint_names_the_one_that_has_it(
    ruled: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(store.runs_folder())
    pulling.pull()
    first = next(store.runs_folder().glob(f"{CELL}/*/seed-0"))
    run = first.with_name("seed-3")
    command = f"`fp3o train {CELL} --suite paper --seeds 3 --replace` trains it again"
    own = ("--checkpoint", str(run / "checkpoint.safetensors"))
    for arguments in (("evaluate", str(run)), ("render", str(run), "--out", "a.webp"), ("evaluate", str(run), *own)):
        assert call(*arguments) == 2
        said = f"fp3o: {run} was saved without its checkpoint (seed 0 has one); {command}\n"
        assert capsys.readouterr().err == said
    (first / "checkpoint.safetensors").unlink()
    assert saving.save().problems == []
    assert saved_files(CELL)[0] == FILES | {"checkpoint.safetensors"}
    assert pulling.pull().lines[0] == f"1 runs brought, {RUNS - 1} were here"
    assert (first / "checkpoint.safetensors").is_file()


def test_saved_runs_can_be_saved_again_by_the_rules(clone: Path) -> None:
    """Those that are named and here; what is kept keeps its bytes, and what nothing needs any more can be removed."""
    pulling.pull([CELL])
    with Path("benchmarks/suites/paper.yaml").open("a") as file:
        file.write(RULES)
    before, files = locked(), here()
    with pytest.raises(UserError, match=rf"no run here fits mpe/nowhere; cells here: {CELL}$"):
        saving.save("", ["paper"], ["mpe/nowhere"])
    assert saving.save("Smaller", ["paper"], [f"{store.runs_folder('paper')}/{CELL}/"]).problems == []
    after = locked()
    assert here() == files
    plain = {path for path in files if path.endswith(".csv")}
    played = {path for path in files if path.endswith("checkpoint.safetensors") and "/seed-0/" not in path}
    assert len(played) == 4
    assert {path for path in before if path not in after} == plain | played
    assert {path for path in after if path not in before} == {f"{path}.xz" for path in plain}
    assert all(after[path] == md5 for path, md5 in before.items() if path in after)
    unneeded = {store.object_path(store.STORE, md5) for md5 in {*before.values()} - {*after.values()}}
    assert stored() >= unneeded
    prune(config.load_suite("paper"), delete=True)
    assert stored() >= unneeded  # the last commit's parent needs them, and the branch that was cloned
    git("remote", "remove", "origin")
    git("commit", "--quiet", "--allow-empty", "-m", "Next")
    prune(config.load_suite("paper"), delete=True)
    assert unneeded.isdisjoint(stored())
    assert saving.save("", ["paper"]).problems == []
    assert locked() == after
    for folder in (f"{store.runs_folder('paper')}", ".dvc/cache"):
        shutil.rmtree(folder)
    pulling.pull([CELL])
    assert {path.removesuffix(".xz") for path in here()} == set(files) - played
    for path in set(files) - played:
        assert records.read_bytes(store.runs_folder("paper") / path) == files[path]
