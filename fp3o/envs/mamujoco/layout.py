"""Which number stands where in each agent's observation and action."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fp3o.envs.mamujoco.bodies import Body, Joint, Tokens
from fp3o.envs.options import MamujocoOptions


class Layout(NamedTuple):
    """Tokens of every agent and of the critic, without the agent number; the actuator each action reaches."""

    local: tuple[Tokens, ...]  # [A], padded with "0" to the longest
    state: Tokens
    actuators: tuple[tuple[int, ...], ...]  # [A]


def by_distance(own: tuple[str, ...], edges: tuple[tuple[str, ...], ...], furthest: int) -> list[list[str]]:
    """Joints at graph distance 0, 1, …, each sorted by name as text (release)."""
    rings: list[list[str]] = [sorted(own)]
    seen = set(own)
    for _ in range(furthest):
        reached = {name for edge in edges if not set(edge).isdisjoint(rings[-1]) for name in edge} - seen
        seen |= reached
        rings.append(sorted(reached))
    return rings


def seen_by(own: tuple[str, ...], body: Body, furthest: int) -> Tokens:
    """Own joints with velocities, others' positions, what all are shown."""
    joints: dict[str, Joint] = {joint.name: joint for joint in body.joints}
    first, *others = by_distance(own, body.edges, furthest)
    mine = [token for name in first for token in joints[name].position + joints[name].velocity + joints[name].extra]
    theirs = [token for ring in others for name in ring for token in joints[name].position]
    return (*mine, *theirs, *body.shown_to_all)


def lay_out(body: Body, share: tuple[tuple[str, ...], ...], options: MamujocoOptions) -> Layout:
    """The layout of a task."""
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
    return Layout(tuple(tuple(one) + ("0",) * (longest - len(one)) for one in local), body.state, actuators)


class Features(NamedTuple):
    """How many numbers each letter can name; side by side they are the row that observations are gathered from."""

    positions: int
    velocities: int
    angles: int
    forces: int

    def offsets(self) -> dict[str, int]:
        """Where each letter's numbers begin; "0" names a column that stays zero."""
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
        """The column of each token."""
        starts = self.offsets()
        return np.array([starts[token[0]] + int(token[1:] or 0) for token in tokens], dtype=np.int64)

    @property
    def width(self) -> int:
        return self.offsets()["0"] + 1
