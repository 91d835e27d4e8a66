"""What a run or a manifest says of itself is held against what was saved, and against its neighbours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_files import write_run
from stores import CELL, RUNS, git, locked, publish

from fp3o import cli, config
from fp3o.errors import UserError
from fp3o.runs import layout, records, store
from fp3o.statistics.scores import Planned, collect
from fp3o.workflow import guard, manifest, pulling, saving


def copied(source: Path, seed: int) -> Path:
    """A run's folder put in place of another seed's, with the seed in its run.json edited."""
    folder = source.with_name(f"seed-{seed}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    document = json.loads((folder / records.RUN).read_bytes())
    (folder / records.RUN).write_bytes(records.run_bytes({**document, "seed": seed}))
    return folder


def status(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    capsys.readouterr()
    code = 0
    try:
        cli.main(["status", *options])
    except SystemExit as left:
        code = int(left.code or 0)
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def test_a_copy_of_another_seed_is_refused_everywhere(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pulling.pull([CELL])
    before = locked()
    first = store.runs_folder() / store.run_of(next(path for path in before if path.startswith(CELL)))
    folder = copied(first, 4)
    said = f"{first} and {folder} have the same checkpoint.safetensors: one is a copy"
    plan, seeds = config.load_suite("paper").run(CELL)
    with pytest.raises(UserError, match=said):
        collect(store.runs_folder(), [Planned(CELL, plan.digest, seeds)])
    code, text = status(capsys, "--verify")
    assert code == 1
    assert said in text
    (problem,) = saving.save().problems
    assert said in problem
    assert locked() == before


def test_a_copy_of_a_seed_that_is_not_here_is_not_saved(clone: Path) -> None:
    pulling.pull([f"{CELL}/*/seed-0"])
    (folder,) = (store.runs_folder() / CELL).glob("*/seed-0")
    copied(folder, 4)
    shutil.rmtree(folder)
    before = locked()
    (problem,) = saving.save().problems
    assert "have the same checkpoint.safetensors" in problem
    assert locked() == before


def test_a_forged_run_is_not_the_saved_one(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pulling.pull([CELL])
    assert guard.notices(config.load_suite("paper")) == []
    (folder,) = (store.runs_folder() / CELL).glob("*/seed-2")
    document = json.loads((folder / records.RUN).read_bytes())
    text = (folder / records.ITERATIONS).read_text()
    (folder / records.ITERATIONS).write_text(text.replace("1,0.", "1,0.9"))
    write_run(folder, document)  # with the checksum of the forged file
    said = f"1 runs are not the saved ones, trained anew or altered: {folder}"
    assert said in status(capsys)[1]
    code, text = status(capsys, "--verify")
    assert code == 1
    assert said in text
    run = folder.relative_to(store.runs_folder())
    assert f"replaced: {run}, which was saved before as another run" in saving.save().lines
    assert guard.notices(config.load_suite("paper")) == []


def boast(runs: dict[str, Any], key: str) -> None:
    runs[key]["score"]["mean"] = 1e9


def delete(runs: dict[str, Any], key: str) -> None:
    del runs[key]


def invent(runs: dict[str, Any], key: str) -> None:
    runs[key]["sha256"] = dict.fromkeys(runs[key]["sha256"], "0" * 64)


@pytest.mark.parametrize(
    ("change", "said"),
    [(boast, "does not say what run.json says"), (delete, "lacks saved runs"), (invent, "does not say what")],
)
def test_a_wrong_manifest_is_noticed_although_it_is_committed(
    clone: Path, capsys: pytest.CaptureFixture[str], change: Callable[[dict[str, Any], str], None], said: str
) -> None:
    suite = config.load_suite("paper")
    path = manifest.manifest_path("paper")
    right = path.read_bytes()
    document = json.loads(right)
    plan, _ = suite.run(CELL)
    run = layout.RunId(CELL, plan.digest, 3)
    change(document["runs"], run.key)
    manifest.write_json(path, document)
    git("commit", "--quiet", "--all", "-m", "Wrong")
    expected = f"{path} {said}"
    assert guard.notices(suite)[0].startswith(expected)
    assert f"{run.path}; `fp3o save` writes it anew" in status(capsys)[1]
    # The guard goes by dvc.lock: the run is not trained again.
    assert len(guard.not_pulled(suite)) == RUNS
    with pytest.raises(UserError, match=r"seeds 3 of .* are in DVC and not here"):
        guard.check_training("paper", plan, [3])
    saving.save()
    assert path.read_bytes() == right


def test_the_store_is_asked_for_every_file(clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(capsys, "--remote")[0] == 0
    path, md5 = next(iter(sorted(locked().items())))
    store.object_path(store.STORE, md5).unlink()
    code, text = status(capsys, "--remote")
    assert code == 1
    assert f"artifacts/ lacks 1 of {4 * RUNS + 1} objects, e.g. {path}: `fp3o save` where these runs are" in text
    with pytest.raises(SystemExit):
        cli.main(["status", "--suite", "quick", "--remote"])
    assert "suite quick has no saved runs" in capsys.readouterr().err


def test_a_run_trained_again_is_no_copy(clone: Path) -> None:
    pulling.pull([CELL])
    publish(CELL, 3, ended="2026-02-02T00:00:00Z")
    assert saving.save().problems == []
