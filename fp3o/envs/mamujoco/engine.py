"""A batch of environments of one MAMuJoCo task: physics by mujoco.batch, everything else by a compiled kernel."""

from __future__ import annotations

import dataclasses
from importlib.metadata import version
from typing import Any

import mujoco
import numpy as np
from mujoco import batch
from numpy.typing import NDArray

from fp3o.envs.checks import checked_reals, checked_seeds, checked_slots, checked_threads
from fp3o.envs.domains import REVISIONS
from fp3o.envs.interface import (
    ActionSpec,
    Bools,
    Doubles,
    EnvSpec,
    Episode,
    Seeds,
    Snapshot,
    Transition,
    episode_generator,
)
from fp3o.envs.mamujoco import bodies, kernels, models
from fp3o.envs.mamujoco.layout import Features, ObservationLayout, lay_out
from fp3o.envs.options import MamujocoOptions
from fp3o.errors import UserError
from fp3o.fields import checked

# At least. With other work between, a step of 20 HalfCheetahs took 0.61 ms on one thread of a 16-core machine, 0.39 on
# two, 0.22 on four, 0.16 on eight, 0.13 on ten, 0.10 on sixteen.
SLOTS_PER_THREAD = 1
POSITIONS = mujoco.mjtStage.mjSTAGE_POS.value  # argument of Batch.forward: compute positions only


def task_constants(
    body: bodies.Body, layout: ObservationLayout, features: Features, timestep: float, options: MamujocoOptions
) -> kernels.TaskConstants:
    """The constants of a task, typed as the kernels expect."""
    ending = body.ending or bodies.Ending(height=0, low=0.0, high=0.0)
    return kernels.TaskConstants(
        local=np.stack([features.columns(agent) for agent in layout.local]),
        state=features.columns(layout.state),
        ids=options.agent_id,
        standardise=options.standardise,
        reaching=body.tracks == "fingertip",
        distance_after=options.reacher_distance == "after",
        seconds=timestep * body.frame_skip,
        control_cost=body.control_cost,
        contact_cost=body.contact_cost,
        alive_bonus=body.alive_bonus,
        bonus_at_end=options.alive_bonus_at_end,
        ends=body.ending is not None,
        height=ending.height,
        low=ending.low,
        high=ending.high,
        angle=ending.angle,
        entries=float("nan") if ending.entries is None else ending.entries,
        limit=options.episode_limit,
    )


