"""Agents of Multi-Agent MuJoCo: every robot as its model has it, parts in the colour of the agent that drives them,
by the actuators of the layout with which it is trained."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import mujoco
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fp3o.config import Cell, resolve
from fp3o.config.options import MamujocoOptions
from fp3o.envs.mamujoco import bodies, models
from fp3o.envs.mamujoco.layout import lay_out
from fp3o.statistics.published import table, task_title
from paper_figures.drawing import PALETTE, SMALL, WIDTH, Request, save

ROUND = (int(mujoco.mjtGeom.mjGEOM_CAPSULE), int(mujoco.mjtGeom.mjGEOM_SPHERE))
UNDRIVEN = "#d0d0d0"
# Angles in radians: at rest one of the walker's legs hides the other. The swimmer is bent to a bow.
POSES = {"walker2d-2x3": {"thigh_joint": -0.7, "leg_joint": -0.5, "leg_left_joint": -0.3}}
BOW, ASIDE = 0.3, 0.6
NOTE = "colour and number: the agent that drives the part; dots: driven joints; grey: what no agent drives"


def draw(request: Request) -> None:
    """The six tasks of the paper's table, three across."""
    tasks = list(dict.fromkeys(Cell.of(entry.cell).task for entry in table("mamujoco")))
    figure, panels = plt.subplots(2, 3, figsize=(WIDTH, 3.3), layout="constrained")
    rows = []
    for axes, task in zip(panels.flat, tasks, strict=True):
        options = resolve(Cell.parse(f"mamujoco/{task}/full/mappo")).options
        assert isinstance(options, MamujocoOptions)
        rows += _robot(axes, task, options)
        axes.set_title(task_title("mamujoco", task))
    save(figure, request.out, ("task", "agent", "joint", "actuator"), rows, note=NOTE)


def _robot(axes: Axes, task: str, options: MamujocoOptions) -> list[tuple[str, int, str, int]]:
    """Draws it; returns its joints with their agents."""
    body, partition = bodies.find(task, options)
    # Who drives a joint, which in the release's order of actions is not always who watches it.
    drivers = {n: agent for agent, own in enumerate(lay_out(body, partition, options).actuators) for n in own}
    agent_of = {joint.name: drivers[joint.actuator] for joint in body.joints}
    model = models.build(body, options)
    data = mujoco.MjData(model)
    joints = {joint.name: int(model.actuator_trnid[joint.actuator, 0]) for joint in body.joints}
    for name, place in joints.items():
        bow = 0.0 if body.model else BOW * model.jnt_axis[place, 2]
        data.qpos[model.jnt_qposadr[place]] += POSES.get(task, {}).get(name, bow)
    mujoco.mj_kinematics(model, data)
    drives = {int(model.jnt_bodyid[place]): agent_of[name] for name, place in joints.items()}
    parts = [
        # A part without a joint of its own moves with the one it is welded to.
        (_ends(model, data, geom), float(model.geom_size[geom, 0]), drives.get(int(model.body_weldid[owner])))
        for geom, owner in enumerate(model.geom_bodyid)
        if owner and int(model.geom_type[geom]) in ROUND
    ]
    # The two directions in which the robot is widest: from the side, or from above.
    span = np.ptp(np.concatenate([ends for ends, _, _ in parts]), axis=0)
    plane = sorted(np.argsort(span)[1:].tolist())
    middle = np.mean([ends.mean(0) for ends, _, _ in parts], axis=0)[plane]
    for ends, radius, agent in sorted(parts, key=lambda part: part[2] is not None):
        outline = capsule(ends[0, plane], ends[1, plane], radius)
        hue = UNDRIVEN if agent is None else PALETTE[(agent + 1) % len(PALETTE)]
        axes.fill(*outline.T, facecolor=hue, edgecolor="white", linewidth=0.4)
        if agent is not None and (ends[0] != ends[1]).any():
            where = ends.mean(0)[plane]
            if body.model:
                box = {"boxstyle": "circle,pad=0.1", "facecolor": "white", "edgecolor": "none"}
            else:  # Thinner than a number: it stands outside the bow.
                box, where = None, where + ASIDE * (where - middle) / np.linalg.norm(where - middle)
            axes.text(where[0], where[1], str(agent + 1), ha="center", va="center", fontsize=SMALL, bbox=box)
    for place in joints.values():
        axes.plot(*data.xanchor[place][plane], "o", color="black", markersize=2)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.1)
    axes.set_axis_off()
    return [(task, agent_of[joint.name] + 1, joint.name, joint.actuator) for joint in body.joints]


def _ends(model: Any, data: Any, geom: int) -> NDArray[np.float64]:
    """[2, 3] both ends of a capsule's axis; of a sphere twice its centre."""
    half = model.geom_size[geom, 1]  # of a sphere 0
    axis = data.geom_xmat[geom].reshape(3, 3)[:, 2]
    centre = data.geom_xpos[geom]
    return np.stack([centre - half * axis, centre + half * axis])


def capsule(start: NDArray[np.float64], end: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """[P, 2] outline of the points nearer than `radius` to the line from start to end."""
    along = end - start
    angle = float(np.arctan2(along[1], along[0]))
    turns = np.linspace(-np.pi / 2, np.pi / 2, 13)
    arc = radius * np.stack([np.cos(turns + angle), np.sin(turns + angle)], 1)
    return np.concatenate([end + arc, start - arc])
