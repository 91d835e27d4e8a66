"""The file formats of a run: exact text, resumable to the byte, refused when wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fp3o.envs.interface import Episode
from fp3o.errors import UserError
from fp3o.rollout.evaluation import evaluation_rows, final_rows
from fp3o.runs import records
from fp3o.runs.records import CsvLog

EPISODES = [Episode(0, 1234.56789, 411.522630, 25, None), Episode(1, -1e-7, -1e-7, 1000, True)]


def write(path: Path, rows: list[dict[str, Any]], columns: tuple[str, ...] | None = None) -> Path:
    log = CsvLog(path, columns)
    log.append(rows)
    log.close()
    return path


def test_evaluations_are_spelt_exactly(tmp_path: Path) -> None:
    path = write(tmp_path / "evaluations.csv", evaluation_rows(10_000_000, 2500, EPISODES))
    assert path.read_text() == (
        "env_steps,iteration,episode,return,return_per_agent,won,length\n"
        "10000000,2500,0,1234.57,411.523,,25\n"
        "10000000,2500,1,-1e-07,-1e-07,1,1000\n"
    )
    table = records.read_table(path)
    assert table["env_steps"].tolist() == [10_000_000, 10_000_000]
    assert np.isnan(table["won"][0])
    assert table["won"][1] == 1


def test_final_rows_have_their_own_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "final.csv", final_rows(EPISODES), records.FINAL_COLUMNS)
    assert path.read_text().splitlines()[0] == ",".join(records.FINAL_COLUMNS)
    assert records.read_table(path)["length"].tolist() == [25, 1000]
    with pytest.raises(UserError, match=r"expected: env_steps,"):
        records.read_table(path.rename(path.with_name("evaluations.csv")))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "1"),
        (np.False_, "0"),
        (np.int64(12345678), "12345678"),
        (np.float32(0.1), "0.1"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1234567.0, "1.23457e+06"),
    ],
)
def test_cell_text(value: Any, text: str) -> None:
    assert records.cell_text(value) == text


def test_header_is_the_first_row_in_its_order(tmp_path: Path) -> None:
    log = CsvLog(tmp_path / "iterations.csv")
    log.append([{"loss": 0.5, "entropy": 1.0}])
    log.append([{"entropy": 2.0, "loss": 0.25}])
    with pytest.raises(ValueError, match="columns"):
        log.append([{"loss": 0.5}])
    log.close()
    assert log.path.read_text() == "loss,entropy\n0.5,1\n0.25,2\n"
    assert records.read_table(log.path)["loss"].tolist() == [0.5, 0.25]


@pytest.mark.parametrize("resume_at", range(6))
def test_resumed_file_is_the_unbroken_one(tmp_path: Path, resume_at: int) -> None:
    rows = [{"iteration": i, "loss": 1 / (i + 3)} for i in range(6)]
    unbroken = write(tmp_path / "unbroken.csv", rows)
    log = CsvLog(tmp_path / "killed.csv")
    log.append(rows[:resume_at])
    offset = log.flush()
    log.append([{"iteration": 99, "loss": 9.0}])  # written after the last resume point, then the process dies
    log.flush()
    with log.path.open("ab") as file:
        file.write(b"7,half a li")
    resumed = CsvLog(log.path, offset=offset)
    assert resumed.flush() == offset
    resumed.append(rows[resume_at:])
    resumed.close()
    assert log.path.read_bytes() == unbroken.read_bytes()


def test_resume_refuses_what_it_cannot_continue(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [{"a": 1}])
    with pytest.raises(UserError, match="has 4 bytes, the saved state needs 5"):
        CsvLog(path, offset=5)
    with pytest.raises(UserError, match="needs 1"):
        CsvLog(tmp_path / "missing.csv", offset=1)
    with pytest.raises(UserError, match="has the columns a"):
        CsvLog(path, ("b",), 4)
    assert path.read_text() == "a\n1\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_is_one_line() -> None:
    log = CsvLog(Path("/dev/full"))
    log.append([{"a": 1}])
    with pytest.raises(UserError, match="cannot write /dev/full: the disk is full"):
        log.flush()
    with pytest.raises(UserError):
        log.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("episode,return,return_per_agent,won,length\n0,1,1,2,25\n", "won"),
        ("episode,return,return_per_agent,won,length\n0,1,1,1\n", "line 2: 4 fields; expected: 5"),
        ("episode,return,return_per_agent,won,length,a,a\n0,1,1,1,2,3,4\n", "has a column twice"),
        ("episode,return,return_per_agent,won,length\n0,one,1,1,25\n", "one"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "final.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        records.read_table(tmp_path / "final.csv")


def test_empty_fields_are_not_a_number_wherever_they_stand(tmp_path: Path) -> None:
    columns = ("first", "second", "third", "fourth", "last")
    rows: list[tuple[int | None, ...]] = [(None, 1, 2, 3, None), (None, None, None, 4, None), (5, None, None, None, 6)]
    path = write(tmp_path / "iterations.csv", [dict(zip(columns, row, strict=True)) for row in rows])
    table = records.read_table(path)
    wanted = np.array([[np.nan if value is None else value for value in row] for row in rows], float).T
    np.testing.assert_array_equal(np.stack([table[name] for name in columns]), wanted)


def test_score_is_the_last_finite_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.csv"
    good = [Episode(0, 1.0, 0.5, 10, True), Episode(1, 2.0, 1.0, 20, False)]
    bad = [Episode(0, float("nan"), 0.0, 10, False), Episode(1, 2.0, 1.0, 20, False)]
    write(path, evaluation_rows(100, 1, good) + evaluation_rows(200, 2, bad))
    score = records.score_summary(path)
    assert score == {
        "source": "evaluations.csv",
        "env_steps": 100,
        "episodes": 2,
        "return": 1.5,
        "return_per_agent": 0.75,
        "win_rate": 0.5,
        "length": 15.0,
    }


def test_score_prefers_the_final_episodes(tmp_path: Path) -> None:
    evaluations = write(tmp_path / "evaluations.csv", evaluation_rows(100, 1, EPISODES))
    final = write(tmp_path / "final.csv", final_rows([Episode(0, 7.0, 7.0, 5, None)] * 3))
    score = records.score_summary(evaluations, final)
    assert (score["source"], score["return"], score["episodes"], score["win_rate"]) == ("final.csv", 7.0, 3, None)


def test_score_of_a_run_without_any_evaluation(tmp_path: Path) -> None:
    score = records.score_summary(write(tmp_path / "evaluations.csv", []))
    assert (score["source"], score["return"], score["episodes"]) == (None, None, 0)


def test_run_json_round_trips_canonically(tmp_path: Path, run_document: dict[str, Any]) -> None:
    path = tmp_path / "run.json"
    records.write_run(path, run_document)
    assert records.read_run(path) == run_document
    text = path.read_text()
    assert text.endswith("}\n")
    assert "→" in text
    shuffled = dict(reversed(run_document.items()))
    assert records.run_bytes(shuffled).decode() == text
    assert "volatile" not in records.without_volatile(run_document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "seed: -1 is less than"),
        ({"status": "crashed"}, "status: 'crashed' is not one of"),
        ({"status": "diverged"}, "'diverged' is a required property"),
        ({"diverged": {"iteration": 1, "quantity": "critic loss"}}, "top level"),
        ({"extra": 1}, "'extra' was unexpected"),
        ({"schema": 2}, "schema: 1 was expected"),
        ({"cell": "ant"}, "cell: 'ant' does not match"),
        ({"sha256": {}}, "sha256: 'evaluations.csv' is a required property"),
        ({"git": {"commit": "abc", "dirty": False}}, "git"),
    ],
)
def test_schema_rejects(tmp_path: Path, run_document: dict[str, Any], change: dict[str, Any], message: str) -> None:
    path = tmp_path / "run.json"
    with pytest.raises(UserError, match=message) as refused:
        records.write_run(path, {**run_document, **change})
    assert "\n" not in str(refused.value)
    assert not path.exists()


def test_every_property_is_required(run_document: dict[str, Any]) -> None:
    for name in run_document:
        with pytest.raises(UserError, match=f"'{name}' is a required property"):
            records.check_run({key: value for key, value in run_document.items() if key != name})


def test_a_diverged_run_says_where(run_document: dict[str, Any]) -> None:
    where = {"iteration": 7, "quantity": "actor loss"}
    records.check_run({**run_document, "status": "diverged", "diverged": where})


def test_numbers_json_cannot_hold_are_refused(tmp_path: Path, run_document: dict[str, Any]) -> None:
    run_document["score"]["return"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        records.write_run(tmp_path / "run.json", run_document)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"{}"])
def test_garbage_run_json_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(UserError) as refused:
        records.read_run(tmp_path / "run.json")
    assert "run.json" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_provenance() -> None:
    versions = records.installed_versions()
    assert versions["numpy"] == np.__version__
    git = records.git_state()
    assert git is None or len(git["commit"]) == 40
    json.dumps([versions, git])


def test_resume_refuses_altered_bytes(tmp_path: Path) -> None:
    log = CsvLog(tmp_path / "a.csv")
    log.append([{"iteration": 0, "loss": 1.5}])
    offset, checksum = log.flush(), log.checksum
    log.append([{"iteration": 1, "loss": 2.5}])
    log.close()
    resumed = CsvLog(log.path, offset=offset, checksum=checksum)
    assert resumed.checksum == checksum
    resumed.append([{"iteration": 1, "loss": 2.5}])
    resumed.close()
    assert resumed.checksum == records.sha256_of(log.path)
    before = log.path.read_bytes()
    log.path.write_bytes(before.replace(b"1.5", b"1.6"))
    with pytest.raises(UserError, match=r"a\.csv was altered since the state was saved"):
        CsvLog(log.path, offset=offset, checksum=checksum)
    CsvLog(log.path, offset=offset).close()  # A state saved by an older version has no checksum.
