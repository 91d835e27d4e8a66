"""The command line: what it calls, what it says, how it fails."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from command import call
from run_files import run_document

from fp3o import cli, config
from fp3o.config import Cell, Plan, resolve
from fp3o.config.domains import OPTIONS
from fp3o.config.settings import Settings, every_field
from fp3o.envs.interface import Episode
from fp3o.errors import UserError
from fp3o.execution.compute import Compute
from fp3o.fields import declared, meanings
from fp3o.rollout.evaluation import evaluation_rows
from fp3o.runs import layout, records, store
from fp3o.runs.folder import RunFolder
from fp3o.runs.interrupt import Interrupted
from fp3o.workflow import prune as prune_module
from fp3o.workflow import pulling, saving
from fp3o.workflow.blocks import Block

CELL = "matrix/two-step/full/mappo"

each_signal = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


def publish_runs(
    plan: Plan, seeds: tuple[int, ...], runs: Path, scratch: Path, status: dict[str, Any] | None = None
) -> None:
    """What a training leaves behind, without training."""
    with RunFolder(plan, seeds, runs, scratch) as folder:
        for seed in folder.seeds:
            log = records.CsvLog(folder.scratch(seed) / records.EVALUATIONS)
            episodes = [Episode(0, 10.0 + seed, 5.0, 2, None)] * plan.settings.evaluation_episodes
            log.append(evaluation_rows(100, 1, episodes))
            log.close()
            (folder.scratch(seed) / records.ITERATIONS).write_text(f"loss\n{seed}\n")
            (folder.scratch(seed) / records.CHECKPOINT).write_bytes(f"weights of seed {seed}".encode())
            document = run_document(plan, seed, folder.scratch(seed), **(status or {}))
            folder.publish(seed, document)
        folder.discard_scratch()


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replace the training loop; what it was called with."""
    calls: list[dict[str, Any]] = []

    def train(plan: Plan, seeds: tuple[int, ...], runs: Path, scratch: Path, compute: Compute, *_: Any) -> list[Any]:
        calls.append({"plan": plan, "seeds": seeds, "runs": runs, "scratch": scratch, "compute": compute})
        publish_runs(plan, seeds, runs, scratch)
        return []

    replace_loop(monkeypatch, train)
    return calls


def replace_loop(monkeypatch: pytest.MonkeyPatch, train: Callable[..., list[Any]]) -> None:
    module = ModuleType("fp3o.training.run")
    module.train = train  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fp3o.training.run", module)


def raising(error: BaseException) -> Callable[..., list[Any]]:
    """A training loop that ends with this error."""

    def train(*_: Any, **__: Any) -> list[Any]:
        raise error

    return train


