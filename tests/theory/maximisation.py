"""The exact maximiser of a gain that is linear in one policy table, less a penalty on its largest KL divergence.

Every step of the paper's theory (Eqs. 6, 7, 10, 11 and HAPPO's) has this form in the table being updated:

    maximise over p:  Σ_s <gain_s, p_s> - penalty · max_s D_KL(q_s, p_s).

Given the radius δ = max_s D_KL the states separate. In one state, with the gain centred (Σ q·gain = 0) and its
multiplier λ, the stationary point is p = q / (1 - x·gain) / Z with Z = Σ q / (1 - x·gain) and x·λ·Z = 1, and x is the
root of D_KL = δ. The radius is the root of Σ_s λ_s = penalty. The problem is concave, so this is the global maximum.
"""

from __future__ import annotations

from math import exp, log, log1p, nextafter, sqrt

import numpy as np
from scipy.optimize import brentq

from .game import Array


def maximise(old: Array, gain: Array, penalty: float) -> Array:
    """The table that maximises the penalised gain; a state whose gain does not depend on the action keeps its row."""
    centred = gain - np.sum(old * gain, axis=1, keepdims=True)
    spread = np.sqrt(np.sum(old * centred**2, axis=1))
    moving = [state for state in range(len(old)) if spread[state] > 1e-14 * (1 + np.abs(gain[state]).max())]
    if not moving:
        return old.copy()
    rows = {state: (old[state].tolist(), centred[state].tolist()) for state in moving}

    def excess(log_radius: float) -> float:
        multipliers = (1 / (x * normaliser(x, *rows[s])) for s, x in scales(rows, exp(log_radius)).items())
        return log(sum(multipliers) / penalty)  # nearly linear, which the root finder likes

    # For small steps λ_s is spread_s / √(2δ), which gives a first guess to bracket; it overshoots for large ones.
    low = high = min(2 * log(spread[moving].sum() / penalty) - log(2), -2.0)
    while excess(low) < 0:
        low -= 1
    while excess(high) > 0:
        high += 1
    radius = exp(brentq(excess, low, high, xtol=1e-15, rtol=1e-15) if low < high else low)
    new = old.copy()
    for state, x in scales(rows, radius).items():
        new[state] = old[state] / (1 - x * centred[state])
        new[state] /= new[state].sum()
    return new


def scales(rows: dict[int, tuple[list[float], list[float]]], radius: float) -> dict[int, float]:
    """For every state the x at which the stationary policy lies at the given KL divergence."""
    result = {}
    for state, (old, gain) in rows.items():
        # At the limit the policy is deterministic and the divergence infinite.
        limit = nextafter(1 / max(gain), 0)

        def excess(x: float, old: list[float] = old, gain: list[float] = gain) -> float:
            return sqrt(max(divergence(x, old, gain), 0.0)) - sqrt(radius)

        # For small steps D_KL is (x·spread)² / 2.
        guess = sqrt(2 * radius / sum(q * g * g for q, g in zip(old, gain, strict=True)))
        low, high = min(guess / 2, limit), min(guess * 2, limit)
        low = low if excess(low) < 0 else 0.0
        high = high if excess(high) > 0 else limit
        result[state] = brentq(excess, low, high, xtol=1e-300, rtol=1e-15)
    return result


def normaliser(x: float, old: list[float], gain: list[float]) -> float:
    return sum(q / (1 - x * g) for q, g in zip(old, gain, strict=True))


def divergence(x: float, old: list[float], gain: list[float]) -> float:
    """D_KL(q, p) = Σ q·log(1 - x·gain) + log Z, written so that small steps keep their digits."""
    pairs = list(zip(old, gain, strict=True))
    return sum(q * log1p(-x * g) for q, g in pairs) + log1p(sum(q * x * g / (1 - x * g) for q, g in pairs))


def penalised(old: Array, new: Array, gain: Array, penalty: float) -> float:
    """The objective itself."""
    return float(np.sum(gain * new) - penalty * np.max(np.sum(old * np.log(old / new), axis=1)))
