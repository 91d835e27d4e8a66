"""One process per run, nothing half published, nothing overwritten, signals as a flag."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fp3o.config import Cell, Plan, resolve
from fp3o.errors import UserError
from fp3o.runs import records
from fp3o.runs.folder import RunFolder
from fp3o.runs.interrupt import ASKED, Interrupt, Interrupted, StoppedEarly
from fp3o.runs.layout import scratch_directory

FILES = (records.EVALUATIONS, records.ITERATIONS, records.FINAL, records.CHECKPOINT)


@pytest.fixture
def plan() -> Plan:
    return resolve(Cell.parse("mpe/simple-reference/full/mappo"))


def folder_of(tmp_path: Path, plan: Plan, seeds: tuple[int, ...] = (0, 1)) -> RunFolder:
    return RunFolder(plan, seeds, tmp_path / "runs", tmp_path / "scratch")


def work(folder: RunFolder) -> None:
    """Leave what a finished training leaves in scratch."""
    folder.resume_path.write_bytes(b"state")
    for seed in folder.seeds:
        for name in FILES:
            (folder.scratch(seed) / name).write_text(f"{name} of {seed}\n")


def document(run_document: dict[str, Any], plan: Plan, seed: int) -> dict[str, Any]:
    return {**run_document, **plan.configuration(), "digest": plan.digest, "seed": seed}


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def finish(folder: RunFolder, run_document: dict[str, Any]) -> None:
    with folder:
        work(folder)
        for seed in folder.seeds:
            folder.publish(seed, document(run_document, folder.plan, seed))
        folder.discard_scratch()


def test_a_run_from_start_to_publication(tmp_path: Path, plan: Plan, run_document: dict[str, Any]) -> None:
    folder = folder_of(tmp_path, plan)
    assert folder.unfinished() == (0, 1)
    assert not any(tmp_path.iterdir())  # asking writes nothing
    finish(folder, run_document)
    output = tmp_path / "runs" / plan.cell.id / plan.digest / "seed-1"
    assert folder.output(1) == output
    assert sorted(path.name for path in output.iterdir()) == sorted((*FILES, records.RUN))
    run = records.read_run(output / records.RUN)
    assert run["sha256"] == {name: records.sha256_of(output / name) for name in FILES}
    assert tree(tmp_path / "scratch") == {}


def test_the_same_command_again_does_nothing(tmp_path: Path, plan: Plan, run_document: dict[str, Any]) -> None:
    finish(folder_of(tmp_path, plan), run_document)
    before = tree(tmp_path)
    again = folder_of(tmp_path, plan)
    assert again.unfinished() == ()
    with again:
        assert again.seeds == ()
    assert tree(tmp_path) == before


def test_only_missing_seeds_are_trained(tmp_path: Path, plan: Plan, run_document: dict[str, Any]) -> None:
    finish(folder_of(tmp_path, plan, (1,)), run_document)
    with folder_of(tmp_path, plan, (2, 0, 1)) as folder:
        assert folder.seeds == (0, 2)
        assert folder.block == scratch_directory(tmp_path / "scratch", plan, (0, 2))


def test_killed_between_two_publications(tmp_path: Path, plan: Plan, run_document: dict[str, Any]) -> None:
    with folder_of(tmp_path, plan) as folder:
        work(folder)
        folder.publish(0, document(run_document, plan, 0))
    published = tree(folder.output(0))
    with folder_of(tmp_path, plan) as again:
        assert again.seeds == (0, 1)  # the saved state holds both
        assert again.resume_path.read_bytes() == b"state"
        for seed in again.seeds:
            again.publish(seed, document(run_document, plan, seed) | {"deviations": []})
        again.discard_scratch()
    assert tree(folder.output(0)) == published
    assert folder.finished(1)


def test_killed_inside_a_publication(
    tmp_path: Path, plan: Plan, run_document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(path: Path, run: object) -> None:
        raise Killed

    monkeypatch.setattr(records, "write_run", die)
    with folder_of(tmp_path, plan) as folder:
        work(folder)
        with pytest.raises(Killed):
            folder.publish(0, document(run_document, plan, 0))
    monkeypatch.undo()
    assert folder.output(0).exists()
    assert not folder.finished(0)  # run.json comes last
    with folder_of(tmp_path, plan) as again:
        again.publish(0, document(run_document, plan, 0))
    assert again.finished(0)


def test_scratch_stays_while_a_seed_is_unpublished(tmp_path: Path, plan: Plan, run_document: dict[str, Any]) -> None:
    with folder_of(tmp_path, plan) as folder:
        work(folder)
        folder.publish(0, document(run_document, plan, 0))
        folder.discard_scratch()
        assert folder.resume_path.exists()


def test_damaged_runs_are_refused_not_overwritten(tmp_path: Path, plan: Plan, run_document: dict[str, Any]) -> None:
    finish(folder_of(tmp_path, plan), run_document)
    output = folder_of(tmp_path, plan).output(0)
    good = (output / records.EVALUATIONS).read_bytes()
    (output / records.EVALUATIONS).write_text("edited")
    before = tree(tmp_path)
    with pytest.raises(UserError, match=r"evaluations\.csv does not match run\.json"), folder_of(tmp_path, plan):
        pass
    assert tree(tmp_path) == before
    (output / records.EVALUATIONS).unlink()
    with pytest.raises(UserError, match="fp3o pull"):
        folder_of(tmp_path, plan).unfinished()
    (output / records.EVALUATIONS).write_bytes(good)
    assert folder_of(tmp_path, plan).unfinished() == ()
    (output / records.RUN).write_bytes((folder_of(tmp_path, plan).output(1) / records.RUN).read_bytes())
    with pytest.raises(UserError, match="its seed is 1, not 0"):
        folder_of(tmp_path, plan).unfinished()


@pytest.mark.parametrize("seeds", [(), (1, 1), (-1,)])
def test_bad_seeds(tmp_path: Path, plan: Plan, seeds: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="seeds must be different"):
        folder_of(tmp_path, plan, seeds)


def test_a_refused_run_leaves_nothing_behind(tmp_path: Path, plan: Plan) -> None:
    with pytest.raises(UserError), folder_of(tmp_path, plan):
        raise UserError("no such option")
    assert not [path for path in tmp_path.rglob("*") if path.name not in ("runs", "scratch")]


def test_a_run_refused_later_keeps_its_files(tmp_path: Path, plan: Plan) -> None:
    folder = folder_of(tmp_path, plan)
    with folder:
        work(folder)
    with pytest.raises(UserError), folder:
        raise UserError("the disk is full")
    assert folder.resume_path.exists()


def test_output_folder_that_is_a_file(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "runs").write_text("mine")
    with pytest.raises(UserError, match=r"cannot write .*: "), folder_of(tmp_path, plan):
        pass
    assert (tmp_path / "runs").read_text() == "mine"


@pytest.mark.parametrize(("number", "reason"), [(errno.EROFS, "read-only"), (errno.ENOSPC, "the disk is full")])
def test_unwritable_output_is_refused_before_the_start(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    real_open = Path.open

    def refuse(path: Path, *arguments: Any, **keywords: Any) -> Any:
        if (tmp_path / "runs") in path.parents:
            raise OSError(number, os.strerror(number), str(path))
        return real_open(path, *arguments, **keywords)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=reason), folder_of(tmp_path, plan):
        pytest.fail("started")
    assert tree(tmp_path) == {}


@pytest.mark.skipif(os.getuid() == 0, reason="permissions do not bind root")
def test_folder_without_permission(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "runs").mkdir(mode=0o555)
    with pytest.raises(UserError, match="permission denied"), folder_of(tmp_path, plan):
        pytest.fail("started")


def test_disk_full_at_publication(tmp_path: Path, plan: Plan, run_document: dict[str, Any]) -> None:
    with folder_of(tmp_path, plan) as folder:
        work(folder)
        folder.output(0).mkdir(parents=True)
        (folder.output(0) / f".{records.CHECKPOINT}.partial").symlink_to("/dev/full")
        with pytest.raises(UserError, match=r"checkpoint\.safetensors: the disk is full"):
            folder.publish(0, document(run_document, plan, 0))
        assert not folder.finished(0)
        folder.publish(0, document(run_document, plan, 0))  # room again
        assert folder.finished(0)


@contextmanager
def another_process(folder: RunFolder) -> Iterator[int]:
    """A forked process that holds the folder until it is killed."""
    reading, writing = os.pipe()
    identity = os.fork()
    if identity == 0:
        try:
            folder.__enter__()
            os.close(reading)
            os.write(writing, b"locked")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    assert os.read(reading, 6) == b"locked"
    try:
        yield identity
    finally:
        os.kill(identity, signal.SIGKILL)
        os.waitpid(identity, 0)
        os.close(reading)


def test_second_process_is_told_who_holds_the_run(tmp_path: Path, plan: Plan) -> None:
    with another_process(folder_of(tmp_path, plan, (0, 1, 2))) as holder:
        with (
            pytest.raises(
                UserError, match=f"seed 2 of {plan.cell.id} is already being trained by process {holder} on "
            ),
            folder_of(tmp_path, plan, (2, 3)),
        ):
            pytest.fail("entered")
        with folder_of(tmp_path, plan, (3,)) as neighbour:  # other seeds are free, and so is 3 after the refusal
            assert neighbour.seeds == (3,)
    with folder_of(tmp_path, plan, (0, 1, 2)) as free:  # kill -9 frees the lock
        assert free.seeds == (0, 1, 2)


def test_orphans_do_not_hold_the_lock(tmp_path: Path, plan: Plan) -> None:
    with folder_of(tmp_path, plan):
        reading, writing = os.pipe()
        worker = os.fork()
        if worker == 0:
            os.close(writing)
            os.read(reading, 1)  # lives on until the parent lets go
            os._exit(0)
    os.close(reading)
    try:
        with another_process(folder_of(tmp_path, plan)):
            pass
    finally:
        os.close(writing)
        os.waitpid(worker, 0)


def test_no_lock_files_are_left(tmp_path: Path, plan: Plan) -> None:
    with folder_of(tmp_path, plan) as folder:
        assert len(list(folder.block.parent.glob("*.lock"))) == 2
    assert not list((tmp_path / "scratch").rglob("*.lock"))


def test_leftovers_go_with_the_next_command(tmp_path: Path, plan: Plan, run_document: dict[str, Any]) -> None:
    """A process killed while it started, and one killed after its run's end."""
    finish(folder_of(tmp_path, plan), run_document)
    folder = folder_of(tmp_path, plan)
    scratch = scratch_directory(tmp_path / "scratch", plan, (0, 1))
    (scratch / "seed-0").mkdir(parents=True)
    (scratch / "resume.safetensors").write_bytes(b"state")
    (scratch.parent / "seed-0.lock").write_text("{}")
    for place in (folder.output(0).parent, scratch):
        (place / ".probe-seed-0").write_bytes(b"0")
        (place / "..probe-seed-0.partial").write_bytes(b"0")
    running = scratch_directory(tmp_path / "scratch", plan, (0, 2))  # seed 2 is still to come
    running.mkdir()
    (running / "resume.safetensors").write_bytes(b"state")
    folder.tidy()
    assert list(tree(tmp_path / "scratch")) == [str((running / "resume.safetensors").relative_to(tmp_path / "scratch"))]
    assert not list((tmp_path / "runs").rglob("*probe*"))
    assert folder.unfinished() == ()


