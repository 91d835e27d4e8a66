"""Cells, resolution, digests, paths, suites."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fp3o import config
from fp3o.config import Cell, load_suite, resolve
from fp3o.config.catalogue import EPOCHS
from fp3o.config.domains import DOMAINS, OPTIONS, REVISIONS, published_domains
from fp3o.config.settings import every_field
from fp3o.errors import UserError
from fp3o.fields import declared
from fp3o.runs import layout

ROOT = Path(__file__).resolve().parents[2]


def settings(cell: str, **overrides: config.Scalar) -> Any:
    """Of any algorithm, with its own."""
    return resolve(Cell.parse(cell), overrides).settings


def test_a_misspelt_setting_is_an_error_to_type_checkers_too() -> None:
    with pytest.raises(AttributeError):
        assert config.Settings().cliprange  # type: ignore[attr-defined]


# --- Cells ---


def test_a_cell_reads_back_as_its_id() -> None:
    cell = Cell.parse("mamujoco/ant-2x4/partial/fp3o-double-clip")
    assert cell == Cell("mamujoco", "ant-2x4", "partial", "fp3o", "double-clip")
    assert Cell.parse(cell.id) == cell


def test_the_parts_of_a_cell_have_names() -> None:
    cell = Cell.of("smac/3s5z/none/mappo-10-epochs")
    assert (cell.label, cell.title, str(cell.row)) == ("mappo-10-epochs", "MAPPO (10 epochs)", "smac/3s5z/none")
    assert cell.row == config.Row("smac", "3s5z", "none") == ("smac", "3s5z", "none")
    assert "/".join(cell.parts) == cell.id
    assert Cell.of("gone/ant/half/sac").domain == "gone"  # an old run's
    with pytest.raises(UserError, match="should read"):
        Cell.of("smac/3s5z/none")


def test_every_domain_of_the_tasks_is_described_and_every_published_one_has_numbers() -> None:
    assert set(config.domains()) == set(DOMAINS)
    tables = {path.stem for path in (ROOT / "benchmarks" / "published").glob("*.csv")}
    assert {name for name in DOMAINS if name in tables} == set(published_domains())
    assert {d.scoring.metric for d in DOMAINS.values()} == {"return", "win_rate", "return_per_agent"}


def test_owners_follow_the_kind_of_sharing() -> None:
    types = (4, 4, 9)
    assert {name: kind.owners(types) for name, kind in config.SHARINGS.items()} == {
        "full": ((0, 0, 0), (0, 0, 0)),
        "partial": ((0, 0, 0), (0, 1, 2)),
        "none": ((0, 1, 2), (0, 1, 2)),
        "by-type": ((0, 0, 1), (0, 0, 1)),
    }


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("mujoco/ant-2x4/full/fp3o", ["mujoco", "mamujoco", "smac"]),
        ("mamujoco/ant/full/fp3o", ["'ant'", "ant-2x4", "mamujoco/ant/full/fp3o"]),
        ("mamujoco/ant-2x4/half/fp3o", ["half", "full, partial, none, by-type"]),
        ("mamujoco/ant-2x4/full/ppo", ["'ppo'", "fp3o, mappo"]),
        ("mamujoco/ant-2x4/full/mappo-double-clip", ["double-clip", "10-epochs"]),
        ("mamujoco/ant-2x4/full/ippo-x", ["'x'", "<setting>-<value>"]),
        ("ant-2x4/fp3o", ["<domain>/<task>/<sharing>/<algorithm>"]),
        ("pettingzoo/a b/full/fp3o", ["a b", "letters"]),
    ],
)
def test_an_unknown_part_is_named_with_what_is_allowed(text: str, names: list[str]) -> None:
    with pytest.raises(UserError) as error:
        Cell.parse(text)
    message = str(error.value)
    assert "\n" not in message
    assert all(name in message for name in names), message


# --- The paper's values ---


def test_mamujoco_is_the_papers_table() -> None:
    s = settings("mamujoco/ant-2x4/partial/fp3o")
    assert (s.total_steps, s.rollout_length, s.rollout_threads, s.minibatches) == (10_000_000, 1000, 4, 32)
    assert (s.epochs, s.epochs_dependent, s.clip, s.clip_others) == (5, 5, 0.2, 0.1)
    assert (s.actor_lr, s.critic_lr, s.entropy_coef, s.gamma, s.gae_lambda) == (1e-5, 3e-4, 0.001, 0.99, 0.95)
    assert (s.recurrent, s.gaussian_std, s.head_lr_scale) == (False, "sigmoid", "agents")
    assert resolve(Cell.parse("mamujoco/ant-2x4/partial/fp3o")).iterations == 2500
    for task, clip in [("walker2d-2x3", 0.05), ("hopper-3x1", 0.05), ("swimmer-8x2", 0.2), ("reacher-2x1", 0.2)]:
        assert settings(f"mamujoco/{task}/none/happo").clip == clip


SMAC = {  # Paper, Table smac2: clip, recurrent, steps in millions under full, partial and no sharing
    "bane_vs_bane": (0.2, True, 2, 2, 2),
    "2c_vs_64zg": (0.2, True, 5, 5, 5),
    "3s5z": (0.2, True, 5, 5, 5),
    "5m_vs_6m": (0.05, True, 8, 10, 10),
    "corridor": (0.2, False, 8, 10, 10),
    "6h_vs_8z": (0.2, False, 10, 15, 20),
    "10m_vs_11m": (0.2, True, 8),
    "3s5z_vs_3s6z": (0.05, True, 12),
}
# A2PO's SMAC scripts: epochs, blocks, λ, steps and threads of a rollout. Without a script: the paper's, two blocks.
A2PO = {
    "bane_vs_bane": (5, 2, 0.95, 400, 8),
    "2c_vs_64zg": (5, 2, 0.95, 400, 8),
    "3s5z": (8, 3, 0.95, 320, 10),
    "5m_vs_6m": (10, 2, 0.93, 400, 8),
    "corridor": (5, 2, 0.93, 400, 8),
    "6h_vs_8z": (8, 2, 0.99, 400, 8),
    "10m_vs_11m": (10, 2, 0.97, 400, 8),
    "3s5z_vs_3s6z": (5, 2, 0.9, 400, 8),
}


@pytest.mark.parametrize("algorithm", ["fp3o", "happo", "mappo", "ippo", "coppo", "a2po"])
@pytest.mark.parametrize("map_name", SMAC)
def test_smac_is_the_papers_table(map_name: str, algorithm: str) -> None:
    clip, recurrent, *millions = SMAC[map_name]
    for sharing, steps in zip(("full", "partial", "none"), millions, strict=False):  # two maps: full sharing only
        s = settings(f"smac/{map_name}/{sharing}/{algorithm}")
        assert (s.clip, s.recurrent, s.total_steps) == (clip, recurrent, steps * 1_000_000)
        assert (s.actor_lr, s.critic_lr, s.adam_eps, s.gamma) == (5e-4, 5e-4, 1e-5, 0.99)
        assert (s.entropy_coef, s.gradient_clip, s.huber_delta) == (0.01, 10, 10)
        assert (s.minibatches, s.hidden_size, s.chunk_length) == (1, 64, 10)
        if algorithm != "a2po":
            assert (s.epochs, s.gae_lambda, s.rollout_length, s.rollout_threads) == (5, 0.95, 400, 8)


@pytest.mark.parametrize("map_name", SMAC)
def test_coppo_and_a2po_on_smac_have_their_own_settings_too(map_name: str) -> None:
    coppo, a2po = (settings(f"smac/{map_name}/full/{algorithm}") for algorithm in ("coppo", "a2po"))
    assert (coppo.clip_others, a2po.clip_others) == (coppo.clip / 2, a2po.clip / 2)
    assert not coppo.joint_gradient
    assert settings(f"smac/{map_name}/full/coppo-joint-gradient").joint_gradient
    assert (a2po.epochs, a2po.blocks, a2po.gae_lambda, a2po.rollout_length, a2po.rollout_threads) == A2PO[map_name]
    assert (a2po.adaptive_clip, a2po.agent_order, a2po.head_lr_scale) == ("product", "semi-greedy", "one")
    assert (a2po.trace, a2po.two_stage, a2po.cumulative_blocks) == (True, True, True)


def test_mpe_is_on_policys_scripts() -> None:
    s = settings("mpe/simple-reference/full/fp3o")
    assert (s.total_steps, s.rollout_length, s.rollout_threads, s.epochs, s.epochs_dependent) == (3e6, 25, 128, 15, 15)
    assert (s.actor_lr, s.recurrent, s.chunk_length, s.final_episodes) == (7e-4, True, 10, 1000)
    assert settings("mpe/simple-speaker-listener/none/a2po").total_steps == 2e6


def test_a2po_has_its_own_hyper_parameters() -> None:
    s = settings("smac/3s5z/full/a2po")
    assert (s.epochs, s.blocks, s.cumulative_blocks, s.adaptive_clip) == (8, 3, True, "product")
    assert (s.rollout_length, s.rollout_threads, s.agent_order, s.two_stage) == (320, 10, "semi-greedy", True)
    assert not settings("smac/3s5z/none/a2po").cumulative_blocks
    assert settings("mpe/simple-reference/none/a2po").adaptive_clip == "linear"
    without = settings("smac/3s5z/full/a2po-no-blocks")
    assert (without.blocks, without.cumulative_blocks, without.epochs) == (0, False, 8)
    assert settings("mamujoco/ant-2x4/partial/happo").head_lr_scale == "one"


def test_followers_follow_unless_named() -> None:
    assert settings("mamujoco/hopper-3x1/full/fp3o").clip_others == 0.025
    assert settings("mamujoco/hopper-3x1/full/fp3o", clip=0.4).clip_others == 0.2
    assert settings("mamujoco/hopper-3x1/full/fp3o", clip=0.4, clip_others=0.3).clip_others == 0.3
    assert settings("mamujoco/hopper-3x1/full/fp3o", epochs=7).epochs_dependent == 7
    few = settings("mamujoco/hopper-3x1/full/fp3o-3-2")
    assert (few.epochs, few.epochs_dependent) == (3, 2)


@pytest.mark.parametrize(("variant", "size"), [("100", 50), ("200", 100), ("500", 250), ("1000", 500)])
def test_matching_degree_rollouts_hold_steps_times_two_agents(variant: str, size: int) -> None:
    s = settings(f"smac/2c_vs_64zg/partial/fp3o-rollout-{variant}")
    assert (s.rollout_length * s.rollout_threads, s.minibatches, s.matching_degree) == (size, 1, True)
    assert s.total_steps == 1000 * size


def test_any_numbers_of_epochs_are_a_variant_of_fp3o() -> None:
    """fp3o-4-1 needs no entry; those that have one, for their description, are what the rule makes of their names."""
    plan = resolve(Cell.parse("mpe/simple-reference/full/fp3o-4-1"))
    assert (plan.settings.epochs, vars(plan.settings)["epochs_dependent"]) == (4, 1)
    assert {change.source for change in plan.deviations} == {"variant fp3o-4-1"}
    named = [name for name in config.variants("fp3o") if EPOCHS.fullmatch(name)]
    assert named == ["3-2", "8-7"]
    for name in named:
        first, second = map(int, name.split("-"))
        assert config.variant_settings("fp3o", name) == {"epochs": first, "epochs_dependent": second}
    for cell in ("fp3o-0-4", "fp3o-4-0", "fp3o-4-", "fp3o-4", "fp3o-99999-1", "mappo-4-1"):
        with pytest.raises(UserError, match="unknown variant"):
            Cell.parse(f"mpe/simple-reference/full/{cell}")


def test_every_cell_and_variant_resolves() -> None:
    seen: dict[str, str] = {}
    for domain in config.domains():
        for task in config.tasks(domain):
            for sharing in config.SHARINGS:
                for algorithm in config.algorithms():
                    for variant in ("", *config.variants(algorithm)):
                        p = resolve(Cell(domain, task, sharing, algorithm, variant))
                        assert seen.setdefault(p.digest, p.cell.id) == p.cell.id
    assert len(seen) > 1900


# --- Overrides ---


def test_a_string_is_read_as_the_fields_type() -> None:
    s = settings(
        "mamujoco/ant-2x4/full/fp3o", total_steps="2e6", clip="1e-1", double_clip="true", advantage_split="random"
    )
    assert s.total_steps == 2_000_000
    assert type(s.total_steps) is int
    assert (s.clip, s.double_clip, s.advantage_split) == (0.1, True, "random")


ANT = "mamujoco/ant-2x4/full/mappo"


@pytest.mark.parametrize(
    ("cell", "key", "value", "names"),
    [
        (ANT, "learning_rate", "1", ["learning_rate", "actor_lr"]),
        (ANT, "epochs", "many", ["epochs", "whole number"]),
        (ANT, "epochs", "2.5", ["epochs", "whole number"]),
        (ANT, "epochs", "0", ["epochs", "1 … 10000"]),
        (ANT, "epochs", True, ["epochs", "number"]),
        (ANT, "clip", "nan", ["clip", "finite"]),
        (ANT, "gamma", "1.5", ["gamma", "0 … 1"]),
        (ANT, "recurrent", "maybe", ["recurrent", "true, false"]),
        (ANT, "gaussian_std", "tanh", ["gaussian_std", "sigmoid, exp"]),
        (ANT, "epochs_dependent", "3", ["epochs_dependent", "fp3o", "--set"]),
        (ANT, "blocks", "3", ["blocks", "a2po"]),
        (ANT, "backend", "embedded", ["backend"]),
        (ANT, "minibatches", "33", ["minibatches", "4000 samples", "32"]),
        (ANT, "total_steps", "100", ["total_steps", "4000"]),
        ("smac/3s5z/full/mappo", "chunk_length", "7", ["chunk_length", "rollout_length", "10"]),
        ("smac/3s5z/full/mappo", "minibatches", "7", ["minibatches", "320 chunks"]),
        ("smac/3s5z/full/mappo", "backend", "sc2", ["backend", "embedded, starcraft2"]),
        ("smac/3s5z/none/a2po", "cumulative_blocks", "true", ["cumulative_blocks", "full"]),
        ("mpe/simple-reference/full/mappo", "rollout_length", "24", ["chunk_length"]),
        ("mamujoco/ant-2x4/full/fp3o-independent", "double_clip", "true", ["double_clip", "epochs_dependent"]),
        ("mamujoco/ant-2x4/full/fp3o-rollout-100", "intermediate", "false", ["matching_degree", "intermediate"]),
        ("pettingzoo/mine/full/fp3o", "env", "nonsense", ["env", "module:factory"]),
    ],
)
def test_a_bad_override_is_one_line_naming_cell_key_and_allowed_values(
    cell: str, key: str, value: config.Scalar, names: list[str]
) -> None:
    with pytest.raises(UserError) as error:
        resolve(Cell.parse(cell), {key: value})
    message = str(error.value)
    assert "\n" not in message
    assert cell in message
    assert "allowed" in message
    assert all(name in message for name in names), message


def test_a_strangers_environment_needs_its_factory() -> None:
    with pytest.raises(UserError, match="module:factory"):
        resolve(Cell.parse("pettingzoo/mine/full/fp3o"))
    assert resolve(Cell.parse("pettingzoo/mine/full/fp3o"), {"env": "my.module:make"}).options.env == "my.module:make"


def test_mpe_chunks_may_straddle_episodes_of_one_rollout() -> None:
    assert settings("mpe/simple-reference/full/mappo").chunk_length == 10  # does not divide 25
    with pytest.raises(UserError, match="chunk_length"):
        resolve(Cell.parse("smac/3m/full/mappo"), {"rollout_length": 25, "rollout_threads": 128})


def test_deviations_name_old_and_new_value_and_who_asked() -> None:
    assert resolve(Cell.parse("mamujoco/ant-2x4/full/fp3o")).deviations == ()
    variant = resolve(Cell.parse(ANT + "-10-epochs")).deviations
    assert variant == (config.Change("epochs", "5", "10", "variant mappo-10-epochs"),)
    assert str(variant[0]) == "epochs 5 → 10 (variant mappo-10-epochs)"
    changed = resolve(Cell.parse("mamujoco/ant-2x4/full/fp3o"), {"clip": "0.1"}).deviations
    assert [str(c) for c in changed] == ["clip 0.2 → 0.1 (--set)", "clip_others 0.1 → 0.05 (follows clip)"]
    assert resolve(Cell.parse(ANT), {"clip": "0.2"}).deviations == ()


# --- Digests ---


def test_a_digest_is_a_function_of_the_configuration_alone() -> None:
    first = resolve(Cell.parse(ANT)).digest
    assert len(first) == 10
    assert resolve(Cell.parse(ANT), {"clip": 0.2, "epochs": "5"}).digest == first
    code = f"from fp3o.config import *; print(resolve(Cell.parse({ANT!r})).digest)"
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert again.stdout.strip() == first


def test_swapping_two_values_changes_the_digest() -> None:
    one = resolve(Cell.parse(ANT), {"actor_lr": 1e-4, "critic_lr": 2e-4})
    other = resolve(Cell.parse(ANT), {"actor_lr": 2e-4, "critic_lr": 1e-4})
    assert one.digest != other.digest


def test_settings_of_other_algorithms_are_not_hashed() -> None:
    mappo = resolve(Cell.parse(ANT)).configuration()["settings"]
    assert "epochs_dependent" not in mappo
    assert "epochs_dependent" in resolve(Cell.parse("mamujoco/ant-2x4/full/fp3o")).configuration()["settings"]


def test_every_number_is_bounded() -> None:
    for fields in (every_field(), *map(declared, OPTIONS.values())):
        for field in fields.values():
            assert (field.bounds is not None) == (field.type in (int, float)), field.name
            assert field.parse(field.default, "default") == field.default


def test_engine_revision_protocol_and_options_are_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell.parse("smac/3s5z/full/mappo")
    digests = {resolve(cell).digest, resolve(cell, {"backend": "starcraft2"}).digest}
    digests.add(resolve(cell, {"engine_revision": 2}).digest)
    other = Cell.parse("mpe/simple-reference/full/mappo")
    digests.add(resolve(other).digest)
    monkeypatch.setitem(REVISIONS, "mpe", 1_000_000)
    digests.add(resolve(other).digest)
    monkeypatch.setattr(sys.modules["fp3o.config.resolve"], "PROTOCOL", 1_000_000)
    digests.add(resolve(cell).digest)
    assert len(digests) == 6


# --- Seeds and paths ---


def test_seeds() -> None:
    assert config.parse_seeds("0-4") == (0, 1, 2, 3, 4)
    assert config.parse_seeds("7, 1-2,2") == (1, 2, 7)
    assert config.seeds_text((7, 1, 2)) == "1-2,7"
    for text in ("", "a", "4-0", "-1", "1-"):
        with pytest.raises(UserError, match="allowed"):
            config.parse_seeds(text)


@pytest.mark.parametrize("text", ["0-99999999", "0-1000", "0-600,700-1200", "4294967296", "1-" + "9" * 5000, "9" * 21])
def test_absurd_seeds_are_refused_at_once(text: str) -> None:
    with pytest.raises(UserError, match="allowed") as error:
        config.parse_seeds(text)
    assert len(str(error.value)) < 200
    assert len(config.parse_seeds("0-999")) == 1000
    assert config.parse_seeds("4294967295") == (2**32 - 1,)


def test_the_nearest_divisors_are_shown_and_a_large_prime_costs_nothing() -> None:
    prime = {"rollout_length": 999_983, "rollout_threads": 1, "minibatches": 5}
    with pytest.raises(UserError, match=r"the 999983 samples of a rollout; allowed: 1, 999983$"):
        resolve(Cell.parse(ANT), prime)
    with pytest.raises(UserError, match=r"allowed: 40, 50, 64, 80, 100, 125, 128, 160, 200, 250, 256, 320$"):
        resolve(Cell.parse(ANT), {"rollout_length": 16_000, "minibatches": 199})


def test_a_sixth_seed_leaves_the_first_block_alone() -> None:
    assert config.seed_blocks(range(5)) == [(0, 1, 2, 3, 4)]
    assert config.seed_blocks(range(6)) == [(0, 1, 2, 3, 4), (5,)]
    assert config.seed_blocks([1, 3], size=2) == [(1,), (3,)]


def test_paths() -> None:
    p = resolve(Cell.parse(ANT))
    assert layout.run_directory(Path("r"), p, 3) == Path(f"r/{ANT}/{p.digest}/seed-3")
    assert layout.scratch_directory(Path("s"), p, range(5)) == Path(f"s/{ANT}/{p.digest}/seeds-0-4")
    assert layout.suite_root("smoke") == Path("results/smoke")


def test_planning_imports_neither_torch_nor_snakemake() -> None:
    code = "import sys; from fp3o import config; config.load_suite('paper').runs()"
    code += "; print(sorted({'torch', 'snakemake'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


# --- Suites ---


def cells_of(suite: str, artefact: str) -> set[str]:
    return {cell.id for cell in load_suite(suite).artefact(artefact).cells}


def test_the_paper_suite_covers_the_inventory() -> None:
    suite = load_suite("paper")
    runs = {p.cell.id: seeds for p, seeds in suite.runs()}
    assert len(runs) == len(suite.runs())  # each cell once
    assert all(seeds == (0, 1, 2, 3, 4) for seeds in runs.values())
    ours = cells_of("paper", "control-equal-budget") | cells_of("paper", "control-few-epochs")
    ours |= cells_of("paper", "control-head-lr") | cells_of("paper", "control-mpe-budget")
    papers = {c.id for a in suite.artefacts if a.paper and a.kind != "cost" for c in a.cells}
    assert 5 * len(papers) >= 895
    assert set(runs) == papers | ours
    labels = {a.paper for a in suite.artefacts}
    assert {"table_MAMuJoCo_results", "table_SMAC_results", "table_appendix_MPE"} <= labels
    assert {p.options.backend for p, _ in suite.runs() if p.cell.domain == "smac"} == {"embedded"}
    departures = {d for p, _ in suite.runs() if not p.cell.variant for d in p.deviations}
    assert departures == set()


@pytest.mark.parametrize(
    ("file", "artefact"),
    [
        ("mamujoco", "table-mamujoco"),
        ("smac", "table-smac"),
        ("mpe", "table-mpe"),
        ("approximation", "table-approximation"),
        ("wallclock", "table-cost"),
        ("memory", "table-cost"),
    ],
)
def test_published_numbers_and_cells_are_the_same_set(file: str, artefact: str) -> None:
    with (ROOT / "benchmarks" / "published" / f"{file}.csv").open() as lines:
        rows = [f"{r['domain']}/{r['task']}/{r['sharing']}/{r['algorithm']}" for r in csv.DictReader(lines)]
    expected = set(rows)
    if artefact == "table-cost":  # And the variant that the paper compares with in words only.
        expected |= {cell.rpartition("/")[0] + "/fp3o-clipping-only" for cell in rows}
    assert cells_of("paper", artefact) == expected


def test_the_control_has_every_row_of_the_main_tables() -> None:
    rows = {c.rsplit("/", 1)[0] for c in cells_of("paper", "table-mamujoco") | cells_of("paper", "table-smac")}
    assert {f"{row}/mappo-10-epochs" for row in rows} <= cells_of("paper", "control-equal-budget")
    assert len(rows) == 36


def test_the_control_has_both_learning_rates_of_heads() -> None:
    """For each of three algorithms, on one task of each domain: lr and n·lr, all else equal."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in map(Cell.parse, cells_of("paper", "control-head-lr")):
        rest = resolve(cell).configuration()["settings"]
        found.setdefault((cell.task, cell.algorithm), {})[str(rest.pop("head_lr_scale"))] = rest
    assert set(found) == {(task, name) for task in ("halfcheetah-6x1", "3s5z") for name in ("fp3o", "mappo", "happo")}
    assert all(rates.keys() == {"agents", "one"} for rates in found.values())
    assert all(rates["agents"] == rates["one"] for rates in found.values())


