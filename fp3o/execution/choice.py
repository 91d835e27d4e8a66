"""How a run is executed: eagerly, compiled, or (on a GPU) compiled and replayed as a CUDA graph.

Chosen when a run starts, stored with its state and used again when it is resumed. On disk and on the command line it is
called path (`path` in run.json and resume files, `--path`).
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast, get_args

import torch
from torch import Tensor

from fp3o.algorithms.turns import Rollout
from fp3o.config import Plan
from fp3o.envs.checks import processors
from fp3o.errors import UserError
from fp3o.execution.compiler import ahead_of_time, compiled, compiled_once
from fp3o.execution.cuda_graphs import Replayed, beside, capture
from fp3o.execution.driver import has_mps
from fp3o.execution.gpu_policy import ResidentPolicy
from fp3o.execution.together import together
from fp3o.learner.state import clone, overwrite
from fp3o.learner.step import Compiler, Crew, First, Kind, Second, Step, Stepper, StepStatistics, TurnData
from fp3o.processes import has_c_compiler
from fp3o.rollout.policy import Policy

Mode = Literal["eager", "compiled", "graph"]
ActsOn = Literal["cpu", "cuda", "cuda-compiled"]

ACTING = "FP3O_ACTING"
"""Environment variable for measurements: auto (see `place_to_act`) or one of `ActsOn`."""

# Compiling a step takes one minute on a core. Not done on a CPU for networks with GRUs: they spend their time in matrix
# products and in an operator of their own (fp3o/networks/recurrent.py), and were no faster compiled.
SAMPLES_THAT_REPAY_COMPILING = 2_000_000
# The first version of torch known to compile right programs for CPUs: those of 2.11 moved parameters of heads wrongly,
# on ARM and on x86-64. Where they are asked for all the same, wrong ones are refused (`comparing.py`).
SOUND_ON_CPUS = "2.13"


@dataclass(frozen=True)
class Execution:
    """Everything known that may change the last bits of a result. Stored in run.json and resume files: only add fields,
    with the value of older runs as default."""

    mode: Mode
    device: Literal["cpu", "cuda"]
    torch: str
    threads: int
    reason: str
    acts_ahead: bool = True
    """Whether acting on the CPU is compiled ahead of time. Not by torch with CUDA, whose programs of that kind crashed
    (2.11 on x86-64, with a GPU and with the GPU hidden)."""
    processor: str = ""
    """Architecture, vector instructions that torch uses, GPU; empty in older files."""
    acts_on: ActsOn = "cpu"
    """Where policies act; on a GPU as a graph of plain or compiled operations."""

    @property
    def compiler(self) -> Compiler:
        """For gradient steps."""
        return _identity if self.mode == "eager" else compiled

    @property
    def acting(self) -> Compiler:
        """For the steps of acting policies."""
        if self.acts_on != "cpu":
            return compiled if self.acts_on == "cuda-compiled" else _identity
        if self.mode == "eager":
            return _identity
        return ahead_of_time if self.mode == "compiled" and self.acts_ahead else compiled_once

    @property
    def policy(self) -> type[Policy]:
        return Policy if self.acts_on == "cpu" else ResidentPolicy

    @property
    def stepper(self) -> type[Stepper]:
        if self.mode == "graph":
            return GraphStepper
        two_threads = (self.threads or processors()) > 1
        return PairedStepper if two_threads and self.mode == "eager" and self.device == "cpu" else Stepper

    @property
    def possible(self) -> bool:
        """Whether this machine can execute like this; results are then equal bit for bit on the same processor type."""
        has_gpu = torch.cuda.is_available()
        return (
            self.torch == torch.__version__
            and (has_gpu or self.device == "cpu")
            and (self.mode == "eager" or why_not_compiled() is None)
            and not (has_gpu and self.acting is ahead_of_time)
        )

    def record(self) -> dict[str, Any]:
        """`path` of run.json."""
        record = {"mode": self.mode, "device": self.device, "torch": self.torch, "threads": 1}
        return record | {"acts_on": self.acts_on, "reason": self.reason}


def choose(plan: Plan, device: str, asked: str, threads: int) -> Execution:
    """The execution of a new run; device and asked: the options --device and --path. By default the fastest one, unless
    the run is too short to repay compiling."""
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise UserError("--device cuda: torch sees no GPU; allowed: auto, cpu")
    on: Literal["cpu", "cuda"] = "cuda" if has_gpu and device != "cpu" else "cpu"
    settings = plan.settings
    samples = plan.iterations * settings.epochs * settings.rollout_length * settings.rollout_threads
    mode: Mode
    if asked == "eager":
        mode, reason = "eager", "asked for"
    elif obstacle := why_not_compiled():
        if asked == "compiled":
            raise UserError(f"--path compiled: {obstacle}; allowed: auto, eager")
        mode, reason = "eager", obstacle
    elif asked == "auto" and samples < SAMPLES_THAT_REPAY_COMPILING:
        mode, reason = "eager", f"passes over {samples:,} samples do not repay compiling"
    elif asked == "auto" and on == "cpu" and torch.__version__ < SOUND_ON_CPUS:  # compared as versions
        mode, reason = "eager", f"torch before {SOUND_ON_CPUS} compiles some steps wrongly for CPUs"
    elif asked == "auto" and on == "cpu" and settings.recurrent:
        mode, reason = "eager", "with GRUs a CPU gains nothing by compiling"
    else:
        mode = "graph" if on == "cuda" else "compiled"
        reason = "asked for" if asked == "compiled" else f"passes over {samples:,} samples repay compiling"
    mps = has_mps()
    acts_on = place_to_act(mode, on, os.environ.get(ACTING, "auto"), compiled=mps or not settings.recurrent)
    if acts_on != "cpu":
        reason += f"; acting on the GPU, MPS {'on' if mps else 'off'}"
    ahead = torch.version.cuda is None and not has_gpu  # AMD's GPUs have no CUDA
    return Execution(mode, on, torch.__version__, threads, reason, ahead, _processor(on), acts_on)


def place_to_act(mode: Mode, device: str, asked: str, compiled: bool = False) -> ActsOn:
    """Where policies act. asked: the value of the environment variable; compiled: whether that pays on a GPU.

    Measured on H200 machines: a lock-step of 320 agents with GRUs (3s5z, five seeds) takes 0.9 ms on a core, one of 120
    agents without (HalfCheetah) 0.3 ms, after a minute of compiling; on the GPU, as a graph of plain operations, either
    takes 0.2 ms. Compiled there are fewer operations: training on HalfCheetah is 7 % faster, at half a second more to
    start. With twelve cells of 3s5z beside each other the GPU's answer took 0.6 ms, and 0.3 ms compiled; alone it is no
    faster, and 6 s of compiling.
    """
    if asked == "auto":
        return "cpu" if mode != "graph" else "cuda-compiled" if compiled else "cuda"
    for place in get_args(ActsOn):
        if asked == place and (device == "cuda" or place == "cpu"):
            return cast(ActsOn, place)
    allowed = ("auto", *get_args(ActsOn)) if device == "cuda" else ("auto", "cpu")
    raise UserError(f"{ACTING}={asked} with updates on {device}; allowed: {', '.join(allowed)}")


def _processor(device: str) -> str:
    gpu = f", {torch.cuda.get_device_name()}" if device == "cuda" else ""
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}{gpu}"


def why_not_compiled() -> str | None:
    """Why torch cannot compile on this machine; None where it can."""
    if not has_c_compiler():
        return "no C compiler found (gcc, clang or cc)"
    arm_alone = platform.machine() in ("aarch64", "arm64") and not torch.cuda.is_available()
    if arm_alone and os.environ.get("ATEN_CPU_CAPABILITY") == "default":
        # Seen with torch 2.13: the programs it writes then use vectors that its headers leave undeclared.
        return "torch compiles no programs for ARM with ATEN_CPU_CAPABILITY=default"
    return None


def _identity(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class PairedStepper(Stepper):
    """Actors' gradients on this thread of a CPU, critics' on another: the same operations, so the same numbers.

    On two ARM cores, five seeds of FP3O: 3s5z's update took 25.7 instead of 46.2 s, that of the climbing game 0.18
    instead of 0.23 s. Not for compiled steps: they are one program.
    """

    one_program = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._other_thread = ThreadPoolExecutor(1, initializer=functools.partial(torch.set_num_threads, 1))

    def beside(self, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
        begun = self._other_thread.submit(second)
        return first(), begun.result()


class GraphStepper(Stepper):
    """Steps replayed from CUDA graphs, one launch per step. A graph reads its inputs from fixed addresses, so the
    inputs of a turn are copied there."""

    one_program = False
    """A graph launches four as fast as one; they can be compiled at the same time, and two of them can run so."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._graphs: dict[Any, _Captured] = {}
        self._inputs: tuple[Rollout, Tensor] | None = None

    @functools.cached_property
    def _second_stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self.device)

    def begin(self, turn: TurnData, kind: Kind) -> Step:
        if self._inputs is None:
            self._inputs = (_clone(turn.rollout), turn.samples.clone())
        kept_rollout, kept_samples = self._inputs
        _copy_into(kept_rollout, turn.rollout)
        kept_samples.copy_(turn.samples)
        crew = turn.crew

        def step(rows: Tensor) -> StepStatistics:
            key = (kind, rows.shape, crew.others is None)
            if key not in self._graphs:
                self._graphs[key] = self._capture(TurnData(kept_rollout, kept_samples, _clone(crew)), kind, rows)
            captured = self._graphs[key]
            if captured.crew_of is not crew:
                _copy_into(captured.crew, crew)
                captured.crew_of = crew
            captured.rows.copy_(rows)
            captured.graph.replay()
            return captured.statistics

        return step

    def repeated(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return Replayed(function)

    def beside(self, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
        """At the same time: either keeps only a part of the GPU busy."""
        return beside(self._second_stream, first, second)

    def _capture(self, turn: TurnData, kind: Kind, rows: Tensor) -> _Captured:
        kept_rows = rows.clone()
        before, totals = clone(self.state), self.totals.clone()

        def undo() -> None:
            overwrite(self.state, before)
            self.totals.copy_(totals)

        with together():
            self.step(turn, kind, kept_rows)
        graph, statistics = capture(lambda: self.step(turn, kind, kept_rows), undo)
        return _Captured(graph, turn.crew, kept_rows, statistics)


class _Captured:
    def __init__(self, graph: torch.cuda.CUDAGraph, crew: Crew, rows: Tensor, statistics: StepStatistics) -> None:
        self.graph, self.crew, self.rows, self.statistics = graph, crew, rows, statistics
        self.crew_of: Crew | None = None


Tensors = TypeVar("Tensors", Rollout, Crew)


def _clone(tensors: Tensors) -> Tensors:
    return tensors._replace(**{name: x.clone() for name, x in tensors._asdict().items() if x is not None})


def _copy_into(kept: Rollout | Crew, new: Rollout | Crew) -> None:
    for target, source in zip(kept, new, strict=True):
        if target is not None and source is not None:
            target.copy_(source)
