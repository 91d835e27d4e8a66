"""The hyper-parameters that all algorithms read, declared once (see fp3o/fields.py); others are declared with their
algorithm (fp3o/algorithms), values per task in benchmarks/tasks.yaml.

Imports neither torch nor an environment, so that resolving a thousand cells takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass, replace
from typing import Annotated, Any, Literal, TypeVar, cast

from fp3o.fields import AddedLater, Bounds, Declared, MayVary, ReadWith, declared
from fp3o.registry import STANDARD, algorithms
from fp3o.schedules import Schedule

T = TypeVar("T")
FLOAT32 = 1e38  # Greatest magnitude: the networks compute in 32 bits.


@dataclass(frozen=True)
class Settings:
    """The resolved hyper-parameters of one cell. Defaults are the paper's MAMuJoCo column (appendix, Tables 4–5)."""

    total_steps: Annotated[int, Bounds(1, 10**12)] = 10_000_000
    """Environment steps per seed (paper: per task and sharing)."""
    rollout_length: Annotated[int, Bounds(1, 1_000_000)] = 1000
    """Steps per environment and iteration, T (paper: episode length)."""
    rollout_threads: Annotated[int, Bounds(1, 100_000)] = 4
    """Parallel environments per seed, N (paper: rollout threads)."""
    epochs: Annotated[int, Bounds(1, 10_000)] = 5
    """Passes over the rollout per turn (paper: ppo epochs); FP3O: of the independent step."""
    minibatches: Annotated[int, Bounds(1, 1_000_000)] = 32
    """Minibatches per epoch (paper: num mini-batch)."""
    clip: Annotated[float, Bounds(1e-06, 1), MayVary()] = 0.2
    """PPO clip ε, of the ratio and of the value (paper: ppo-clip)."""
    gamma: Annotated[float, Bounds(0, 1)] = 0.99
    """Discount γ."""
    gae_lambda: Annotated[float, Bounds(0, 1)] = 0.95
    """λ of generalised advantage estimation."""
    actor_lr: Annotated[float, Bounds(0, FLOAT32), MayVary()] = 1e-5
    """Adam step size of the actor."""
    critic_lr: Annotated[float, Bounds(0, FLOAT32), MayVary()] = 3e-4
    """Adam step size of the critic."""
    head_lr_scale: Literal["agents", "one"] = "agents"
    """Partial sharing: heads learn at n·lr (release, undisclosed in the paper) or lr. HAPPO and A2PO default to one."""
    adam_eps: Annotated[float, Bounds(1e-12, 1)] = 1e-5
    """Adam's ε (paper: optim eps)."""
    entropy_coef: Annotated[float, Bounds(0, FLOAT32), MayVary()] = 0.001
    """Weight of the entropy bonus."""
    gradient_clip: Annotated[float, Bounds(1e-06, FLOAT32)] = 10.0
    """Largest gradient norm, per trunk owner, trunk and its heads together (paper: max grad norm)."""
    huber_delta: Annotated[float, Bounds(1e-06, FLOAT32)] = 10.0
    """Where the value loss turns linear (paper: huber delta)."""
    value_normalisation: bool = True
    """Running standardisation of value targets (release: on, called PopArt; paper: silent)."""
    advantage_standardisation: Literal["agent", "joint", "none"] = "agent"
    """Over each agent's samples (release), over all agents' (on-policy), or not at all (CoPPO's code)."""
    time_limit_is_terminal: bool = True
    """True: no bootstrap at the time limit (release). False: bootstrap from the last state."""
    hidden_size: Annotated[int, Bounds(2, 4096)] = 64
    """Width of every hidden layer and of the GRU."""
    recurrent: bool = False
    """GRU after the linear layers, actor and critic (paper: network mlp or rnn)."""
    network: Annotated[str, AddedLater(STANDARD)] = STANDARD
    """standard (release: LayerNorm, linear layers, GRU where recurrent), or the name of a plug-in's (fp3o.network)."""
    hidden_layers: Annotated[int, Bounds(1, 16), AddedLater(2), ReadWith("network", STANDARD)] = 2
    """Linear layers of the standard network before the GRU (release: layer N 1, that is one besides the first)."""
    activation: Annotated[Literal["relu", "tanh"], AddedLater("relu"), ReadWith("network", STANDARD)] = "relu"
    """After each of them (release: ReLU)."""
    chunk_length: Annotated[int, Bounds(1, 1_000_000)] = 10
    """Recurrent training: steps per chunk from a stored hidden state (data chunk length)."""
    gaussian_std: Literal["sigmoid", "exp"] = "sigmoid"
    """σ = 0.5·sigmoid(ψ) (release, std x coef 1, y coef 0.5) or exp(ψ) (on-policy)."""
    start_from: Annotated[str, AddedLater("")] = ""
    """The run whose networks training starts from, <cell>/<digest>/seed-<k> (set by --start-from); empty: none."""
    evaluation_interval: Annotated[int, Bounds(1, 10**12)] = 25
    """Iterations between evaluations (release; the paper's text says every iteration)."""
    evaluation_episodes: Annotated[int, Bounds(1, 100_000)] = 32
    """Deterministic episodes per evaluation."""
    final_episodes: Annotated[int, Bounds(1, 1_000_000)] = 32
    """Episodes on which the final policy is scored, in final.csv when more than evaluation_episodes (MPE: 1000)."""
    slice_rows: Annotated[int, Bounds(0, 10**12)] = 0
    """Rows of a minibatch processed at once, gradients summed; 0 = all. Fixed by the cell, never by free memory."""


def settings_of(algorithm: str) -> type[Settings]:
    """The class of an algorithm's settings: `Settings` with those of its own."""
    entry = algorithms().get(algorithm)
    return with_own(Settings, entry.own) if entry and entry.own else Settings


_MADE: dict[tuple[type[Any], ...], type[Any]] = {}


def with_own(base: type[Settings], *own: type[Any]) -> type[Any]:
    """A class with the fields of them all; always the same."""
    if (base, *own) not in _MADE:
        _MADE[base, *own] = make_dataclass(base.__name__, [], bases=(*own, base), frozen=True)
    return _MADE[base, *own]


def own(settings: Settings, kind: type[T]) -> T:
    """An algorithm's own settings with their types: `own(plan.settings, Fp3oSettings).intermediate`. They are fields of
    a class made at run time (`settings_of`), which type checkers cannot see."""
    return cast(T, settings)


def schedules_of(settings: Settings) -> dict[str, Schedule]:
    """The settings that change during training, by name."""
    varying = [name for name, field in declared(type(settings)).items() if field.may_vary]
    found = {name: Schedule.parse(getattr(settings, name)) for name in varying}
    return {name: schedule for name, schedule in found.items() if schedule is not None}


def at(settings: Settings, schedules: Mapping[str, Schedule], fraction: float) -> Settings:
    """The settings when this fraction of the budget is spent: numbers in place of schedules."""
    values: dict[str, Any] = {name: schedule.at(fraction) for name, schedule in schedules.items()}
    return replace(settings, **values) if values else settings


def every_field() -> dict[str, Declared]:
    """The settings of all the package's algorithms."""
    own = [declared(entry.own) for entry in algorithms().values() if entry.own and not entry.file]
    return {name: field for fields in (declared(Settings), *own) for name, field in fields.items()}
