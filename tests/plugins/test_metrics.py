"""Metrics of an environment's own, from its infos and rewards to records, tables and plots; Gymnasium's tuples."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Tuple

import fp3o
from fp3o import cli
from fp3o.cli.evaluate import summary
from fp3o.config import Cell, resolve
from fp3o.config.metrics import declared_metrics, parse_metrics, written
from fp3o.config.options import PettingzooOptions
from fp3o.envs import make
from fp3o.envs.interface import slot_seeds
from fp3o.envs.pettingzoo import check
from fp3o.envs.pettingzoo.examine import examine
from fp3o.envs.pettingzoo.metrics import EpisodeNumbers, columns_of, requested
from fp3o.envs.pettingzoo.spaces import Description, Unfit
from fp3o.envs.pettingzoo.tuples import as_parallel, has_tuples
from fp3o.errors import UserError
from fp3o.registry import load_file
from fp3o.report import sheets
from fp3o.runs import layout, records
from fp3o.statistics import own_metrics
from fp3o.statistics.scores import CellRuns, Planned, load_run

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "harvest.py"
AGENTS = Description(("scout_0", "guard_0", "guard_1"), (1, 2, 2), "categorical", ((2,),) * 3, (0, 1, 1), 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("caught", "unknown metric 'caught' in metrics; allowed: name:how or name:how:whose"),
        ("caught:type", "unknown metric 'caught' in metrics"),
        ("a:sum:team:b", "'a:sum:team:b' is not understood"),
        ("caught:often", "'caught:often' is not allowed; allowed: name:how or name:how:whose, how = sum, mean, last"),
        ("caught:sum:everyone", "whose = team, agent, type"),
        ("return:sum", "'return' is recorded in any case"),
        ("length:max", "'length' is recorded in any case"),
        ("a:sum,a:mean", "'a' is asked for twice"),
    ],
)
def test_an_option_that_is_not_understood_is_one_line(text: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        PettingzooOptions(metrics=text)


def test_metrics_are_part_of_the_digest_and_absent_ones_are_not() -> None:
    cell = Cell.parse("pettingzoo/simple-spread/full/mappo")
    plain, measured = resolve(cell), resolve(cell, {"metrics": "caught:sum"})
    assert plain.digest != measured.digest
    assert "metrics" not in plain.configuration()["options"]
    assert declared_metrics({"caught": "sum", "return": "sum:type"}) == "caught:sum,return:sum:type"
    assert written(parse_metrics(" caught : sum , x:last:agent ")) == "caught:sum,x:last:agent"


def test_columns_and_numbers_of_an_episode() -> None:
    metrics = parse_metrics("food:sum,food:max:agent,return:sum:type,rare:last,seen:mean")
    columns = columns_of(metrics, AGENTS)
    assert [column.label for column in columns] == [
        "food", "food/scout_0", "food/guard_0", "food/guard_1", "return/scout", "return/guard", "rare", "seen",
    ]  # fmt: skip
    numbers = EpisodeNumbers(columns)
    numbers.add({"scout_0": 1.0, "guard_0": 2.0, "guard_1": 4.0}, {"scout_0": {"food": 3}, "guard_0": {"food": 1}})
    numbers.add({"scout_0": 1.0, "guard_0": 2.0}, {"guard_0": {"food": True, "seen": 0.5}, "guard_1": None})
    assert numbers.values()[:6] == [3.0, 3.0, 1.0, pytest.approx(math.nan, nan_ok=True), 2.0, 4.0]
    assert math.isnan(numbers.values()[6])
    assert numbers.values()[7] == 0.5
    numbers.begin()
    assert all(math.isnan(value) for value in numbers.values())
    for value, told in (("much", "is no number"), (math.inf, "is NaN or infinite")):
        with pytest.raises(Unfit, match=f"infos of scout_0: food.*{told}"):
            numbers.add({}, {"scout_0": {"food": value}})


def test_rewards_of_their_own_are_recorded_by_agent_in_any_case() -> None:
    assert requested(PettingzooOptions()) == ()
    assert written(requested(PettingzooOptions(reward="own"))) == "return:sum:agent"
    asked = PettingzooOptions(reward="own", metrics="return:max:agent")
    assert written(requested(asked)) == "return:max:agent"


DECLARED = """
import fp3o

@fp3o.metric("longest")
def longest(rewards, infos):
    return max((len(steps) for steps in infos.values() if "stop" not in steps[-1]), default=None)

@fp3o.metric("wrong")
def wrong(rewards, infos):
    return {"scout_0": 0.0, "guard_0": "much"}.get(*rewards) if len(rewards) == 1 else infos["nobody"]
