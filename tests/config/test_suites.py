"""Suites that build on others, and budgets."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fp3o import config
from fp3o.config import load_suite
from fp3o.errors import UserError
from fp3o.runs import layout
from paper_figures.__main__ import scripts

ROOT = Path(__file__).resolve().parents[2]
BASE = """title: Base
seeds: 0-1
artefacts:
  table-games: {kind: table, cells: [matrix/climbing/full/mappo, matrix/two-step/none/fp3o]}
  figure-games: {kind: figure, script: stability, cells: [matrix/climbing/full/mappo]}
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Write a suite into a repository of its own that has `base`."""
    (tmp_path / "benchmarks" / "suites").mkdir(parents=True)
    (tmp_path / "workflow" / "schemas").mkdir(parents=True)
    for name in (
        "benchmarks/tasks.yaml",
        *(f"workflow/schemas/{p.name}" for p in (ROOT / "workflow/schemas").iterdir()),
    ):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    monkeypatch.chdir(tmp_path)

    def add(name: str, text: str) -> None:
        (tmp_path / "benchmarks" / "suites" / f"{name}.yaml").write_text(text)

    add("base", BASE)
    return add


def ids(suite: config.Suite) -> dict[str, list[str]]:
    return {artefact.name: [cell.id for cell in artefact.cells] for artefact in suite.artefacts}


def test_an_heir_has_its_bases_artefacts_and_its_own(write: Callable[[str, str], None]) -> None:
    own = "artefacts:\n  figure-games: {kind: figure, cells: [matrix/two-step/none/fp3o]}\n"
    write("heir", f"title: Heir\nextends: base\nseeds: 3\n{own}")
    heir = load_suite("heir")
    assert ids(heir) == {**ids(load_suite("base")), "figure-games": ["matrix/two-step/none/fp3o"]}
    assert {artefact.seeds for artefact in heir.artefacts} == {(3,)}
    assert heir.artefact("figure-games").script == "learning_curves"


def test_only_leaves_out_cells_and_artefacts_without_any(write: Callable[[str, str], None]) -> None:
    write("heir", "title: Heir\nextends: base\nonly: '*/two-step/*'\n")
    assert ids(load_suite("heir")) == {"table-games": ["matrix/two-step/none/fp3o"]}
    write("nothing", "title: Nothing\nextends: base\nonly: smac/*\n")
    with pytest.raises(UserError, match=r"only 'smac/\*' fits none of its cells"):
        load_suite("nothing")


def test_films_are_of_cells_of_the_suite(write: Callable[[str, str], None]) -> None:
    films = "films: [matrix/two-step/none/fp3o, matrix/climbing/full/mappo]\n"
    write("heir", f"title: Heir\nextends: base\n{films}")
    assert load_suite("heir").films == ("matrix/two-step/none/fp3o", "matrix/climbing/full/mappo")
    write("part", f"title: Part\nextends: base\nonly: '*/two-step/*'\n{films}")
    assert load_suite("part").films == ("matrix/two-step/none/fp3o",)
    write("other", "title: Other\nextends: base\nfilms: [smac/3m/full/fp3o]\n")
    with pytest.raises(UserError, match="films: smac/3m/full/fp3o is not one of its cells"):
        load_suite("other")


WHOLE = """artefacts:
  table-cost: {kind: cost, seeds: 0, cells: [matrix/single/full/ippo]}
  every: {kind: figure, cells: all}
  cost: {kind: figure, script: cost, reads: table-cost}
