"""fp3o pack and fp3o unpack: what travels, what is refused, and that nothing is ever half there."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import shutil
import signal
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fake_trainer
import numpy as np
import pytest
from command import call
from run_files import write_run
from stores import CELL, RUNS, here, publish

from fp3o import config
from fp3o.config.resolve import digest_of
from fp3o.errors import UserError
from fp3o.runs import atomic, checkpoint, layout, packs, records
from fp3o.runs.folder import locked
from fp3o.workflow import guard, packing, prune, pulling, status

SUITE = "smoke"  # not under DVC


def plan_of(suite: str = SUITE, place: int = 0) -> config.Plan:
    return config.load_suite(suite).runs()[place][0]


def runs_of(suite: str = SUITE) -> Path:
    return layout.suite_root(suite) / "runs"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pack(out: Path, *cells: str, suite: str = SUITE, states: bool = False, saved: bool = False) -> list[str]:
    outcome = packing.pack(out, [config.load_suite(suite)], cells, states, saved)
    assert outcome.problems == []
    return outcome.lines


def elsewhere(work: Callable[[], list[str]]) -> list[str]:
    """What another process gets: one's own locks stop nobody."""
    read, write = os.pipe()
    if not os.fork():
        try:
            os.write(write, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as answer:
        found: list[str] = json.loads(answer.read())
    os.wait()
    return found


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack of two seeds of one cell, whose machine is gone; the current folder is another machine's."""
    monkeypatch.setattr(layout, "suite_root", lambda name: Path("results") / name)
    (tmp_path / "first").mkdir()
    monkeypatch.chdir(tmp_path / "first")
    cell = plan_of().cell.id
    for seed in (0, 1):
        publish(cell, seed, suite=SUITE)
    assert pack(tmp_path / "two.tar") == [f"{tmp_path / 'two.tar'}: 2 runs, 0.0 MB"]
    (tmp_path / "second").mkdir()
    monkeypatch.chdir(tmp_path / "second")
    return tmp_path / "two.tar"


def rewritten(source: Path, change: Callable[[dict[str, bytes]], None], manifest: bool = True) -> Path:
    """The pack with other files in it, and with a manifest that says so or none."""
    with tarfile.open(source) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]  # all files
    del files[packs.MANIFEST]
    change(files)
    out = source.with_name("rewritten.tar")
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    listed = {packs.MANIFEST: json.dumps({"format": 1, "files": checksums}).encode()} if manifest else {}
    with tarfile.open(out, "w") as tar:
        for name, content in (listed | files).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out


def test_runs_travel(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = plan_of().cell.id
    assert call("unpack", str(two)) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        f"suite {SUITE}: 2 runs taken, 0 were here",
        f"taken: {cell} seeds 0-1, trained on 2 cores x86_64",
    ]
    assert tree(runs_of()) == tree(two.parent / "first" / runs_of())
    assert not list(layout.suite_root(SUITE).rglob("*.lock"))
    assert call("unpack", str(two), str(two)) == 0
    assert capsys.readouterr().out == f"suite {SUITE}: 0 runs taken, 4 were here\n"
    assert pack(two.with_name("again.tar"), cell)  # byte for byte the same pack
    assert two.with_name("again.tar").read_bytes() == two.read_bytes()


def test_a_small_pack_has_the_files_that_are_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "suite_root", lambda name: Path("results") / name)
    monkeypatch.setattr(guard, "in_dvc", lambda suite: False)
    (tmp_path / "first").mkdir()
    monkeypatch.chdir(tmp_path / "first")
    plan = plan_of("preview")
    publish(plan.cell.id, 0, suite="preview")
    whole = layout.run_directory(runs_of("preview"), plan, 0)
    suite = config.load_suite("preview")  # which keeps no checkpoints
    assert packing.pack(tmp_path / "small.tar", [suite], [], states=False, saved=True, small=True).problems == []
    assert (whole / records.CHECKPOINT).is_file()  # packing removes nothing
    (tmp_path / "second").mkdir()
    monkeypatch.chdir(tmp_path / "second")
    assert packing.unpack([tmp_path / "small.tar"]).problems == []
    here = layout.run_directory(runs_of("preview"), plan, 0)
    names = {path.name for path in here.iterdir()}
    assert names == {f"{records.EVALUATIONS}.xz", f"{records.ITERATIONS}.xz", records.RUN}
    for name in (records.EVALUATIONS, records.ITERATIONS):
        assert records.read_bytes(here / name) == (tmp_path / "first" / whole / name).read_bytes()


