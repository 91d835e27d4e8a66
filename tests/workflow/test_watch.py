"""The view of all jobs of a sweep."""

from __future__ import annotations

from pathlib import Path

from fp3o.workflow.watch import Watch

LINE = "{cell} 0123456789 seeds 0-4: {done:,} of 1,000,000 steps (… %), 4,730 steps/s, ETA 0:03:10, win rate 3.1 %"


def write(logs: Path, cell: str, *done: int) -> None:
    log = logs / cell / "0123456789-s0-4.train-1.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    lines = ["--- attempt 1: fp3o train …", *(LINE.format(cell=cell, done=number) for number in done)]
    log.write_text("\n".join(lines) + "\n")


def test_a_line_per_job_in_training_and_one_for_the_whole(tmp_path: Path) -> None:
    now = 0.0
    work = {("a/b/c/long", "0-4"): 300.0, ("a/b/c/short", "0-4"): 100.0, ("a/b/c/short", "5-9"): 100.0}
    watch = Watch(work, tmp_path, clock=lambda: now)
    watch.begun = 0.0
    assert watch.view() == ["0 of 3 jobs done, 0 in training: 0 % of the work"]
    write(tmp_path, "a/b/c/long", 100_000, 200_000)
    write(tmp_path, "a/b/c/short", 1_000_000)
    now = 160.0
    long, whole = watch.view()
    assert long == "a/b/c/long seeds 0-4: 200,000 of 1,000,000 steps (… %), 4,730 steps/s, ETA 0:03:10, win rate 3.1 %"
    # 160 of 500 done in 160 s.
    assert whole == "1 of 3 jobs done, 1 in training: 32 % of the work, about 0:05:40 left"


def test_logs_of_an_earlier_sweep_and_jobs_that_compile_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, "a/b/c/old", 1_000_000)
    watch = Watch({("a/b/c/old", "0-4"): 1.0, ("a/b/c/new", "0-4"): 1.0}, tmp_path)
    watch.begun += 3600
    write(tmp_path, "a/b/c/new")
    assert watch.view() == ["0 of 2 jobs done, 0 in training: 0 % of the work"]
