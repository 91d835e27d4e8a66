"""The order of numbers in each agent's observation and action."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.config.options import MamujocoOptions
from fp3o.envs.mamujoco.bodies import Body, Joint, Tokens


class ObservationLayout(NamedTuple):
    """The tokens (see bodies.py) in observations and critic input, without agent number; the actuators of actions."""

    local: tuple[Tokens, ...]  # [A], padded with "0" to the longest
    state: Tokens
    actuators: tuple[tuple[int, ...], ...]  # [A]


def by_distance(own: tuple[str, ...], edges: tuple[tuple[str, ...], ...], furthest: int) -> list[list[str]]:
    """Joints at distance 0, 1, … `furthest` in the graph of neighbours; each list sorted by name, as in the release."""
    rings: list[list[str]] = [sorted(own)]
    seen = set(own)
    for _ in range(furthest):
        reached = {name for edge in edges if not set(edge).isdisjoint(rings[-1]) for name in edge} - seen
        seen |= reached
        rings.append(sorted(reached))
    return rings


def seen_by(own: tuple[str, ...], body: Body, furthest: int) -> Tokens:
    """Tokens an agent sees: positions and velocities of its own joints, positions of others', what all agents see."""
    joints: dict[str, Joint] = {joint.name: joint for joint in body.joints}
    first, *others = by_distance(own, body.edges, furthest)
    mine = [token for name in first for token in joints[name].position + joints[name].velocity + joints[name].extra]
    theirs = [token for ring in others for name in ring for token in joints[name].position]
    return (*mine, *theirs, *body.shown_to_all)


def lay_out(body: Body, share: tuple[tuple[str, ...], ...], options: MamujocoOptions) -> ObservationLayout:
    """The layout of a task; `share`: the joints of each agent."""
    if options.observability == "full":
        local = [body.state for _ in share]
    else:
        local = [seen_by(own, body, options.neighbour_distance) for own in share]
    longest = max(map(len, local))
    driven = {joint.name: joint.actuator for joint in body.joints}
    if options.action_order == "joint":
        actuators = tuple(tuple(driven[name] for name in own) for own in share)
    else:
        numbers = iter(range(len(body.joints)))
        actuators = tuple(tuple(next(numbers) for _ in own) for own in share)
    return ObservationLayout(tuple(tuple(one) + ("0",) * (longest - len(one)) for one in local), body.state, actuators)


class Features(NamedTuple):
    """The row of numbers that observations are gathered from: how many there are of each kind of token."""

    positions: int
    velocities: int
    angles: int
    forces: int

    def offsets(self) -> dict[str, int]:
        """First column of each kind of token, by its letter; "0" is a column that stays zero."""
        lengths = {
            "q": self.positions,
            "v": self.velocities,
            "c": self.velocities,
            "s": self.angles,
            "k": self.angles,
            "d": 3,
            "f": self.forces,
        }
        starts = np.cumsum([0, *lengths.values()])
        return dict(zip((*lengths, "0"), (int(start) for start in starts), strict=True))

    def columns(self, tokens: Tokens) -> NDArray[np.int64]:
        """The column of each of these tokens."""
        starts = self.offsets()
        return np.array([starts[token[0]] + int(token[1:] or 0) for token in tokens], dtype=np.int64)

    @property
    def width(self) -> int:
        return self.offsets()["0"] + 1