def test_status_says_which_machines_trained_what(two: Path) -> None:
    packing.unpack([two])
    folder = layout.run_directory(runs_of(), plan_of(), 1)
    document = records.read_run(folder / records.RUN)
    document["volatile"]["host"] = "16 cores x86_64, NVIDIA H200"
    write_run(folder, document)
    found = status.examine(config.load_suite(SUITE))
    assert status.lines(found, everything=False)[-2:] == [
        "1 trained on 2 cores x86_64",
        "1 trained on 16 cores x86_64, NVIDIA H200",
    ]
    told = "done 0-1; 1 trained on 16 cores x86_64, NVIDIA H200; 0 trained on 2 cores x86_64"
    assert status.lines(found, everything=True)[0].endswith(f"\t{told}")


def test_a_compressed_pack_and_a_plain_tar_file_of_runs_are_taken(two: Path) -> None:
    packing.unpack([two])
    packs.write(two.with_name("small.tgz"), {})  # by the name's end
    assert two.with_name("small.tgz").read_bytes()[:2] == b"\x1f\x8b"
    with tarfile.open(two.with_name("hand.tgz"), "w:gz") as tar:
        tar.add(runs_of(), arcname=f"./{runs_of()}")
    before = tree(runs_of())
    shutil.rmtree(runs_of())
    assert packing.unpack([two.with_name("hand.tgz")]).problems == []
    assert tree(runs_of()) == before


def test_every_truncation_is_refused_and_changes_nothing(two: Path) -> None:
    whole = two.read_bytes()
    end = len(whole.rstrip(b"\0"))
    cut = two.with_name("cut.tar")
    for size in (*range(0, end, 509), end - 1):
        cut.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.tar is damaged or no pack: .*; nothing was taken$") as caught:
            packing.unpack([two, cut])
        assert "\n" not in str(caught.value)
    hand = rewritten(two, lambda files: None, manifest=False)
    whole = hand.read_bytes()
    for size in (512, 5000, len(whole.rstrip(b"\0")) // 512 * 512):
        cut.write_bytes(whole[:size])
        with pytest.raises(UserError, match="is damaged or no pack"):
            packing.unpack([cut])
    assert list(Path.cwd().iterdir()) == []


def test_every_altered_byte_of_a_file_is_refused(two: Path) -> None:
    whole = two.read_bytes()
    with tarfile.open(two) as tar:
        places = [member.offset_data + shift for member in tar for shift in range(0, member.size, 37)]
        places += [member.offset + shift for member in tar for shift in (3, 130, 150, 156, 160)]  # headers
    altered = two.with_name("altered.tar")
    assert len(places) > 200
    for place in places:
        altered.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(UserError, match="is damaged or no pack"):
            packing.unpack([altered])
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "../outside/run.json",
        "/tmp/run.json",
        "results/../../x/runs/matrix/a/b/c/0123456789/seed-0/run.json",
        "results/smoke/runs/matrix/../b/c/0123456789/seed-0/run.json",
        "results/smoke/runs/matrix/a/b/c/0123456789/seed-0/../../run.json",
        "results/smoke/runs/matrix/a/b/c/0123456789/seed-00/run.json",
        "results/smoke/runs/matrix/a/b/c/0123456789/seed-0/notes.txt",
        "results/smoke/manifest.json",
        ".git/config",
    ],
)
def test_no_name_leads_out_of_the_runs(two: Path, name: str) -> None:
    for manifest in (True, False):
        altered = rewritten(two, lambda files: files.update({name: b"{}"}), manifest)
        with pytest.raises(UserError, match="is no file of a run; nothing was taken"):
            packing.unpack([altered])
    assert sorted(path.name for path in two.parent.iterdir()) == ["first", "rewritten.tar", "second", "two.tar"]
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_are_refused(two: Path, kind: bytes) -> None:
    folder = layout.run_directory(runs_of(), plan_of(), 0).as_posix()
    with tarfile.open(two, "a") as tar:
        member = tarfile.TarInfo(f"{folder}/final.csv")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(UserError, match="is no plain file; nothing was taken"):
        packing.unpack([two])
    assert list(Path.cwd().iterdir()) == []


