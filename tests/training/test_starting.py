"""Training from the networks of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from command import call
from short_runs import PLAIN, StopAfter, documents, files, tiny_plan, train

import fp3o
from fp3o.config import Cell, resolve
from fp3o.runs import checkpoint, records
from fp3o.runs.interrupt import Interrupted
from fp3o.runs.layout import RunId
from fp3o.training import run

CELL = "matrix/climbing/none/mappo"


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return {name: torch.as_tensor(x) for name, x in checkpoint.load(folder / records.CHECKPOINT)[0].items()}


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    plan = tiny_plan(CELL, 2, actor_lr=0.01)
    train(plan, tmp_path, (3,))
    return tmp_path / RunId(CELL, plan.digest, 3).path


def test_every_seed_starts_from_the_run(origin: Path, tmp_path: Path) -> None:
    """With learning rates of 0 it is still there at the end; the value normaliser moves on from it."""
    still: dict[str, Any] = {"actor_lr": 0.0, "critic_lr": 0.0, "total_steps": 32}
    settings = dict(tiny_plan(CELL).configuration()["settings"]) | still
    runs = fp3o.train(CELL, [0, 1], settings, tmp_path, path="eager", device="cpu", start_from=origin, quiet=True)
    for found in runs:
        before, after = tensors(origin), tensors(found.path)
        assert all(torch.equal(before[name], after[name]) for name in ("actor.trunk", "actor.head", "critic"))
        assert (after["normaliser.weight"] > before["normaliser.weight"]).all()
        assert found.settings["start_from"] == RunId.at(origin).path
        (note,) = found._document["volatile"]["notes"]
        checksum = records.read_run(origin / records.RUN)["sha256"][records.CHECKPOINT]
        assert note == f"started from {RunId.at(origin).path}, checkpoint {checksum}"
    again = fp3o.train(CELL, [0], settings, tmp_path, start_from=fp3o.Run(origin), quiet=True)
    assert again[0].path == runs[0].path, "a finished run is found again"


def test_it_is_part_of_the_digest_where_it_is_used(origin: Path) -> None:
    cell = Cell.parse(CELL)
    name = RunId.at(origin).path
    with pytest.raises(
        fp3o.UserError, match=r"start_from = '\.\./x' is not allowed; allowed: <cell>/<digest>/seed-<k>"
    ):
        resolve(cell, {"start_from": "../x"})
    assert resolve(cell, {"start_from": ""}).digest == resolve(cell).digest
    assert "start_from" not in resolve(cell).configuration()["settings"]
    assert len({resolve(cell, {"start_from": value}).digest for value in ("", name, f"{name}0")}) == 3


def test_it_goes_on_to_the_same_bytes_without_the_run(origin: Path, tmp_path: Path) -> None:
    plan = tiny_plan(CELL, 3, start_from=RunId.at(origin).path)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run.train(plan, (0, 1), whole, whole / "scratch", PLAIN, start_from=origin)
    with pytest.raises(Interrupted):
        run.train(plan, (0, 1), parts, parts / "scratch", PLAIN, [StopAfter(16)], origin)
    origin.rename(tmp_path / "elsewhere")
    run.train(plan, (0, 1), parts, parts / "scratch", PLAIN, start_from=origin)
    assert files(parts) == files(whole)
    message = (
        rf"^start_from = {RunId.at(origin).path}: there is no such run in .*; allowed: --start-from with the folder"
    )
    with pytest.raises(fp3o.UserError, match=message):
        run.train(plan, (7,), parts, parts / "scratch", PLAIN)


def test_another_task_whose_networks_fit(origin: Path, tmp_path: Path) -> None:
    """The coordination game has as many choices and observations as the climbing game."""
    settings = dict(tiny_plan("matrix/coordination/none/happo").configuration()["settings"])
    (found,) = fp3o.train("matrix/coordination/none/happo", [0], settings, tmp_path, start_from=origin, quiet=True)
    assert found.status == "finished"


@pytest.mark.parametrize(
    ("cell", "more", "message"),
    [
        (CELL, {"hidden_size": 8}, r"trunk fc1.weight \d+×16 there, \d+×8 here, trunk fc1.bias 16 there, 8 here, .*"),
        ("matrix/climbing/full/mappo", {}, r"2 trunks there, 1 here, 2 heads there, 1 here, 2 critics there, 1 here"),
        (CELL, {"hidden_layers": 3}, r"trunk fc3.weight absent there, 16×16 here, .*"),
    ],
)
def test_networks_that_do_not_fit_are_one_line(
    cell: str, more: dict[str, Any], message: str, origin: Path, tmp_path: Path
) -> None:
    settings = dict(tiny_plan(cell).configuration()["settings"]) | more
    said = rf"^start_from = {RunId.at(origin).path}: its networks do not fit here: {message}$"
    with pytest.raises(fp3o.UserError, match=said):
        fp3o.train(cell, [0], settings, tmp_path, path="eager", start_from=origin, quiet=True)
    assert len(documents(tmp_path)) == 1


def test_the_command(origin: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--seeds", "0", "--set", "total_steps=256", "--set", "hidden_size=16", "--out", str(tmp_path)]
    assert call("train", CELL, *short, "--start-from", str(origin)) == 0
    line = f"differs from the default: start_from '' → {RunId.at(origin).path} (--set)"
    assert line in capsys.readouterr().out.splitlines()
    assert call("train", CELL, *short, "--start-from", str(tmp_path)) != 0
    said = capsys.readouterr().err
    assert said == f"fp3o: --start-from {tmp_path} is no finished run: it has no run.json\n"