def test_stopped_before_anything_was_saved(tmp_path: Path, plan: Plan) -> None:
    with folder_of(tmp_path, plan) as folder:
        (folder.scratch(0) / records.ITERATIONS).touch()
    assert tree(tmp_path) == {}


def test_nothing_to_tidy_writes_nothing(tmp_path: Path, plan: Plan, run_document: dict[str, Any]) -> None:
    finish(folder_of(tmp_path, plan), run_document)
    assert not (tmp_path / "scratch").exists() or not list((tmp_path / "scratch").iterdir())
    before = sorted(tmp_path.rglob("*"))
    folder_of(tmp_path, plan).tidy()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_at_the_start_is_not_held_back(number: signal.Signals, code: int) -> None:
    with Interrupt(), pytest.raises(StoppedEarly, match="nothing was lost") as stopped:
        signal.raise_signal(number)
    assert stopped.value.exit_code == code


def test_a_signal_is_acknowledged_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with Interrupt() as interrupt:
        interrupt.hold()
        signal.raise_signal(signal.SIGTERM)
        assert capfd.readouterr().err == "fp3o: SIGTERM: saving after this iteration; again to stop at once\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_sets_a_flag(number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)
    with Interrupt() as interrupt:
        interrupt.hold()
        assert not interrupt
        interrupt.raise_if_set()
        signal.raise_signal(number)
        assert interrupt
        with pytest.raises(Interrupted, match="the same command resumes it") as stopped:
            interrupt.raise_if_set()
        assert stopped.value.exit_code == code
    assert signal.getsignal(number) is before


