"""A file that is not what its trainer left never changes a number: every reader stops, names it and the remedy."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import layout, records
from fp3o.runs.layout import RunId
from fp3o.runs.verify import read_verified
from fp3o.statistics import export, scores
from fp3o.statistics.scores import Planned
from fp3o.statistics.suites import SuiteRuns
from fp3o.statistics.tables.build import build
from fp3o.statistics.tables.model import Row, Table
from fp3o.statistics.tables.writers import to_latex
from fp3o.workflow import manifest

CELL = "mpe/simple-reference/full/fp3o"


@pytest.fixture
def runs(tmp_path: Path, write_run: Any) -> Path:
    """Two seeds of one cell."""
    for seed in range(2):
        write_run(tmp_path, CELL, seed, -5.0 - seed)
    return tmp_path


def folder_of(runs: Path, seed: int) -> Path:
    (found,) = (runs / CELL).glob(f"*/seed-{seed}")
    return found


def rewrite(path: Path, change: Callable[[str], str]) -> None:
    text = path.read_text()
    assert change(text) != text
    path.write_text(change(text))


def sign(folder: Path, **changes: Any) -> None:
    """Alter run.json and give it the checksums of the files as they are now: a forgery the checksums do not show."""
    document = json.loads((folder / records.RUN).read_bytes()) | changes
    document["sha256"] = {name: records.sha256_of(folder / name) for name in document["sha256"]}
    (folder / records.RUN).write_bytes(records.run_bytes(document))


def drop_last_line(text: str) -> str:
    return text[: text.rstrip("\n").rindex("\n") + 1]


def edit_evaluations(folder: Path) -> None:
    rewrite(folder / records.EVALUATIONS, lambda text: text.replace("-1", "-2", 1))


def drop_final(folder: Path) -> None:
    (folder / records.FINAL).unlink()


def forget_final(folder: Path) -> None:
    (folder / records.FINAL).unlink()
    document = json.loads((folder / records.RUN).read_bytes())
    del document["sha256"][records.FINAL]
    document["score"] = records.score_summary(folder / records.EVALUATIONS)
    (folder / records.RUN).write_bytes(records.run_bytes(document))


def write_words(folder: Path) -> None:
    rewrite(folder / records.FINAL, lambda text: re.sub(r"\n0,[^,]*,", "\n0,much,", text))
    sign(folder)


def write_nan(folder: Path) -> None:
    rewrite(folder / records.FINAL, lambda text: re.sub(r"\n0,[^,]*,", "\n0,nan,", text))
    sign(folder)


def drop_rows(folder: Path) -> None:
    rewrite(folder / records.EVALUATIONS, drop_last_line)
    sign(folder)


def drop_an_evaluation(folder: Path) -> None:
    lines = (folder / records.FINAL).read_text().splitlines()
    (folder / records.FINAL).write_text("\n".join([*lines[:-1], lines[-1].replace("-", "-9", 1)]) + "\n")
    sign(folder)


def copy_another_seed(folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("seed-0"), folder)


def other_digest(folder: Path) -> None:
    sign(folder, digest="0123456789")


def other_protocol(folder: Path) -> None:
    sign(folder, protocol=7)


def other_settings(folder: Path) -> None:
    settings = json.loads((folder / records.RUN).read_bytes())["settings"]
    sign(folder, settings=settings | {"gamma": 0.5})


def half_a_document(folder: Path) -> None:
    rewrite(folder / records.RUN, lambda text: text[: len(text) // 2])


def nested_document(folder: Path) -> None:
    (folder / records.RUN).write_text("[" * 200_000)


ALTERATIONS: dict[Callable[[Path], None], str] = {
    edit_evaluations: "evaluations.csv does not match run.json",
    drop_final: "no final.csv",
    forget_final: "no checksum of final.csv",
    write_nan: "final.csv holds numbers that are not finite",
    write_words: "could not convert string 'much' to float",
    drop_rows: "evaluations.csv misses rows",
    drop_an_evaluation: "another score than its files give",
    copy_another_seed: "is another run: its seed is 0, not 1",
    other_digest: "is another run: its digest is 0123456789",
    other_protocol: "do not give its digest",
    other_settings: "do not give its digest",
    half_a_document: "damaged",
    nested_document: "damaged",
}


@pytest.mark.parametrize("alter", ALTERATIONS, ids=lambda alter: alter.__name__)
def test_every_reader_refuses(runs: Path, tmp_path: Path, alter: Callable[[Path], None]) -> None:
    folder = folder_of(runs, 1)
    alter(folder)
    suite = config.load_suite("paper")
    digest = suite.run(CELL)[0].digest
    readers: tuple[Callable[[], object], ...] = (
        lambda: scores.collect(runs, [Planned(CELL, digest, (0, 1))]),
        lambda: build(SuiteRuns(suite, runs), suite.artefact("table-mpe")),
        lambda: export.scores_csv(SuiteRuns(suite, runs)),
    )
    for read in readers:
        with pytest.raises(UserError) as refused:
            read()
        message = str(refused.value)
        assert ALTERATIONS[alter] in message
        assert "\n" not in message
        assert str(folder) in message
        assert f"delete {folder}, then `fp3o pull` it or train it again" in message


def test_iterations_are_verified_when_they_are_read(runs: Path) -> None:
    folder = folder_of(runs, 0)
    (found,) = scores.collect(runs, [Planned(CELL, folder.parent.name, (0,))])
    rewrite(folder / records.ITERATIONS, lambda text: text.replace("0.5", "0.6", 1))
    with pytest.raises(UserError, match=r"iterations\.csv does not match run\.json"):
        found.runs[0].iterations()


def test_a_checkpoint_is_part_of_the_run(runs: Path) -> None:
    folder = folder_of(runs, 0)
    expected = RunId.of(records.read_run(folder / records.RUN))
    assert read_verified(folder, expected)["seed"] == 0
    (folder / records.CHECKPOINT).write_bytes(b"other weights")
    with pytest.raises(UserError, match=r"checkpoint\.safetensors does not match run\.json"):
        read_verified(folder, expected)


def test_a_diverged_run_needs_no_final_episodes(tmp_path: Path, write_run: Any) -> None:
    diverged = {"status": "diverged", "diverged": {"iteration": 30, "quantity": "loss"}}
    folder = write_run(tmp_path, CELL, 0, -5.0, evaluations=1, changes=diverged)
    (found,) = scores.collect(tmp_path, [Planned(CELL, folder.parent.name, (0,))])
    assert found.scores() == pytest.approx([-5.0])


def test_a_seed_without_a_score_has_its_rows(tmp_path: Path, write_run: Any) -> None:
    diverged = {"status": "diverged", "diverged": {"iteration": 0, "quantity": "loss"}}
    write_run(tmp_path, CELL, 0, -5.0, evaluations=0, changes=diverged)
    lines = export.scores_csv(SuiteRuns(config.load_suite("paper"), tmp_path)).splitlines()
    assert "mpe,simple-reference,full,fp3o,0,diverged,final,,0" in lines
    assert len([line for line in lines if ",diverged," in line]) == len(scores.REDUCTIONS)


def test_captions_are_text_not_commands() -> None:
    row = Row("full", "a & b", "", "", ())
    table = Table("name", r"\input{/etc/passwd} 5 % of $x_1$ #~^", (), (), (row,), label=r"a}\input{b}")
    text = to_latex(table)
    assert r"\input" not in text
    assert r"\textbackslash{}input\{/etc/passwd\} 5 \% of \$x\_1\$ \#\textasciitilde{}\textasciicircum{}" in text
    assert r"a \& b" in text


@pytest.mark.parametrize("alter", [edit_evaluations, half_a_document, copy_another_seed], ids=lambda a: a.__name__)
def test_summaries_of_the_suite_refuse_too(
    runs: Path, monkeypatch: pytest.MonkeyPatch, alter: Callable[[Path], None]
) -> None:
    suite = config.load_suite("paper")
    root = runs.with_name(f"{runs.name}-suite")
    root.mkdir()
    runs.rename(root / "runs")
    monkeypatch.setattr(layout, "suite_root", lambda name: root)
    monkeypatch.chdir(root)  # not under DVC
    assert len(manifest.manifest(suite)["runs"]) == 2
    assert manifest.cell_summary(suite, CELL)["seeds_found"] == [0, 1]
    alter(folder_of(root / "runs", 1))
    with pytest.raises(UserError, match=ALTERATIONS[alter]):
        manifest.manifest(suite)
    with pytest.raises(UserError, match=ALTERATIONS[alter]):
        manifest.cell_summary(suite, CELL)


def test_the_manifest_covers_every_file(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = runs.with_name(f"{runs.name}-suite")
    root.mkdir()
    runs.rename(root / "runs")
    monkeypatch.setattr(layout, "suite_root", lambda name: root)
    monkeypatch.chdir(root)
    (folder_of(root / "runs", 0) / records.CHECKPOINT).write_bytes(b"other weights")
    with pytest.raises(UserError, match=r"checkpoint\.safetensors does not match run\.json"):
        manifest.manifest(config.load_suite("paper"))


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"runs": 3}', b'{"runs": {"a": 1}}', b"\xff", b"[" * 200_000])
def test_a_damaged_manifest_is_one_line(text: bytes) -> None:
    with pytest.raises(UserError, match=r"m\.json is damaged .*: `git checkout HEAD m\.json` restores it") as refused:
        manifest.entries(text, Path("m.json"))
    assert "\n" not in str(refused.value)