def test_a_damaged_run_is_left_out_and_the_others_are_taken(two: Path) -> None:
    def damage(files: dict[str, bytes]) -> None:
        name = next(name for name in files if name.endswith("seed-0/iterations.csv"))
        files[name] += b"2,0.5,0.5\n"

    outcome = packing.unpack([rewritten(two, damage)])
    folder = layout.run_directory(runs_of(), plan_of(), 0)
    assert outcome.problems == [f"not taken: {folder}/iterations.csv does not match run.json"]
    assert outcome.lines[0] == f"suite {SUITE}: 1 runs taken, 0 were here"
    assert [path.name for path in folder.parent.iterdir()] == ["seed-1"]


def test_a_run_that_lost_a_file_or_is_a_copy_is_left_out(two: Path) -> None:
    def lose(files: dict[str, bytes]) -> None:
        for lost in ("seed-0/run.json", "seed-1/evaluations.csv"):
            del files[next(name for name in files if name.endswith(lost))]

    problems = packing.unpack([rewritten(two, lose)]).problems
    assert [problem.partition("seed-")[2] for problem in problems] == [
        "0 has no run.json",
        "1 has run.json but no evaluations.csv",
    ]
    first, second = (layout.run_directory(two.parent / "first" / runs_of(), plan_of(), seed) for seed in (0, 1))
    document = records.read_run(second / records.RUN)
    shutil.copy(first / records.CHECKPOINT, second / records.CHECKPOINT)
    write_run(second, document)

    def copy(files: dict[str, bytes]) -> None:
        for name in files:
            files[name] = (two.parent / "first" / name).read_bytes()

    (problem,) = packing.unpack([rewritten(two, copy)]).problems
    assert "have the same checkpoint.safetensors: one is a copy" in problem


