"""A finished run as an object: what it was, what it recorded, its team and its environments. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp3o.config import LARGEST_SEED, Cell
from fp3o.config.domains import OPTIONS
from fp3o.errors import UserError, optional_module
from fp3o.fields import restored, shown
from fp3o.runs import layout, records, verify

if TYPE_CHECKING:
    from fp3o.api.team import Team
    from fp3o.envs.interface import BatchEnv, Episode


class Table(Mapping[str, NDArray[np.float64]]):
    """A CSV file of a run: one array per column, by name, all of one length; empty fields are NaN."""

    def __init__(self, columns: Mapping[str, NDArray[np.float64]]) -> None:
        self._columns = dict(columns)
        for column in self._columns.values():
            column.flags.writeable = False

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of columns."""
        return len(self._columns)

    def __repr__(self) -> str:
        rows = len(next(iter(self._columns.values()), ()))
        return f"Table({rows} rows: {', '.join(self._columns)})"

    def to_pandas(self) -> Any:
        """The same as a pandas.DataFrame; needs pandas."""
        pandas = optional_module("pandas", "to_pandas needs pandas: pip install pandas")
        return pandas.DataFrame({name: column.copy() for name, column in self._columns.items()})


class Run:
    """A finished run, read from its folder; every file is checked against the checksum in run.json when it is read."""

    def __init__(self, path: str | Path, *, trust: bool = False) -> None:
        """path: a folder with run.json. trust: whether playing may import the environment's code that run.json names.

        Only runs of user-supplied environments (`module:factory`) need `trust`: a run may come from somebody else.
        """
        self.path = Path(path)
        if not (self.path / records.RUN).is_file():
            raise UserError(f"{self.path} is no finished run: it has no {records.RUN}")
        self._document = verify.read_verified(self.path, files=())
        self._trust = trust

    @property
    def cell(self) -> str:
        """What was trained: `<domain>/<task>/<sharing>/<algorithm>[-<variant>]`."""
        return str(self._document["cell"])

    @property
    def digest(self) -> str:
        """Ten hexadecimal digits that stand for everything, except the seed, that decides the run's numbers."""
        return str(self._document["digest"])

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self._document["seed"])

    @property
    def status(self) -> str:
        """ "finished"; "stopped": a callback ended it before the budget was spent; "diverged": a number was not finite,
        and the run ended there."""
        return str(self._document["status"])

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Every setting and environment option by name; `fp3o.train(run.cell, settings=run.settings)` repeats it."""
        return MappingProxyType({**self._document["settings"], **self._document["options"]})

    @cached_property
    def score(self) -> Mapping[str, Any]:
        """Means over the final policy's episodes: return, return_per_agent, win_rate (None without wins), length, and
        `metrics` by name where the environment has some."""
        return MappingProxyType(self._document["score"])

    @cached_property
    def evaluations(self) -> Table:
        """evaluations.csv, one row per episode: env_steps, iteration, episode, return, return_per_agent, won, length,
        and the environment's metrics.

        won is NaN where episodes are neither won nor lost.
        """
        return Table(self._tables.evaluations)

    @cached_property
    def final(self) -> Table | None:
        """final.csv, the episodes that score the final policy; None where the last evaluation does."""
        return None if self._tables.final is None else Table(self._tables.final)

    @cached_property
    def iterations(self) -> Table:
        """iterations.csv, one row per iteration: steps, training return, losses, entropy, KL …, by algorithm."""
        verify.read_verified(self.path, files=(records.ITERATIONS,))
        return Table(records.read_table(self.path / records.ITERATIONS))

    @cached_property
    def _tables(self) -> verify.Tables:
        verify.read_verified(self.path, files=(records.EVALUATIONS, records.FINAL))
        return verify.read_tables(self.path, self._document)

    def team(self, env: Any = None, *, seed: int = 0, checkpoint: str | Path | None = None) -> Team:
        """The trained policies.

        env: a PettingZoo ParallelEnv the team is to play in. Its spaces then say how observations are flattened and
        what actions look like (bounds of a Box …). It is only looked at, never reset or stepped.
        seed: of the randomness of actions that are not deterministic.
        checkpoint: a file that the run kept on its way (`fp3o train --checkpoint-every`, `--keep-best`), whose policies
        act instead of the last ones.
        """
        self._check_code()
        from fp3o.api.team import Team
        from fp3o.rollout.evaluation import trained

        policies = trained(self.path, None if checkpoint is None else Path(checkpoint))
        return Team(policies, self._document["environment"].get("agent_names"), env, seed)

    def make_env(self, slots: int = 8, *, auto_reset: bool = True) -> BatchEnv:
        """A batch of environments as in training (`fp3o.BatchEnv`).

        auto_reset: an environment whose episode has ended starts the next one at once; otherwise it is frozen.
        """
        self._check_code()
        from fp3o.envs import make

        cell = Cell.parse(self.cell)
        options = restored(self._document["options"], OPTIONS[cell.domain])
        return make(cell.domain, cell.task, slots, auto_reset=auto_reset, threads=0, options=options)

    def _check_code(self) -> None:
        if not self._trust and (named := verify.foreign_code(self._document)):
            raise UserError(
                f"{self.path / records.RUN} wants to run code of yours or of a package, {named}; "
                "Run(…, trust=True) allows it"
            )

    def __repr__(self) -> str:
        return f"<fp3o.Run {self.cell} {self.digest} seed {self.seed}, {self.status}>"


def runs(root: str | Path, cell: str = "*", *, trust: bool = False) -> list[Run]:
    """The finished runs anywhere below a folder; by cell, digest and seed. UserError if there are none.

    cell: a pattern such as "mamujoco/*/full/*", in which * stands for any text. trust: as for `Run`.
    """
    folder = Path(root)
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}")
    places = layout.runs_below(folder)
    if not places:
        raise UserError(f"there is no finished run below {folder}")
    found = []
    for place in places:
        expected = layout.RunId.at(place.absolute())
        if fnmatchcase(expected.cell, cell):
            found.append((expected, place))
    listed = []
    for expected, place in sorted(found):
        run = Run(place, trust=trust)
        if (run.cell, run.digest, run.seed) != expected:
            raise UserError(f"{place / records.RUN} is another run than its folder says; {verify.remedy(place)}")
        listed.append(run)
    return listed


def play(run: Run | str | Path, episodes: int = 10, seed: int = 0) -> list[Episode]:
    """Deterministic episodes of a run's final policy: those of `fp3o evaluate` with the same arguments.

    seed: of the episodes' start states; not the run's. Computes on one thread, as training does.
    """
    run = run if isinstance(run, Run) else Run(run)
    for name, value, least, greatest in (("episodes", episodes, 1, 100_000), ("seed", seed, 0, LARGEST_SEED)):
        if not least <= value <= greatest:
            raise UserError(f"{name} = {shown(value)} is not allowed; allowed: {least} … {greatest}")
    run._check_code()
    from fp3o.rollout.evaluation import evaluate_run

    return evaluate_run(run.path, episodes, seed)
