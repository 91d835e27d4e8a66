"""Who owns which parameters, and that nothing owned is lost."""

from __future__ import annotations

import pytest
from synthetic import make_spec

from fp3o.config.settings import Settings
from fp3o.errors import UserError
from fp3o.learner.update import initialise, networks
from fp3o.networks.sharing import Sharing, sharing


@pytest.mark.parametrize(
    ("kind", "trunk", "head"),
    [
        ("full", (0, 0, 0, 0), (0, 0, 0, 0)),
        ("partial", (0, 0, 0, 0), (0, 1, 2, 3)),
        ("none", (0, 1, 2, 3), (0, 1, 2, 3)),
        ("by-type", (0, 1, 0, 1), (0, 1, 0, 1)),
    ],
)
def test_owner_vectors(kind: str, trunk: tuple[int, ...], head: tuple[int, ...]) -> None:
    assert sharing(kind, (3, 7, 3, 7)) == Sharing(trunk, head)


def test_unknown_kind_names_the_allowed_ones() -> None:
    with pytest.raises(UserError, match=r"(?s)sharing.*half.*full.*partial.*none"):
        sharing("half", (0, 0))


@pytest.mark.parametrize(
    ("trunk", "head"),
    [((0, 2), (0, 1)), ((0, 0), (1, 1)), ((0, 1), (0, 0))],
    ids=["trunk 1 unused", "head 0 unused", "a head of two trunks"],
)
def test_impossible_owner_vectors(trunk: tuple[int, ...], head: tuple[int, ...]) -> None:
    with pytest.raises(UserError):
        Sharing(trunk, head)


def test_partial_sharing_holds_every_head() -> None:
    """The release's heads live in a plain list, outside its saved state."""
    spec = make_spec(agents=3)
    owners = sharing("partial", spec.agent_types)
    actor, critic = networks(spec, owners, "fp3o", Settings())
    parameters = initialise(actor, critic, [0, 1])
    assert parameters.trunk.shape == (2, 1, actor.trunk_layout.size)
    assert parameters.head.shape == (2, 3, actor.head_layout.size)
    assert parameters.critic.shape == (2, 1, critic.layout.size)
    views = actor.head_layout.views(parameters.head)
    assert {name: tuple(view.shape) for name, view in views.items()} == {
        "head.weight": (2, 3, 64, 2),
        "head.bias": (2, 3, 2),
        "head.log_std": (2, 3, 2),
    }
    weight = views["head.weight"]
    assert not weight[:, 0].equal(weight[:, 1])
    assert not weight[0].equal(weight[1])