"""


def test_a_function_of_an_episode(write: Callable[[str, str], Path]) -> None:
    load_file(write("longest.py", DECLARED))
    assert declared_metrics({"longest": "team", "caught": "sum"}) == "longest,caught:sum"
    assert written(parse_metrics("longest:team,longest : type")) == "longest,longest:type"
    numbers = EpisodeNumbers(columns := columns_of(parse_metrics("longest,longest:type"), AGENTS))
    assert [column.label for column in columns] == ["longest", "longest/scout", "longest/guard"]
    numbers.add({"scout_0": 1.0}, {"scout_0": None})
    numbers.add({}, {"scout_0": {"stop": 1}})
    assert numbers.values() == [2.0, pytest.approx(math.nan, nan_ok=True), 2.0]
    for text, told in (
        ("wrong", "metric wrong fails: KeyError: 'nobody'"),
        ("wrong:agent", "wrong/guard_0 = 'much'"),
    ):
        numbers = EpisodeNumbers(columns_of(parse_metrics(text), AGENTS))
        with pytest.raises(Unfit, match=told):
            numbers.values()
    with pytest.raises(
        UserError, match=r"unknown metric 'longst' in metrics; allowed: longest, .*did you mean longest"
    ):
        parse_metrics("longst")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("@fp3o.metric('return')\ndef a(rewards, infos): return 0", "metric 'return': a name may hold"),
        ("@fp3o.metric('a')\ndef a(episode): return 0", "metric 'a': allowed: a function of rewards and infos"),
        ("def f():\n    @fp3o.metric('a')\n    def a(rewards, infos): return 0\nf()", "must stand at the top"),
    ],
)
def test_functions_that_cannot_be_metrics(source: str, told: str, write: Callable[[str, str], Path]) -> None:
    with pytest.raises(UserError, match=told):
        load_file(write("a.py", f"import fp3o\n{source}\n"))


class Crates(gymnasium.Env):
    """Three agents; the reward of each is its action, the episode ends after two steps."""

    observation_space = Tuple([Box(0.0, 9.0, (2,))] * 3)
    action_space = Tuple([Discrete(3)] * 3)
    rewards: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps, self.start = 0, float(self.np_random.integers(9))
        return tuple(np.full(2, self.start, np.float32) for _ in range(3)), {}

    def step(self, actions: Any) -> Any:
        self.steps += 1
        rewards = self.rewards if self.rewards is not None else [float(action) for action in actions]
        info = {"moved": 1.0, "load": list(actions), "action_mask": np.ones((3, 3), bool)}
        seen = tuple(np.full(2, self.start, np.float32) for _ in range(3))
        return seen, rewards, [self.steps >= 2] * 3, False, info


def test_tuples_become_agents() -> None:
    env = as_parallel(Crates())
    seen, infos = env.reset(seed=3)
    assert list(seen) == env.agents == ["agent_0", "agent_1", "agent_2"]
    assert infos == {agent: {} for agent in env.agents}
    actions = dict(zip(env.agents, (0, 1, 2), strict=True))
    _, rewards, terminated, truncated, infos = env.step(actions)
    assert list(rewards.values()) == [0.0, 1.0, 2.0]
    assert (infos["agent_2"]["load"], infos["agent_2"]["moved"]) == (2, 1.0)
    assert infos["agent_1"]["action_mask"].shape == (3,)
    assert not any((*terminated.values(), *truncated.values()))
    assert all(env.step(actions)[2].values())
    assert env.agents == []


def test_tuples_that_do_not_fit_are_named() -> None:
    crates = Crates()
    crates.rewards = 1.0
    env = as_parallel(crates)
    env.reset(seed=0)
    with pytest.raises(Unfit, match="rewards have one number for 3 agents"):
        env.step(dict.fromkeys(env.agents, 0))
    crates.observation_space = Box(0.0, 1.0, (2,))  # type: ignore[assignment]
    with pytest.raises(Unfit, match=r"its action space is a tuple of 3, its observation space Box.* not"):
        as_parallel(crates)
    assert not has_tuples(gymnasium.make("CartPole-v1"))


def test_gymnasium_makes_one_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "crates", sys.modules[__name__])
    gymnasium.register("Crates-v0", entry_point=f"{__name__}:Crates", max_episode_steps=5)
    try:
        findings = list(examine("gymnasium:make", {"id": "Crates-v0", "disable_env_checker": True}))
    finally:
        del gymnasium.registry["Crates-v0"]
    told = "\n".join(text for _, text in findings)
    assert not [text for verdict, text in findings if verdict == "no"]
    assert "3 agents: agent_0, agent_1, agent_2" in told
    assert "parallel_api_test passes" in told
    assert "can record (--set metrics): load, moved" in told
    assert "--set metrics=return:sum:agent" in told


@pytest.fixture
def harvest() -> None:
    load_file(EXAMPLE)


@pytest.mark.usefixtures("harvest")
def test_the_example_fits_and_plays() -> None:
    report = check("harvest")
    assert report.fits, report.lines
    plan = resolve(Cell.parse("pettingzoo/harvest/full/mappo"))
    env = make("pettingzoo", "harvest", 2, auto_reset=False, threads=1, options=plan.options)
    try:
        assert env.spec.metrics == ("fruit", "idle/agent_0", "idle/agent_1", "return/agent_0", "return/agent_1")
        env.reset(slot_seeds(0, "test", 2))
        while True:
            step = env.step(np.tile([[[1], [0]]], (2, 1, 1)))
            if step.episodes:
                break
    finally:
        env.close()
    for episode in step.episodes:
        assert episode.metrics["return/agent_0"] == episode.total_return == 8.0
        assert episode.metrics["return/agent_1"] == 0.0
        assert (episode.metrics["idle/agent_0"], episode.metrics["idle/agent_1"]) == (0.0, 1.0)
        assert episode.metrics["fruit"] == 10.0
    told = "\n".join(summary(step.episodes))
    assert "return per agent" not in told
    assert "return/agent_1  0 " in told


@pytest.mark.usefixtures("harvest", "one_worker")
def test_metrics_go_from_training_to_tables_and_plots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load_file(EXAMPLE.with_name("fairness.py"))
    few: dict[str, Any] = {
        "metrics": "fruit:last,idle:mean:agent,fairness",
        "total_steps": 96,
        "rollout_threads": 2,
        "evaluation_episodes": 2,
        "evaluation_interval": 1,
        "epochs": 1,
    }
    folders = fp3o.train("pettingzoo/harvest/full/mappo", [0, 1], few, tmp_path / "runs", quiet=True)
    run = folders[0]
    columns = [*records.EVALUATION_COLUMNS, "fruit", "idle/agent_0", "idle/agent_1", "fairness"]
    columns += ["return/agent_0", "return/agent_1"]
    assert list(run.evaluations) == columns
    each = np.stack([run.evaluations[f"return/agent_{number}"] for number in range(2)])
    assert each.sum(0) == pytest.approx(run.evaluations["return"])
    assert run.evaluations["fairness"] == pytest.approx(each.min(0) / each.max(0), rel=1e-5)
    used = resolve(Cell.parse(run.cell), few).configuration()["plugins"]
    assert used.keys() == {"environment", "metric fairness"}
    last = run.evaluations["env_steps"] == run.evaluations["env_steps"].max()
    assert run.score["metrics"]["fruit"] == pytest.approx(run.evaluations["fruit"][last].mean(), rel=1e-5)
    ids = [layout.RunId(one.cell, one.digest, one.seed) for one in folders]
    loaded = tuple(load_run(one.path, name) for one, name in zip(folders, ids, strict=True))
    cell = CellRuns(Planned(run.cell, run.digest, (0, 1)), loaded)
    note = own_metrics.sentence(cell)
    assert f", fruit {own_metrics.mean_of(cell, 'fruit')}, idle/agent_0" in note
    assert f"{run.cell}: fairness {own_metrics.mean_of(cell, 'fairness')}" in note
    sheet = sheets.metrics(cell)
    assert sheet is not None
    assert sheet.header == ["Metric", "Mean ± deviation", "seed 0", "seed 1"]
    assert [row[0] for row in sheet.rows] == sorted(columns[len(records.EVALUATION_COLUMNS) :])
    assert "its score is the sum over agents, whose rewards differ" in note
    assert load_run(run.path, ids[0], "fruit").curve.value[-1] == pytest.approx(run.score["metrics"]["fruit"], rel=1e-5)
    monkeypatch.chdir(tmp_path)
    for arguments, code, said in (
        (["plot", "runs", "--metric", "idle/agent_1"], 0, "idle/agent_1, up to 96 steps"),
        (["plot", "runs", "--metric", "fairness"], 0, "fairness, up to 96 steps"),
        (["plot", "runs", "--metric", "fruits"], 2, "has no metric 'fruits'; allowed: return, return_per_agent, won, "),
        (["compare", "runs/pettingzoo", "runs", "--metric", "fruit"], 0, "score: fruit of deterministic evaluation"),
    ):
        with pytest.raises(SystemExit) as left:
            cli.main(arguments)
        shown = capsys.readouterr()
        assert (left.value.code or 0) == code, shown
        assert said in shown.out + shown.err
