"""Checkpoints that a suite does not save go to a remote of their own, and come back from it; runs stay as they are."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command import call
from stores import CELL, RUNS, dvc, git, here, killed_at, locked, publish, stored

from fp3o import config
from fp3o.errors import UserError
from fp3o.runs import checkpoint_list, records, store
from fp3o.runs.checkpoint_list import Entry
from fp3o.workflow import manifest, packing, pulling, saving, status
from fp3o.workflow.prune import prune

LIST = Path("results/preview/checkpoints.csv")
ROOT = Path("results/preview/runs")
SEEDS = 3
COUNT = f"{SEEDS} checkpoints"


def set_up(url: str | Path) -> None:
    """As `dvc remote add --local checkpoints URL` does, which takes a second."""
    Path(".dvc/config.local").write_text(f"['remote \"checkpoints\"']\n    url = {url}\n")


def checkpoints() -> dict[str, bytes]:
    return {path: content for path, content in sorted(here("preview").items()) if path.endswith(records.CHECKPOINT)}


@pytest.fixture
def trained(clone: Path) -> dict[str, bytes]:
    """The current folder: a clone where a cell of the preview was trained, which saves no checkpoint. These."""
    for seed in range(SEEDS):
        publish(CELL, seed, suite="preview")
    return checkpoints()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return tmp_path / "remote"


@pytest.fixture
def saved(trained: dict[str, bytes], remote: Path) -> dict[str, bytes]:
    """The same, after they were saved with a folder as the remote, and committed."""
    set_up(remote)
    assert saving.save("Preview", ["preview"]).problems == []
    return trained


@pytest.fixture
def other(saved: dict[str, bytes], remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The current folder: somebody else's clone of that, with the same remote."""
    git("clone", "--quiet", ".", str(tmp_path / "other"))
    monkeypatch.chdir(tmp_path / "other")
    set_up(remote)
    return saved


def pull(*patterns: str) -> store.Outcome:
    return pulling.pull(patterns, ["preview"], checkpoints=True)


def test_without_a_remote_nothing_is_new(trained: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    assert saving.save("Preview", ["preview"]).problems == []
    assert not LIST.exists()
    before = here("preview")
    assert call("pull", "--checkpoints", CELL) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("fp3o: no remote for checkpoints is set up: `dvc remote add --local checkpoints URL`")
    assert said.err.count("\n") == 1
    assert here("preview") == before


def test_what_is_stored_where(trained: dict[str, bytes], remote: Path) -> None:
    saving.save("Preview", ["preview"])
    without = (store.LOCK.read_bytes(), manifest.manifest_path("preview").read_bytes(), stored(), here("preview"))
    set_up(remote)
    outcome = saving.save("Checkpoints", ["preview"])
    assert (f"preview: {COUNT} are in DVC's remote checkpoints" in outcome.lines, outcome.problems) == (True, [])
    with_remote = (store.LOCK.read_bytes(), manifest.manifest_path("preview").read_bytes(), stored(), here("preview"))
    assert with_remote == without
    entries = [Entry.of(path, content) for path, content in trained.items()]
    assert {path.read_bytes() for path in remote.glob("files/md5/??/*")} == set(trained.values())
    assert all(store.object_path(remote, entry.md5).is_file() for entry in entries)
    lines = [f"{entry.file},{entry.size},{entry.md5},{entry.sha256}\n" for entry in entries]
    assert LIST.read_text() == "".join(["file,bytes,md5,sha256\n", *lines])
    assert git("show", "--name-only", "--format=").split() == [str(LIST)]
    head = git("rev-parse", "HEAD")
    assert saving.save("Again", ["preview"]).problems == []
    assert git("rev-parse", "HEAD") == head
    # A suite that saves its checkpoints has nothing to list.
    brought = pulling.pull([CELL], ["paper"], checkpoints=True)
    assert brought == (["5 runs brought, 0 were here", "0 checkpoints brought, 0 were here"], [])
    assert saving.save("Paper", ["paper"]).problems == []
    assert not Path("results/paper/checkpoints.csv").exists()


def test_another_clone_gets_them(other: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("pull", "--suite", "preview") == 0
    run = next(ROOT.glob(f"{CELL}/*/seed-1"))
    assert call("evaluate", str(run)) == 2
    fetch = f"`fp3o pull --checkpoints {CELL} --suite preview` fetches it, `fp3o train {CELL} "
    assert f"{run} was saved without its checkpoint; {fetch}" in capsys.readouterr().err
    assert call("pull", "--checkpoints", f"{CELL}/*/seed-1", "--suite", "preview") == 0
    assert capsys.readouterr().out == "0 runs brought, 1 were here\n1 checkpoints brought, 0 were here\n"
    assert [path for path in checkpoints() if path not in other] == []
    shutil.rmtree(ROOT)  # then the runs come, too
    assert pull().lines == [f"{SEEDS} runs brought, 0 were here", f"{COUNT} brought, 0 were here"]
    assert checkpoints() == other
    times = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in ROOT.rglob("*")}
    shutil.rmtree(".dvc/cache")
    again = pull(CELL)
    assert (again.lines[1], again.problems) == (f"0 checkpoints brought, {SEEDS} were here", [])
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in ROOT.rglob("*")} == times
    run = next(ROOT.glob(f"{CELL}/*/seed-1"))
    (run / records.RUN).write_bytes(b"{")  # not the saved run any more: left as it is
    (run / records.CHECKPOINT).unlink()
    assert pull(CELL).lines[-1] == f"0 checkpoints brought, {SEEDS - 1} were here"
    assert not (run / records.CHECKPOINT).exists()