@pytest.mark.parametrize("name", ["quick", "smoke"])
def test_small_suites_say_where_they_leave_the_paper(name: str) -> None:
    suite = load_suite(name)
    runs = suite.runs()
    assert {p.cell.algorithm for p, _ in runs} == {p.cell.algorithm for p, _ in load_suite("paper").runs()}
    assert {p.cell.sharing for p, _ in runs} == {"full", "partial", "none"}
    for p, _ in runs:
        if p.cell.domain in ("mamujoco", "mpe", "smac"):
            assert ("total_steps", f"suite {name}") in [(c.name, c.source) for c in p.deviations], p.cell.id
    assert any(a.kind == "cost" for a in suite.artefacts)


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], config.Suite]:
    """A repository whose smoke suite has one text replaced."""

    def edit(old: str, new: str) -> config.Suite:
        (tmp_path / "benchmarks" / "suites").mkdir(parents=True)
        (tmp_path / "workflow" / "schemas").mkdir(parents=True)
        for name in ("benchmarks/tasks.yaml", "workflow/schemas/suite.schema.yaml"):
            (tmp_path / name).write_text((ROOT / name).read_text())
        text = (ROOT / "benchmarks" / "suites" / "smoke.yaml").read_text()
        assert old in text
        (tmp_path / "benchmarks" / "suites" / "smoke.yaml").write_text(text.replace(old, new, 1))
        monkeypatch.chdir(tmp_path)
        return load_suite("smoke")

    return edit


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("title: Smoke", "titel: Smoke", ["smoke", "titel"]),
        ("    caption: Smoke", "    captoin: Smoke", ["captoin", "table-mamujoco"]),
        ("kind: cost", "kind: coast", ["coast", "table-cost"]),
        ("tasks: [reacher-2x1]", "tasks: [reacher]", ["reacher", "reacher-2x1"]),
        ("cells: smac/*", "cells: snac/*", ["snac/*", "none of its cells"]),
        ("seeds: 0-1", "seeds: many", ["many", "0-4"]),
    ],
)
def test_a_typing_error_in_a_suite_is_named(
    edited: Callable[[str, str], config.Suite], old: str, new: str, names: list[str]
) -> None:
    with pytest.raises(UserError) as error:
        edited(old, new)
    assert all(name in str(error.value) for name in names), error.value


