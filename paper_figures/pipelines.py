"""FP3O's two steps and HAPPO's turns with five agents, from the turns that the algorithms themselves take."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from fp3o.config import algorithm_title
from fp3o.statistics.facts import AGENTS, ActorTurn, actor_turns
from paper_figures.drawing import SMALL, SOFT, WIDTH, Request, colour, save

CELLS = {label: f"mamujoco/halfcheetah-6x1/none/{label}" for label in ("fp3o", "happo")}
TURNS = {"fp3o": ("independent step", "dependent step")}
BOX = (0.56, 0.52)
NOTE = (
    "box: the agent learns in this turn (empty: it waits); inside: the ratios $\\pi/\\pi_k$ of other agents that "
    "multiply its advantage, held fixed; lines: the updates they come from"
)


def draw(request: Request) -> None:
    """A panel per algorithm: agents down, turns across."""
    turns = {label: actor_turns(cell) for label, cell in CELLS.items()}
    figure, axes = plt.subplots(
        1,
        len(turns),
        figsize=(WIDTH, 2.5),
        layout="constrained",
        width_ratios=[len(found) + 0.2 for found in turns.values()],
    )
    rows = []
    for panel, (label, found) in zip(axes, turns.items(), strict=True):
        _diagram(panel, label, found)
        rows += [
            (algorithm_title(label), place + 1, agent + 1, " ".join(str(other + 1) for other in sorted(factors)))
            for place, turn in enumerate(found)
            for agent, factors in sorted(turn.factors.items())
        ]
    save(figure, request.out, ("algorithm", "turn", "agent", "ratios_of"), rows, note=NOTE)


def _diagram(axes: Axes, label: str, turns: list[ActorTurn]) -> None:
    hue = colour(label)
    latest: dict[int, int] = {}
    for x, turn in enumerate(turns):
        for agent in range(AGENTS):
            learns = agent in turn.factors
            factors = turn.factors.get(agent, frozenset())
            for other in factors:
                way = _way((latest[other], other), (x, agent), around=len(turn.factors) < AGENTS)
                axes.plot(*zip(*way, strict=True), color=hue, linewidth=0.6, alpha=0.7, zorder=1)
            axes.add_patch(
                FancyBboxPatch(
                    (x - BOX[0] / 2, agent - BOX[1] / 2),
                    *BOX,
                    boxstyle="round,pad=0,rounding_size=0.08",
                    facecolor=hue if learns else "none",
                    edgecolor=hue if learns else "#bbbbbb",
                    linewidth=0.8,
                    linestyle="-" if learns else ":",
                    zorder=2,
                )
            )
            if learns:
                ratios = "".join(f"r_{other + 1}" for other in sorted(factors))
                text = f"$\\pi^{agent + 1}$" + (f"\n${ratios}$" if factors else "")
                axes.text(x, agent, text, ha="center", va="center", color="white", fontsize=SMALL, zorder=3)
        latest |= dict.fromkeys(turn.factors, x)
    names = TURNS.get(label, ())
    axes.set_xticks(range(len(turns)), [names[x] if names else f"turn {x + 1}" for x in range(len(turns))])
    axes.set_yticks(range(AGENTS), [f"agent {agent + 1}" for agent in range(AGENTS)])
    axes.set(xlim=(-0.5, len(turns) - 0.5), ylim=(AGENTS - 0.5, -0.5))
    axes.set_title(f"{algorithm_title(label)}: {len(turns)} turns", color=hue)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelcolor=SOFT)


def _way(start: tuple[int, int], end: tuple[int, int], around: bool) -> list[tuple[float, float]]:
    """From box to box: straight, or along the row of agents that wait and then down, each agent's beside the next."""
    right = start[0] + BOX[0] / 2
    if not around:
        return [(right, start[1]), (end[0] - BOX[0] / 2, end[1])]
    side = end[0] + 0.1 * (start[1] - (AGENTS - 2) / 2)
    return [(right, start[1]), (side, start[1]), (side, end[1] - BOX[1] / 2)]
