"""The domains as data: options, engine revision, scoring rule, title, memory. Imports no simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from fp3o.config.options import MamujocoOptions, MatrixOptions, MpeOptions, PettingzooOptions, SmacOptions

Metric = Literal["return", "return_per_agent", "win_rate"]
Reduction = Literal["final", "last-10-mean", "last-10-median", "best"]


@dataclass(frozen=True)
class Scoring:
    """The scoring rule of a domain: from episodes to the number in the table. Fixed before anything was run."""

    metric: Metric
    """Of an episode."""
    reduction: Reduction
    """From a run's evaluations (their means over episodes) to its score; final: of the final policy's episodes;
    best: the highest evaluation, which flatters and is here for comparison alone."""
    statistic: Literal["mean", "median"]
    """Over seeds."""
    words: str
    """The rule for readers; printed below every table."""
    margin: float | None = None
    """Smaller differences count as none; None: a tenth of the range of the paper's values on the task."""
    limits: tuple[float, float] = (-math.inf, math.inf)
    """The lowest and highest value that a score can have."""
    floor: float | None = None
    """A score up to here says that nothing was learned; None: there is no such score."""
    paired: bool = False
    """Whether seed k of every algorithm is scored on the same episodes, so that seeds are compared pair by pair."""


RETURN = Scoring(
    "return",
    "last-10-mean",
    "mean",
    "Return of deterministic evaluation episodes; per seed the mean of the last ten evaluations; mean ± standard "
    "deviation (ddof = 1) over seeds",
)
# RODE's and MAPPO's "median win rate". The published ± cannot be a deviation over five seeds (docs/statistics.md).
WIN_RATE = Scoring(
    "win_rate",
    "last-10-median",
    "median",
    "Win rate (%) of deterministic evaluation episodes; per seed the median of the last ten evaluations; median ± "
    "standard deviation (ddof = 1) over seeds",
    margin=10.0,
    limits=(0.0, 100.0),
    floor=100 / 32,  # One battle of an evaluation.
)
# The summed reward cannot reach the published values at all; the mean over agents can (docs/deviations.md).
RETURN_PER_AGENT = Scoring(
    "return_per_agent",
    "final",
    "mean",
    "Return averaged over agents; per seed the mean over all episodes of the final policy; mean ± standard "
    "deviation (ddof = 1) over seeds, whose episodes differ: most of it is the luck of the episodes, and algorithms "
    "are compared seed by seed, on the same ones",
    paired=True,
)


@dataclass(frozen=True)
class Domain:
    """A family of tasks simulated by one engine."""

    title: str
    options: type[Any]
    """The dataclass of fp3o.config.options."""
    revision: int
    """Version of the engine's numbers, part of every run's digest; raised by hand when they change (tests pin them)."""
    slot_kib: int
    """Upper bound of one environment's memory in KiB: what a thousand of them add to a process, divided by 1000."""
    scoring: Scoring = RETURN
    published: bool = False
    """Whether the paper has numbers."""
    episode: int = 0
    """Length of every episode in steps, where all are equally long; 0 where they are not. A rollout of a multiple of it
    starts and ends with an episode."""
    drawn: bool = False
    """Whether fp3o.render can draw it."""
    package: str = ""
    """Package whose version may change results without a new engine revision; tables mention it."""
    real_backend: str = ""
    """Value of the option `backend` that chooses the paper's own simulator; "": the engine is equivalent to it."""
    backends: dict[str, int] = field(default_factory=dict)
    """Revisions of engines that other values of the option `backend` choose."""


DOMAINS: dict[str, Domain] = {
    "mamujoco": Domain(
        "Multi-Agent MuJoCo", MamujocoOptions, 1, slot_kib=100, published=True, drawn=True, package="MuJoCo"
    ),
    "smac": Domain(
        "StarCraft multi-agent challenge",
        SmacOptions,
        3,
        slot_kib=200,  # assumed
        scoring=WIN_RATE,
        published=True,
        drawn=True,
        real_backend="starcraft2",
        backends={"starcraft2": 1},
    ),
    "mpe": Domain(
        "Multi-agent particle environment",
        MpeOptions,
        1,
        slot_kib=4,
        scoring=RETURN_PER_AGENT,
        published=True,
        episode=25,
        drawn=True,
    ),
    "pettingzoo": Domain("PettingZoo", PettingzooOptions, 1, slot_kib=1000, drawn=True),  # Memory: assumed.
    "matrix": Domain("Tiny games", MatrixOptions, 1, slot_kib=2, drawn=True),
}


def published_domains() -> tuple[str, ...]:
    """Domains that the paper has numbers for, in its order."""
    return tuple(name for name, domain in DOMAINS.items() if domain.published)


OPTIONS: dict[str, type[Any]] = {name: domain.options for name, domain in DOMAINS.items()}
REVISIONS: dict[str, int] = {name: domain.revision for name, domain in DOMAINS.items()}


def revision(domain: str, options: Any) -> int:
    """The revision of the engine that these options choose."""
    embedded: int = getattr(options, "engine_revision", REVISIONS[domain])
    return DOMAINS[domain].backends.get(getattr(options, "backend", ""), embedded)
