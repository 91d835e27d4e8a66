"""What a domain is, in one table: options, revision, scoring rule, titles, memory. Imports no simulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from fp3o.envs.options import MamujocoOptions, MatrixOptions, MpeOptions, PettingzooOptions, SmacOptions

Metric = Literal["return", "return_per_agent", "win_rate"]
Reduction = Literal["final", "last-10-mean", "last-10-median"]


@dataclass(frozen=True)
class Scoring:
    """How a domain's evaluations become the number in the table, fixed before anything was run."""

    metric: Metric
    reduction: Reduction
    statistic: Literal["mean", "median"]
    words: str
    """The same for readers; stands beside every table."""
    margin: float | None = None
    """Half-width of "the same" for the equivalence test; None: the larger of 10 % and one published spread."""


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
)
# The summed reward cannot reach the published values at all; the mean over agents can (docs/deviations.md).
RETURN_PER_AGENT = Scoring(
    "return_per_agent",
    "final",
    "mean",
    "Return averaged over agents; per seed the mean over all episodes of the final policy; mean ± standard "
    "deviation (ddof = 1) over seeds",
)


@dataclass(frozen=True)
class Domain:
    """A family of tasks behind one engine."""

    title: str
    options: type[Any]
    revision: int
    """Of the engine; bumped by hand when its numbers change (a pinned digest test per engine notices). Part of every
    run's digest."""
    slot_kib: int
    """Memory of one environment, from above: what a thousand of them add to a process."""
    scoring: Scoring = RETURN
    published: bool = False
    """Whether the paper has numbers."""
    episode: int = 0
    """Steps of every episode, where all have the same: a rollout of a multiple starts and ends with one."""
    drawn: bool = False
    """Whether fp3o.render can draw it."""
    package: str = ""
    """Package whose version decides numbers although the engine's revision stays."""
    real_backend: str = ""
    """Backend that is the game the paper played, where ours is another."""
    backends: dict[str, int] = field(default_factory=dict)
    """Revisions of other backends, by the option `backend`."""


DOMAINS: dict[str, Domain] = {
    "mamujoco": Domain(
        "Multi-Agent MuJoCo", MamujocoOptions, 1, slot_kib=100, published=True, drawn=True, package="MuJoCo"
    ),
    "smac": Domain(
        "StarCraft multi-agent challenge",
        SmacOptions,
        2,
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
    ),
    "pettingzoo": Domain("PettingZoo", PettingzooOptions, 1, slot_kib=1000),  # Memory: assumed.
    "matrix": Domain("Tiny games", MatrixOptions, 1, slot_kib=2),
}


def published_domains() -> tuple[str, ...]:
    """Those the paper has numbers of, in its order."""
    return tuple(name for name, domain in DOMAINS.items() if domain.published)


OPTIONS: dict[str, type[Any]] = {name: domain.options for name, domain in DOMAINS.items()}
REVISIONS: dict[str, int] = {name: domain.revision for name, domain in DOMAINS.items()}


def revision(domain: str, options: Any) -> int:
    """Of the engine that these options choose."""
    return DOMAINS[domain].backends.get(getattr(options, "backend", ""), REVISIONS[domain])
