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
from fp3o.envs.mamujoco.layout import Features, lay_out
from fp3o.envs.options import MamujocoOptions
from fp3o.envs.ranges import Ranges, empty_records, records
from fp3o.errors import UserError
from fp3o.fields import checked

# At least. With other work between, a step of 20 HalfCheetahs took 0.61 ms on one thread of a 16-core machine, 0.39 on
# two, 0.22 on four, 0.16 on eight, 0.13 on ten, 0.10 on sixteen.
SLOTS_PER_THREAD = 1
POSITIONS = mujoco.mjtStage.mjSTAGE_POS.value  # argument of Batch.forward: compute positions only


def _column(field: Doubles, rows: Doubles) -> int:
    """Of these rows where a view of some of their columns begins."""
    return int(field.ctypes.data - rows.ctypes.data) // rows.itemsize


class MamujocoBatch:
    """BatchEnv of one task. The physics state is in MuJoCo's memory, which the kernels read through views."""

    own_threads = True
    """Steps on threads of its own, without Python's lock, also while another engine steps."""
    has_kernels = True
    """Functions that numba compiles on first use."""

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
        self._position: Doubles = self._batch.bind("qpos")  # these are views of MuJoCo's memory
        self._velocity: Doubles = self._batch.bind("qvel")
        self._warmstart: Doubles = self._batch.bind("qacc_warmstart")
        self._time: Doubles = self._batch.bind("time")
        self._control: Doubles = self._batch.bind("ctrl")

        angles, forces = 2 if body.tracks == "fingertip" else 0, 6 * model.nbody if measured else 0
        features = Features(model.nq, model.nv, angles, forces)
        self._data = self._allocate(features)
        self._kernel = Ranges(kernels.run_slots, self._data, slots)
        at, row = features.offsets(), self._data.features
        self._sines, self._cosines = row[:, at["s"] : at["k"]], row[:, at["k"] : at["d"]]
        self._tracked, self._forces = row[:, at["d"] : at["f"]], row[:, at["f"] : at["0"]]
        self._running, self._terminated, self._truncated = (
            self._data.slots[name] for name in ("running", "terminated", "truncated")
        )

        reached = [actuator for agent in self.layout.actuators for actuator in agent]
        in_order = reached == sorted(reached)
        self._column_of_actuator = slice(None) if in_order else np.argsort(reached)
        alive = np.ones((slots, agents), dtype=np.bool_)
        seen, known = self._data.observation, self._data.state
        self._snapshot = Snapshot(seen, known, alive, None)
        self._final = Snapshot(np.zeros_like(seen), np.zeros_like(known), alive, None)
        self._started = False
        self._seeds: Seeds = np.zeros(slots, dtype=np.uint64)
        self._episode = np.zeros(slots, dtype=np.int64)
        self._simulated: NDArray[np.int32] | None = None
        """Slots that are not frozen; None: none is frozen."""

    def _allocate(self, features: Features) -> kernels.Data:
        """What the kernel works on."""
        spec, slots, layout = self.spec, self.slots, self.layout
        tracked = {"x": (), "torso": ("torso",), "fingertip": ("fingertip", "target")}[self._body.tracks]
        places: Doubles = self._batch.bind("xpos") if tracked else np.zeros((slots, 1, 3))
        places.flags.writeable = False  # as MuJoCo's are
        numbers = self._numbers([self._model.body(name).id for name in tracked], features.offsets()["d"])
        local = np.stack([features.columns(agent) for agent in layout.local])
        central = features.columns(layout.state)[None]
        return kernels.Data(
            task=records((1,), **numbers._asdict()),
            slots=empty_records((slots,), **kernels.SLOT),
            physics=self._batch.state,
            places=places,
            actions=np.zeros((slots, spec.agents, spec.action.width)),
            features=np.zeros((slots, features.width)),
            local=local,
            central=central,
            entries=np.zeros(max(local.shape[1], central.shape[1])),
            observation=np.zeros((slots, spec.agents, spec.observation_size), dtype=np.float32),
            state=np.zeros((slots, spec.agents, spec.state_size), dtype=np.float32),
            reward=np.zeros((slots, spec.agents)),
        )

    def _numbers(self, tracked: list[int], place: int) -> kernels.Task:
        """The numbers of the task. tracked: bodies; place: the column of that position (see `kernels.Task`)."""
        body, options, model = self._body, self.options, self._model
        ending = body.ending or bodies.Ending(height=0, low=0.0, high=0.0)
        return kernels.Task(
            positions=_column(self._position, self._batch.state),
            position_size=model.nq,
            velocities=_column(self._velocity, self._batch.state),
            velocity_size=model.nv,
            place=place,
            body=tracked[0] if tracked else -1,
            target=tracked[1] if len(tracked) > 1 else -1,
            ids=options.agent_id,
            standardise=options.standardise,
            reaching=body.tracks == "fingertip",
            distance_after=options.reacher_distance == "after",
            seconds=model.opt.timestep * body.frame_skip,
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
            auto_reset=self._auto_reset,
        )

    def reset(self, seeds: Seeds) -> Snapshot:
        """Start episode 0 of every slot."""
        self._seeds = checked_seeds(seeds, self.slots)
        self._episode[:] = 0
        self._running[:] = True
        self._list_simulated()
        self._begin(list(range(self.slots)))
        self._started = True
        return self._snapshot

    def step(self, actions: NDArray[Any]) -> Transition:
        """frame_skip physics steps, then rewards, ends of episodes and observations."""
        if not self._started:
            raise UserError(f"mamujoco/{self.task}: step before reset")
        data, simulated = self._data, self._simulated
        agents, size = data.actions.shape[1:]
        data.actions[...] = checked_reals(actions, agents, size, self.slots)
        self._control[...] = data.actions.reshape(self.slots, -1)[:, self._column_of_actuator]
        if simulated is None or len(simulated):
            self._batch.step(simulated, self._body.frame_skip)
        self._read_angles()
        self._read_forces()
        ended = self._kernel.run(kernels.STEP)
        reward, terminated, truncated = data.reward.copy(), self._terminated.copy(), self._truncated.copy()
        episodes = self._finish(terminated | truncated) if ended else []
        return Transition(self._snapshot, reward, terminated, truncated, self._final if ended else None, episodes)

    def snapshot(self) -> Snapshot:
        """What the agents see now."""
        return self._snapshot

    def _read_angles(self) -> None:
        """Sines and cosines of the reacher's joints by NumPy, as in gymnasium: a compiled kernel's may differ by a
        bit."""
        if self._body.tracks == "fingertip":
            angles = np.ascontiguousarray(self._position[:, :2])
            self._sines[...] = np.sin(angles)
            self._cosines[...] = np.cos(angles)

    def _read_forces(self) -> None:
        """Contact forces, where they are measured."""
        if self._scratch is not None:
            for slot in np.flatnonzero(self._running):
                self._batch.get_data(int(slot), self._scratch)
                mujoco.mj_rnePostConstraint(self._model, self._scratch)
                np.clip(self._scratch.cfrc_ext.ravel(), -1.0, 1.0, out=self._forces[slot])

    def _begin(self, slots: list[int]) -> None:
        """Start episodes in these slots: draw start states in gymnasium's order, then compute observations."""
        start, reaching = self._body.start, self._body.tracks == "fingertip"
        rest, velocities = self._model.qpos0, self._model.nv
        for slot in slots:
            generator = episode_generator(int(self._seeds[slot]), int(self._episode[slot]))
            position = rest + generator.uniform(-start.position, start.position, len(rest))
            if reaching:
                position[2:] = self._draw_goal(generator)
            if start.normal:
                velocity = start.velocity * generator.standard_normal(velocities)
            else:
                velocity = generator.uniform(-start.velocity, start.velocity, velocities)
            if reaching:
                velocity[2:] = 0.0
            self._position[slot], self._velocity[slot] = position, velocity
            self._warmstart[slot] = 0.0
            self._time[slot] = 0.0
            self._forces[slot] = 0.0
        if self._body.tracks != "x":
            self._batch.forward(np.array(slots, dtype=np.int32), POSITIONS)
        self._read_angles()
        for slot in slots:
            self._kernel.run(kernels.BEGIN, slot, slot + 1)

    def _draw_goal(self, generator: np.random.Generator) -> Doubles:
        while True:
            goal = generator.uniform(-0.2, 0.2, 2)
            if self.options.reacher_goal == "square" or np.linalg.norm(goal) < 0.2:
                return goal

    def _finish(self, over: Bools) -> list[Episode]:
        """Copy the last observations to `final`, then start the next episodes or list the slots that are not frozen;
        the ended episodes."""
        ended, slots = over.nonzero()[0].tolist(), self._data.slots
        episodes = []
        for slot in ended:
            self._final.observation[slot] = self._snapshot.observation[slot]
            self._final.state[slot] = self._snapshot.state[slot]
            total, length = float(slots["returned"][slot]), int(slots["length"][slot])
            episodes.append(Episode(slot, total, total, length, None))
            self._episode[slot] += self._auto_reset
        if self._auto_reset:
            self._begin(ended)
        else:
            self._list_simulated()
        return episodes

    def _list_simulated(self) -> None:
        running = np.flatnonzero(self._running).astype(np.int32)
        self._simulated = None if len(running) == self.slots else running

    def _saved(self) -> dict[str, NDArray[Any]]:
        """The arrays that everything else is computed from. `tracked` and `forces` lag behind qpos: they are state
        too."""
        slots = self._data.slots
        return {
            "qpos": self._position,
            "qvel": self._velocity,
            "qacc_warmstart": self._warmstart,
            "time": self._time,
            "tracked": self._tracked,
            "forces": self._forces,
            "returned": slots["returned"],
            "length": slots["length"],
            "episode": self._episode,
            "seeds": self._seeds,
        }

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Copies of the state, and which slots are not frozen."""
        running = self._running & self._started
        return {**{name: array.copy() for name, array in self._saved().items()}, "running": running}

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue where state_dict was taken, bit for bit."""
        live = {**self._saved(), "running": self._running}
        for name, array in live.items():
            if name not in state or state[name].shape != array.shape:
                given = state[name].shape if name in state else "missing"
                raise UserError(f"saved {name} of mamujoco/{self.task} is {given}; allowed: shape {array.shape}")
        for name, array in live.items():
            array[...] = state[name]
        self._list_simulated()
        self._started = True
        self._read_angles()
        self._kernel.run(kernels.SHOW)

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
