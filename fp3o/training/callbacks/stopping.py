"""Callbacks that finish a run before its budget is spent; its status is then `stopped`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from fp3o.errors import UserError
from fp3o.training.callbacks import Callback, Record, episode_means

Column = Literal["return", "return_per_agent", "won"]


class _Stopping(Callback):
    may_stop = True
    finishes = True

    def __init__(self, column: Column) -> None:
        if column not in ("return", "return_per_agent", "won"):
            raise UserError(f"column = {column!r} is not allowed; allowed: return, return_per_agent, won")
        self._column = column

    def evaluation(self, seed: int, records: Sequence[Record]) -> bool:
        """Whether the seed is done, given the mean over the episodes of an evaluation."""
        value = episode_means(records).get(self._column)
        return value is not None and self._done(seed, value)

    def _done(self, seed: int, value: float) -> bool:
        raise NotImplementedError


class StopAtReturn(_Stopping):
    """Finishes a seed once an evaluation reaches a mean; the other seeds train on."""

    def __init__(self, value: float, column: Column = "return") -> None:
        """value: to be reached. column: of evaluations.csv; the mean of "won" is the win rate, 0 … 1."""
        super().__init__(column)
        self._value = value

    def _done(self, seed: int, value: float) -> bool:
        return value >= self._value


class StopWithoutProgress(_Stopping):
    """Finishes a seed whose evaluations have not improved for a while; the other seeds train on.

    What it remembers is not saved: after an interruption it begins to count anew.
    """

    def __init__(self, evaluations: int, least: float = 0.0, column: Column = "return") -> None:
        """evaluations: how many in a row may fail to be better than the best before by more than `least`."""
        super().__init__(column)
        if evaluations < 1:
            raise UserError(f"evaluations = {evaluations} is not allowed; allowed: 1 or more")
        self._evaluations, self._least = evaluations, least
        self._best: dict[int, tuple[float, int]] = {}  # by seed: the best, and how many came after it

    def _done(self, seed: int, value: float) -> bool:
        best, since = self._best.get(seed, (float("-inf"), 0))
        self._best[seed] = (value, 0) if value > best + self._least else (best, since + 1)
        return self._best[seed][1] >= self._evaluations