def test_train_resolves_and_calls_the_loop(
    tmp_path: Path, trainings: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("train", CELL, "--seeds", "1-2", "--out", str(tmp_path), "--set", "gamma=0.5", "--set", "clip=0.1")
    assert call(*arguments, "--device", "cpu", "--path", "eager", "--threads", "2", "--allow-path-change") == 0
    (made,) = trainings
    assert made["plan"] == resolve(Cell.parse(CELL), {"gamma": "0.5", "clip": "0.1"})
    assert (made["seeds"], made["runs"], made["scratch"]) == ((1, 2), tmp_path, tmp_path / "scratch")
    assert made["compute"] == Compute("cpu", "eager", 2, allow_path_change=True)
    shown = capsys.readouterr().out
    assert shown.startswith(f"{CELL} {made['plan'].digest}: seeds 1-2, 25,600 steps each\n")
    assert "differs from the default: gamma" in shown  # the paper has no such game
    assert f"{CELL}: 11.5 ± 0.7 (n = 2), no published value" in shown
    assert "; shorter runs are scored by their later half, 1 of 1 evaluations\n" in shown
    assert str(tmp_path / CELL / made["plan"].digest) in shown


def test_the_same_command_again_is_a_no_op(
    tmp_path: Path, trainings: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert call("train", CELL, "--seeds", "0", "--out", str(tmp_path)) == 0
    assert len(trainings) == 1
    shown = capsys.readouterr().out
    assert "seeds 0: already finished, nothing to do" in shown
    assert shown.count("10.0 (n = 1)") == 2


def test_a_suite_has_its_own_root_and_overrides(
    tmp_path: Path, trainings: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "suite_root", lambda name: tmp_path / name)
    suite = config.load_suite("smoke")
    plan, seeds = suite.runs()[-1]
    assert call("train", plan.cell.id, "--suite", "smoke", "--seeds", config.seeds_text(seeds)) == 0
    (made,) = trainings
    assert made["plan"] == plan
    assert made["plan"].deviations
    assert made["runs"] == tmp_path / "smoke" / "runs"
    assert made["scratch"] == tmp_path / "smoke" / "scratch"


@pytest.mark.parametrize(
    ("cell", "more", "why"),
    [
        (None, ("--set", "gamma=0.5"), "other settings than suite smoke plans"),
        (None, ("--seeds", "0,7"), "suite smoke has seeds 0-1"),
        ("matrix/climbing/none/ippo", (), "suite smoke has no such cell"),
    ],
)
def test_what_is_no_run_of_the_suite_goes_elsewhere(
    tmp_path: Path,
    trainings: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cell: str | None,
    more: tuple[str, ...],
    why: str,
) -> None:
    """The suite's folder belongs to its tables, and the paper's to DVC, whose pull would remove it."""
    monkeypatch.setattr(layout, "suite_root", lambda name: tmp_path / name)
    monkeypatch.setattr(layout, "own_root", lambda: tmp_path / "own")
    chosen = cell or config.load_suite("smoke").runs()[-1][0].cell.id
    assert call("train", chosen, "--suite", "smoke", *(more if "--seeds" in more else (*more, "--seeds", "0"))) == 0
    (made,) = trainings
    assert (made["runs"], made["scratch"]) == (tmp_path / "own", tmp_path / "own" / "scratch")
    assert f"{why}: writing to {tmp_path / 'own'}/\n" in capsys.readouterr().out


def test_the_own_folder_is_nobodys_output() -> None:
    root = config.repository()
    assert "/runs/" in (root / ".gitignore").read_text().splitlines()
    assert root / layout.own_root() == root / "runs"


@each_signal
def test_stopped_while_starting(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    code: int,
) -> None:
    def train(*_: Any, **__: Any) -> list[Any]:
        signal.raise_signal(number)
        raise AssertionError("went on")

    before = signal.getsignal(number)
    replace_loop(monkeypatch, train)
    assert call("train", CELL, "--seeds", "0", "--out", str(tmp_path)) == code
    assert capsys.readouterr().err == "fp3o: stopped\n"
    assert signal.getsignal(number) is before


@each_signal
def test_stopped_while_importing(number: signal.Signals, code: int) -> None:
    script = (
        "import os, sys\n"
        "class Importing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'tyro': os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Importing())\n"
        "from fp3o.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "fp3o: stopped\n")


def wrapped(inner: BaseException) -> RuntimeError:
    """As a compiler reports what happened to it."""
    outer = RuntimeError("backend='inductor' raised:\nsomething")
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), "its path is too long; choose a shorter folder"),
        (OSError(errno.ELOOP, "Too many levels", "a/b"), "cannot use a/b: its path runs in a circle of links"),
        (OSError(errno.ENOSPC, "No space left on device"), "set TMPDIR to a folder on another disk"),
        (wrapped(OSError(errno.ENOSPC, "No space left on device")), "set TMPDIR to a folder on another disk"),
        (wrapped(RuntimeError("cc1plus: fatal error: No space left on device")), "set TMPDIR"),
        (FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"), "set TMPDIR"),
    ],
)
def test_disks_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    message: str,
) -> None:
    replace_loop(monkeypatch, raising(error))
    assert call("train", CELL, "--seeds", "0", "--out", str(tmp_path)) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("fp3o: ")
    assert shown.count("\n") == 1
    assert message in shown


FULL = (
    "CUDA out of memory. Tried to allocate 1.55 GiB. GPU 0 has a total capacity of 139.80 GiB of which 1.50 GiB is "
    "free. Process 7 has 11.20 GiB memory in use."
)


@pytest.mark.parametrize(
    ("error", "sizes"),
    [
        (torch.OutOfMemoryError(FULL), " (139.80 GiB in all, 1.50 GiB free)"),
        (wrapped(torch.OutOfMemoryError(FULL)), " (139.80 GiB in all, 1.50 GiB free)"),
        (torch.OutOfMemoryError("Allocation on device"), ""),
        (RuntimeError("CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA`"), ""),
        (RuntimeError("Triton Error [CUDA]: out of memory"), ""),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), ""),
    ],
)
def test_a_full_gpu_is_one_line_and_how_to_go_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    sizes: str,
) -> None:
    replace_loop(monkeypatch, raising(error))
    assert call("train", CELL, "--seeds", "0", "--out", str(tmp_path)) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"fp3o: the GPU's memory is full{sizes}; train fewer cells on it at once (snakemake: --config jobs_per_gpu=…), "
        "or on the CPU (--device cpu)",
        f"resume with: fp3o train {CELL} --seeds 0 --out {tmp_path}",
    ]