def test_a_run_with_such_a_checkpoint_is_a_run_like_any_other(other: dict[str, bytes], tmp_path: Path) -> None:
    suite = config.load_suite("preview")
    pulling.pull([f"{CELL}/*/seed-0"], ["preview"])
    pull(f"{CELL}/*/seed-1")  # one run with, one without its checkpoint, one not here
    before = (here("preview"), locked("preview"), stored(), LIST.read_bytes(), git("rev-parse", "HEAD"))
    assert status.damaged("preview") == (2, [])
    assert manifest.disagreements(suite) == []
    assert saving.save("Again", ["preview"]).problems == []
    assert prune(suite, delete=True) == []
    shown = manifest.manifest_path("preview").read_bytes()
    manifest.main(["manifest", "--suite", "preview"])
    assert manifest.manifest_path("preview").read_bytes() == shown
    assert pulling.pull(suites=["preview"]).lines == ["1 runs brought, 2 were here"]
    shutil.rmtree(next(ROOT.glob(f"{CELL}/*/seed-2")))
    assert (here("preview"), locked("preview"), stored(), LIST.read_bytes(), git("rev-parse", "HEAD")) == before
    assert git("status", "--short") == ""
    for small, left in ((False, 1), (True, 0)):
        pack = tmp_path / f"{small}.tar"
        assert packing.pack(pack, [suite], [CELL], states=False, saved=True, small=small).problems == []
        shutil.rmtree(ROOT)
        assert packing.unpack([pack]).problems == []
        assert len(checkpoints()) == left
        assert status.damaged("preview") == (2, [])


