"""`fp3o evaluate`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from fp3o import config
from fp3o.cli.arguments import Imports, aligned, allow_code, check_folder_of, check_number, read_run
from fp3o.progress import Bar, Rounds

if TYPE_CHECKING:
    from fp3o.envs.interface import Episode


def evaluate(
    run: Annotated[Positional[Path], arg(metavar="RUN", help="Folder of a finished run (with run.json).")],
    *,
    episodes: Annotated[int, arg(metavar="N", help="Episodes, one per environment.")] = 32,
    seed: Annotated[int, arg(metavar="S", help="Of the episodes' start states; not the run's seed.")] = 0,
    stochastic: Annotated[
        bool, arg(help="Draw actions from the policy instead of taking the most likely ones.")
    ] = False,
    out: Annotated[Path | None, arg(metavar="FILE", help="Also write the episodes as CSV.")] = None,
    checkpoint: Annotated[
        Path | None, arg(metavar="FILE", help="Play a checkpoint that the run kept on its way instead of its last.")
    ] = None,
    import_: Imports = (),
    trust: Annotated[bool, arg(help="Import the environment's code that run.json names (module:factory).")] = False,
) -> int:
    """Evaluate the final policy of a finished run again."""
    from fp3o.runs import records

    document = read_run(run)
    allow_code(run, document, trust)
    check_number("episodes", episodes, 1, 100_000)
    check_number("seed", seed, 0, config.LARGEST_SEED)
    check_folder_of("out", out)
    from fp3o.rollout.evaluation import evaluate_run, final_rows

    label = f"{document['cell']} seed {document['seed']}, {episodes} episodes from seed {seed}"
    if stochastic:
        label += ", actions drawn from the policy"
    with Bar("playing", 0, at_most=True) as bar:
        results = evaluate_run(run, episodes, seed, Rounds(bar), stochastic=stochastic, weights=checkpoint)
        bar.advance(bar.total)
    rows = final_rows(results)
    if out is not None:
        log = records.CsvLog(out, tuple(rows[0]))
        log.append(rows)
        log.close()
    print(label)
    print("\n".join(summary(results)))
    return 0


def summary(episodes: Sequence[Episode]) -> list[str]:
    """A table of means over the episodes, with an interval of the mean and the spread over episodes."""
    from fp3o.statistics.intervals import mean_interval, summarise, wilson

    wins = [episode.won for episode in episodes if episode.won is not None]
    rows = [("", "mean", "95 % of the mean", "deviation", "least … greatest")]
    columns = {
        "return": [episode.total_return for episode in episodes],
        "return per agent": [episode.return_per_agent for episode in episodes],
        "length": [float(episode.length) for episode in episodes],
    }
    own = {name: [episode.metrics[name] for episode in episodes] for name in episodes[0].metrics}
    if any(name.startswith("return/") for name in own):  # They differ: a mean over agents would hide it.
        del columns["return per agent"]
    for name, every in {**columns, **own}.items():
        values = [value for value in every if not math.isnan(value)]
        if not values:
            rows.append((name, "–", "–", "–", "not reported"))
            continue
        mean, deviation, count = summarise(values, "mean")
        low, high, _ = mean_interval(values)
        spread = (f"{low:.5g} … {high:.5g}", f"{deviation:.3g}") if count > 1 else ("–", "–")
        rows.append((name, f"{mean:.6g}", *spread, f"{min(values):.5g} … {max(values):.5g}"))
    if wins:
        low, high, _ = wilson(sum(wins), len(wins))
        rate = f"{100 * sum(wins) / len(wins):.1f} %"
        rows.append(("win rate", rate, f"{100 * low:.1f} … {100 * high:.1f} %", "", ""))
    return aligned(rows)