@pytest.fixture
def in_a_terminal() -> Iterator[None]:
    """Ctrl-C as Python handles it there: a shell's background job, tests among them, starts with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_a_terminal")
def test_the_second_signal_is_not_held_back() -> None:
    with Interrupt() as interrupt:
        interrupt.hold()
        signal.raise_signal(signal.SIGINT)
        assert interrupt
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("in_a_terminal")
def test_to_be_asked_by_a_sweep_stops_once(capfd: pytest.CaptureFixture[str]) -> None:
    """Alone, and after Ctrl-C, which reached both; as in a command, whose handlers are there already."""
    for first, code, said in ((ASKED, 138, "the sweep stops"), (signal.SIGINT, 130, "Ctrl-C")):
        with Interrupt("stopped"), Interrupt() as interrupt:
            interrupt.hold()
            signal.raise_signal(first)
            signal.raise_signal(ASKED)
            with pytest.raises(Interrupted) as stopped:
                interrupt.raise_if_set()
        assert stopped.value.exit_code == code
        assert capfd.readouterr().err.startswith(f"fp3o: {said}: saving after this iteration")
    assert signal.getsignal(ASKED) is signal.SIG_DFL


def test_a_program_may_use_the_signal_itself() -> None:
    received: list[int] = []
    signal.signal(ASKED, lambda number, _: received.append(number))
    try:
        with Interrupt():
            signal.raise_signal(ASKED)
    finally:
        signal.signal(ASKED, signal.SIG_DFL)
    assert received == [ASKED]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_descriptors_are_closed(tmp_path: Path, plan: Plan) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = count()
    for _ in range(3):
        with folder_of(tmp_path, plan):
            pass
    assert count() == before
