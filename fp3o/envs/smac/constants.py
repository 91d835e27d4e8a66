"""Numbers of the game loop, for the compiled kernel and its oracle (benchmarks/fidelity/smac_oracle.py). Those without
a source are calibrated or assumed."""

from __future__ import annotations

import math

import numpy as np

from fp3o.envs.smac.units import LEAST_DAMAGE, LOOPS_PER_SECOND, SHIELD_DELAY, SHIELD_RATE

F = np.float32
ZERO, ONE, TWO, HALF = F(0), F(1), F(2), F(0.5)
LEAST = F(LEAST_DAMAGE)
SHIELD_QUIET = int(SHIELD_DELAY * LOOPS_PER_SECOND)
SHIELD_GAIN = F(SHIELD_RATE / LOOPS_PER_SECOND)
FOLLOW = F(3)  # cells beyond its scan range up to which a unit follows a target that it found by scanning
STICKINESS = F(0.25)  # cells by which a new target must be nearer than the current one
ARRIVED = F(2)  # cells from an order's point at which a unit has arrived
TINY, HUGE = F(1e-6), F(1e9)
NOWHERE = F(math.nan)  # coordinate of a unit that is in nobody's way: comparing a distance to it is always false
ROUNDING = F(0.01)  # cells, far more than rounding errors: what is further away than a distance plus this is ruled out
SPOT_RANGE = F(3)  # cells from its target at which a melee unit starts to look for a free place beside it
SNUG = F(0.95)  # such a place is this fraction of the reach away, so that a unit that arrives is in range
ORBIT = F(0.8)  # cells outside those places at which a unit walks around its target
NEIGHBOUR_MARGIN = F(0.8)  # cells: lists are used for two loops, that is 2 · 2 · 0.185 of motion, plus the look-ahead
# A unit's mode, and its mobility: the larger, the more it is moved in a collision. A fighting unit hardly moves.
IDLE, MOVING, FIGHTING = 0, 1, 2
MOBILITIES = np.array([0.5, 1.0, 0.02], np.float32)  # by mode
# Whether a scripted unit chases an attacker, or goes back because that led it too far away (revision 3).
FREE, CHASING, RETURNING = 0, 1, 2
# Which calls for help turn a unit away from a target that it walks to (`Response.redirects`).
NEVER, NEARER, ALWAYS = 0, 1, 2
# Headings tried around an obstacle: angles (degrees) from the straight line.
HEADINGS = (0.0, 35.0, -35.0, 70.0, -70.0, 100.0, -100.0, 138.0, -138.0)
HEADING_COS = np.array([math.cos(math.radians(angle)) for angle in HEADINGS], np.float32)
HEADING_SIN = np.array([math.sin(math.radians(angle)) for angle in HEADINGS], np.float32)
# Places beside a target: angles (degrees) from the direction in which the unit comes.
PLACES = (0.0, 40.0, -40.0, 80.0, -80.0, 120.0, -120.0, 160.0, -160.0)
PLACE_COS = np.array([math.cos(math.radians(place)) for place in PLACES], np.float32)
PLACE_SIN = np.array([math.sin(math.radians(place)) for place in PLACES], np.float32)
PLACE_ANGLE = np.array([abs(math.radians(place)) for place in PLACES], np.float32)
AROUND_COS, AROUND_SIN = F(math.cos(math.radians(50.0))), F(math.sin(math.radians(50.0)))

# What a random number is for. Not Python's integers, for each of which numba would compile a function of its own.
PURPOSE_COOLDOWN, PURPOSE_SPAWN_X, PURPOSE_SPAWN_Y, PURPOSE_SIDE, PURPOSE_ORDER = (np.uint64(i) for i in range(5))
MIX_1, MIX_2, GOLDEN_RATIO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15)
