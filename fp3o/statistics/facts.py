"""Tables of what the code itself says, beside the paper's: hyper-parameters, unit types, instability. No runs.

python -m fp3o.statistics.facts --suite paper --artefact table-units --out results/paper/tables
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch

from fp3o import config
from fp3o.algorithms import ALGORITHMS
from fp3o.algorithms.full_pipeline import Fp3oSettings
from fp3o.algorithms.turns import Context, Rollout, Turn
from fp3o.config import SHARINGS, Artefact, Cell, Plan, algorithm_title, resolve
from fp3o.config.options import MamujocoOptions
from fp3o.config.settings import own
from fp3o.envs.smac.scenarios import SCENARIOS, Scenario
from fp3o.errors import as_command, unknown
from fp3o.networks.actor import HEAD_GAIN, STD_SCALE
from fp3o.networks.stacked import dense_shapes
from fp3o.networks.trunk import StandardTrunk
from fp3o.statistics import published
from fp3o.statistics.suites import chosen_artefacts, csv_text, parser
from fp3o.statistics.tables.text_tables import TextTable

MARK = "†"


class Value(NamedTuple):
    """One field: ours, and what the paper prints there; None where it prints nothing."""

    ours: str
    paper: str | None = None

    @property
    def departs(self) -> bool:
        return self.paper is not None and _plain(self.ours) != _plain(self.paper)

    @property
    def text(self) -> str:
        return f"{self.ours} {MARK} (paper: {self.paper})" if self.departs else self.ours


def _plain(text: str) -> object:
    """What two writings of the same thing have in common: 1e-5 and 0.00001, or the same units in another order."""
    try:
        return float(text)
    except ValueError:
        return sorted(text.lower().split(" + "))


class Sheet(NamedTuple):
    """A table before it is written; the first field of a row names it."""

    header: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def shown(self) -> TextTable:
        return TextTable(self.header, [[value.text for value in row] for row in self.rows], self.notes)

    @property
    def departures(self) -> list[str]:
        """Rows and columns in which we depart from the paper."""
        return [
            f"{row[0].ours}, {column}"
            for row in self.rows
            for column, value in zip(self.header, row, strict=True)
            if value.departs
        ]


# --- Instability --------------------------------------------------------------------------------------------------

AGENTS = 5  # Enough to tell "1 and n" from "1 to n".
# Agents that do not share learn as the table supposes; the last row is A2PO as its authors run it with sharing.
INSTABILITY = (
    *(
        (label, f"mamujoco/halfcheetah-6x1/none/{label}")
        for label in ("ippo", "mappo", "coppo", "happo", "a2po", "fp3o")
    ),
    ("", "smac/3s5z/full/a2po"),
)


def instability() -> Sheet:
    """How many ratios π/π_k are multiplied in an agent's objective, counted in the turns of each algorithm."""
    theirs = {row["algorithm"]: row for row in published.facts("instability")}
    rows = []
    for label, cell in INSTABILITY:
        turns, paper = actor_turns(cell), theirs.get(label, {})
        orders = [turn.order for turn in turns]
        kinds = list(dict.fromkeys(turn.kind for turn in turns if turn.kind))
        rows.append(
            (
                Value(algorithm_title(label) if label else "A2PO on 3s5z, full sharing"),
                Value(", ".join(kinds) or "none"),
                Value(_orders(orders), paper.get("order")),
                Value(_order(min(orders)), paper.get("smallest")),
                Value(_order(max(orders)), paper.get("largest")),
                Value(paper.get("objective", "not in the paper")),
            )
        )
    header = ("Method", "Factor on the advantage", "Order", "Smallest", "Largest", "Objective in the paper")
    note = (
        "Order: number of agents whose ratios are multiplied, the agent's own included; from the turns of our "
        f"algorithms with n = {AGENTS} agents. Fixed: computed once before the turn. Current: in every minibatch."
    )
    return Sheet(header, tuple(rows), (note,))


