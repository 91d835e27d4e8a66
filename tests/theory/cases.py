"""The seeded games every statement is checked on."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from .game import Game, Policies, random_game, random_policies
from .surrogate import Surrogates


class Case(NamedTuple):
    seed: int
    agents: int
    states: int
    actions: int
    gamma: float

    def game(self) -> Game:
        return random_game(self.seed, self.agents, self.states, self.actions, self.gamma)

    def old(self) -> Surrogates:
        game = self.game()
        return Surrogates.at(game, random_policies(self.seed + 1000, game))

    def new(self, draw: int = 0) -> Policies:
        return random_policies(self.seed + 2000 + draw, self.game())


CASES = [
    Case(seed, agents, states, actions, gamma)
    for seed, (agents, states, actions, gamma) in enumerate(
        (agents, states, actions, gamma)
        for agents in (2, 3)
        for states in (2, 3, 4)
        for actions in (2, 3)
        for gamma in (0.5, 0.9)
    )
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: f"seed{c.seed}-n{c.agents}-S{c.states}-A{c.actions}")

# Identities between exactly solved tables; the games' values are of the order of ten.
IDENTITY = 1e-10