def test_a_full_main_memory_is_no_full_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_loop(monkeypatch, raising(RuntimeError("DefaultCPUAllocator: can't allocate memory")))
    assert call("train", CELL, "--out", str(tmp_path)) == 2
    shown = capsys.readouterr().err
    assert "GPU" not in shown
    assert "resume with: fp3o train" in shown


def test_paths_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for out, message in ((tmp_path / "circle", "circle of links"), (tmp_path / ("x" * 300), "path is too long")):
        assert call("train", CELL, "--seeds", "0", "--out", str(out)) == 2
        shown = capsys.readouterr().err
        assert shown.count("\n") == 1
        assert message in shown


def test_a_diverged_seed_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(plan: Plan, seeds: tuple[int, ...], runs: Path, scratch: Path, *_: Any) -> list[Any]:
        status = {"status": "diverged", "diverged": {"iteration": 7, "quantity": "actor loss"}}
        publish_runs(plan, seeds, runs, scratch, status)
        return []

    replace_loop(monkeypatch, train)
    assert call("train", CELL, "--seeds", "3", "--out", str(tmp_path)) == 0
    assert "warning: seed 3 diverged in iteration 7 (actor loss)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "ant"), "cell 'ant' should read <domain>/<task>/<sharing>/<algorithm>[-<variant>]"),
        (("train", "mamujoco/ant/full/fp3o"), "unknown task 'ant' in mamujoco/ant/full/fp3o; allowed: reacher-2x1, "),
        (("train", CELL + "-fast"), "unknown variant of mappo 'fast'"),
        (("train", CELL, "--set", "gama=1"), "unknown setting 'gama'"),
        (("train", CELL, "--set", "gamma"), "--set 'gamma' not understood; allowed: name=value"),
        (("train", CELL, "--set", "gamma=much"), "gamma = 'much' is not allowed; allowed: a number"),
        (("train", CELL, "--set", "gamma=1", "--set", "gamma=0"), "--set gamma is given twice"),
        (("train", CELL, "--seeds", "4-0"), "seeds '4-0' not understood; allowed: 3, 0-4 or 0-4,7"),
        (("train", CELL, "--suite", "papers"), "unknown suite 'papers'; allowed: "),
        (("train", CELL, "--threads", "-1"), "--threads -1 is not allowed"),
        (("evaluate", "nowhere"), "there is no run in nowhere: no run.json is there"),
        (("continue", "nowhere", "--total-steps", "9"), "there is no run in nowhere: no run.json is there"),
        (("render", "nowhere", "--out", "a.avi"), "cannot write a.avi: unknown kind of file; allowed: .webp"),
        (("render", "nowhere", "--every", "0"), "--every 0 is not allowed; allowed: 1 … 1000000"),
        (
            ("render", "nowhere", "--width", "1" + "0" * 30),
            "--width 1" + "0" * 30 + " is not allowed; allowed: 2 … 8192",
        ),
        (("render", "nowhere"), "there is no run in nowhere: no run.json is there"),
        (("list", "--match", "xyz*"), " cells fits --match 'xyz*'; without it all are listed"),
        (("list", "--suite", "smoke", "--match", "smac"), " cells of suite smoke fits --match 'smac'"),
        (("list", "tasks", "--suite", "smoke"), "--suite belongs to"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...],
    message: str,
    trainings: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("fp3o: ")
    assert shown.err.count("\n") == 1
    assert message in shown.err
    assert trainings == []


