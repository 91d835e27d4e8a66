"""The public API: it changes only on purpose, explains itself, costs nothing to import, and its page is true."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fp3o
from fp3o.registry import ALGORITHMS

PAGE = Path(__file__).parents[2] / "docs" / "python.md"

# A change here is a change for every user: it belongs into CHANGELOG.md, and breaking ones need a new first number.
SIGNATURES = """
ActorBatch
ActorBatch.action
ActorBatch.advantage
ActorBatch.alive
ActorBatch.available
ActorBatch.clip_range
ActorBatch.entropy
ActorBatch.inputs
ActorBatch.kl
ActorBatch.location
ActorBatch.log_prob
ActorBatch.observation
ActorBatch.old_location
ActorBatch.old_log_prob
ActorBatch.old_std
ActorBatch.old_value
ActorBatch.ratio
ActorBatch.returns
ActorBatch.std
ActorBatch.surrogate
ActorBatch.weight
BatchEnv
BatchEnv.bind_output_buffers(self, arrays: Mapping[str, NDArray[Any]]) -> None
BatchEnv.close(self) -> None
BatchEnv.has_kernels
BatchEnv.identity(self) -> dict[str, Any]
BatchEnv.load_state_dict(self, state: dict[str, NDArray[Any]]) -> None
BatchEnv.lost_episodes
BatchEnv.own_threads
BatchEnv.reset(self, seeds: Seeds) -> Snapshot
BatchEnv.restarts
BatchEnv.snapshot(self) -> Snapshot
BatchEnv.state_dict(self) -> dict[str, NDArray[Any]]
BatchEnv.step(self, actions: NDArray[Any]) -> Transition
Callback()
Callback.advance(self, env_steps: int) -> bool | None
Callback.begin(self, env_steps: int) -> None
Callback.compiling(self, number: int) -> None
Callback.end(self) -> None
Callback.evaluated_policy(self, seed: int, records: Sequence[Record], tensors: Tensors) -> None
Callback.evaluation(self, seed: int, records: Sequence[Record]) -> bool | None
Callback.final(self, seed: int, records: Sequence[Record]) -> None
Callback.finished(self, seeds: Sequence[int], state: Path) -> None
Callback.finishes
Callback.iteration(self, seed: int, record: Record) -> bool | None
Callback.may_stop
Callback.say(self, text: str) -> None
Callback.timed(self, iteration: int, seconds: Mapping[str, float]) -> None
Callback.updated_policy(self, seed: int, iterations: int, env_steps: int, tensors: Tensors) -> None
Context
Context.advantage
Context.env_steps
Context.fraction
Context.iteration
Context.log_ratio
Context.next_value
Context.own(self, kind: type[T]) -> T
Context.raw_advantage
Context.returns
Context.rollout
Context.setting(self, name: str) -> Any
Context.settings
Context.snapshot
Context.state
Context.uniform
Context.value
CriticBatch
CriticBatch.alive
CriticBatch.inputs
CriticBatch.loss
CriticBatch.old_value
CriticBatch.returns
CriticBatch.state
CriticBatch.target
CriticBatch.value
Episode
Episode.length
Episode.metrics
Episode.return_per_agent
Episode.slot
Episode.total_return
Episode.won
Inputs
Inputs.choices
Inputs.rest
Inputs.shape
Inputs.split(self, rows: Tensor) -> tuple[Tensor, Tensor]
Rollout
Rollout.action
Rollout.alive
Rollout.available
Rollout.continues
Rollout.hidden_actor
Rollout.hidden_critic
Rollout.keep
Rollout.location
Rollout.log_prob
Rollout.next_value
Rollout.observation
Rollout.reward
Rollout.state
Rollout.value
Run(path: str | Path, *, trust: bool = False) -> None
Run.cell
Run.digest
Run.evaluations
Run.final
Run.iterations
Run.make_env(self, slots: int = 8, *, auto_reset: bool = True) -> BatchEnv
Run.score
Run.seed
Run.settings
Run.status
Run.team(self, env: Any = None, *, seed: int = 0, checkpoint: str | Path | None = None) -> Team
Setting(default: Scalar, meaning: str = , least: float = -1e+38, greatest: float = 1e+38) -> None
Setting.greatest
Setting.least
Setting.meaning
StopAtReturn(value: float, column: Column = return) -> None
StopAtReturn.evaluation(self, seed: int, records: Sequence[Record]) -> bool
StopAtReturn.finishes
StopAtReturn.may_stop
StopWithoutProgress(evaluations: int, least: float = 0.0, column: Column = return) -> None
StopWithoutProgress.evaluation(self, seed: int, records: Sequence[Record]) -> bool
StopWithoutProgress.finishes
StopWithoutProgress.may_stop
Table
Table.to_pandas(self) -> Any
Team
Team.act(self, observations: ArrayLike | Mapping[str, Any] | Sequence[Mapping[str, Any]], memory:
    NDArray[np.float32] | None = None, available: ArrayLike | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    = None, deterministic: bool = True) -> tuple[Any, NDArray[np.float32] | None]
