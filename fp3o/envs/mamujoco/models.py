"""MuJoCo models: gymnasium's files, and the swimmer's, which is generated."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import mujoco

from fp3o.config.options import MamujocoOptions
from fp3o.envs.mamujoco.bodies import Body
from fp3o.errors import UserError


def swimmer_xml(joints: int) -> str:
    """MJCF of a chain of hinged capsules of length 1 in a viscous medium, without collisions."""
    segments = ""
    for i in reversed(range(joints)):
        name = "back" if i == joints - 1 else f"mid{i}"
        # As in the release: the i-th hinge rotates about (−1)^(i+1) z, but the first and the last about +z.
        axis = 1 if i in (0, joints - 1) or i % 2 else -1
        segments = f"""
<body name="{name}" pos="{0.5 if i == 0 else -1} 0 0">
<joint name="rot{i}" axis="0 0 {axis}" limited="true" range="-100 100"/>
<geom type="capsule" fromto="0 0 0 -1 0 0" size="0.1"/>{segments}
</body>"""
    motors = "\n".join(f'<motor joint="rot{i}" gear="150" ctrllimited="true" ctrlrange="-1 1"/>' for i in range(joints))
    return f"""
<mujoco model="swimmer">
<compiler angle="degree" inertiafromgeom="true"/>
<option timestep="0.005" integrator="RK4" density="4000" viscosity="0.1"/>
<default>
<joint type="hinge" axis="0 0 1" armature="0.1"/>
<geom density="1000" contype="0" conaffinity="0"/>
</default>
<worldbody>
<geom name="floor" type="plane" size="40 40 0.1" pos="0 0 -0.1"/>
<body name="torso">
<joint name="slider1" type="slide" axis="1 0 0"/>
<joint name="slider2" type="slide" axis="0 1 0"/>
<joint name="rot"/>
<geom type="capsule" fromto="1.5 0 0 0.5 0 0" size="0.1"/>{segments}
</body>
</worldbody>
<actuator>
{motors}
</actuator>
</mujoco>"""


def load(body: Body) -> Any:
    """The compiled model of a body, unchanged."""
    if not body.model:
        return mujoco.MjModel.from_xml_string(swimmer_xml(len(body.joints)))
    package = importlib.util.find_spec("gymnasium")
    if package is None or package.origin is None:
        raise UserError("the MuJoCo model files come with gymnasium, which is not installed")
    path = Path(package.origin).parent / "envs" / "mujoco" / "assets" / body.model
    # HalfCheetah's file uses a deprecated attribute, about which MuJoCo would write a log into the current folder.
    reporter = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    finally:
        mujoco.set_mju_user_warning(reporter)


def build(body: Body, options: MamujocoOptions) -> Any:
    """The compiled model of a body with the options' changes."""
    model = load(body)
    if options.contact_margins == "halved":
        model.geom_margin *= 0.5
    if model.ntree == 1:
        # A single robot is a single contact island: not searching for islands saves 5 to 9 % and changes no bit.
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    return model