def test_unwritable_output_folder(
    tmp_path: Path, trainings: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    assert call("train", CELL, "--out", str(tmp_path / "file")) == 2
    assert "cannot write" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_unknown_flags_and_choices_exit_with_two() -> None:
    assert call("train", CELL, "--sed", "1") == 2
    assert call("train", CELL, "--device", "tpu") == 2
    assert call("list", "everything") == 2
    assert call() == 2


@each_signal
def test_interruption_gives_the_resume_hint(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    code: int,
) -> None:
    replace_loop(monkeypatch, raising(Interrupted(number, "stopped at 100 of 200 steps, saved")))
    assert call("train", CELL, "--seeds", "0", "--out", str(tmp_path / "two words")) == code
    shown = capsys.readouterr().err
    assert "fp3o: stopped at 100 of 200 steps, saved\n" in shown
    assert f"resume with: fp3o train {CELL} --seeds 0 --out '{tmp_path / 'two words'}'\n" in shown


def test_user_errors_of_the_loop_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_loop(monkeypatch, raising(UserError("seed 0 is already being trained by\nprocess 7")))
    assert call("train", CELL, "--out", str(tmp_path)) == 2
    assert capsys.readouterr().err.endswith("fp3o: seed 0 is already being trained by process 7\n")


def test_our_own_mistakes_keep_their_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_loop(monkeypatch, raising(ZeroDivisionError("ours")))
    with pytest.raises(ZeroDivisionError, match="ours"):
        cli.main(["train", CELL, "--out", str(tmp_path)])


def test_evaluate_prints_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = resolve(Cell.parse(CELL))
    publish_runs(plan, (4,), tmp_path, tmp_path / "scratch")
    asked: list[tuple[Any, ...]] = []

    def evaluate_run(folder: Path, episodes: int, seed: int, watch: Any, **more: Any) -> list[Episode]:
        asked.append((folder, episodes, seed, more))
        return [Episode(i, float(i), float(i) / 2, 10, i == 1) for i in range(episodes)]

    monkeypatch.setattr("fp3o.rollout.evaluation.evaluate_run", evaluate_run)
    run = tmp_path / CELL / plan.digest / "seed-4"
    out = tmp_path / "episodes.csv"
    assert call("evaluate", str(run), "--episodes", "4", "--seed", "9", "--out", str(out)) == 0
    assert call("evaluate", str(run), "--episodes", "1", "--stochastic", "--checkpoint", "best") == 0
    plain, other = ({"stochastic": False, "weights": None}, {"stochastic": True, "weights": Path("best")})
    assert asked == [(run, 4, 9, plain), (run, 1, 0, other)]
    shown = capsys.readouterr().out
    assert f"{CELL} seed 4, 4 episodes from seed 9" in shown
    # Mean, Student's t interval, deviation with ddof = 1 of 0, 1, 2, 3.
    assert "\nreturn            1.5     -0.55426 … 3.5543  1.29       0 … 3\n" in shown
    assert "\nwin rate          25.0 %  4.6 … 69.9 %\n" in shown
    assert max(map(len, shown.splitlines()[1:6])) < 80
    assert "1 episodes from seed 0, actions drawn from the policy\n" in shown
    assert "\nreturn            0      –                 –          0 … 0\n" in shown
    assert records.read_table(out)["return"].tolist() == [0, 1, 2, 3]
    assert call("evaluate", str(run), "--episodes", "0") == 2


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*arguments: str) -> list[str]:
        assert call("list", *arguments) == 0
        return capsys.readouterr().out.splitlines()

    cells = listed("cells")
    assert "mamujoco/ant-2x4/partial/fp3o" in cells
    assert len(set(cells)) == len(cells)
    assert listed() == cells
    assert listed("cells", "--match", "*/hopper-3x1/none/f*") == ["mamujoco/hopper-3x1/none/fp3o"]
    assert "mpe/simple-reference" in listed("tasks")
    assert "pettingzoo/pursuit\tpip install 'pettingzoo[sisl]'" in listed("tasks")
    assert listed("algorithms") == list(config.algorithms())
    assert any(line.startswith("fp3o-double-clip\t") for line in listed("variants"))
    assert any(line.startswith("gamma\tnumber, 0 … 1\t0.99\t") for line in listed("settings"))
    assert any(line.startswith("paper\t") for line in listed("suites"))
    smoke = [line.split("\t") for line in listed("cells", "--suite", "smoke")]
    assert [row[0] for row in smoke] == [plan.cell.id for plan, _ in config.load_suite("smoke").runs()]
    assert all(len(row) == 3 for row in smoke)


def test_every_field_and_option_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    kinds: tuple[type[Any], ...] = (Settings, *OPTIONS.values())
    for kind in kinds:
        for name in declared(kind):
            assert meanings(kind).get(name), f"{kind.__name__}.{name} has no text"
    assert call("train", "--help") == 0
    shown = capsys.readouterr().out
    for fields in (every_field(), *map(declared, OPTIONS.values())):
        for name in fields:
            assert f"• {name} (" in shown


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    shown = capsys.readouterr().out
    for name in (
        "train",
        "evaluate",
        "list",
        "doctor",
        "check-env",
        "check-smac",
        "status",
        "rerun",
        "save",
        "pull",
        "merge",
        "pack",
        "unpack",
        "prune",
        "render",
    ):
        assert f"• {name} " in shown
        assert call(name, "--help") == 0
        assert "usage: fp3o" in capsys.readouterr().out


