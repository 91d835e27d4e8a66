"""Networks of plug-ins (`@fp3o.network`): a plain torch.nn.Module for one agent, stacked over seeds and owners."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fp3o import registry
from fp3o.errors import UserError, unknown
from fp3o.networks.stacked import Initialiser, Shapes, padded
from fp3o.networks.trunk import StandardTrunk, Trunk
from fp3o.registry import NETWORKS, STANDARD, failure
from fp3o.source_files import source_file

# Of a module's parameters and buffers, beside the parameters of the head.
PREFIX, BUFFER = "net.", "buffer."


@dataclass(frozen=True)
class Inputs:
    """What a network sees, known when it is built."""

    size: int
    """Numbers of an input; it comes as a flat row."""
    shape: tuple[int, ...] = ()
    """Of the image, or table of entities, that the row begins with; (): it has none."""
    choices: int = 0
    """Of an actor with discrete actions: the number of legal choices that `available` tells; else 0."""

    @property
    def rest(self) -> int:
        """Numbers of a row that follow the image: the agent's number, where the environment appends it."""
        return self.size - (math.prod(self.shape) if self.shape else 0)

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The images [B, *shape] that rows [B, size] begin with, as the environment gave them, and the rest [B, rest];
        without images, nothing [B, 0] and the rows."""
        pixels = self.size - self.rest
        return rows[:, :pixels].reshape(rows.shape[0], *(self.shape or (0,))), rows[:, pixels:]


def make_trunk(inputs: Inputs, settings: Any, role: Literal["actor", "critic"]) -> Trunk:
    """The trunk that the settings ask for."""
    if settings.network == STANDARD:
        layers, activation = settings.hidden_layers, settings.activation
        return StandardTrunk(inputs.size, settings.hidden_size, settings.recurrent, layers, activation)
    if settings.network not in NETWORKS:
        raise unknown("network", settings.network, registry.networks(), "a run whose plug-in was not imported")
    return ModuleTrunk(settings.network, getattr(NETWORKS[settings.network], role), inputs, settings)


class ModuleTrunk:
    """A module, called as `module(observation, available, memory)` with a batch of one network's rows."""

    thread_safe = False  # torch.func puts the parameters of a call into the one module

    def __init__(self, name: str, module: Callable[[Inputs, Any], nn.Module], inputs: Inputs, settings: Any) -> None:
        # By default convolutions on a GPU round their factors to ten bits. After one update of a small CNN parameters
        # then differed from a CPU's by up to 5e-3, else by 3e-7.
        torch.backends.cudnn.allow_tf32 = False
        # oneDNN's convolution of several networks side by side rounds by their number on some x86-64 processors, and a
        # seed would not be the same run alone and in a stack. Where torch has MKL for matrix products, convolutions are
        # all that it uses oneDNN for in single precision, so no other run changes.
        if torch.backends.mkl.is_available():
            torch.backends.mkldnn.set_flags(False)
        self.name, self.seen, self.inputs = name, inputs, inputs.size
        self._build: Callable[[], nn.Module] = lambda: module(inputs, settings)
        self._file = source_file(module)
        self._module = self._drawn(0)
        self._buffers: dict[str, dict[str, Tensor]] = {}
        self.memory = int(getattr(self._module, "memory", 0))
        if bool(self.memory) != settings.recurrent:
            says = f"a memory of {self.memory} numbers" if self.memory else "no memory"
            raise UserError(
                f"network {name!r} has {says}, and recurrent = {str(settings.recurrent).lower()}; "
                f"allowed: recurrent = {str(bool(self.memory)).lower()}"
            )
        self.width = self._try()

    def shapes(self) -> Shapes:
        built: dict[str, Tensor] = {}

        def initialiser(name: str) -> Initialiser:
            def fill(view: Tensor, generator: torch.Generator) -> None:
                if name not in built:  # The first parameter of a network: all are drawn now.
                    seed = int(torch.randint(2**62, (), generator=generator))
                    built.update(self._drawn(seed).named_parameters())
                view.copy_(built.pop(name).detach())

            return fill

        named = self._module.named_parameters()
        return {f"{PREFIX}{name}": (tuple(p.shape), initialiser(name)) for name, p in named}

    def layers(self, p: dict[str, Tensor], head: str) -> dict[str, Tensor]:
        weight, bias = p[f"{head}.weight"], p[f"{head}.bias"]
        names = f"{head}.weight", f"{head}.bias"
        return self.buffers(weight.device) | p | dict(zip(names, padded(weight, bias), strict=True))

    def buffers(self, device: torch.device) -> dict[str, Tensor]:
        if device.type not in self._buffers:
            named = self._module.named_buffers()
            self._buffers[device.type] = {f"{BUFFER}{name}": x.to(device) for name, x in named}
        return self._buffers[device.type]

    def features(
        self,
        layers: dict[str, Tensor],
        x: Tensor,
        hidden: Tensor | None,
        keep: Tensor | None,
        available: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        own = {name: w for name, w in layers.items() if name.startswith(PREFIX)}
        networks = math.prod(next(iter(own.values())).shape[:2])  # of all seeds and owners
        parameters = {name.removeprefix(PREFIX): w.flatten(0, 1) for name, w in own.items()}
        buffers = {name.removeprefix(BUFFER): x for name, x in layers.items() if name.startswith(BUFFER)}
        folded = {"observation": x, "available": available}
        rows = {name: y.reshape(networks, -1, *y.shape[3:]) for name, y in folded.items() if y is not None}
        if not self.memory:
            out, _ = self._call(parameters, buffers, {name: y.flatten(1, 2) for name, y in rows.items()})
            return out.reshape(*x.shape[:4], -1), None
        assert hidden is not None
        assert keep is not None
        state, mask = hidden.reshape(networks, -1, self.memory), keep.reshape(networks, -1, x.shape[3], 1)
        outputs, states = [], []
        for step in range(x.shape[3]):
            now = {name: y[:, :, step] for name, y in rows.items()}
            out, after = self._call(parameters, buffers, now | {"memory": state * mask[:, :, step]})
            assert after is not None
            state = after
            outputs.append(out)
            states.append(state)
        features, after = (torch.stack(y, 2).reshape(*x.shape[:4], -1) for y in (outputs, states))
        return features, after

    def module(self, p: dict[str, Tensor]) -> nn.Module:
        module = copy.deepcopy(self._module)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(p[f"{PREFIX}{name}"])
        return module

    def _call(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], rows: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        """Each network, [networks, *shape] parameters, on its rows [networks, B, …]."""
        alone = len(rows["observation"]) == 1
        if alone:
            # A convolution of one network is another routine than those of several side by side, with other last bits.
            parameters, rows = ({name: y.expand(2, *y.shape[1:]) for name, y in z.items()} for z in (parameters, rows))

        def one(own: dict[str, Tensor], seen: dict[str, Tensor]) -> Any:
            given = (seen["observation"], seen.get("available"), seen.get("memory"))
            result = functional_call(self._module, (own, buffers), given)
            parts = result if isinstance(result, tuple) else (result,)
            if len(parts) != 1 + bool(self.memory) or not all(isinstance(part, Tensor) for part in parts):
                says = ", ".join(type(part).__name__ for part in parts)
                wanted = "features and memory" if self.memory else "features"
                raise UserError(f"network {self.name!r} returns {says}; allowed: {wanted}, tensors")
            return parts

        try:
            found = vmap(one)(parameters, rows)
        except (UserError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise UserError(f"network {self.name!r} fails: {failure(error, self._file)}") from error
        out, after = (*(part[:1] if alone else part for part in found), None)[:2]
        return out, after

    def _drawn(self, seed: int) -> nn.Module:
        """The module with initial parameters that the seed alone decides."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            try:
                module = self._build()
            except Exception as error:
                raise UserError(f"network {self.name!r} cannot be built: {failure(error, self._file)}") from error
        if not isinstance(module, nn.Module) or not any(True for _ in module.parameters()):
            raise UserError(f"network {self.name!r} is no torch.nn.Module with parameters")
        return module

    @torch.no_grad()
    def _try(self) -> int:
        """The number of features that the module gives for two rows of zeros; UserError if it gives something else."""
        sizes = {"observation": self.inputs, "memory": self.memory, "available": self.seen.choices}
        rows = {name: torch.zeros(2, 2, size) for name, size in sizes.items() if size}
        if self.seen.choices:
            rows["available"] = torch.ones(2, 2, self.seen.choices, dtype=torch.bool)
        stacked = {name: torch.stack((p, p)) for name, p in self._module.named_parameters()}
        out, after = self._call(stacked, dict(self._module.named_buffers()), rows)
        if out.dim() != 3 or out.shape[1] != 2:
            raise UserError(f"network {self.name!r} returns {tuple(out.shape[1:])} for 2 rows; allowed: [2, features]")
        if after is not None and after.shape[1:] != (2, self.memory):
            says = f"a memory {tuple(after.shape[1:])} for 2 rows"
            raise UserError(f"network {self.name!r} returns {says}; allowed: [2, {self.memory}]")
        return out.shape[-1]