class ActorTurn(NamedTuple):
    """A turn in which actors learn."""

    factors: dict[int, frozenset[int]]
    """By agent that learns, the others whose ratios multiply its advantage."""
    kind: str
    """fixed ratios, current ratios, or "" where there are none."""

    @property
    def order(self) -> int:
        """The largest number of ratios that are multiplied, an agent's own included."""
        return 1 + max(map(len, self.factors.values()))


def actor_turns(cell: str) -> list[ActorTurn]:
    """An iteration of a cell's algorithm with AGENTS agents: its turns, each of which moves the ratios of its
    learners. Agent a's logarithm becomes 2^a, so that a product tells its factors."""
    plan = resolve(Cell.parse(cell))
    log_ratio = torch.zeros(1, 2, 1, AGENTS)
    found = []
    for turn in ALGORITHMS[plan.cell.algorithm].turns(_context(plan, log_ratio)):
        agents = torch.arange(AGENTS) if turn.agents is None else turn.agents[0]
        learns = torch.ones_like(agents, dtype=torch.bool) if turn.learners is None else turn.learners[0]
        if turn.epochs and turn.learn != "critic":
            factors = _factors(turn, agents)
            found.append(ActorTurn({int(a): factors[int(a)] for a in agents[learns]}, _kind(turn)))
            log_ratio[..., agents[learns]] = (2.0 ** agents[learns]).float()
    return found


def _factors(turn: Turn, agents: torch.Tensor) -> dict[int, frozenset[int]]:
    """By agent of the turn, whose ratios weight its advantage."""
    if turn.weight is not None:
        codes = turn.weight[0, 0, 0].log().round().int().tolist()
        return {a: frozenset(b for b in range(AGENTS) if codes[a] >> b & 1) for a in agents.tolist()}
    if turn.others is None:
        return {a: frozenset() for a in agents.tolist()}
    rows = zip(agents.tolist(), turn.others[0], strict=True)
    return {a: frozenset(agents[row].tolist()) for a, row in rows}


def _kind(turn: Turn) -> str:
    if turn.weight is not None:
        return "fixed ratios"
    return "" if turn.others is None else "current ratios"


def _context(plan: Plan, log_ratio: torch.Tensor) -> Context:
    """An iteration of which nothing but the ratios matters."""
    nothing, ones = torch.zeros(0), torch.ones_like(log_ratio)
    known = {"reward": ones, "alive": ones, "continues": ones[..., 0], "value": ones, "next_value": ones[:, 0]}
    rollout = Rollout(**{name: known.get(name, nothing) for name in Rollout._fields})
    return Context(
        plan.settings,
        rollout,
        value=ones,
        next_value=ones[:, 0],
        returns=ones,
        raw_advantage=ones,
        advantage=ones,
        log_ratio=log_ratio.clone,
        uniform=lambda *shape: torch.arange(1.0, 1 + math.prod(shape)).reshape(1, *shape) / (1 + math.prod(shape)),
        snapshot=lambda: lambda replicas: None,
        iteration=0,
        env_steps=0,
        fraction=0.0,
        state={},
    )


def _order(order: int) -> str:
    return "n" if order == AGENTS else str(order)


def _orders(orders: Iterable[int]) -> str:
    """As the paper writes them: 1, n, "1, n" or 1..n."""
    distinct = sorted(set(orders))
    return "1..n" if distinct == list(range(1, AGENTS + 1)) else ", ".join(map(_order, distinct))


# --- Unit types ---------------------------------------------------------------------------------------------------


def units() -> Sheet:
    """The units of both sides, and whether the agents are of one type (HO) or several (HE)."""
    theirs = {row["task"]: row for row in published.facts("units")}
    tasks = dict.fromkeys(
        [*theirs, *(row["task"] for row in published.facts("hyperparameters") if row["domain"] == "smac")]
    )
    rows = []
    for task in filter(None, tasks):
        scenario, paper = SCENARIOS[task], theirs.get(task, {})
        rows.append(
            (
                Value(task),
                Value(_army(scenario.ally_kinds), paper.get("allies")),
                Value(_army(scenario.enemy_kinds), paper.get("enemies")),
                Value(_team(scenario), paper.get("agents")),
            )
        )
    notes = (
        "HO: agents of one type, HE: of several.",
        "10m_vs_11m and 3s5z_vs_3s6z are not in the paper's table, but trained on there (CoPPO).",
    )
    return Sheet(("Scenario", "Allies", "Enemies", "Agents"), tuple(rows), notes)


