"""How a run is executed: eagerly, compiled, or (on a GPU) compiled and replayed as a CUDA graph.

Chosen when a run starts, stored with its state and used again when it is resumed. On disk and on the command line it is
called path (`path` in run.json and resume files, `--path`).
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast, get_args

import torch

from fp3o.config import Plan
from fp3o.errors import UserError
from fp3o.execution.compiler import compiled, compiled_once
from fp3o.execution.compute import Compute
from fp3o.execution.cuda_graphs import capture
from fp3o.execution.gpu_policy import GpuPolicy
from fp3o.execution.program_cache import cache_folder
from fp3o.execution.steps import CompiledSteps, GraphSteps, ThreadedSteps
from fp3o.learner.step import Stepper, Steps
from fp3o.machine import has_c_compiler, has_mps, processors
from fp3o.networks.actor import Actor
from fp3o.rollout.policy import Policy

Mode = Literal["eager", "compiled", "graph"]
ActsOn = Literal["cpu", "cuda", "cuda-compiled"]

ACTING = "FP3O_ACTING"
"""Environment variable for measurements: auto (see `place_to_act`) or one of `ActsOn`."""

# Compiling a step takes one minute on a core. With GRUs a CPU spends its time in matrix products and in an operator of
# its own (fp3o/networks/recurrent.py): compiling wins 7 to 13 % on one thread (ARM), less than further threads win.
SAMPLES_THAT_REPAY_COMPILING = 2_000_000
SAMPLES_THAT_REPAY_IT_WITH_GRUS = 20_000_000
# The first version of torch known to compile right programs for CPUs: those of 2.11 moved parameters of heads wrongly,
# on ARM and on x86-64. Where they are asked for all the same, wrong ones are refused (`check_against_eager.py`).
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
    """Read from older files alone, where it chose between two forms of the same compiled policy."""
    processor: str = ""
    """Architecture, vector instructions that torch uses, GPU; empty in older files."""
    acts_on: ActsOn = "cpu"
    """Where policies act; on a GPU as a graph of plain or compiled operations."""

    @property
    def steps(self) -> Callable[[Stepper], Steps]:
        """The form of the gradient steps."""
        if self.mode == "graph":
            return GraphSteps
        if self.mode == "compiled":
            return CompiledSteps
        if self.step_threads > 1:
            return partial(ThreadedSteps, threads=self.step_threads)
        return lambda stepper: stepper

    @property
    def step_threads(self) -> int:
        """Threads of eager gradient steps on a CPU; 1 in all other forms."""
        return (self.threads or processors()) if (self.mode, self.device) == ("eager", "cpu") else 1

    @property
    def policy_class(self) -> type[Policy]:
        return Policy if self.acts_on == "cpu" else GpuPolicy

    def policy(self, actor: Actor, replicas: int, slots: int) -> Policy:
        """A policy that computes its steps in the fastest form; a `policy_class` itself computes them plainly."""
        policy = self.policy_class(actor, replicas, slots)
        if self.acts_on == "cuda-compiled":
            policy.compute = compiled(policy.forward)
        elif self.acts_on == "cpu" and self.mode != "eager":
            policy.compute = compiled_once(policy.forward)
        return policy

    def replayed(self, run: Callable[[], None]) -> Callable[[], object]:
        """A form of a function whose inputs and outputs stay at fixed addresses."""
        return run if self.acts_on == "cpu" else capture(run, lambda: None)[0].replay

    @property
    def possible(self) -> bool:
        """Whether this machine can execute like this; results are then equal bit for bit on the same processor type."""
        has_gpu = torch.cuda.is_available()
        return (
            self.torch == torch.__version__
            and (has_gpu or self.device == "cpu")
            and (self.mode == "eager" or why_not_compiled() is None)
        )

    def __str__(self) -> str:
        return f"{self.mode} on {self.device}: {self.reason}"

    def record(self) -> dict[str, Any]:
        """`path` of run.json."""
        names = ("mode", "device", "torch", "acts_on", "reason")
        return {name: getattr(self, name) for name in names}


def choose(plan: Plan, compute: Compute) -> Execution:
    """The execution of a new run: by default the fastest one, unless the run is too short to repay compiling."""
    device, path = compute.device, compute.path
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise UserError("--device cuda: torch sees no GPU; allowed: auto, cpu")
    on: Literal["cpu", "cuda"] = "cuda" if has_gpu and device != "cpu" else "cpu"
    settings = plan.settings
    samples = plan.iterations * settings.epochs * settings.rollout_length * settings.rollout_threads
    mode: Mode
    if path == "eager":
        mode, reason = "eager", "asked for"
    elif obstacle := why_not_compiled():
        if path == "compiled":
            raise UserError(f"--path compiled: {obstacle}; allowed: auto, eager")
        mode, reason = "eager", obstacle
    elif path == "auto" and samples < SAMPLES_THAT_REPAY_COMPILING:
        mode, reason = "eager", f"passes over {samples:,} samples do not repay compiling"
    elif path == "auto" and on == "cpu" and torch.__version__ < SOUND_ON_CPUS:  # compared as versions
        mode, reason = "eager", f"torch before {SOUND_ON_CPUS} compiles some steps wrongly for CPUs"
    elif path == "auto" and on == "cpu" and settings.recurrent and (compute.threads or processors()) > 1:
        mode, reason = "eager", "with GRUs a CPU gains more by threads than by compiling"
    elif path == "auto" and on == "cpu" and settings.recurrent and samples < SAMPLES_THAT_REPAY_IT_WITH_GRUS:
        mode, reason = "eager", f"passes over {samples:,} samples do not repay compiling with GRUs on a CPU"
    else:
        mode = "graph" if on == "cuda" else "compiled"
        reason = "asked for" if path == "compiled" else f"passes over {samples:,} samples repay compiling"
    if on == "cuda":
        cache_folder()  # before the first kernel, or Triton would choose another
    mps = has_mps()
    acts_on = place_to_act(mode, on, os.environ.get(ACTING, "auto"), compiled=mps or not settings.recurrent)
    if acts_on != "cpu":
        reason += f"; acting on the GPU, MPS {'on' if mps else 'off'}"
    return Execution(mode, on, torch.__version__, compute.threads, reason, processor=_processor(on), acts_on=acts_on)


def place_to_act(mode: Mode, device: str, asked: str, compiled: bool = False) -> ActsOn:
    """Where policies act. asked: the value of the environment variable; compiled: whether that pays on a GPU.

    Measured on H200 machines: a lock-step of 320 agents with GRUs (3s5z, five seeds) takes 0.9 ms on a core, one of 120
    agents without (HalfCheetah) 0.3 ms, after a minute of compiling; on the GPU, as a graph of plain operations, either
    takes 0.2 ms. Compiled there are fewer operations: training on HalfCheetah is 7 % faster, at half a second more to
    start. With twelve cells of 3s5z at the same time the GPU's answer took 0.6 ms, and 0.3 ms compiled; alone it is no
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
