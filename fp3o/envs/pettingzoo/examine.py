"""Examine a user-supplied environment: `python -m fp3o.envs.pettingzoo.examine ORDER` (JSON; see `main`).

A program of its own, started by `check`, because user-supplied code may crash or hang. Prints a finding per line, as
JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from fp3o.config import Cell, resolve
from fp3o.envs.pettingzoo.check import END
from fp3o.envs.pettingzoo.child import leave_with_parent
from fp3o.envs.pettingzoo.factory import build, load_factory
from fp3o.envs.pettingzoo.spaces import Description, Translator, Unfit, check_rewards, describe, split_mask
from fp3o.machine import memory_bytes
from fp3o.registry import failure

STEPS = 200
SEEDS = 5  # `fp3o train` trains this many side by side by default
NUMBERS = (bool, int, float, np.bool_, np.number)
MUCH = 2e9  # bytes of a rollout from which on its memory is mentioned
Finding = tuple[Literal["yes", "no", "note"], str]


def examine(name: str, arguments: dict[str, Any]) -> Iterator[Finding]:
    """All findings, in the order in which they are made; takes a few seconds."""
    doing = "looking at its agents and spaces, and a first reset(seed=0),"
    try:
        factory = load_factory(name, arguments)
        env = build(factory)
        description = describe(env)
        yield from _sizes(env, description)
        doing = "playing random actions"
        yield from _play(env, description)
        yield from _repeat(build(factory), description)
    except Unfit as unfit:
        yield ("no", str(unfit))
    except Exception as error:
        yield ("no", f"{doing} fails: {failure(error)}")
    else:
        yield from _api_test(build(factory))


def _sizes(env: Any, description: Description) -> Iterator[Finding]:
    agents = description.agents
    yield ("yes", f"{len(agents)} agents: {', '.join(map(str, agents))}")
    seen = description.observations
    padded = f"; shorter ones are padded to {max(seen)}" if len(set(seen)) > 1 else ""
    yield ("yes", f"observations of {', '.join(map(str, dict.fromkeys(seen)))} numbers{padded}")
    if any(len(split_mask(env.observation_space(a))[0].shape or ()) > 1 for a in agents):
        axes = " × ".join(map(str, description.shape)) or "of different shapes"
        seen_by = "fp3o.Inputs.split gives them to a network of yours" if description.shape else "networks see rows"
        yield ("note", f"observations are images or tables, {axes}: the standard network flattens them, {seen_by}")
    if description.kind == "gaussian":
        dimensions = [c[0] for c in description.choices]
        yield ("yes", f"continuous actions of {', '.join(map(str, dict.fromkeys(dimensions)))} dimensions")
        if not all(env.action_space(a).is_bounded() for a in agents):
            yield ("note", "some actions have no finite bounds: they are passed through unscaled")
        elif not all(np.all(np.abs([env.action_space(a).low, env.action_space(a).high]) == 1.0) for a in agents):
            yield ("note", "action bounds are not ±1: the policy's [−1, 1] is rescaled to them")
    else:
        words = dict.fromkeys(" × ".join(map(str, c)) for c in description.choices)
        yield ("yes", f"discrete actions: {', '.join(words)} choices")
    if len(set(description.types)) > 1:
        yield (
            "note",
            f"agents are of {len(set(description.types))} types; sharing full still uses one network for all",
        )
    if description.state:
        yield ("yes", f"the critic sees the environment's state(), {description.state} numbers")
    else:
        yield ("note", f"it has no state(): the critic sees all agents' observations, {description.joint} numbers")
    yield from _memory(description)


def _memory(description: Description) -> Iterator[Finding]:
    """Memory of a rollout's observations and states: with pictures, easily more than a machine has."""
    settings = resolve(Cell.parse("pettingzoo/any/full/fp3o"), {"env": "any:env"}).settings
    agents, steps = len(description.agents), settings.rollout_length * settings.rollout_threads
    numbers = agents * (max(description.observations) + agents + description.joint)
    need, have = 4 * numbers * steps * SEEDS, memory_bytes()
    if need < MUCH:
        return
    yield (
        "no" if need > have else "note",
        f"a rollout needs {need / 1e9:.0f} GB ({SEEDS} seeds, {steps} steps each), this machine has {have / 1e9:.0f}: "
        "smaller observations, or --seeds 0 and a shorter --set rollout_length, need less",
    )


def _random_actions(
    env: Any, translator: Translator, description: Description, seen: Any, infos: Any, seed: int
) -> dict[str, Any]:
    actions = {}
    generator = np.random.default_rng(seed)
    for position, agent in enumerate(description.agents):
        if agent not in env.agents:
            continue
        if description.kind == "gaussian":
            row = generator.uniform(-1.0, 1.0, description.sizes[0])
        else:
            legal = translator.legal(position, seen.get(agent), infos.get(agent))
            edges = np.cumsum((0, *description.sizes))
            row = np.array([generator.choice(np.flatnonzero(legal[a:b])) for a, b in pairwise(edges)])
        actions[agent] = translator.action(position, row)
    return actions