def _army(kinds: Sequence[str]) -> str:
    words = {kind: {"colossus": "Colossi"}.get(kind, f"{kind.capitalize()}s") for kind in dict.fromkeys(kinds)}
    return " + ".join(f"{kinds.count(kind)} {word}" for kind, word in words.items())


def _team(scenario: Scenario) -> str:
    return "HE" if len(set(scenario.ally_kinds)) > 1 else "HO"


# --- Hyper-parameters ---------------------------------------------------------------------------------------------


def _layers(weights: str) -> int:
    """How many layers a network with a GRU has whose weights' names fit."""
    shapes = StandardTrunk(1, 1, True).shapes() | dense_shapes("head", 1, 1, HEAD_GAIN)
    return sum(re.fullmatch(weights, name) is not None for name in shapes)


def _epochs(plan: Plan) -> str:
    """FP3O's two steps have epochs of their own."""
    settings = plan.settings
    if plan.cell.algorithm == "fp3o":
        return f"{settings.epochs} + {own(settings, Fp3oSettings).epochs_dependent} (FP3O)"
    return str(settings.epochs)


def _neighbours(plan: Plan) -> int:
    assert isinstance(plan.options, MamujocoOptions)
    return plan.options.neighbour_distance


# By the paper's name of each hyper-parameter, ours. Texts are what no setting changes.
OURS: dict[str, Callable[[Plan], object]] = {
    "actor lr": lambda plan: plan.settings.actor_lr,
    "critic lr": lambda plan: plan.settings.critic_lr,
    "gain": lambda plan: HEAD_GAIN,
    "episode length": lambda plan: plan.settings.rollout_length,
    "gamma": lambda plan: plan.settings.gamma,
    "gae lamda": lambda plan: plan.settings.gae_lambda,
    "rollout threads": lambda plan: plan.settings.rollout_threads,
    "batch size": lambda plan: plan.settings.rollout_length * plan.settings.rollout_threads,
    "num mini-batch": lambda plan: plan.settings.minibatches,
    "optimizer": lambda plan: "Adam",
    "optimizer epsilon": lambda plan: plan.settings.adam_eps,
    "gradient clip norm": lambda plan: plan.settings.gradient_clip,
    "weight decay": lambda plan: 0,
    "num fc": lambda plan: _layers(r"fc\d\.weight"),
    "fc layer dim": lambda plan: plan.settings.hidden_size,
    "num GRU layers": lambda plan: _layers(r"gru\.weight_hh"),
    "RNN hidden dim": lambda plan: plan.settings.hidden_size,
    "num layer after": lambda plan: _layers(r"head\.weight"),
    "activation": lambda plan: "ReLU",
    "network initialization": lambda plan: "Orthogonal",
    "value loss": lambda plan: "huber loss",
    "value": lambda plan: "huber loss",
    "huber delta": lambda plan: plan.settings.huber_delta,
    "training threads": lambda plan: 1,
    "ppo epochs": _epochs,
    "entropy coef": lambda plan: plan.settings.entropy_coef,
    "stacked frames": lambda plan: 1,
    "std x coef": lambda plan: 1,
    "std y coef": lambda plan: STD_SCALE,
    "agent observation": _neighbours,
    "ppo clip": lambda plan: plan.settings.clip,
    "network": lambda plan: "rnn" if plan.settings.recurrent else "mlp",
    "steps": lambda plan: plan.settings.total_steps,
}


def common(label: str) -> Sheet:
    """The settings that all tasks of a domain share, over all cells of its main table."""
    theirs = [row for row in published.facts("hyperparameters") if row["label"] == label]
    plans = [resolve(Cell.parse(entry.cell)) for entry in published.table(theirs[0]["domain"])]
    rows = []
    for row in theirs:
        values = dict.fromkeys(_number(OURS[row["name"]](plan)) for plan in plans)
        rows.append((Value(row["name"]), Value(", ".join(values), row["value"])))
    notes = (
        f"What benchmarks/tasks.yaml gives the {len(plans)} cells of the main table, or what no setting changes.",
        "FP3O's second step has epochs of its own in the release; the paper does not say so.",
        "Training threads concern speed alone.",
    )
    return Sheet(("Hyper-parameter", "Value"), tuple(rows), notes)


