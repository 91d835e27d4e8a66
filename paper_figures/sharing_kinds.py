"""Which networks belong to which agent: the owner vectors of every kind of sharing, drawn for three agents."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from fp3o.config import SHARINGS
from fp3o.networks.actor import HEAD_GAIN
from fp3o.networks.sharing import Sharing, sharing
from fp3o.networks.stacked import dense_shapes
from fp3o.networks.trunk import StandardTrunk
from paper_figures.drawing import PALETTE, SOFT, WIDTH, Request, save

AGENTS = 3
KINDS = ("full", "partial", "none")  # Those of the paper.
NOTE = (
    "box: one set of parameters, used by the agents it stands over; FC: fully connected; GRU where the task's "
    "settings say recurrent; a critic is shared like the trunk"
)
ARROW = {"arrowstyle": "-|>", "color": SOFT, "linewidth": 0.6, "mutation_scale": 4, "shrinkA": 0, "shrinkB": 0}
NAMES = {"gru": "GRU", "fc": "FC"}


def layers() -> list[tuple[str, str]]:
    """Trunk or head, and layer, from the observation upwards, as the networks name their parameters."""
    trunk = dict.fromkeys(name.partition(".")[0] for name in StandardTrunk(1, 1, True).shapes())
    head = dict.fromkeys(name.partition(".")[0] for name in dense_shapes("head", 1, 1, HEAD_GAIN))
    weighted = [name for name in trunk if name.startswith(tuple(NAMES))]
    return [*(("trunk", name) for name in weighted if "norm" not in name), *(("head", name) for name in head)]


def draw(request: Request) -> None:
    """A panel per kind: agents across, layers upwards."""
    stack = layers()
    figure, axes = plt.subplots(1, len(KINDS), figsize=(WIDTH, 0.9 + 0.26 * len(stack)), layout="constrained")
    rows = []
    for panel, kind in zip(axes, KINDS, strict=True):
        found = sharing(kind, tuple(range(AGENTS)))
        _networks(panel, found, stack)
        panel.set_title(SHARINGS[kind].title)
        rows += [(kind, agent + 1, found.trunk[agent] + 1, found.head[agent] + 1) for agent in range(AGENTS)]
    save(figure, request.out, ("sharing", "agent", "trunk", "head"), rows, note=NOTE)


def _networks(axes: Axes, found: Sharing, stack: list[tuple[str, str]]) -> None:
    for y, (part, name) in enumerate(stack, start=1):
        owners = getattr(found, part)
        for owner in dict.fromkeys(owners):
            users = [agent for agent, one in enumerate(owners) if one == owner]
            left, right = min(users) - 0.4, max(users) + 0.4
            axes.add_patch(
                FancyBboxPatch(
                    (left, y - 0.36),
                    right - left,
                    0.72,
                    boxstyle="round,pad=0,rounding_size=0.1",
                    facecolor=PALETTE[1 + owner + (0 if part == "trunk" else found.trunks)],
                    alpha=0.45,
                    linewidth=0,
                )
            )
            text = NAMES.get(name.rstrip("0123456789"), name)
            axes.text((left + right) / 2, y, text, ha="center", va="center")
    for agent in range(AGENTS):
        axes.text(agent, 0.2, f"$o^{agent + 1}$", ha="center", va="center")
        axes.text(agent, len(stack) + 0.8, f"$\\pi^{agent + 1}$", ha="center", va="center")
        for y in range(len(stack) + 1):
            axes.annotate(
                "",
                (agent, y + 0.64),
                (agent, y + 0.36),
                arrowprops=ARROW,
            )
    axes.set(xlim=(-0.5, AGENTS - 0.5), ylim=(0, len(stack) + 1))
    axes.set_axis_off()