Team.log_prob(self, observations: ArrayLike, actions: ArrayLike, memory: NDArray[np.float32] | None = None,
    available: ArrayLike | None = None) -> NDArray[np.float32]
Team.to_torch(self) -> TorchTeam
Team.value(self, states: ArrayLike, memory: NDArray[np.float32] | None = None) -> tuple[NDArray[np.float32],
    NDArray[np.float32] | None]
TensorBoard(folder: str | Path) -> None
TensorBoard.end(self) -> None
TensorBoard.evaluation(self, seed: int, records: Sequence[Record]) -> None
TensorBoard.iteration(self, seed: int, record: Record) -> None
TorchTeam
TorchTeam.distribution(self, observation: Tensor, available: Tensor | None = None, memory: Tensor | None = None)
    -> tuple[Distribution, Tensor | None]
TorchTeam.forward(self, observation: Tensor, available: Tensor | None = None, memory: Tensor | None = None) ->
    Acted
TorchTeam.log_prob(self, observation: Tensor, action: Tensor, available: Tensor | None = None, memory: Tensor |
    None = None) -> Tensor
TorchTeam.to_onnx(self, path: str | Path) -> None
TorchTeam.value(self, state: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor | None]
Turn
Turn.advantage
Turn.agents
Turn.clip
Turn.clip_others
Turn.clip_range
Turn.critic_loss
Turn.epochs
Turn.go
Turn.inputs
Turn.learn
Turn.learners
Turn.loss
Turn.ordinal
Turn.others
Turn.records
Turn.returns
Turn.weight
UserError
WeightsAndBiases(folder: str | Path, name: str, config: Mapping[str, Any] | None = None, project: str | None = None)
    -> None
WeightsAndBiases.end(self) -> None
WeightsAndBiases.evaluation(self, seed: int, records: Sequence[Record]) -> None
WeightsAndBiases.iteration(self, seed: int, record: Record) -> None
algorithm(name: str, *, title: str = , colour: str = ,
    settings: Mapping[str, Scalar | Setting] | type[Any] | None = None,
    critic_input: Literal[state, observation] = state, state: Mapping[str, Any] | None = None,
    check: Callable[[Any, str, int], str] | None = None) -> Callable[[Turns], Turns]
environment(name: str, *, settings: Mapping[str, Scalar] | None = None,
    metrics: Mapping[str, str] | None = None) -> Callable[[T], T]
