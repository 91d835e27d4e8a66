"""A batch of environments of one MAMuJoCo task: a compiled kernel, which calls MuJoCo and does everything else."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from fp3o.config.options import MamujocoOptions
from fp3o.envs.checks import checked_reals, checked_seeds, checked_threads
from fp3o.envs.engine import Engine
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
from fp3o.envs.mamujoco import bodies, kernels, models, physics
from fp3o.envs.mamujoco.layout import Features, lay_out
from fp3o.envs.native.pool import SharedRanges
from fp3o.envs.native.ranges import empty_records, records
from fp3o.fields import checked
from fp3o.machine import processors

# At least: a step of 20 HalfCheetahs gets faster up to sixteen threads on a machine with 16 cores.
SLOTS_PER_THREAD = 1
LONGER = 1.25  # than the slots share evenly: from here on a step's physics is computed in pieces (`_pieces`)
PART = mujoco.mjtState


class MamujocoBatch(Engine):
    """N environments; threads: 0 lets the engine choose."""

    domain = "mamujoco"
    own_threads = True
    has_kernels = True

    def __init__(self, task: str, slots: int, auto_reset: bool, threads: int, options: MamujocoOptions) -> None:
        super().__init__(task, slots, auto_reset, checked(options, f"mamujoco/{task}"))
        self.threads = checked_threads(threads, slots, SLOTS_PER_THREAD)
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
        simulators = physics.Simulators(model, slots, self.threads)
        self._simulators = simulators
        parts = (PART.mjSTATE_QPOS, PART.mjSTATE_QVEL, PART.mjSTATE_WARMSTART, PART.mjSTATE_TIME, PART.mjSTATE_CTRL)
        views = [simulators.view(part) for part in parts]
        self._position, self._velocity, self._warmstart, self._time, self._control = views

        angles, forces = 2 if body.tracks == "fingertip" else 0, 6 * model.nbody if body.contact_cost > 0.0 else 0
        features = Features(model.nq, model.nv, angles, forces)
        pieces = self._pieces()
        self._data = self._allocate(features, pieces)
        bounds = np.arange(slots * pieces + 1)
        self._kernel = SharedRanges(kernels.run_slots, self._data, bounds, self.threads)
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
        self._seeds: Seeds = np.zeros(slots, dtype=np.uint64)
        self._episode = np.zeros(slots, dtype=np.int64)

    def _pieces(self) -> int:
        """In how many pieces the physics of a step is computed. More than one where the last round of slots would leave
        many threads without work: 20 slots on 16 threads take as long as 32, and 22 as pieces of a fifth. A thread may
        then wait, awake, for a piece that another one computes: only where each has a processor."""
        rounds = -(-self.slots // self.threads)
        uneven = rounds * self.threads >= LONGER * self.slots
        return self._body.frame_skip if uneven and self.threads <= processors() else 1

    def _allocate(self, features: Features, pieces: int) -> kernels.Data:
        """What the kernel works on."""
        spec, slots, layout = self.spec, self.slots, self.layout
        tracked = {"x": (), "torso": ("torso",), "fingertip": ("fingertip", "target")}[self._body.tracks]
        bodies_tracked = [self._model.body(name).id for name in tracked]
        numbers = self._numbers(bodies_tracked, features.offsets()["d"], pieces)
        local = np.stack([features.columns(agent) for agent in layout.local])
        central = features.columns(layout.state)[None]
        return kernels.Data(
            task=records((1,), **numbers),
            slots=empty_records((slots,), **kernels.SLOT),
            functions=records((1,), **physics.functions(self._model)),
            simulators=records((self.threads,), **self._simulators.addresses()),
            states=self._simulators.states,
            done=np.zeros((slots, 1), np.int64),
            places=np.zeros((slots, 3)),
            actions=np.zeros((slots, spec.agents, spec.action.width)),
            features=np.zeros((slots, features.width)),
            local=local,
            central=central,
            entries=np.zeros((self.threads, max(local.shape[1], central.shape[1]))),
            observation=np.zeros((slots, spec.agents, spec.observation_size), dtype=np.float32),
            state=np.zeros((slots, spec.agents, spec.state_size), dtype=np.float32),
            reward=np.zeros((slots, spec.agents)),
        )

    def _numbers(self, tracked: list[int], place: int, pieces: int) -> dict[str, Any]:
        """The numbers of the task; `bodies.Body` and `MamujocoOptions` explain most. tracked: bodies."""
        body, options, model = self._body, self.options, self._model
        ending = body.ending or bodies.Ending(height=0, low=0.0, high=0.0)
        return {
            "whole": physics.WHOLE.value,  # argument of MuJoCo's functions: a row of `Data.states` is all of a state
            "frames": body.frame_skip,  # physics steps per step
            "pieces": pieces,  # in which a step's physics is computed, one after the other
            "positions": self._simulators.column(PART.mjSTATE_QPOS),  # column of `Data.states` where qpos begins
            "position_size": model.nq,
            "velocities": self._simulators.column(PART.mjSTATE_QVEL),
            "velocity_size": model.nv,
            "place": place,  # column of `Data.features` where the tracked position begins
            "body": tracked[0] if tracked else -1,  # that it is the place of; -1: qpos[0] is tracked
            "bodies": model.nbody,
            "target": tracked[1] if len(tracked) > 1 else -1,  # body that the place is relative to; -1: none
            "ids": options.agent_id,  # append the one-hot agent number
            "standardise": options.standardise,
            "reaching": body.tracks == "fingertip",  # the reward is minus the distance of fingertip and target
            "distance_after": options.reacher_distance == "after",
            "seconds": model.opt.timestep * body.frame_skip,  # simulated time of a step
            "control_cost": body.control_cost,
            "contact_cost": body.contact_cost,
            "alive_bonus": body.alive_bonus,
            "bonus_at_end": options.alive_bonus_at_end,
            "ends": body.ending is not None,  # whether the limits of the ending are checked
            **ending._asdict(),
            "entries": float("nan") if ending.entries is None else ending.entries,  # NaN: not checked
            "limit": options.episode_limit,  # steps per episode
            "auto_reset": self.auto_reset,
        }

    def reset(self, seeds: Seeds) -> Snapshot:
        """Start episode 0 of every slot."""
        self._seeds = checked_seeds(seeds, self.slots)
        self._episode[:] = 0
        self._running[:] = True
        self._begin(list(range(self.slots)))
        self._started = True
        return self._snapshot

    def step(self, actions: NDArray[Any]) -> Transition:
        """frame_skip physics steps, then rewards, ends of episodes and observations."""
        self._require_reset()
        data = self._data
        agents, size = data.actions.shape[1:]
        data.actions[...] = checked_reals(actions, agents, size, self.slots)
        self._control[...] = data.actions.reshape(self.slots, -1)[:, self._column_of_actuator]
        self._kernel.share(kernels.SIMULATE)
        if self._body.tracks == "fingertip":
            self._read_angles()
            self._kernel.run(kernels.STEP, 0, self.slots)
        reward, terminated, truncated = data.reward.copy(), self._terminated.copy(), self._truncated.copy()
        ended = bool(np.count_nonzero(terminated) or np.count_nonzero(truncated))
        episodes = self._finish(terminated | truncated) if ended else []
        return Transition(self._snapshot, reward, terminated, truncated, self._final if ended else None, episodes)

    def snapshot(self) -> Snapshot:
        """What the agents see now."""
        return self._snapshot

    def _read_angles(self) -> None:
        """Sines and cosines of the reacher's joints by NumPy, as in gymnasium: a kernel's may differ by a bit."""
        if self._body.tracks == "fingertip":
            angles = np.ascontiguousarray(self._position[:, :2])
            self._sines[...] = np.sin(angles)
            self._cosines[...] = np.cos(angles)

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
        self._read_angles()
        for slot in slots:
            self._kernel.run(kernels.BEGIN, slot, slot + 1)

    def _draw_goal(self, generator: np.random.Generator) -> Doubles:
        while True:
            goal = generator.uniform(-0.2, 0.2, 2)
            if self.options.reacher_goal == "square" or np.linalg.norm(goal) < 0.2:
                return goal

    def _finish(self, over: Bools) -> list[Episode]:
        """Copy the last observations to `final`, then start the next episodes; the ended episodes."""
        ended, slots = over.nonzero()[0].tolist(), self._data.slots
        episodes = []
        for slot in ended:
            self._final.observation[slot] = self._snapshot.observation[slot]
            self._final.state[slot] = self._snapshot.state[slot]
            total, length = float(slots["returned"][slot]), int(slots["length"][slot])
            episodes.append(Episode(slot, total, total, length, None))
            self._episode[slot] += self.auto_reset
        if self.auto_reset:
            self._begin(ended)
        return episodes

    def _saved(self) -> dict[str, NDArray[Any]]:
        """The arrays that all else is computed from; `tracked` and `forces` lag behind qpos, so they are state too."""
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
            "running": self._running,
        }

    def _restored(self) -> None:
        self._read_angles()
        self._kernel.run(kernels.SHOW, 0, self.slots)

    def identity(self) -> dict[str, Any]:
        return super().identity() | {
            "engine": "mujoco.batch",  # in the first runs; calling MuJoCo directly gives the same numbers to the bit
            "agents": self.spec.agents,
            "action_size": self.spec.action.width,
            "episode_limit": self.spec.episode_limit,
            "mujoco": mujoco.__version__,
            "gymnasium": version("gymnasium"),
        }
