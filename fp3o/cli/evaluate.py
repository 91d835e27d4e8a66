"""`fp3o evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.cli.arguments import Imports, check_number, find_local_modules
from fp3o.errors import UserError


def evaluate(
    run: Annotated[Positional[Path], arg(metavar="RUN", help="Folder of a finished run (with run.json).")],
    *,
    episodes: Annotated[int, arg(metavar="N", help="Deterministic episodes, one per environment.")] = 32,
    seed: Annotated[int, arg(metavar="S", help="Of the episodes' start states; not the run's seed.")] = 0,
    out: Annotated[Path | None, arg(metavar="FILE", help="Also write the episodes as CSV.")] = None,
    import_: Imports = (),
    trust: Annotated[bool, arg(help="Import the environment's code that run.json names (module:factory).")] = False,
) -> int:
    """Evaluate the final policy of a finished run again."""
    from fp3o.runs import records, verify

    document = records.read_run(run / records.RUN)
    if (named := verify.foreign_code(document)) and not trust:
        raise UserError(f"{run / records.RUN} wants to run code of yours or of a package, {named}; --trust allows it")
    check_number("episodes", episodes, 1, 100_000)
    check_number("seed", seed, 0, config.LARGEST_SEED)
    if out is not None and not out.parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {out.parent}")
    find_local_modules()
    from fp3o.training.evaluate import evaluate_run

    results = evaluate_run(run, episodes, seed)
    rows = records.final_rows(results)
    if out is not None:
        log = records.CsvLog(out, records.FINAL_COLUMNS)
        log.append(rows)
        log.close()
    print(f"{document['cell']} seed {document['seed']}, {len(results)} episodes from seed {seed}")
    count = len(results)
    returns = sorted(episode.total_return for episode in results)
    print(f"return            {sum(returns) / count:.6g}  (least {returns[0]:.6g}, greatest {returns[-1]:.6g})")
    print(f"return per agent  {sum(episode.return_per_agent for episode in results) / count:.6g}")
    wins = [episode.won for episode in results if episode.won is not None]
    if wins:
        print(f"win rate          {100 * sum(wins) / len(wins):.1f} %")
    print(f"length            {sum(episode.length for episode in results) / count:.6g}")
    return 0