"""


def test_a_figure_of_every_cell_asks_for_no_run_of_its_own(write: Callable[[str, str], None]) -> None:
    more = "  few: {kind: table, seeds: 7, cells: [matrix/single/full/mappo]}\n"
    write("heir", f"title: Heir\nextends: base\n{WHOLE}{more}")
    suite = load_suite("heir")
    assert {plan.cell.id: seeds for plan, seeds in suite.runs()} == {
        "matrix/climbing/full/mappo": (0, 1),
        "matrix/two-step/none/fp3o": (0, 1),
        "matrix/single/full/mappo": (7,),
    }
    assert {cell.id for cell in suite.artefact("every").cells} == {plan.cell.id for plan, _ in suite.runs()}
    assert (suite.artefact("cost").cells, suite.artefact("table-cost").numbers) == ((), "cost.csv")


def test_a_figure_of_no_cells_is_about_the_whole_suite(write: Callable[[str, str], None]) -> None:
    own = "artefacts:\n  drawing: {kind: figure, script: pipelines, cells: none}\n"
    write("heir", f"title: Heir\nextends: base\n{own}")
    drawing = load_suite("heir").artefact("drawing")
    assert (drawing.cells, drawing.seeds, drawing.states_facts) == ((), (), True)
    assert not load_suite("heir").artefact("table-games").states_facts
    assert load_suite("heir").runs() == load_suite("base").runs()
    write("part", f"title: Part\nextends: base\nonly: '*/two-step/*'\n{own}")
    assert "drawing" not in ids(load_suite("part"))


def test_a_figure_of_a_table_that_only_leaves_out_is_left_out(write: Callable[[str, str], None]) -> None:
    write("heir", f"title: Heir\nextends: base\nonly: '*/two-step/*'\n{WHOLE}")
    assert ids(load_suite("heir")) == {name: ["matrix/two-step/none/fp3o"] for name in ("table-games", "every")}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{kind: figure, reads: table-gmaes}", "unknown table 'table-gmaes' in suite heir, artefacts/new/reads"),
        ("{kind: figure, cells: every}", r"artefacts/new/cells: 'every' is not one of \['all', 'none'\]"),
        ("{kind: figure}", "artefacts/new: 'cells' is a required property"),
        ("{kind: table, reads: table-games}", "artefacts/new: 'cells' is a required property"),
        ("{kind: table, cells: none}", "artefacts/new/cells: 'none' should not be valid"),
        ("{kind: facts}", "artefacts/new: 'paper' is a required property"),
        ("{kind: facts, paper: table_x, cells: all}", "False schema does not allow 'all'"),
    ],
)
def test_what_a_figure_is_made_from_is_checked(write: Callable[[str, str], None], entry: str, message: str) -> None:
    write("heir", f"title: Heir\nextends: base\nartefacts:\n  new: {entry}\n")
    with pytest.raises(UserError, match=message):
        load_suite("heir")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("captoin: x", "unknown key 'captoin' in suite heir, top level; allowed: title, .*artefacts"),
        (
            "artefacts: {new: {kind: table, captoin: x, cells: all}}",
            "'captoin' in suite heir, artefacts/new; .*caption",
        ),
        (
            "artefacts: {new: {kind: table, cells: [{domain: matrix, task: [climbing]}]}}",
            "unknown key 'task' in suite heir, artefacts/new/cells/0; allowed: domain, tasks",
        ),
        ("seeds: many", "^suite heir: seeds 'many' not understood"),
        (
            "artefacts: {new: {kind: table, cells: [matrix/climbing/full/ippo], seeds: 1-}}",
            "^suite heir, artefacts/new: seeds '1-'",
        ),
        (
            "artefacts: {new: {kind: table, cells: [matrix/x/full/ippo]}}",
            "^suite heir, artefacts/new: unknown task 'x'",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_is_allowed(
    write: Callable[[str, str], None], text: str, message: str
) -> None:
    write("heir", f"title: Heir\nextends: base\n{text}\n")
    with pytest.raises(UserError, match=message):
        load_suite("heir")


@pytest.mark.parametrize(("text", "message"), [("extends: bass", "base"), ("extends: heir", "which extends it")])
def test_a_base_that_cannot_be(write: Callable[[str, str], None], text: str, message: str) -> None:
    write("heir", f"title: Heir\n{text}\n")
    with pytest.raises(UserError, match=message):
        load_suite("heir")


def test_a_budget_is_a_fraction_in_whole_iterations(write: Callable[[str, str], None]) -> None:
    write("heir", "title: Heir\nextends: base\nbudget: 0.15\n")
    for (short, _), (plain, _) in zip(load_suite("heir").runs(), load_suite("base").runs(), strict=True):
        assert 0 < short.settings.total_steps <= 0.15 * plain.settings.total_steps
        assert short.iterations == int(0.15 * plain.iterations)
        assert [change.name for change in short.deviations] == ["total_steps"]
        assert short.digest != plain.digest


def test_the_preview_is_the_paper_at_a_tenth() -> None:
    preview, paper = load_suite("preview"), load_suite("paper")
    comparisons = {"cost", "reproduction-forest", "reproduction-profiles", "reproduction-scatter"}
    assert ids(preview) == {name: cells for name, cells in ids(paper).items() if name not in comparisons}
    assert {plan.cell for plan, _ in preview.runs()} == {plan.cell for plan, _ in paper.runs()}
    for (short, _), (whole, _) in zip(preview.runs(), paper.runs(), strict=True):
        assert short.iterations == whole.iterations // 10


def test_a_suite_can_only_leave_out_what_it_inherits(tmp_path: Path) -> None:
    heir = tmp_path / "heir.yaml"
    for text, allowed in (("extends: quick", r"table-\S+, .*"), ("seeds: 0", "none")):
        heir.write_text(f"title: Heir\n{text}\nartefacts: {{nothing: null}}\n")
        with pytest.raises(UserError, match=rf"unknown artefact 'nothing' in suite heir, .*; allowed: {allowed}$"):
            load_suite(str(heir))


def test_the_previews_tables_are_held_against_fp3o_and_not_against_the_paper() -> None:
    preview = load_suite("preview")
    assert preview.artefact("table-mamujoco").baseline == "fp3o"
    assert not any(a.baseline for a in preview.artefacts if a.kind != "table")
    assert not any(a.baseline for a in load_suite("paper").artefacts)
    assert (load_suite("paper").of_the_paper, preview.of_the_paper) == (True, False)


def test_a_baseline_of_no_table_is_a_mistake(write: Callable[[str, str], None]) -> None:
    write("heir", "title: Heir\nextends: base\nbaseline: shy\n")
    with pytest.raises(UserError, match="unknown algorithm 'shy' in suite heir, baseline; allowed: "):
        load_suite("heir")


def test_every_figure_of_a_suite_names_a_script_that_exists() -> None:
    suites = [load_suite(name) for name in config.suite_names()]
    named = {artefact.script for suite in suites for artefact in suite.artefacts if artefact.kind == "figure"}
    assert named == set(scripts()) - {"sweep"}  # for grids, which users' suites have


# --- Suites of users ------------------------------------------------------------------------------------------------

MINE = """title: Mine
seeds: 0
artefacts:
  table-mine:
    kind: table
    cells:
      - domain: matrix
        tasks: [climbing]
        sharing: [full]
        algorithms: [mappo]
        grid: {clip: [0.1, 0.2], epochs: [1, 2]}