def by_task(label: str) -> Sheet:
    """The settings that differ between the tasks of a domain."""
    theirs = [row for row in published.facts("hyperparameters") if row["label"] == label]
    known = {(row["task"], row["name"], row["sharing"]): row["value"] for row in theirs}
    sharings = [sharing for sharing in SHARINGS if any(row["sharing"] == sharing for row in theirs)]
    rows = []
    for task in dict.fromkeys(row["task"] for row in theirs):
        plans = {s: resolve(Cell.parse(f"{theirs[0]['domain']}/{task}/{s}/mappo")) for s in sharings}
        fields = [Value(_number(OURS[name](plans["full"])), known[task, name, ""]) for name in ("ppo clip", "network")]
        steps = [(_number(OURS["steps"](plan)), known.get((task, "steps", sharing))) for sharing, plan in plans.items()]
        rows.append((Value(task), *fields, *(Value(ours, paper) if paper else Value("–") for ours, paper in steps)))
    header = ("Task", "Clip", "Network", *(f"Steps, {SHARINGS[sharing].name}" for sharing in sharings))
    return Sheet(header, tuple(rows), ("Network: of actor and critic.",))


def _number(value: object) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:g}" if value < 1e6 else f"{value / 1e6:g}e6"


# --- Writing ------------------------------------------------------------------------------------------------------

SHEETS: dict[str, Callable[[], Sheet]] = {
    "table_appendix_instability_analysis": instability,
    "table_smac_unit_type": units,
    "table_hyperparameter_mujoco1": lambda: common("table_hyperparameter_mujoco1"),
    "table_hyperparameter_mujoco2": lambda: by_task("table_hyperparameter_mujoco2"),
    "table_hyperparameter_smac1": lambda: common("table_hyperparameter_smac1"),
    "table_hyperparameter_smac2": lambda: by_task("table_hyperparameter_smac2"),
}
"""By the LaTeX label of the paper's table."""


def build(artefact: Artefact) -> Sheet:
    """The sheet of an artefact of a suite."""
    if artefact.paper not in SHEETS:
        raise unknown("table of facts", artefact.paper, SHEETS, f"{artefact.name}/paper")
    sheet = SHEETS[artefact.paper]()
    said = f"{MARK} departs from the paper; what is not marked is as in its table."
    if not sheet.departures:
        said = "All as in the paper's table."
    return sheet._replace(notes=(*sheet.notes, said))


def to_csv(sheet: Sheet) -> str:
    """Ours and, where the paper has numbers in a column, the paper's beside it; then the columns that depart."""
    both = [any(row[place].paper is not None for row in sheet.rows) for place in range(len(sheet.header))]
    header = [
        name for title, two in zip(sheet.header, both, strict=True) for name in (title, f"{title} (paper)")[: 1 + two]
    ]
    rows = []
    for row in sheet.rows:
        fields = [
            text for value, two in zip(row, both, strict=True) for text in (value.ours, value.paper or "")[: 1 + two]
        ]
        departs = [title for title, value in zip(sheet.header, row, strict=True) if value.departs]
        rows.append([*fields, "; ".join(departs)])
    return csv_text([*header, "Departs"], rows)


def main(argv: Sequence[str] | None = None) -> None:
    out = "folder for <artefact>.{csv,md,tex}"
    chosen = parser("Tables of what the code says of itself.", out=out, artefacts=True).parse_args(argv)
    for artefact in chosen_artefacts(config.load_suite(chosen.suite), chosen, "facts"):
        sheet = build(artefact)
        columns = "l" * len(sheet.header)
        sheet.shown.write(chosen.out / artefact.name, to_csv(sheet), f"{artefact.caption}.", artefact.paper, columns)


if __name__ == "__main__":
    as_command(main)
