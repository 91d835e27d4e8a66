"""The six robots as data: joints and what agents see of them, neighbours, partitions, rewards, ends, start states.

A token names one number that can be observed: qI, vI position and velocity I; cI velocity I clipped to ±10; sI, kI sine
and cosine of position I; dI component I of fingertip − target; fI contact force I; 0 a zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from fp3o.config.options import MamujocoOptions
from fp3o.errors import UserError, unknown

Tokens: TypeAlias = tuple[str, ...]


class Joint(NamedTuple):
    """A joint with an actuator. Other agents see its position only."""

    name: str
    """As in the release: joints at the same distance are sorted by this text (rot10 before rot9)."""
    actuator: int
    """Number of the actuator in the model."""
    position: Tokens
    velocity: Tokens
    extra: Tokens = ()
    """What else the joint's own agent sees."""


class Ending(NamedTuple):
    """The episode terminates when the state leaves these open intervals."""

    height: int
    """Index of the torso's height in qpos; its angle is the next entry."""
    low: float
    """Of the height."""
    high: float
    angle: float = float("inf")
    """Largest absolute angle of the torso, in radians."""
    entries: float | None = None
    """Largest absolute value in qpos and qvel but for the first two; infinity: all must be finite; None: any."""


class Start(NamedTuple):
    """Noise added to the model's initial state."""

    position: float
    """Positions: uniform in ± this."""
    velocity: float
    normal: bool = False
    """Velocities: normal with this standard deviation, or (False) uniform in ± this."""


class Body(NamedTuple):
    """One robot. Numbers are those of gym's v2 environments."""

    model: str
    """File among gymnasium's assets; empty for the swimmer, whose model is generated."""
    frame_skip: int
    """Physics steps per environment step."""
    joints: tuple[Joint, ...]
    edges: tuple[tuple[str, ...], ...]
    """Groups of joints (by name) that are neighbours of one another."""
    partitions: dict[str, tuple[tuple[str, ...], ...]]
    """By name such as 2x4, the joints of each agent."""
    state: Tokens
    """What critics see."""
    start: Start
    control_cost: float
    contact_cost: float = 0.0
    alive_bonus: float = 0.0
    shown_to_all: Tokens = ()
    """What every agent sees besides joints."""
    tracks: Literal["x", "torso", "fingertip"] = "x"
    """What the reward is computed from: qpos[0]; the torso's position; the fingertip's position relative to the target.
    MuJoCo's body positions lag one physics step behind qpos; gym's v2 rewards use them like that."""
    ending: Ending | None = None
    """None: episodes end by the time limit only."""


def tokens(letter: str, indices: Iterable[int]) -> Tokens:
    """tokens("q", range(2)) is ("q0", "q1")."""
    return tuple(f"{letter}{i}" for i in indices)


def hinges(names: str, first: int, actuators: Iterable[int], velocity: str = "v", offset: int = 0) -> tuple[Joint, ...]:
    """Consecutive hinge joints: the i-th has position q{first + i} and the velocity `offset` entries before that."""
    return tuple(
        Joint(name, actuator, (f"q{index}",), (f"{velocity}{index - offset}",))
        for index, (name, actuator) in enumerate(zip(names.split(), actuators, strict=True), start=first)
    )


def shares(*agents: str) -> tuple[tuple[str, ...], ...]:
    """A partition: one string of joint names per agent."""
    return tuple(tuple(agent.split()) for agent in agents)


def chain(names: str) -> tuple[tuple[str, str], ...]:
    """Edges between consecutive names."""
    return tuple(pairwise(names.split()))


def halfcheetah(options: MamujocoOptions) -> Body:
    """gym's HalfCheetah-v2."""
    return Body(
        model="half_cheetah.xml",
        frame_skip=5,
        joints=hinges("bthigh bshin bfoot fthigh fshin ffoot", 3, range(6)),
        edges=chain("bfoot bshin bthigh fthigh fshin ffoot"),
        partitions={
            "2x3": shares("bfoot bshin bthigh", "ffoot fshin fthigh"),
            "3x2": shares("bfoot bshin", "bthigh ffoot", "fshin fthigh"),
            "6x1": shares("bfoot", "bshin", "bthigh", "ffoot", "fshin", "fthigh"),
        },
        shown_to_all=("q2", "q1", "v0", "v2", "v1"),
        state=tokens("q", range(1, 9)) + tokens("v", range(9)),
        control_cost=0.1,
        start=Start(0.1, 0.1, normal=True),
    )


def hopper(options: MamujocoOptions) -> Body:
    """gym's Hopper-v2; velocities are clipped to ±10 for agents and critic."""
    forward = "c1" if options.hopper_x_velocity == "hidden" else "c0"
    return Body(
        model="hopper.xml",
        frame_skip=4,
        joints=hinges("thigh_joint leg_joint foot_joint", 3, range(3), velocity="c"),
        edges=chain("foot_joint leg_joint thigh_joint"),
        partitions={"3x1": shares("thigh_joint", "leg_joint", "foot_joint")},
        shown_to_all=("q2", "q1", forward, "c2", "c1"),
        state=tokens("q", range(1, 6)) + tokens("c", range(6)),
        control_cost=1e-3,
        alive_bonus=1.0,
        ending=Ending(height=1, low=0.7, high=float("inf"), angle=0.2, entries=100.0),
        start=Start(0.005, 0.005),
    )


