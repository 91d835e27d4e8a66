"""Pictures of a MuJoCo episode from its joint positions, rendered off screen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from ctypes.util import find_library
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp3o.config.options import MamujocoOptions
from fp3o.envs.interface import BatchEnv, Doubles
from fp3o.errors import UserError

_LONG = 8  # A model with more bodies is the many-agent swimmer, one metre per body; the reacher has five.


def choose_backend() -> None:
    """Choose MuJoCo's off-screen library by MUJOCO_GL, which MuJoCo reads once, when it is first imported."""
    if "MUJOCO_GL" not in os.environ:
        os.environ["MUJOCO_GL"] = "egl" if find_library("EGL") else "osmesa"


def observe(env: BatchEnv, slot: int, actions: object) -> Doubles:
    """Joint positions [nq] of a slot."""
    positions: Doubles = env.state_dict()["qpos"][slot]
    return positions


def steps_per_second(task: str, options: MamujocoOptions) -> float:
    """Environment steps per second of simulated time."""
    from fp3o.envs.mamujoco import bodies, models

    body, _ = bodies.find(task, options)
    return float(1 / (models.build(body, options).opt.timestep * body.frame_skip))


def frames(
    task: str, options: MamujocoOptions, positions: Iterable[Doubles], width: int = 320, height: int = 240
) -> Iterator[NDArray[np.uint8]]:
    """One picture [height, width, 3] per row of joint positions; the camera follows the body."""
    choose_backend()
    import mujoco

    from fp3o.envs.mamujoco import bodies, models

    body, _ = bodies.find(task, options)
    model = models.build(body, options)
    model.vis.quality.offsamples = 0  # Smooth edges cost as much time again, shadows ten times as much.
    if not body.model:  # The swimmer we build has no colours: grey on grey.
        model.geom_rgba[model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE] = (0.9, 0.6, 0.3, 1.0)
    data = mujoco.MjData(model)
    try:
        renderer = mujoco.Renderer(model, height, width)
    except Exception as error:  # The type that a missing driver raises depends on the library.
        backend = os.environ["MUJOCO_GL"]
        raise UserError(f"cannot draw with MUJOCO_GL={backend}: {error}; `fp3o doctor` says what is missing") from error
    with renderer:
        camera = _camera(mujoco, model)
        for position in positions:
            data.qpos[:] = position
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_camlight(model, data)
            renderer.update_scene(data, camera)
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
            yield renderer.render()


def _camera(mujoco: Any, model: Any) -> Any:
    """The model's own camera, which follows its body; for models without one (reacher, swimmer) a camera above them."""
    if model.ncam:
        return 0
    camera = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, camera)
    camera.type = mujoco.mjtCamera.mjCAMERA_TRACKING
    camera.trackbodyid = model.nbody // 2 if model.nbody > _LONG else 1
    camera.elevation = -80.0
    camera.distance = 1.3 * model.nbody if model.nbody > _LONG else 0.8
    return camera
