"""Every draw depends on seed, purpose and time alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fp3o.learner.randomness import STREAMS, Draws, generator


def test_a_seed_alone_draws_what_it_draws_in_a_stack() -> None:
    stack, alone = Draws([3, 8, 5], 7), Draws([8], 7)
    assert stack.uniform(4, 2)[1].equal(alone.uniform(4, 2)[0])
    assert stack.uniform(3)[1].equal(alone.uniform(3)[0])
    assert stack.permutations(2, 0, 6, 50)[1].equal(alone.permutations(2, 0, 6, 50)[0])


def test_every_agent_and_epoch_has_its_own_permutation() -> None:
    draws = Draws([0, 1], 0)
    first, second = draws.permutations(0, 0, 3, 40), draws.permutations(0, 1, 3, 40)
    every = torch.cat((first.flatten(0, 1), second.flatten(0, 1)))
    assert len({tuple(row) for row in every.tolist()}) == len(every)
    assert every.sort(1).values.equal(torch.arange(40).expand(len(every), -1))


def test_draws_of_turns_do_not_move_minibatches() -> None:
    """What an algorithm draws for its order never changes how samples are split."""
    quiet, busy = Draws([4], 2), Draws([4], 2)
    busy.uniform(100)
    assert quiet.permutations(0, 0, 2, 30).equal(busy.permutations(0, 0, 2, 30))


@pytest.mark.parametrize("change", [("seed", 1), ("stream", "turns"), ("time", 5)], ids=lambda c: c[0])
def test_generators_differ(change: tuple[str, object]) -> None:
    key: dict[str, Any] = {"seed": 0, "stream": "actions", "time": 4}
    other = key | dict([change])
    one, two = (generator(k["seed"], k["stream"], k["time"]).random(8) for k in (key, other))
    assert not np.array_equal(one, two)
    assert np.array_equal(one, generator(0, "actions", 4).random(8))


def test_streams_keep_their_number() -> None:
    """Another order would silently change every published run."""
    assert STREAMS[:4] == ("initialisation", "actions", "minibatches", "turns")