"""


def test_a_suite_by_its_path(
    write: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "mine.yaml").write_text(MINE)
    suite = load_suite("my/mine.yaml")
    assert (suite.name, suite.argument, suite.file) == ("mine", "my/mine.yaml", tmp_path / "my" / "mine.yaml")
    (tmp_path / "my" / "heir.yaml").write_text("title: Heir\nextends: mine.yaml\nseeds: 1\n")
    (tmp_path / "my" / "other.yaml").write_text("title: Heir\nextends: base\nseeds: 1\n")
    assert ids(load_suite("my/heir.yaml")) == ids(suite)
    assert "table-games" in ids(load_suite("my/other.yaml"))
    assert layout.suite_root("mine") == Path("results/mine")
    monkeypatch.chdir(tmp_path / "my")
    assert layout.suite_root("base") == tmp_path / "results" / "base"
    assert layout.suite_root("mine") == Path("results/mine")  # where the user is
    (tmp_path / "my" / "base.yaml").write_text(MINE)
    for name, message in {
        "none.yaml": "there is no such file",
        "base.yaml": "fp3o has a suite of that name; rename the file",
        "a b.yaml": "the file's name may hold letters",
    }.items():
        with pytest.raises(UserError, match=f"suite {name}: {message}"):
            load_suite(name)
    assert load_suite("../benchmarks/suites/base.yaml").argument == "base"


def test_a_grid_is_made_of_variants_that_need_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE)
    plans = {plan.cell.label: plan for plan, _ in load_suite(str(path)).runs()}
    assert list(plans) == [f"mappo-clip-{clip}-epochs-{epochs}" for clip in (0.1, 0.2) for epochs in (1, 2)]
    plan = plans["mappo-clip-0.1-epochs-2"]
    assert (plan.settings.clip, plan.settings.epochs, plan.cell.title) == (0.1, 2, "MAPPO (clip 0.1 epochs 2)")
    assert len({plan.digest for plan in plans.values()}) == 4
    tiny = config.resolve(config.Cell.parse("matrix/climbing/none/happo-actor_lr-1e-05-agent_order-semi-greedy"))
    assert (tiny.settings.actor_lr, vars(tiny.settings)["agent_order"]) == (1e-05, "semi-greedy")
    for place, (grid, message) in enumerate(
        {
            "{clipp: [0.1]}": "grid of mappo: mappo-clipp-0.1 is not the name of a cell",
            "{clip: [-0.1]}": "mappo-clip--0.1 is not the name of a cell",
            "{clip: [2]}": r"matrix/climbing/full/mappo-clip-2 \(variant mappo-clip-2\): clip = 2 is not allowed",
            "{double_clip: [true]}": "double_clip is read only by fp3o",
        }.items()
    ):
        bad = tmp_path / f"bad{place}.yaml"
        bad.write_text(MINE.replace("{clip: [0.1, 0.2], epochs: [1, 2]}", grid))
        with pytest.raises(UserError, match=message):
            load_suite(str(bad)).runs()


@pytest.mark.parametrize(
    ("changed", "labels"),
    [
        ("", ["mappo-clip-0.1", "mappo"]),
        ("overrides: [{cells: '*', set: {clip: 0.1}}]", ["mappo"]),  # overrides are stronger than variants
        ("overrides: [{cells: '*/mappo-clip-0.2', set: {epochs: 1}}]", ["mappo-clip-0.1", "mappo-clip-0.2"]),
    ],
)
def test_a_grids_point_with_the_cells_own_values_is_the_cell(changed: str, labels: list[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE.replace(", epochs: [1, 2]", "") + changed)
    plans = [plan for plan, _ in load_suite(str(path)).runs()]
    assert [plan.cell.label for plan in plans] == labels
    if not changed:
        assert plans[1].digest == config.resolve(config.Cell.parse("matrix/climbing/full/mappo")).digest


def test_a_baseline_is_one_of_the_tables_algorithms(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE + "    baseline: happo\n")
    with pytest.raises(UserError, match="unknown algorithm 'happo' in suite mine, artefacts/table-mine/baseline"):
        load_suite(str(tmp_path / "mine.yaml"))
    (tmp_path / "more.yaml").write_text(MINE + "imports: [none.py]\n")
    with pytest.raises(UserError, match=r"suite more, imports: .*none.py: there is no such file"):
        load_suite(str(tmp_path / "more.yaml"))


# --- How runs are saved --------------------------------------------------------------------------------------------


def test_the_papers_checkpoints_are_kept_of_first_seeds_and_of_smac_where_they_are_played() -> None:
    suite = load_suite("paper")
    played = {"full/fp3o", "full/mappo"}
    for plan, seeds in suite.runs():
        rule = suite.saving_of(plan.cell.id)
        assert rule is not None
        large, small = ([rule.keeps(suite.is_first(plan.cell.id, seed), size) for seed in seeds] for size in (2e5, 1e5))
        battle = plan.cell.domain == "smac"
        where = f"{plan.cell.sharing}/{plan.cell.label}"
        first = where in played or plan.cell.id == "smac/3s5z/partial/happo" if battle else True
        first &= not vars(plan.settings).get("matching_degree", False)
        assert large == [first, False, False, False, False]
        assert small == (large if battle else [first] * 5)
    assert {rule.checkpoints for rule in load_suite("preview").saving} == {"none"}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{cells: '*', checkpoints: some}", "saving/0/checkpoints: 'some' is not one of ['all', 'first', 'none']"),
        ("{cells: '*', checkpoints: first, above: -1}", "saving/0/above: -1 is less than the minimum of 0"),
        ("{cells: '*', checkpoints: first, above: 1 kB}", "saving/0/above: '1 kB' is not of type 'integer'"),
        ("{cells: mpe/*, checkpoints: none}", "saving of 'mpe/*' fits none of its cells"),
    ],
)
def test_a_bad_rule_is_one_line(write: Callable[[str, str], None], rule: str, said: str) -> None:
    write("heir", f"title: Heir\nextends: base\nsaving: [{rule}]\n")
    with pytest.raises(UserError, match=re.escape(said)):
        load_suite("heir")
