"""What the embedded engine and the real game have in common: the scenario, its sizes, and what both tell of units."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from fp3o.config.options import SmacOptions
from fp3o.envs.engine import Engine
from fp3o.envs.interface import ActionSpec, EnvSpec
from fp3o.envs.smac.layouts import Array, encoding_of, sizes
from fp3o.envs.smac.scenarios import Scenario


class UnitStates(NamedTuple):
    """Arrays [N, U], allies first. The backends overwrite theirs: copy what is needed longer."""

    x: Array  # cells
    y: Array
    health: Array
    shield: Array
    cooldown: Array  # game loops until the weapon is ready
    alive: Array  # bool


def empty_units(slots: int, units: int) -> UnitStates:
    """Positions in double precision, in which the game gives them."""
    shape = (slots, units)
    return UnitStates(
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
        np.zeros(shape, bool),
    )


class Battlefield(Engine):
    """N battles of one scenario."""

    domain = "smac"
    exact_resume: bool

    def __init__(self, scenario: Scenario, slots: int, auto_reset: bool, options: SmacOptions, profile: str) -> None:
        """profile: of the unit data that observations are divided by."""
        super().__init__(scenario.name, slots, auto_reset, options)
        self.scenario = scenario
        self.encoding = encoding_of(scenario, options.layout, profile)
        observation_size, state_size = sizes(self.encoding)
        self.spec = EnvSpec(
            agents=scenario.agents,
            observation_size=observation_size,
            state_size=state_size,
            action=ActionSpec("categorical", (scenario.actions,)),
            episode_limit=scenario.limit,
            agent_types=tuple(scenario.ally_bits[kind] for kind in scenario.ally_kinds),
            exact_resume=self.exact_resume,
        )
        self._choices = np.full((slots, scenario.agents, 1), scenario.actions)

    @property
    @abstractmethod
    def units(self) -> UnitStates:
        """All units as they are now; views, not copies."""

    @property
    @abstractmethod
    def steps(self) -> Array:
        """Of each battle so far [N]."""

    def identity(self) -> dict[str, Any]:
        return super().identity() | {"domain": self.domain}
