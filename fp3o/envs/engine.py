"""What all engines have in common: their names, saving and loading of arrays, `environment` of run.json."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any

from numpy.typing import NDArray

from fp3o.config.domains import revision
from fp3o.envs.interface import BatchEnv
from fp3o.errors import UserError


class Engine(BatchEnv, ABC):
    """A batch of environments of one task."""

    domain: str

    def __init__(self, task: str, slots: int, auto_reset: bool, options: Any) -> None:
        if slots < 1:
            raise UserError(f"number of environments is {slots}; allowed: 1 or more")
        self.task, self.slots, self.auto_reset, self.options = task, slots, auto_reset, options
        self._started = False

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.domain}/{self.task}"

    def _require_reset(self) -> None:
        if not self._started:
            raise UserError(f"{self.name}: step before reset")

    @abstractmethod
    def _saved(self) -> dict[str, NDArray[Any]]:
        """The arrays that all else is computed from, by name."""

    @abstractmethod
    def _restored(self) -> None:
        """Called after these arrays have been overwritten by saved ones: computes all else."""

    def state_dict(self) -> dict[str, NDArray[Any]]:
        return {name: array.copy() for name, array in self._saved().items()}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        arrays = self._saved()
        for name, array in arrays.items():
            if name not in state or state[name].shape != array.shape:
                given = f"has shape {state[name].shape}" if name in state else "is missing"
                raise UserError(f"{self.name}: saved {name} {given}; allowed: {array.shape}")
        for name, array in arrays.items():
            array[...] = state[name]
        self._started = True
        self._restored()

    def identity(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "revision": revision(self.domain, self.options),
            "observation_size": self.spec.observation_size,
            "state_size": self.spec.state_size,
            "options": asdict(self.options),
        }
