"""Films of user-supplied environments, which draw themselves by `render()`; played here, in this process.

The episodes are those of `fp3o evaluate`: the same seeds, the same actions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp3o.config import Cell
from fp3o.config.options import PettingzooOptions
from fp3o.envs.interface import Episode, slot_seeds
from fp3o.errors import UserError
from fp3o.progress import Bar
from fp3o.render.films import Film, Shape

STEPS_PER_SECOND = 10.0  # for environments without metadata["render_fps"]
_NEEDED = 'allowed: an array [height, width, 3] (where the factory takes render_mode, it is given "rgb_array")'


def films(
    run: Path, cell: Cell, options: PettingzooOptions, episodes: int, seed: int, shape: Shape, caption: str
) -> list[Film]:
    """Play episodes of a run's final policy in its own environment, drawing every `shape.every`-th step."""
    import torch

    from fp3o.api.run import Run
    from fp3o.envs.pettingzoo.factory import build, load_factory, located, parse_arguments
    from fp3o.envs.pettingzoo.worker import episode_seed

    torch.set_num_threads(1)
    name = located(options.env or cell.task)
    env = build(drawing(load_factory(name, parse_arguments(options.env_args))))
    team = Run(run, trust=True).team(env)
    per_second = float(getattr(env, "metadata", {}).get("render_fps", STEPS_PER_SECOND)) / shape.every
    made = []
    try:
        for number, slot in enumerate(slot_seeds(seed, "evaluate", episodes).tolist()):
            with Bar(f"playing episode {number}", options.episode_limit, at_most=True) as bar:
                episode, pictures = _play(env, team, episode_seed(slot, 0), number, options, shape, bar)
            made.append(Film(episode, iter(pictures), len(pictures), per_second, caption))
    finally:
        env.close()
    return made


def drawing(factory: Callable[..., Any]) -> Callable[..., Any]:
    """The factory; called with render_mode="rgb_array" if it takes that argument."""
    try:
        inspect.signature(factory).bind_partial(render_mode="rgb_array")
    except (TypeError, ValueError):
        return factory
    return lambda: factory(render_mode="rgb_array")


def _play(
    env: Any, team: Any, seed: int, number: int, options: PettingzooOptions, shape: Shape, bar: Bar
) -> tuple[Episode, list[NDArray[np.uint8]]]:
    observations, infos = env.reset(seed=seed)
    memory, total, steps = None, 0.0, 0
    agents = len(env.possible_agents)
    pictures = [_picture(env, shape)]
    while env.agents and steps < options.episode_limit:
        masks = {name: info["action_mask"] for name, info in infos.items() if "action_mask" in info}
        actions, memory = team.act(observations, memory, masks or None)
        observations, rewards, _, _, infos = env.step(actions)
        total += sum(float(reward) for reward in rewards.values()) / (agents if options.reward == "mean" else 1)
        steps += 1
        bar.advance(steps)
        if steps % shape.every == 0 and steps <= shape.steps:
            pictures.append(_picture(env, shape))
    bar.advance(bar.total)
    per_agent = total if options.reward == "mean" else total / agents
    return Episode(number, total, per_agent, steps, won=None), pictures


def _picture(env: Any, shape: Shape) -> NDArray[np.uint8]:
    """What render() returns now, fitted into [shape.height, shape.width, 3]."""
    from PIL import Image

    try:
        drawn = env.render()
    except Exception as error:
        raise UserError(f"render() of the environment fails with {type(error).__name__} {error}; {_NEEDED}") from error
    if not isinstance(drawn, np.ndarray) or drawn.ndim != 3 or drawn.shape[2] not in (3, 4):
        raise UserError(f"render() of the environment gives {type(drawn).__name__}, no picture; {_NEEDED}")
    image = Image.fromarray(np.ascontiguousarray(drawn[:, :, :3], dtype=np.uint8))
    image.thumbnail((shape.width, shape.height))
    sheet = Image.new("RGB", (shape.width, shape.height), "white")
    sheet.paste(image, ((shape.width - image.width) // 2, (shape.height - image.height) // 2))
    return np.asarray(sheet, np.uint8)
