"""`fp3o check-smac`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from fp3o import config
from fp3o.cli.arguments import check_folder_of, check_number, read_run
from fp3o.errors import UserError, unknown

if TYPE_CHECKING:
    from fp3o.checks.smac import Entrant, Entry

MAPS = ("bane_vs_bane", "2c_vs_64zg", "3s5z", "5m_vs_6m", "corridor", "6h_vs_8z", "10m_vs_11m", "3s5z_vs_3s6z")


def check_smac(
    *,
    runs: Annotated[
        tuple[Path, ...],
        arg(
            metavar="RUN", help="Folders of finished runs whose policies play, too; those without a checkpoint do not."
        ),
    ] = (),
    maps: Annotated[tuple[str, ...], arg(metavar="MAP", help="Names of maps in SMAC.")] = MAPS,
    backend: Annotated[
        Literal["both", "embedded", "starcraft2"], arg(help="Where to play; embedded works without the game.")
    ] = "both",
    battles: Annotated[int, arg(metavar="N", help="Of every script and run, in every backend.")] = 32,
    games: Annotated[int, arg(metavar="N", help="Games of StarCraft II at the same time, each a process.")] = 4,
    seed: Annotated[int, arg(metavar="S", help="Of the start states and of random actions.")] = 0,
    out: Annotated[Path, arg(metavar="FILE", help="What to write: the table and all versions, as JSON.")] = Path(
        "smac-check.json"
    ),
    record: Annotated[
        Path | None, arg(metavar="FOLDER", help="Also record all battles there, and compare those of both backends.")
    ] = None,
) -> int:
    """Play fixed scripts and trained policies in the embedded battle engine and in the real StarCraft II."""
    from fp3o.envs.smac.scenarios import SCENARIOS

    for name in maps:
        if name not in SCENARIOS:
            raise unknown("map", name, SCENARIOS)
    check_number("battles", battles, 1, 100_000)
    check_number("games", games, 1, 1000)
    check_number("seed", seed, 0, config.LARGEST_SEED)
    check_folder_of("out", out)
    check_folder_of("record", record)
    from fp3o.checks.smac import BACKENDS, Check, script_entrants
    from fp3o.envs.smac.starcraft2 import require_game

    backends = BACKENDS if backend == "both" else (backend,)
    if "starcraft2" in backends:
        require_game(maps)
    trained = _trained(runs, maps)
    if record is not None:
        record.mkdir(exist_ok=True)
    check = Check(backends, battles, games, seed, record)
    print(head(backends), flush=True)
    for name in maps:
        players = [*script_entrants(name), *(entrant for entrant in trained if entrant.map == name)]
        for entry in check.play(players):
            print("\n".join(lines(entry)), flush=True)
            check.save(out)
    print(f"{out} has this table, versions and options of the environments: please send it to us")
    return 0


def _trained(runs: Sequence[Path], maps: Sequence[str]) -> list[Entrant]:
    """Policies of runs; UserError if one is not of these maps."""
    from fp3o.api.run import Run
    from fp3o.checks.smac import run_entrant
    from fp3o.runs import records

    found = []
    for path in runs:
        document = read_run(path)
        cell = config.Cell.parse(document["cell"])
        if cell.domain != "smac" or cell.task not in maps:
            raise UserError(f"{path} is a run of {cell.domain}/{cell.task}; allowed: smac on {', '.join(maps)}")
        if not (path / records.CHECKPOINT).is_file():
            print(f"{path} has no checkpoint, so its policies do not play")
            continue
        found.append(run_entrant(Run(path), document["options"]))
    return found


def head(backends: Sequence[str]) -> str:
    """Titles of the table's columns."""
    return f"{'map':14}{'player':32} " + "".join(f"{f'{name}: won (return)':28}" for name in backends).rstrip()


def lines(entry: Entry) -> list[str]:
    """A row of the table, and of recorded battles two lines more."""
    first = entry.results[0]
    cells = [f"{r.win_rate:.3f} ± {r.half_width:.3f} ({r.mean_return:.1f})" for r in entry.results]
    rows = [f"{first.map:14}{first.player:32} " + "".join(f"{cell:28}" for cell in cells).rstrip()]
    if entry.comparison is not None:
        told = entry.comparison
        pairs = ((told.replayed, told.standing), (told.floor, told.floor_standing))
        off = [
            f"{errors.distance[-1]:.2f} cells, {errors.distance[-1] / standing.distance[-1]:.0%} of the way"
            for errors, standing in pairs
        ]
        rows.append(
            f"    the engine is off after {len(told.floor.distance)} steps by {off[0]}; in its own battles {off[1]}"
        )
        courses = ", ".join(f"{name} {one:.1f} | {other:.1f} (p {p:.2f})" for name, one, other, p in told.courses)
        rows.append(f"    starcraft2 | embedded: {courses}")
    return rows
