"""GPU slots and logs of a job."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fp3o.workflow import jobs


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*jobs.ALLOCATIONS, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs.devices("none") == []
    assert jobs.devices("0, 1") == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert jobs.devices("auto") == ["2", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert jobs.devices("auto") == []


def run(log: Path, code: str, *options: str, temporary: Path) -> subprocess.Popen[bytes]:
    python = sys.executable
    command = [python, "-m", "fp3o.workflow.jobs", "--log", str(log), *options, "--", python, "-c", code]
    return subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)})


def test_logs_are_appended_and_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "a.log"
    assert run(log, "print('one')", "--gpus", "none", temporary=tmp_path).wait() == 0
    assert (
        run(log, "import sys; print('two', file=sys.stderr); sys.exit(7)", "--gpus", "none", temporary=tmp_path).wait()
        == 7
    )
    lines = log.read_text().splitlines()
    assert [line for line in lines if not line.startswith("---")] == ["one", "two"]
    assert jobs.attempts(log) == 2
    assert jobs.attempts(tmp_path / "absent.log") == 0


def test_a_slot_is_held_until_the_process_is_gone_even_by_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    ready = tmp_path / "ready"
    code = f"import pathlib, time; pathlib.Path({str(ready)!r}).touch(); time.sleep(60)"
    process = run(tmp_path / "a.log", code, "--gpus", "7", temporary=tmp_path)
    while not ready.exists():
        assert process.poll() is None
    descriptor = os.open(jobs.slot_folder() / "7.0", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    process.kill()
    process.wait()
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_slots_fill_every_device_before_any_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    assert [jobs.take_slot(["0", "1"], 2, exclusive=False) for _ in range(4)] == ["0", "1", "0", "1"]
    assert jobs.take_slot([], 2, exclusive=False) is None


def free(name: str, per_device: int) -> list[int]:
    """The numbers of a device's free slots."""
    numbers = []
    for number in range(per_device):
        descriptor = os.open(jobs.slot_folder() / f"{name}.{number}", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            numbers.append(number)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)
    return numbers


class Waiting(Exception):
    """A job found too few free slots."""


@pytest.fixture
def slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of slots of its own, in which a job that would wait raises an error."""

    def wait(seconds: float) -> None:
        raise Waiting

    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("time.sleep", wait)
    return tmp_path


def test_a_job_takes_several_slots_of_one_device(slots: Path) -> None:
    def take(count: int) -> str | None:
        return jobs.take_slot(["0", "1"], 4, exclusive=False, slots=count)

    assert [take(3), take(1), take(1), take(2)] == ["0", "1", "1", "1"]
    assert (free("0", 4), free("1", 4)) == ([3], [])
    with pytest.raises(Waiting):
        take(2)  # a slot is free, two are not
    assert take(1) == "0"


def test_slots_need_not_be_neighbours(slots: Path) -> None:
    jobs.take_slot(["0"], 4, exclusive=False)
    ended = os.open(jobs.slot_folder() / "0.1", os.O_RDWR | os.O_CREAT)
    fcntl.flock(ended, fcntl.LOCK_EX)
    jobs.take_slot(["0"], 4, exclusive=False)
    os.close(ended)
    assert free("0", 4) == [1, 3]
    assert jobs.take_slot(["0"], 4, exclusive=False, slots=2) == "0"
    assert free("0", 4) == []


def test_a_job_that_waits_for_slots_holds_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two jobs that want two of three slots could hold one each for ever."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    other = [os.open(jobs.slot_folder() / f"0.{number}", os.O_RDWR | os.O_CREAT) for number in (0, 2)]
    for descriptor in other:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    seen = []

    def wait(seconds: float) -> None:
        seen.append(free("0", 3))
        os.close(other.pop())

    monkeypatch.setattr("time.sleep", wait)
    assert jobs.take_slot(["0"], 3, exclusive=False, slots=2) == "0"
    assert seen == [[1]]
    assert free("0", 3) == []


def test_jobs_that_want_two_of_three_slots_run_one_after_the_other(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    write = f"open({str(journal)!r}, 'a').write"
    code = f"import time; {write}('start '); time.sleep(0.2); {write}('end ')"
    options = ("--gpus", "0", "--per-gpu", "3", "--slots", "2")
    processes = [run(tmp_path / f"{name}.log", code, *options, temporary=tmp_path) for name in "ab"]
    assert [process.wait() for process in processes] == [0, 0]
    assert journal.read_text().split() == ["start", "end"] * 2


@pytest.mark.parametrize(("asked", "left"), [(9, []), (0, [1])])
def test_a_job_takes_no_more_slots_than_there_are_and_no_less_than_one(
    slots: Path, asked: int, left: list[int]
) -> None:
    assert jobs.take_slot(["0"], 2, exclusive=False, slots=asked) == "0"
    assert free("0", 2) == left


def test_exclusive_takes_every_slot(tmp_path: Path) -> None:
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    log = tmp_path / "a.log"
    assert run(log, code, "--gpus", "3,4", "--per-gpu", "2", "--exclusive", temporary=tmp_path).wait() == 0
    assert log.read_text().splitlines()[-1] == "3"
    assert len(list(tmp_path.glob("fp3o-gpu-slots-*/*"))) == 4


def test_a_job_of_a_cluster_takes_the_device_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices are numbered anew in every job there: five jobs on five devices all see number 0."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for number in range(5):
        monkeypatch.setenv("SLURM_JOB_ID", str(100 + number))
        assert jobs.take_slot(jobs.devices("auto"), 1, exclusive=False) is None
    assert not list(tmp_path.iterdir())


def test_an_allocation_of_several_devices_shares_them_out_among_its_own_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    for number in ("7", "8"):
        monkeypatch.setenv("PBS_JOBID", number)
        assert [jobs.take_slot(jobs.devices("auto"), 1, exclusive=False) for _ in range(2)] == ["0", "1"]


def test_none_hides_every_device(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    code = "import os; print(repr(os.environ['CUDA_VISIBLE_DEVICES']))"
    assert run(log, code, "--gpus", "none", temporary=tmp_path).wait() == 0
    assert log.read_text().splitlines()[-1] == "''"