def test_a_truncated_object_is_refused_and_can_be_replaced(
    other: dict[str, bytes], remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content = next(iter(other.items()))
    entry = Entry.of(path, content)
    truncated = store.object_path(remote, entry.md5)
    truncated.chmod(0o644)
    truncated.write_bytes(content[:-1])
    for _ in range(2):  # what came the first time is in the cache
        (problem,) = pull().problems
        place = f"object files/md5/{entry.md5[:2]}/{entry.md5[2:]} of DVC's remote checkpoints"
        assert problem.startswith(f"{place} is damaged or missing, {ROOT / path} was not brought: delete it there")
        assert checkpoints() == {name: each for name, each in other.items() if name != path}
    assert not list(ROOT.rglob(".*"))
    truncated.unlink()
    (problem,) = status.not_stored("preview")
    assert problem.startswith(f"DVC's remote checkpoints lacks 1 of {COUNT}, e.g. {path}: `fp3o save` where")
    with monkeypatch.context() as there:
        there.chdir("../clone")
        assert saving.save("", ["preview"]).problems == []
    assert status.not_stored("preview") == []
    assert pull().problems == []
    assert checkpoints() == other


def test_a_remote_that_cannot_be_reached_costs_a_line(
    other: dict[str, bytes], remote: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.rename(remote.with_name("elsewhere"))
    for url in (remote, "http://127.0.0.1:9/store"):  # a disk that is not mounted, a server that is off
        set_up(url)
        assert call("pull", "--checkpoints", "--suite", "preview") == 1
        lacks = f"DVC's remote checkpoints ({url}) cannot be reached, or lacks {COUNT}, e.g. {next(iter(other))}"
        assert capsys.readouterr().err == f"fp3o: {lacks}: `fp3o save` where these runs are puts them back\n"
    runs = here("preview")
    set_up("nonsense://bucket")
    assert call("pull", "--checkpoints", "--suite", "preview") == 2
    said = capsys.readouterr().err
    assert said.startswith("fp3o: DVC's remote checkpoints cannot be used: ")
    assert said.count("\n") == 1
    assert here("preview") == runs
    # Runs are saved without it; their checkpoints go there with the next save.
    monkeypatch.chdir("../clone")
    set_up("nonsense://bucket")
    listed = LIST.read_bytes()
    fresh = publish(CELL, 3, suite="preview")
    (problem,) = saving.save("More", ["preview"]).problems
    start = f"preview: {SEEDS + 1} checkpoints were not saved, only their runs: DVC's remote checkpoints cannot be used"
    assert problem.startswith(start)
    assert f"{fresh.relative_to(ROOT)}/run.json" in locked("preview")
    assert LIST.read_bytes() == listed
    set_up(remote.with_name("elsewhere"))
    assert saving.save("Checkpoints", ["preview"]).problems == []
    assert len(checkpoint_list.read(LIST.parent)) == SEEDS + 1


def test_the_store_in_git_is_no_remote_for_checkpoints(trained: dict[str, bytes]) -> None:
    set_up("../artifacts")
    before = stored()
    for command in (saving.save, pull):
        with pytest.raises(UserError, match=r"DVC's remote checkpoints is artifacts/, which is part of git"):
            command()
    assert stored() == before


@pytest.mark.parametrize("damage", ["another file", "no checksum"])
def test_an_altered_list_brings_nothing(other: dict[str, bytes], damage: str) -> None:
    first, second = (Entry.of(path, content) for path, content in list(other.items())[:2])
    new = second.md5 if damage == "another file" else "../../outside"
    LIST.write_text(LIST.read_text().replace(first.md5, new))
    if damage == "another file":
        (problem,) = pull().problems
        assert problem == f"{LIST} names another file as {first.file}: `git checkout HEAD {LIST}` restores it"
        assert len(checkpoints()) == SEEDS - 1
    else:
        with pytest.raises(UserError, match=rf"^{LIST} has a damaged line, '{first.file}.*: `git checkout HEAD"):
            pull()
        assert checkpoints() == {}


def test_a_run_that_was_trained_again_gets_its_own_checkpoint(
    other: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as there:
        there.chdir("../clone")
        shutil.rmtree(next(ROOT.glob(f"{CELL}/*/seed-0")))
        fresh = publish(CELL, 0, ended="2026-02-02T00:00:00Z", suite="preview")
        document = records.read_run(fresh / records.RUN)
        (fresh / records.CHECKPOINT).write_bytes(b"another")
        document["sha256"][records.CHECKPOINT] = records.sha256_of(fresh / records.CHECKPOINT)
        records.write_run(fresh / records.RUN, document)
        assert saving.save("Anew", ["preview"]).problems == []
        after = checkpoints()
    assert pull().problems == []  # this clone does not know of it yet
    assert checkpoints() == other
    shutil.rmtree(ROOT)
    git("pull", "--quiet")
    assert pull().problems == []
    assert checkpoints() == after != other


def test_both_sides_of_a_merge_keep_theirs(
    other: dict[str, bytes], remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(CELL, 3, suite="preview")
    assert saving.save("Yours", ["preview"]).problems == []
    with monkeypatch.context() as there:
        there.chdir("../clone")
        publish(CELL, 4, suite="preview")
        assert saving.save("Mine", ["preview"]).problems == []
        with pytest.raises(Exception, match="git"):
            git("pull", "--quiet", "--no-rebase", "../other", "HEAD")
        assert call("merge") == 0
        git("commit", "--quiet", "-m", "United")
        shutil.rmtree(ROOT)
        shutil.rmtree(".dvc/cache")
        assert pull().lines == [
            f"{SEEDS + 2} runs brought, 0 were here",
            f"{SEEDS + 2} checkpoints brought, 0 were here",
        ]
        text = LIST.read_text()
        assert (text.count("file,"), text.count("\n")) == (1, SEEDS + 3)


def test_killed_at_any_step_nothing_is_lost_and_the_next_completes(
    trained: dict[str, bytes], remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saving.save("Preview", ["preview"])
    set_up(remote)
    step = 1
    while killed_at(step, lambda: saving.save("", ["preview"])):
        for entry in checkpoint_list.read(LIST.parent).values():  # listed only if it is there
            assert store.intact(store.object_path(remote, entry.md5), entry.md5) is not None
        assert checkpoints() == trained
        step += 1
    assert step > 3
    saving.save("Checkpoints", ["preview"])
    assert len(checkpoint_list.read(LIST.parent)) == SEEDS
    git("clone", "--quiet", ".", str(tmp_path / "other"))
    monkeypatch.chdir(tmp_path / "other")
    set_up(remote)
    pulling.pull(suites=["preview"])
    step = 1
    while killed_at(step, pull):
        assert checkpoints().items() <= trained.items()
        assert status.damaged("preview") == (SEEDS, [])
        if step % 3 == 0:
            shutil.rmtree(".dvc/cache")
        step += 1
    assert step > 3
    assert pull().problems == []
    assert {path: content for path, content in checkpoints().items() if "/." not in path} == trained


# --- HTTP ----------------------------------------------------------------------------------------------------------


class Files(SimpleHTTPRequestHandler):
    """Files below a folder, which PUT adds to."""

    def do_PUT(self) -> None:
        path = Path(self.translate_path(self.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._body())
        self.send_response(HTTPStatus.CREATED)
        self.end_headers()

    def _body(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while size := int(self.rfile.readline(), 16):  # chunked
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server(remote: Path) -> Iterator[str]:
    remote.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: Files(*given, directory=str(remote))) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}/store"
        found.shutdown()


def test_a_web_server_is_a_remote(
    trained: dict[str, bytes], server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dvc("remote", "add", "--local", "checkpoints", server)  # as docs/workflow.md says
    dvc("remote", "modify", "--local", "checkpoints", "method", "PUT")
    assert saving.save("Preview", ["preview"]).problems == []
    git("clone", "--quiet", ".", str(tmp_path / "other"))
    monkeypatch.chdir(tmp_path / "other")
    set_up(server)  # enough to read
    outcome = pull()
    assert (outcome.lines[-1], outcome.problems) == (f"{COUNT} brought, 0 were here", [])
    assert checkpoints() == trained
    assert len(locked()) == 4 * RUNS