class MamujocoBatch:
    """BatchEnv of one task. The physics state is in MuJoCo's memory, which the kernels read through views."""

    own_threads = True
    """Steps on threads of its own, without Python's lock, also while another engine steps."""

    def __init__(self, task: str, slots: int, auto_reset: bool, threads: int, options: MamujocoOptions) -> None:
        self.task = task
        self.slots = checked_slots(slots)
        self.options = checked(options, f"mamujoco/{task}")
        self.threads = checked_threads(threads, slots, SLOTS_PER_THREAD)
        self._auto_reset = auto_reset
        body, share = bodies.find(task, options)
        self._body = body
        self.layout = lay_out(body, share, options)
        model = models.build(body, options)
        self._model = model

        agents, ids = len(share), len(share) if options.agent_id else 0
        self.spec = EnvSpec(
            agents=agents,
            observation_size=len(self.layout.local[0]) + ids,
            state_size=len(self.layout.state) + ids,
            action=ActionSpec("gaussian", (len(share[0]),)),
            episode_limit=options.episode_limit,
            agent_types=(0,) * agents,
            agent_id=options.agent_id,
            standardised=options.standardise,
        )
        # Contact forces are read from each simulation's MjData, which only a persistent batch keeps.
        measured = body.contact_cost > 0.0
        self._batch = batch.Batch(model, slots, self.threads, persistent=measured)
        self._scratch = mujoco.MjData(model) if measured else None
        self._warmstart: Doubles = self._batch.bind("qacc_warmstart")
        self._time: Doubles = self._batch.bind("time")
        self._control: Doubles = self._batch.bind("ctrl")
        places: Doubles = self._batch.bind("xpos") if body.tracks != "x" else np.zeros((slots, 1, 3))
        tracked = {"x": (), "torso": ("torso",), "fingertip": ("fingertip", "target")}[body.tracks]
        self._body_positions = [places[:, model.body(name).id] for name in tracked]  # views of MuJoCo's memory

        reached = [actuator for agent in self.layout.actuators for actuator in agent]
        in_order = reached == sorted(reached)
        self._column_of_actuator = slice(None) if in_order else np.argsort(reached)
        features = Features(
            model.nq, model.nv, angles=2 if body.tracks == "fingertip" else 0, forces=6 * model.nbody if measured else 0
        )
        self._constants = task_constants(body, self.layout, features, model.opt.timestep, options)
        self._actions = np.zeros((slots, agents, self.spec.action.width))
        self._now = np.zeros((slots, 3))
        self._rows_of = kernels.Slots(
            position=self._batch.bind("qpos"),
            velocity=self._batch.bind("qvel"),
            sines_cosines=np.zeros((slots, 2 * features.angles)),
            forces=np.zeros((slots, features.forces)),
            tracked=np.zeros((slots, 3)),
            features=np.zeros((slots, features.width)),
            observation=np.zeros((slots, agents, self.spec.observation_size), dtype=np.float32),
            state=np.zeros((slots, agents, self.spec.state_size), dtype=np.float32),
            reward=np.zeros((slots, agents)),
            returned=np.zeros(slots),
            length=np.zeros(slots, dtype=np.int64),
            terminated=np.zeros(slots, dtype=np.bool_),
            truncated=np.zeros(slots, dtype=np.bool_),
        )
        alive = np.ones((slots, agents), dtype=np.bool_)
        self._snapshot = Snapshot(self._rows_of.observation, self._rows_of.state, alive, None)
        self._final = Snapshot(
            np.zeros_like(self._snapshot.observation), np.zeros_like(self._snapshot.state), alive, None
        )
        self._started = False
        self._seeds: Seeds = np.zeros(slots, dtype=np.uint64)
        self._episode = np.zeros(slots, dtype=np.int64)
        self._running = np.arange(slots, dtype=np.int32)

    def reset(self, seeds: Seeds) -> Snapshot:
        """Start episode 0 of every slot."""
        self._seeds = checked_seeds(seeds, self.slots)
        self._episode[:] = 0
        self._running = np.arange(self.slots, dtype=np.int32)
        self._clear(self._running)
        self._begin(self._running)
        self._started = True
        return self._snapshot

    def step(self, actions: NDArray[Any]) -> Transition:
        """frame_skip physics steps, then rewards, ends of episodes and observations."""
        if not self._started:
            raise UserError(f"mamujoco/{self.task}: step before reset")
        self._actions[...] = checked_reals(actions, *self._actions.shape[1:], self.slots)
        self._control[...] = self._actions.reshape(self.slots, -1)[:, self._column_of_actuator]
        running, rows = self._running, self._rows_of
        if len(running):
            self._batch.step(None if len(running) == self.slots else running, self._body.frame_skip)
        self._measure(running)
        ended = kernels.settle(running, self._actions, self._now, self._constants, rows)
        reward, terminated, truncated = rows.reward.copy(), rows.terminated.copy(), rows.truncated.copy()
        episodes = self._finish(terminated | truncated) if ended else []
        return Transition(self._snapshot, reward, terminated, truncated, self._final if ended else None, episodes)

    def snapshot(self) -> Snapshot:
        """What the agents see now."""
        return self._snapshot

    def _measure(self, running: NDArray[np.int32]) -> None:
        """Read the tracked positions, angles and contact forces that rewards and observations need.

        Body positions lag one physics step behind qpos.
        """
        rows = self._rows_of
        if self._body.tracks == "x":
            self._now[:, 0] = rows.position[:, 0]
        elif self._body.tracks == "torso":
            self._now[...] = self._body_positions[0]
        else:
            np.subtract(self._body_positions[0], self._body_positions[1], out=self._now)
            self._read_angles()
        if self._scratch is not None:
            for slot in running:
                self._batch.get_data(int(slot), self._scratch)
                mujoco.mj_rnePostConstraint(self._model, self._scratch)
                np.clip(self._scratch.cfrc_ext.ravel(), -1.0, 1.0, out=rows.forces[slot])

    def _read_angles(self) -> None:
        """Sines and cosines of the reacher's joints by NumPy, as in gymnasium: a compiled kernel's may differ by a
        bit."""
        angles = np.ascontiguousarray(self._rows_of.position[:, :2])
        self._rows_of.sines_cosines[:, :2] = np.sin(angles)
        self._rows_of.sines_cosines[:, 2:] = np.cos(angles)

    def _begin(self, slots: NDArray[np.int32]) -> None:
        """Start episodes in these slots: draw start states in gymnasium's order, then compute observations."""
        rows, start, model = self._rows_of, self._body.start, self._model
        for slot in slots:
            generator = episode_generator(int(self._seeds[slot]), int(self._episode[slot]))
            position = model.qpos0 + generator.uniform(-start.position, start.position, model.nq)
            if self._body.tracks == "fingertip":
                position[2:] = self._draw_goal(generator)
            if start.normal:
                velocity = start.velocity * generator.standard_normal(model.nv)
            else:
                velocity = generator.uniform(-start.velocity, start.velocity, model.nv)
            if self._body.tracks == "fingertip":
                velocity[2:] = 0.0
            rows.position[slot], rows.velocity[slot] = position, velocity
        self._warmstart[slots] = 0.0
        self._time[slots] = 0.0
        if self._body_positions:
            self._batch.forward(slots, POSITIONS)
        self._measure(slots[:0])
        rows.forces[slots] = 0.0
        rows.tracked[slots] = self._now[slots]
        rows.returned[slots] = 0.0
        rows.length[slots] = 0
        kernels.observe(slots, self._constants, rows)

    def _draw_goal(self, generator: np.random.Generator) -> Doubles:
        while True:
            goal = generator.uniform(-0.2, 0.2, 2)
            if self.options.reacher_goal == "square" or np.linalg.norm(goal) < 0.2:
                return goal

    def _clear(self, slots: NDArray[np.int32]) -> None:
        """Reset reward and end flags, which no kernel writes for frozen slots."""
        self._rows_of.reward[slots] = 0.0
        self._rows_of.terminated[slots] = False
        self._rows_of.truncated[slots] = False

    def _finish(self, over: Bools) -> list[Episode]:
        """Copy the last observations to `final`, then start the next episodes or freeze the slots; the ended
        episodes."""
        ended = np.flatnonzero(over).astype(np.int32)
        rows = self._rows_of
        self._final.observation[ended] = rows.observation[ended]
        self._final.state[ended] = rows.state[ended]
        episodes = [
            Episode(int(slot), float(rows.returned[slot]), float(rows.returned[slot]), int(rows.length[slot]), None)
            for slot in ended
        ]
        if self._auto_reset:
            self._episode[ended] += 1
            self._begin(ended)
        else:
            self._running = np.setdiff1d(self._running, ended)
            self._clear(ended)
        return episodes

    def _saved(self) -> dict[str, NDArray[Any]]:
        """The arrays that everything else is computed from. `tracked` and `forces` lag behind qpos: they are state
        too."""
        rows = self._rows_of
        return {
            "qpos": rows.position,
            "qvel": rows.velocity,
            "qacc_warmstart": self._warmstart,
            "time": self._time,
            "tracked": rows.tracked,
            "forces": rows.forces,
            "returned": rows.returned,
            "length": rows.length,
            "episode": self._episode,
            "seeds": self._seeds,
        }

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Copies of the state, and which slots are not frozen."""
        running = np.zeros(self.slots, dtype=np.bool_)
        running[self._running] = self._started
        return {**{name: array.copy() for name, array in self._saved().items()}, "running": running}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue where state_dict was taken, bit for bit."""
        live = {**self._saved(), "running": np.zeros(self.slots, dtype=np.bool_)}
        for name, array in live.items():
            if name not in state or state[name].shape != array.shape:
                given = state[name].shape if name in state else "missing"
                raise UserError(f"saved {name} of mamujoco/{self.task} is {given}; allowed: shape {array.shape}")
        for name, array in self._saved().items():
            array[...] = state[name]
        self._running = np.flatnonzero(state["running"]).astype(np.int32)
        self._started = True
        everyone = np.arange(self.slots, dtype=np.int32)
        self._clear(everyone)
        if self._body.tracks == "fingertip":
            self._read_angles()
        kernels.observe(everyone, self._constants, self._rows_of)

    def identity(self) -> dict[str, Any]:
        """`environment` of run.json."""
        return {
            "engine": "mujoco.batch",
            "revision": REVISIONS["mamujoco"],
            "task": self.task,
            "agents": self.spec.agents,
            "observation_size": self.spec.observation_size,
            "state_size": self.spec.state_size,
            "action_size": self.spec.action.width,
            "episode_limit": self.spec.episode_limit,
            "options": dataclasses.asdict(self.options),
            "mujoco": mujoco.__version__,
            "gymnasium": version("gymnasium"),
        }

    def close(self) -> None:
        """Nothing to end or free."""