def walker2d(options: MamujocoOptions) -> Body:
    """gym's Walker2d-v2."""
    letter = "v" if options.walker2d_velocity == "raw" else "c"
    root = ("q2", "q1", f"{letter}0", f"{letter}2", f"{letter}1")
    return Body(
        model="walker2d.xml",
        frame_skip=4,
        joints=hinges(
            "thigh_joint leg_joint foot_joint thigh_left_joint leg_left_joint foot_left_joint", 3, range(6), letter
        ),
        edges=chain("foot_joint leg_joint thigh_joint thigh_left_joint leg_left_joint foot_left_joint"),
        partitions={
            "2x3": shares("foot_joint leg_joint thigh_joint", "foot_left_joint leg_left_joint thigh_left_joint"),
            "3x2": shares("foot_joint leg_joint", "thigh_joint foot_left_joint", "leg_left_joint thigh_left_joint"),
            "6x1": shares(
                "foot_joint", "leg_joint", "thigh_joint", "foot_left_joint", "leg_left_joint", "thigh_left_joint"
            ),
        },
        shown_to_all=() if options.walker2d_root == "hidden" else root,
        state=tokens("q", range(1, 9)) + tokens("c", range(9)),
        control_cost=1e-3,
        alive_bonus=1.0,
        ending=Ending(height=1, low=0.8, high=2.0, angle=1.0),
        start=Start(0.005, 0.005),
    )


def ant(options: MamujocoOptions) -> Body:
    """gym's Ant-v2. Actuators: hip and ankle of leg 4, then of legs 1, 2, 3."""
    legs = "hip1 ankle1 hip2 ankle2 hip3 ankle3 hip4 ankle4"
    forces = {"zero": ("0",) * 84, "omitted": (), "measured": tokens("f", range(84))}[options.ant_contact_forces]
    return Body(
        model="ant.xml",
        frame_skip=5,
        joints=hinges(legs, 7, (2, 3, 4, 5, 6, 7, 0, 1), offset=1),
        edges=(*((f"ankle{leg}", f"hip{leg}") for leg in (1, 2, 3, 4)), ("hip1", "hip2", "hip3", "hip4")),
        partitions={
            "2x4": shares("hip1 ankle1 hip2 ankle2", "hip3 ankle3 hip4 ankle4"),
            "2x4d": shares("hip1 ankle1 hip3 ankle3", "hip2 ankle2 hip4 ankle4"),
            "4x2": shares("hip1 ankle1", "hip2 ankle2", "hip3 ankle3", "hip4 ankle4"),
            "8x1": shares(*legs.split()),
        },
        shown_to_all=tokens("q", range(7)) + tokens("v", range(6)),
        state=tokens("q", range(2, 15)) + tokens("v", range(14)) + forces,
        tracks="torso",
        control_cost=0.5,
        alive_bonus=1.0,
        # gym's interval, 0.2 ≤ z ≤ 1, is closed: written as the open interval between the neighbouring doubles.
        ending=Ending(height=2, low=0.19999999999999998, high=1.0000000000000002, entries=float("inf")),
        start=Start(0.1, 0.1, normal=True),
        contact_cost=0.5e-3 if options.ant_contact_forces == "measured" else 0.0,
    )


def reacher(options: MamujocoOptions) -> Body:
    """gym's Reacher-v2; the goal, qpos[2:4], is drawn by `MamujocoBatch._draw_goal`."""
    return Body(
        model="reacher.xml",
        frame_skip=2,
        joints=(
            Joint("joint0", 0, ("s0", "k0"), ("v0",)),
            Joint("joint1", 1, ("s1", "k1"), ("v1",), extra=("d0", "d1", "d2")),
        ),
        edges=chain("joint0 joint1"),
        partitions={"2x1": shares("joint0", "joint1")},
        shown_to_all=("q2", "q3"),
        state=("k0", "k1", "s0", "s1", "q2", "q3", "v0", "v1", "d0", "d1", "d2"),
        tracks="fingertip",
        control_cost=1.0,
        start=Start(0.1, 0.005),
    )


def swimmer(agents: int, segments: int) -> Body:
    """The release's many-agent swimmer: any number of agents, each with `segments` hinges."""
    count = agents * segments
    names = [f"rot{i}" for i in range(count)]
    return Body(
        model="",
        frame_skip=4,
        joints=hinges(" ".join(names), 3, range(count)),
        edges=chain(" ".join(names)),
        partitions={
            f"{agents}x{segments}": tuple(tuple(names[a * segments : (a + 1) * segments]) for a in range(agents))
        },
        state=tokens("q", range(2, count + 3)) + tokens("v", range(count + 3)),
        control_cost=1e-4,
        start=Start(0.1, 0.1),
    )


BODIES: dict[str, Callable[[MamujocoOptions], Body]] = {
    "reacher": reacher,
    "ant": ant,
    "walker2d": walker2d,
    "hopper": hopper,
    "halfcheetah": halfcheetah,
}


def task_names() -> list[str]:
    """Names of all tasks; other sizes of the swimmer have names of the same form."""
    fixed = [f"{name}-{share}" for name, body in BODIES.items() for share in body(MamujocoOptions()).partitions]
    return [*fixed, "swimmer-8x2", "swimmer-<agents>x<joints per agent>"]


def find(task: str, options: MamujocoOptions) -> tuple[Body, tuple[tuple[str, ...], ...]]:
    """The robot of a task, and the joints of each agent."""
    sizes = re.fullmatch(r"swimmer-([1-9]\d*)x([1-9]\d*)", task)
    if sizes:
        agents, segments = int(sizes[1]), int(sizes[2])
        if not 2 <= agents * segments <= 200:
            raise UserError(f"task {task!r} has {agents * segments} driven joints; allowed: 2 to 200")
        body = swimmer(agents, segments)
        return body, next(iter(body.partitions.values()))
    name, _, share = task.partition("-")
    if name not in BODIES:
        raise unknown("task", task, task_names(), "mamujoco")
    body = BODIES[name](options)
    if share not in body.partitions:
        raise unknown("task", task, task_names(), "mamujoco")
    return body, body.partitions[share]
