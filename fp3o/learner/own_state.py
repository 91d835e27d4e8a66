"""`Context.state`: what an algorithm keeps from one iteration to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import torch
from torch import Tensor

from fp3o.errors import UserError, unknown


class OwnState(MutableMapping[str, Tensor]):
    """Named tensors [R, …] of fixed shapes. Setting one copies the new value into it: the learner's state holds it."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise unknown("state", name, self._tensors or ["what @fp3o.algorithm(state={…}) declares"])
        return self._tensors[name]

    @torch.no_grad()
    def __setitem__(self, name: str, value: Tensor) -> None:
        held = self[name]
        if not isinstance(value, Tensor) or value.shape != held.shape:
            seen = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise UserError(f"state[{name!r}] was set to {seen}; allowed: a tensor {tuple(held.shape)}")
        held.copy_(value)

    def __delitem__(self, name: str) -> None:
        raise UserError(f"state[{name!r}] cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def initial_state(declared: Mapping[str, Any], agents: int, replicas: int) -> dict[str, Tensor]:
    """The state before training, [R, …] each, from what `@fp3o.algorithm(state=…)` says."""

    def start(value: Any) -> Tensor:
        one = torch.as_tensor(value(agents) if callable(value) else value, dtype=torch.float32)
        return one.expand(replicas, *one.shape)

    return {name: start(value) for name, value in declared.items()}