def _play(env: Any, description: Description) -> Iterator[Finding]:
    """A few hundred random steps: shapes, numbers, rewards, leaving agents, ends of episodes, speed."""
    translator = Translator(env, description)
    seen, infos = env.reset(seed=1)
    alike, left_early, ends, length, longest = True, False, 0, 0, 0
    told: set[str] = set()  # names of numbers in the infos
    paid, shared = False, False  # whether any agent got a reward, and whether the sum over agents was ever not 0
    begin = time.perf_counter()
    for step in range(STEPS):
        acting = list(env.agents)
        actions = _random_actions(env, translator, description, seen, infos, step)
        result = env.step(actions)
        if len(result) != 5:
            raise Unfit(f"step returns {len(result)} things; it must return 5 dictionaries (observations … infos)")
        seen, rewards, terminations, truncations, infos = result
        for position, agent in enumerate(description.agents):
            if agent in seen:
                translator.observation(position, seen[agent])
        check_rewards(rewards, description.agents)
        told |= {name for info in infos.values() for name, value in info.items() if isinstance(value, NUMBERS)}
        paid |= any(float(reward) for reward in rewards.values())
        shared |= abs(sum(float(reward) for reward in rewards.values())) > 1e-6
        alike &= len({round(float(rewards.get(a, 0.0)), 9) for a in acting}) <= 1
        over = [a for a in acting if terminations.get(a, False) or truncations.get(a, False)]
        length += 1
        if len(over) == len(acting):
            ends, longest, length = ends + 1, max(longest, length), 0
            seen, infos = env.reset(seed=step)
        elif over:
            left_early = True
    rate = STEPS / (time.perf_counter() - begin)
    yield ("yes", f"{STEPS} random steps passed, {ends} episodes ended; one environment runs at {rate:.0f} steps/s")
    if told:
        yield ("note", f"numbers in its infos that evaluations can record (--set metrics): {', '.join(sorted(told))}")
    if not ends:
        yield ("note", f"no episode ended within {STEPS} steps; episodes are cut at episode_limit (default 1000)")
    if left_early:
        yield ("note", "agents leave before the episode ends: they count as not alive from then on")
    if not paid:
        yield ("note", f"every reward in {STEPS} random steps was 0")
    elif not shared:
        yield (
            "note",
            "rewards sum to 0 over the agents in every step, as in a zero-sum game: their mean and sum are "
            "always 0, so nothing is learned; --set reward=own trains each agent on its own reward",
        )
    elif not alike:
        yield (
            "note",
            "agents get different rewards: they are trained on the mean (--set reward=mean, sum or own); "
            "--set metrics=return:sum:agent records the return of each",
        )


def _repeat(env: Any, description: Description) -> Iterator[Finding]:
    """Whether the same seed and actions give the same numbers twice."""
    translator = Translator(env, description)
    runs = []
    for _ in range(2):
        seen, infos = env.reset(seed=7)
        frames = [seen]
        for step in range(20):
            if not env.agents:
                break
            seen, _, _, _, infos = env.step(_random_actions(env, translator, description, seen, infos, step))
            frames.append(seen)
        runs.append(frames)
    same = len(runs[0]) == len(runs[1]) and all(
        np.array_equal(translator.observation(i, one[a]), translator.observation(i, two[a]))
        for one, two in zip(*runs, strict=False)
        for i, a in enumerate(description.agents)
        if a in one and a in two
    )
    if same:
        yield ("yes", "the same seed and actions give the same observations: runs can be repeated")
    else:
        yield ("note", "the same seed and actions give different observations: runs cannot be repeated exactly")


def _api_test(env: Any) -> Iterator[Finding]:
    from pettingzoo.test import parallel_api_test

    try:
        parallel_api_test(env, num_cycles=50)
        yield ("yes", "PettingZoo's own parallel_api_test passes")
    except Exception as error:
        yield ("note", f"PettingZoo's own parallel_api_test complains: {failure(error)}")


def main() -> None:
    leave_with_parent()
    # What the environment prints must not mix with the findings: it is redirected to the error stream.
    with os.fdopen(os.dup(1), "w") as output:
        os.dup2(2, 1)
        told = json.loads(sys.argv[1])
        sys.path[:] = told["path"]
        warnings.simplefilter("ignore")
        for verdict, text in examine(told["env"], told["arguments"]):
            print(json.dumps([verdict, " ".join(text.split())]), file=output, flush=True)
        print(json.dumps(END), file=output, flush=True)


if __name__ == "__main__":
    main()
