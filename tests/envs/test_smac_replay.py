"""Replaying pieces of recorded battles, and comparing recordings."""

from __future__ import annotations

import numpy as np
import pytest
from recorded_battles import recorded

from fp3o.config.options import SmacOptions
from fp3o.envs.interface import slot_seeds
from fp3o.envs.smac.battle import Steering
from fp3o.envs.smac.check.recording import Recording, as_the_game_tells
from fp3o.envs.smac.check.replay import Pieces, Replay, engine_options, pieces_of
from fp3o.envs.smac.check.trajectories import compare, course
from fp3o.errors import UserError


@pytest.fixture(scope="module")
def crowd() -> Recording:
    return recorded("corridor", "nearest", 8)


def test_with_the_same_random_numbers_the_engine_foretells_itself_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the start, where everything is known; later targets, sides and hits in progress are not recorded."""
    battles = recorded("3m", "nearest", 4)
    seeds = slot_seeds(0, "recorded", 4)
    monkeypatch.setattr("fp3o.envs.smac.check.replay.slot_seeds", lambda *_: seeds)
    length = int(battles.lengths.min())
    errors = Replay(battles, Pieces(np.arange(4), np.zeros(4, int)), length).errors()
    assert (errors.distance == 0).all()
    assert (errors.health == 0).all()


def test_in_a_crowd_the_engine_foretells_much_better_than_standing_still(crowd: Recording) -> None:
    replay = Replay(crowd, pieces_of(crowd, 4, 150, within=3.0), 4)
    engine, standing = replay.errors(), replay.errors_of_standing()
    assert (engine.distance < 0.65 * standing.distance).all()
    assert (engine.health < 0.4 * standing.health).all()
    assert (np.diff(engine.distance) > 0).all()


def test_the_steering_it_was_recorded_with_foretells_best(crowd: Recording) -> None:
    replay = Replay(crowd, pieces_of(crowd, 4, 150, within=3.0), 4)
    own = replay.errors().distance.mean()
    assert replay.errors(Steering(side_bonus=0.0)).distance.mean() > 1.05 * own
    assert replay.errors(Steering(occupied=0.3)).distance.mean() > 1.05 * own
    assert replay.errors(Steering()).distance.mean() == own


def test_pieces_are_whole_and_as_near_as_asked(crowd: Recording) -> None:
    battle, step = pieces_of(crowd, 4, 10_000, within=2.0)
    assert (step + 4 <= crowd.lengths[battle]).all()
    units = crowd.units
    for n, t in zip(battle[:20].tolist(), step[:20].tolist(), strict=True):
        ally, enemy = np.nonzero(units.alive[t, n, :6])[0], 6 + np.nonzero(units.alive[t, n, 6:])[0]
        x, y = units.x[t, n], units.y[t, n]
        assert np.hypot(x[ally][:, None] - x[enemy], y[ally][:, None] - y[enemy]).min() <= 2.0
    with pytest.raises(UserError, match="no piece of 4 steps"):
        pieces_of(crowd, 4, within=0.01)


def test_more_pieces_than_fit_at_once_are_replayed_alike(crowd: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = pieces_of(crowd, 2, 40)
    at_once = Replay(crowd, pieces, 2).predict()
    monkeypatch.setattr("fp3o.envs.smac.check.replay.SLOTS", 16)
    for whole, parts in zip(at_once, Replay(crowd, pieces, 2).predict(), strict=True):
        np.testing.assert_array_equal(whole, parts)


def test_units_over_the_edge_of_the_map_are_taken_back(crowd: Recording) -> None:
    x = crowd.units.x.copy()
    x[:, :, -1], x[:, :, -2] = 32.7, -0.5
    replay = Replay(crowd._replace(units=crowd.units._replace(x=x)), pieces_of(crowd, 2, 20), 2)
    assert np.isfinite(replay.errors().distance).all()


def test_cooldowns_that_the_game_does_not_tell_are_drawn() -> None:
    """Were all enemies ready to strike, they would do much more harm in the first step than they did."""
    battles = recorded("3s5z", "nearest", 8)
    game = as_the_game_tells(battles)
    assert game.units.cooldown[..., :8].any()
    assert not game.units.cooldown[..., 8:].any()
    harm = {}
    for name, one in {"told": battles, "drawn": game, "ready": game._replace(backend="embedded")}.items():
        replay = Replay(one, pieces_of(battles, 1, 150, within=6.0), 1)
        harm[name] = float((replay.truth.vitality - replay.predict().vitality)[..., :8].mean())
    assert abs(harm["told"]) < 0.5
    assert abs(harm["drawn"]) < 0.5
    assert harm["ready"] > 2


def test_the_engine_that_was_recorded_is_the_one_that_foretells() -> None:
    old = SmacOptions(engine_revision=2, choke_width=3.0)
    assert engine_options(recorded("corridor", "stand", 1, options=old)) == old


def test_recordings_of_one_engine_do_not_differ_and_those_of_another_do(crowd: Recording) -> None:
    same = compare(recorded("corridor", "nearest", 8, seed=2), crowd, pieces=150)
    np.testing.assert_allclose(same.replayed.distance, same.floor.distance, rtol=0.2)
    assert min(difference.p for difference in same.courses) > 0.01
    assert (same.replayed.distance < 0.5 * same.standing.distance).all()
    other = compare(recorded("corridor", "nearest", 8, seed=2, steering=Steering(side_bonus=0.0)), crowd, pieces=150)
    assert (other.replayed.distance > 0.55 * other.standing.distance).all()
    assert min(difference.p for difference in other.courses) < 0.01
    with pytest.raises(UserError, match="of one map"):
        compare(recorded("3m", "stand", 1), crowd)


def test_the_course_of_a_battle() -> None:
    battles = recorded("3m", "stand", 3)
    told = course(battles)
    vitality = battles.units.health + battles.units.shield
    for n, contact in enumerate(told.contact.tolist()):
        assert (vitality[contact, n] < vitality[0, n]).any()
        assert (vitality[contact - 1, n] == vitality[0, n]).all()
    np.testing.assert_array_equal(told.length, battles.lengths)
    np.testing.assert_array_equal(told.allies == 0, battles.outcomes >= 2)