def test_a_misspelt_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("trian", "matrix/climbing/full/mappo") == 2
    said = capsys.readouterr().err
    assert said.startswith("fp3o: unknown command 'trian'; allowed: train, continue, ")
    assert said.endswith("; did you mean train?\n")


def test_listing_imports_nothing_heavy() -> None:
    code = (
        "import sys; from fp3o import cli\n"
        "try: cli.main(['list', 'tasks'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'scipy', 'jsonschema', 'mujoco', 'numba', 'snakemake', 'dvc', 'matplotlib'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m fp3o list cells | head -n 1"
    shell = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False, env=os.environ
    )
    assert (shell.returncode, shell.stderr) == (0, "")
    assert shell.stdout.count("\n") == 1


def test_check_env_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Report:
        lines = ("2 agents", "actions of agent_1: Tuple is not supported")
        fits = False

    module = ModuleType("fp3o.envs.pettingzoo")
    asked: list[tuple[str, ...]] = []

    def check(*given: str) -> Report:
        asked.append(given)
        return Report()

    module.check = check  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fp3o.envs.pettingzoo", module)
    assert call("check-env", "mine:make", "--env-args", "size=3") == 1
    assert asked == [("mine:make", "size=3")]
    assert "Tuple is not supported" in capsys.readouterr().out


def test_upkeep_gets_what_was_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[Any, ...]] = []

    def prune(suite: Any, delete: bool, kept: bool) -> list[str]:
        asked.append((suite.name, delete, kept))
        return ["an old run"] if delete else []

    def save(message: str, suites: Sequence[str], again: Sequence[str]) -> store.Outcome:
        return store.Outcome([f"saved {message} of {' and '.join(suites)}, again: {' '.join(again)}"], [])

    def pull(cells: Sequence[str], suites: Sequence[str], checkpoints: bool) -> store.Outcome:
        about = f"{' and '.join(cells)} of {' and '.join(suites)}{', checkpoints too' * checkpoints}"
        return store.Outcome([f"pulled {about}"], ["an object is damaged"])

    monkeypatch.setattr(prune_module, "prune", prune)
    monkeypatch.setattr(saving, "save", save)
    monkeypatch.setattr(pulling, "pull", pull)
    assert call("prune", "--suite", "quick") == 0
    assert call("prune", "--delete") == 0
    assert call("prune", "--delete", "--kept") == 0
    assert call("save", "-m", "all of it", "--again", "mpe/*", "smac") == 0
    assert call("pull", "smac", "mpe/*", "--suite", "preview") == 1
    assert call("pull", "--checkpoints", "smac", "--suite", "preview") == 1
    assert asked == [("quick", False, False), ("paper", True, False), ("paper", True, True)]
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        *("nothing to prune", "an old run", "an old run"),
        f"saved all of it of {' and '.join(store.TRACKED)}, again: mpe/* smac",
        "pulled smac and mpe/* of preview",
        "pulled smac of preview, checkpoints too",
    ]
    assert shown.err == "fp3o: an object is damaged\n" * 2


@pytest.mark.parametrize("folder", [".", "docs"])
def test_rerun_prints_and_runs_snakemake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    monkeypatch.chdir(config.repository() / folder)
    # Marks that a sweep left in this checkout would move the number on.
    monkeypatch.setattr(Block, "marks", lambda self: {})
    started: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        started.append(command)
        return subprocess.CompletedProcess(command, 7)

    monkeypatch.setattr(subprocess, "run", run)
    plan, seeds = config.load_suite("smoke").runs()[0]
    assert call("rerun", plan.cell.id, "--suite", "smoke", "--seed", str(seeds[0])) == 7
    # Names from the repository's folder, wherever it is called from.
    mark = f"results/smoke/marks/{plan.cell.id}/{plan.digest}-s{config.seeds_text(seeds)}.retrain-1"
    assert started == [[sys.executable, "-m", "snakemake", mark, "--config", "suite=smoke"]]
    assert capsys.readouterr().out == f"snakemake {mark} --config suite=smoke\n"
    assert call("rerun", plan.cell.id, "--suite", "smoke", "--seed", "99") == 2
    assert call("rerun", CELL, "--suite", "smoke") == 2
    assert len(started) == 1
