"""Addresses of MuJoCo's functions: kernels call them from native threads, bypassing Python."""

from __future__ import annotations

import ctypes
from typing import Any

import mujoco
import numpy as np
from mujoco import _functions

from fp3o.envs.interface import Doubles

WHOLE = mujoco.mjtState.mjSTATE_INTEGRATION
"""All that a simulation's next step depends on, as a row of numbers."""


FUNCTIONS = {
    "set_state": "mj_setState",  # a simulation's state from a row
    "get_state": "mj_getState",  # and back
    "step": "mj_step",
    "places": "mj_kinematics",  # compute where bodies are
    "forces": "mj_rnePostConstraint",  # compute contact forces
}


# Found through the Python module that is linked with it: the library's file has a name of its own on every system.
LIBRARY = ctypes.CDLL(_functions.__file__)
CLOCK = ctypes.c_void_p.in_dll(LIBRARY, "mjcb_time")


def functions(model: mujoco.MjModel) -> dict[str, int]:
    """Addresses of `FUNCTIONS`, and of the model that they are all called with."""
    addresses = {name: ctypes.cast(getattr(LIBRARY, c), ctypes.c_void_p).value or 0 for name, c in FUNCTIONS.items()}
    return {"model": model._address, **addresses}


def stop_clock() -> None:
    """Leave MuJoCo's own timers (`MjData.timer`) at zero, in the whole process, unless the user has set their clock.

    The Python module gives the library a clock, which every step reads dozens of times: up to a quarter of its time.
    """
    if mujoco.get_mjcb_time() is None:
        CLOCK.value = None


class Simulators:
    """One MjData for each thread, in which simulations take turns; each is a row of `states`."""

    def __init__(self, model: mujoco.MjModel, slots: int, threads: int) -> None:
        stop_clock()
        self.model = model
        self._data = [mujoco.MjData(model) for _ in range(threads)]
        self.states: Doubles = np.zeros((slots, mujoco.mj_stateSize(model, WHOLE.value)))
        mujoco.mj_getState(model, self._data[0], self.states[0], WHOLE.value)
        self.states[1:] = self.states[0]

    def column(self, part: mujoco.mjtState) -> int:
        """Where a part of the state begins in a row: parts are in the order of their bits."""
        return int(mujoco.mj_stateSize(self.model, WHOLE.value & (part.value - 1)))

    def view(self, part: mujoco.mjtState) -> Doubles:
        """A part of all states."""
        begin = self.column(part)
        return self.states[:, begin : begin + mujoco.mj_stateSize(self.model, part.value)]

    def addresses(self) -> dict[str, Any]:
        """Of each thread's MjData, and in it of the places of bodies and of contact forces."""
        return {
            "data": [data._address for data in self._data],
            "places": [data.xpos.ctypes.data for data in self._data],
            "forces": [data.cfrc_ext.ctypes.data for data in self._data],
        }