def test_what_the_suite_does_not_plan_is_left_out(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = plan_of().cell.id
    monkeypatch.chdir(two.parent / "first")
    other = publish(cell, 0, suite=SUITE, epochs="77")
    publish(cell, 7, suite=SUITE)
    assert "2 runs are not planned by suite smoke: left out, " in pack(two.with_name("more.tar"))[1]
    with tarfile.open(two.with_name("more.tgz"), "w:gz") as tar:
        tar.add(runs_of())
    monkeypatch.chdir(two.parent / "second")
    outcome = packing.unpack([two.with_name("more.tgz")])
    assert outcome.lines[0] == f"suite {SUITE}: 2 runs taken, 0 were here"
    texts = sorted(problem.partition(": ")[2].partition(": ")[2] for problem in outcome.problems)
    assert texts[0].startswith("other settings than suite smoke plans (epochs 77")
    assert texts[1] == "suite smoke has seeds 0-1"
    assert not (two.parent / "second" / other).exists()


def test_another_protocol_is_left_out(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = dataclasses.replace(plan_of(), protocol=plan_of().protocol - 1)
    plan = dataclasses.replace(plan, digest=digest_of(plan.configuration()))
    monkeypatch.chdir(two.parent / "first")
    folder = layout.run_directory(runs_of(), plan, 0)
    write_run(folder, fake_trainer.write_files(folder, plan, 0, (0,), 0))
    with tarfile.open(two.with_name("old.tar"), "w") as tar:
        tar.add(folder)
    monkeypatch.chdir(two.parent / "second")
    (problem,) = packing.unpack([two.with_name("old.tar")]).problems
    assert f"(protocol {plan.protocol} → {plan.protocol + 1})" in problem
    assert tree(Path.cwd()) == {}


def test_a_different_run_of_the_same_name_is_kept(two: Path) -> None:
    folder = publish(plan_of().cell.id, 1, "2027-01-01T00:00:00Z", SUITE)
    before = tree(runs_of())
    outcome = packing.unpack([two])
    assert outcome.problems == [f"not taken: {folder}: another run of this name is here"]
    assert {name: content for name, content in tree(runs_of()).items() if "seed-1" in name} == before
    (folder / records.ITERATIONS).write_text("")
    assert call("unpack", str(two)) == 1


def test_files_of_an_unfinished_run_and_a_run_in_training_are_left_alone(two: Path) -> None:
    plan = plan_of()
    folder = layout.run_directory(runs_of(), plan, 0)
    folder.mkdir(parents=True)
    (folder / records.ITERATIONS).write_text("half")
    scratch = layout.suite_root(SUITE) / "scratch" / plan.cell.id / plan.digest
    with locked(scratch, plan.cell.id, [1]):
        problems = elsewhere(lambda: packing.unpack([two]).problems)
    assert problems[0] == f"not taken: {folder} has files of an unfinished run: finish it, or delete them"
    assert problems[1].startswith(f"not taken: seed 1 of {plan.cell.id} is already being trained by process")
    assert tree(layout.suite_root(SUITE)) == {f"{folder.relative_to(layout.suite_root(SUITE))}/iterations.csv": b"half"}


def test_unknown_suites_and_names_are_a_line(two: Path, tmp_path: Path) -> None:
    def rename(files: dict[str, bytes]) -> None:
        for name in list(files):
            files[name.replace("/smoke/", "/mine/")] = files.pop(name)

    with pytest.raises(UserError, match=r"the pack is of suite 'mine'; allowed: paper, .*--suite FILE"):
        packing.unpack([rewritten(two, rename)])
    with pytest.raises(UserError, match="hold nothing of suite quick; they hold: smoke"):
        packing.unpack([two], config.load_suite("quick"))
    with pytest.raises(UserError, match="no pack is named"):
        packing.unpack([])
    with pytest.raises(UserError, match=r"there is no pack .*none\.tar"):
        packing.unpack([tmp_path / "none.tar"])
    for name, reason in (
        ("x.zip", r"allowed: ….tar, ….tgz"),
        ("two.tar", "exists"),
        ("no/such.tar", "there is no folder"),
    ):
        with pytest.raises(UserError, match=reason):
            packs.write(tmp_path / name, {})
    with pytest.raises(UserError, match=r"^nothing to pack$"):
        pack(tmp_path / "empty.tar")


def test_a_full_disk_is_a_line_and_leaves_nothing(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        problems = packing.unpack([two]).problems
        assert len(problems) == 2
        assert all(problem.endswith("the disk is full") for problem in problems)
        assert tree(Path.cwd()) == {}
        patch.chdir(two.parent / "first")
        with pytest.raises(UserError, match="the disk is full"):
            pack(two.with_name("full.tar"))
    assert sorted(path.name for path in two.parent.iterdir()) == ["first", "second", "two.tar"]
    assert packing.unpack([two]).problems == []


class Killed(BaseException):
    """In the place of SIGKILL: nothing is tidied up."""


def test_killed_before_every_step_it_leaves_no_half_run(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies before its n-th change of the disk, for every n until it ends by itself."""
    whole = tree(two.parent / "first")
    deaths = 0
    for steps in range(1, 1000):
        child = os.fork()
        if not child:
            left = steps

            def counted(function: Callable[..., object]) -> Callable[..., object]:
                def step(*arguments: object, **options: object) -> object:
                    nonlocal left
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return function(*arguments, **options)

                return step

            for owner, name in ((os, "rename"), (os, "fsync"), (Path, "replace"), (Path, "mkdir")):
                setattr(owner, name, counted(getattr(owner, name)))
            packing.unpack([two])
            os._exit(0)
        _, code = os.waitpid(child, 0)
        found = {name: content for name, content in tree(Path.cwd()).items() if "/." not in name and "lock" not in name}
        seeds = {name.rpartition("/")[0] for name in found}
        assert found == {name: content for name, content in whole.items() if name.rpartition("/")[0] in seeds}
        if code == 0:
            break
        deaths += 1
        if steps % 2:  # Every other time the next one begins with what this one left.
            shutil.rmtree("results", ignore_errors=True)
    assert deaths > 20
    assert packing.unpack([two]).problems == []
    assert tree(Path.cwd()) == whole


def test_what_a_killed_unpack_leaves_can_be_pruned(two: Path) -> None:
    packing.unpack([two])
    staged = atomic.partial_path(layout.run_directory(runs_of(), plan_of(), 5))
    staged.mkdir()
    (staged / records.ITERATIONS).write_text("half")
    os.utime(staged, (0, 0))
    assert prune.prune(config.load_suite(SUITE)) == [f"{staged} (0.0 MB)"]
    prune.prune(config.load_suite(SUITE), delete=True)
    assert not staged.exists()


# --- Resume states -------------------------------------------------------------------------------------------------


def interrupted(plan: config.Plan, seeds: tuple[int, ...], suite: str = SUITE) -> Path:
    """A resume state as the trainer leaves it; its CSV files have rows that came after it."""
    block = layout.scratch_directory(layout.suite_root(suite) / "scratch", plan, seeds)
    rows = b"iteration,loss\n1,0.5\n"
    for seed in seeds:
        (block / f"seed-{seed}").mkdir(parents=True)
        for name in (records.ITERATIONS, records.EVALUATIONS):
            (block / f"seed-{seed}" / name).write_bytes(rows + b"2,0.4\n")
    checksum = hashlib.sha256(rows).hexdigest()
    checkpoint.save(
        block / "resume.safetensors",
        {"weights": np.arange(5.0)},
        {
            "cell": plan.cell.id,
            "digest": plan.digest,
            "seeds": list(seeds),
            "iteration": 1,
            "offsets": {str(seed): [len(rows)] * 2 for seed in seeds},
            "checksums": {str(seed): [checksum] * 2 for seed in seeds},
        },
    )
    return block


@pytest.fixture
def state(two: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack with two runs and the state of another cell."""
    monkeypatch.chdir(two.parent / "first")
    interrupted(plan_of(place=1), (0, 1))
    assert pack(two.with_name("state.tar"), states=True)[0].startswith(
        f"{two.with_name('state.tar')}: 2 runs and 1 resume states, "
    )
    monkeypatch.chdir(two.parent / "second")
    return two.with_name("state.tar")


def test_resume_states_travel(state: Path) -> None:
    assert packing.unpack([state]).lines[-1] == f"taken: the resume state of {plan_of(place=1).cell.id} seeds 0-1"
    assert tree(Path.cwd()) == tree(state.parent / "first")
    assert packing.unpack([state]).lines == [f"suite {SUITE}: 0 runs taken, 2 were here"]


def test_states_that_are_another_or_damaged_are_left_out(state: Path) -> None:
    block = interrupted(plan_of(place=1), (0, 1))
    mine = (block / "resume.safetensors").read_bytes() + b" "
    (block / "resume.safetensors").write_bytes(mine)
    (problem,) = packing.unpack([state]).problems
    assert problem.endswith("another state of these seeds is here; finish them, or delete it")
    assert (block / "resume.safetensors").read_bytes() == mine
    shutil.rmtree(block)

    def damage(end: str) -> Callable[[dict[str, bytes]], None]:
        def change(files: dict[str, bytes]) -> None:
            name = next(name for name in files if name.endswith(end))
            files[name] = files[name][:-8] + b"damaged!"

        return change

    for end, reason in (
        ("resume.safetensors", "resume.safetensors is damaged: its content does not match its checksum"),
        ("seeds-0-1/seed-1/iterations.csv", "iterations.csv is not the file that the state continues"),
    ):
        (problem,) = packing.unpack([rewritten(state, damage(end))]).problems
        assert problem.endswith(reason)
        assert f"results/{SUITE}/scratch/" in problem
        assert not block.exists()
    with pytest.raises(UserError, match=r"part of a resume state, and there is no fp3o-pack\.json"):
        packing.unpack([rewritten(state, lambda files: None, manifest=False)])


def test_a_state_of_finished_seeds_is_not_needed(state: Path) -> None:
    for seed in (0, 1):
        publish(plan_of(place=1).cell.id, seed, suite=SUITE)
    assert packing.unpack([state]).lines[0] == f"suite {SUITE}: 2 runs taken, 2 were here"
    assert not list(layout.suite_root(SUITE).rglob("resume.safetensors"))


@pytest.fixture
def training(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a run in training; we are its process. The current folder is that of its machine."""
    monkeypatch.chdir(state.parent / "first")
    plan = plan_of(place=1)
    block = layout.scratch_directory(layout.suite_root(SUITE) / "scratch", plan, (0, 1))
    with locked(block.parent, plan.cell.id, [1]):
        yield block


def test_of_a_run_in_training_the_last_saved_state_is_packed(
    state: Path, training: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tree(training)
    for log in training.rglob("*.csv"):
        log.write_bytes(log.read_bytes() + b"3,0.")  # A row is being written.
    lines = elsewhere(lambda: pack(state.with_name("running.tar"), states=True))
    assert "2 runs and 1 resume states" in lines[0]
    plan = plan_of(place=1)
    steps = plan.settings.rollout_length * plan.settings.rollout_threads
    assert lines[1:] == [
        f"{plan.cell.id} seeds 0-1 is still in training: its last saved state, "
        f"after {steps:,} of {plan.iterations * steps:,} steps"
    ]
    monkeypatch.chdir(state.parent / "second")
    assert packing.unpack([state.with_name("running.tar")]).problems == []
    assert tree(training) == {  # Without the rows that came after the state
        name: content.removesuffix(b"2,0.4\n") for name, content in whole.items()
    }


def test_a_run_that_ends_or_begins_anew_while_it_is_packed_is_left_out(
    state: Path, training: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = f"no state of {plan_of(place=1).cell.id} seeds 0-1"
    read = packing._state

    def packed_while(happens: Callable[[], object], out: str) -> list[str]:
        def state_then(folder: Path, item: packs.Item) -> dict[str, Any]:
            happens()
            return read(folder, item)

        monkeypatch.setattr(packing, "_state", state_then)
        return elsewhere(lambda: pack(state.with_name(out), states=True))

    log = training / "seed-1" / records.ITERATIONS
    first, line = packed_while(lambda: log.write_bytes(b"iteration,loss\n"), "anew.tar")
    assert "2 runs and 0 resume states" in first
    assert line.startswith(f"{about}, which is in training: ")
    assert line.endswith("is not the file that the state continues")
    first, line = packed_while(lambda: shutil.rmtree(training), "ended.tar")
    assert "2 runs and 0 resume states" in first
    assert line == f"{about}: it has finished, or was started afresh, meanwhile"


# --- Beside the store ----------------------------------------------------------------------------------------------


def test_saved_runs_are_left_out_unless_asked_for(clone: Path, tmp_path: Path) -> None:
    pulling.pull()
    with pytest.raises(UserError, match=f"nothing to pack; {RUNS} runs of suite paper are saved, every clone can pull"):
        pack(tmp_path / "runs.tar", suite="paper")
    pack(tmp_path / "runs.tar", CELL, suite="paper", saved=True)
    before = here()
    shutil.rmtree(runs_of("paper"))
    outcome = packing.unpack([tmp_path / "runs.tar"])
    assert outcome.problems == []
    count = sum(plan.cell.id == CELL and len(seeds) for plan, seeds in config.load_suite("paper").runs())
    assert outcome.lines[0] == f"suite paper: {count} runs taken ({count} of them are the saved ones), 0 were here"
    assert here() == {name: content for name, content in before.items() if name.startswith(CELL)}
    assert pulling.pull().lines == [f"{RUNS - count} runs brought, {count} were here"]


def test_a_run_that_is_not_the_saved_one_is_left_out(clone: Path, tmp_path: Path) -> None:
    publish(CELL, 0, "2027-01-01T00:00:00Z")
    pack(tmp_path / "runs.tar", suite="paper")
    shutil.rmtree(runs_of("paper"))
    (problem,) = packing.unpack([tmp_path / "runs.tar"]).problems
    assert problem.endswith("another run of this name is saved in DVC")
    assert here() == {}
