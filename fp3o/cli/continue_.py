"""`fp3o continue`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg

from fp3o import config
from fp3o.cli.arguments import Imports, allow_code, read_run
from fp3o.cli.roots import Roots
from fp3o.cli.train import NOT_KEPT, ON_THIS_MACHINE, Keeping, Watching, run_training
from fp3o.errors import UserError
from fp3o.execution.compute import Compute
from fp3o.runs import layout


def continue_(
    run: Annotated[Positional[Path], arg(metavar="RUN", help="Folder of a finished run (with run.json).")],
    *,
    total_steps: Annotated[int, arg(metavar="N", help="Environment steps per seed, those that are done included.")],
    import_: Imports = (),
    trust: Annotated[bool, arg(help="Import the environment's code that run.json names (module:factory).")] = False,
    computing: OmitArgPrefixes[Compute] = ON_THIS_MACHINE,
    watching: OmitArgPrefixes[Watching],
    keeping: OmitArgPrefixes[Keeping],
) -> int:
    """Continue a finished run, and the seeds trained with it, to a longer budget; it needs a kept state.

    The longer run is another one, with a digest of its own, and equals one that was trained in one go, bit for bit on
    the same kind of processor. The same command resumes it.
    """
    from fp3o.runs.extend import extend
    from fp3o.runs.folder import RunFolder
    from fp3o.runs.layout import RunId
    from fp3o.runs.verify import read_verified

    read_run(run)
    place = run.absolute()
    document = read_verified(place, RunId.at(place))
    allow_code(run, document, trust)
    plans = extend(document, total_steps)
    root = place.parents[5] if run.is_absolute() else Path(os.path.relpath(place.parents[5]))
    state, seeds = _kept(root, plans.old, document)
    suites = {(layout.suite_root(name) / "runs").absolute(): name for name in config.suite_names()}
    chosen = config.load_suite(suites[place.parents[5]]) if place.parents[5] in suites else None
    roots = Roots(plans.new, seeds, chosen, None if chosen else root)
    from fp3o.training.continuing import begin_longer

    with RunFolder(plans.new, seeds, roots.runs, roots.scratch) as folder:
        begin_longer(plans, state, {seed: layout.run_directory(root, plans.old, seed) for seed in seeds}, folder)
    done, more = plans.old.settings.total_steps, plans.new.settings.total_steps
    print(
        f"{plans.new.cell.id} {plans.new.digest}: seeds {config.seeds_text(seeds)} from {done:,} to {more:,} steps each"
    )
    if roots.foreign:
        print(f"{roots.foreign}: writing to {roots.runs}/")
    if not document["exact_resume"]:
        print("its environments cannot save their state: it goes on with new episodes, not bit for bit")
    run_training(plans.new, seeds, roots, computing, watching, keeping)
    return 0


def _kept(root: Path, plan: config.Plan, document: dict[str, Any]) -> tuple[Path, tuple[int, ...]]:
    """The file of the kept state that has the run's seed, and all seeds in that file."""
    from fp3o.training.callbacks.checkpoints import kept_states

    # A user's own folder has scratch/ inside; a suite has it beside its runs/.
    for scratch in (root / "scratch", root.parent / "scratch"):
        for path, seeds in kept_states(layout.kept_directory(scratch, plan)).items():
            if document["seed"] in seeds:
                return path, seeds
    raise UserError(f"{plan.cell.id} {plan.digest} kept no state of seed {document['seed']} to go on from: {NOT_KEPT}")