metric(name: str) -> Callable[[T], T]
network(name: str, *, critic: type[Any] | None = None) -> Callable[[C], C]
play(run: Run | str | Path, episodes: int = 10, seed: int = 0) -> list[Episode]
runs(root: str | Path, cell: str = *, *, trust: bool = False) -> list[Any]
train(cell: str, seeds: Iterable[int] = range(0, 5), settings: Mapping[str, Scalar] | None = None, out: str |
    Path = runs, callbacks: Sequence[Callback] = (), *, device: Literal[auto, cpu, cuda] = auto, path: Literal[auto,
    eager, compiled] = auto, threads: int = 0, allow_path_change: bool = False, keep_state: bool = False,
    checkpoint_every: int = 0, keep_best: bool = False, timings: str | Path | None = None, suite: str | None = None,
    start_from: str | Path | Run | None = None, quiet: bool = False) -> list[Run]
"""


def written(thing: Any) -> str:
    """A signature as the source has it: annotations are texts."""
    return str(inspect.signature(thing)).replace("'", "").replace('"', "")


CONSTRUCTED = (
    "Callback",
    "Run",
    "Setting",
    "StopAtReturn",
    "StopWithoutProgress",
    "TensorBoard",
    "WeightsAndBiases",
)  # other objects come from functions


def members() -> Iterator[tuple[str, Any, str]]:
    """Name, object and signature of everything public."""
    for name in fp3o.__all__:
        thing = getattr(fp3o, name)
        if name != "__version__":
            yield name, thing, written(thing) if name in CONSTRUCTED or not inspect.isclass(thing) else ""
        for member, found in own_members(thing) if inspect.isclass(thing) else ():
            if not member.startswith("_"):
                yield f"{name}.{member}", found, written(found) if inspect.isfunction(found) else ""


def own_members(thing: type) -> Iterator[tuple[str, Any]]:
    """What a class has beyond its public bases: also what it inherits from bases of ours without a public name."""
    hidden = [
        base for base in thing.__mro__[1:] if base.__module__.startswith("fp3o.") and not hasattr(fp3o, base.__name__)
    ]
    for owner in (thing, *hidden):
        yield from vars(owner).items()


def test_names_and_signatures() -> None:
    assert fp3o.__all__ == sorted(fp3o.__all__)
    assert set(fp3o.__all__) <= set(dir(fp3o))
    found = {f"{name}{signature}" for name, _, signature in members()}
    assert "\n".join(sorted(found)) == re.sub(r"\n +", " ", SIGNATURES.strip())


def test_everything_public_has_a_docstring() -> None:
    assert [name for name, thing, _ in members() if not inspect.getdoc(thing)] == []


def test_fields_say_what_they_are() -> None:
    vague = [name for name, thing, _ in members() if (inspect.getdoc(thing) or "").startswith("Alias for field")]
    assert [
        name for name in vague if name.startswith(("Turn", "Context", "Rollout", "ActorBatch", "CriticBatch"))
    ] == []


def test_importing_costs_nothing() -> None:
    """Reading runs needs no torch."""
    program = (
        "import sys, fp3o; first = set(sys.modules); fp3o.Run, fp3o.runs, fp3o.Callback; "
        "print(*sorted({'numpy', 'torch', 'yaml'} & first), *sorted({'torch', 'gymnasium'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "\n"
    with pytest.raises(AttributeError, match="has no attribute 'sing'"):
        fp3o.sing  # noqa: B018


def test_the_page_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 9
    try:
        exec(compile("\n".join(blocks), str(PAGE), "exec"), {"__name__": "page"})
    finally:  # The page's own algorithm is not for other tests.
        ALGORITHMS.pop("patient", None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("matrix/climbing/full/mappo 0 finished ")
    assert lines[1] == "0.2"
    played, own = lines[5].split()[0], lines[15]
    assert float(played) == pytest.approx(float(own))
    assert lines[16:18] == ["[]", "11"]
    assert re.fullmatch(r"\[<fp3o\.Run matrix/climbing/full/mappo \w{10} seed 0, finished>\]", lines[18])
    assert lines[19] in ("stopped True", "finished True")
    assert re.fullmatch(r"\[<fp3o\.Run matrix/climbing/none/patient \w{10} seed 0, finished>\]", lines[20])