def test_an_unknown_setting_in_a_suite_is_named(edited: Callable[[str, str], config.Suite]) -> None:
    suite = edited("rollout_length: 20", "rollout_lenght: 20")
    with pytest.raises(UserError, match=r"rollout_lenght.*suite smoke"):
        suite.runs()


def test_an_unknown_suite_is_named() -> None:
    with pytest.raises(UserError, match=r"papre.*allowed: paper"):
        load_suite("papre")


def test_a_plan_is_immutable() -> None:
    p = resolve(Cell.parse(ANT))
    assert replace(p, digest="0" * 10).digest != p.digest
    with pytest.raises(AttributeError):
        p.digest = ""  # type: ignore[misc]


def test_labels_for_readers() -> None:
    titles = ["FP3O", "FP3O (3 + 2 epochs)", "MAPPO (10 epochs)", "CoPPO", "FP3O (clipping only)"]
    labels = ["fp3o", "fp3o-3-2", "mappo-10-epochs", "coppo", "fp3o-clipping-only"]
    assert [config.algorithm_title(label) for label in labels] == titles


def test_a_misspelt_name_is_guessed() -> None:
    for values, guess in (({"actor_rl": 1}, "actor_lr"), ({"epoch": 3}, "epochs")):
        with pytest.raises(UserError, match=rf"; did you mean {guess}\?$"):
            resolve(Cell.parse("matrix/climbing/full/mappo"), dict(values))
    with pytest.raises(UserError, match=r"; did you mean mappo\?$"):
        Cell.parse("matrix/climbing/full/mapo")
    with pytest.raises(UserError, match=r"[^?]$"):
        Cell.parse("matrix/climbing/full/xyzzy")
