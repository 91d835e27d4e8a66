"""The tutorials do what they show, and the site has every page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from run_pages import commands, same

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# By tutorial, how many outputs it shows; of the others, a cluster needs one.
TUTORIALS = {"reproduce-a-cell": 4, "what-a-team-does": 5, "your-algorithm": 4}
PAGES = {"networks": 2, "transfer": 5}  # likewise, of the pages that are no tutorials


def test_every_block_runs_and_prints_what_is_shown(tmp_path: Path) -> None:
    """In one process, which imports torch once."""
    script = ROOT / "tests" / "helpers" / "run_pages.py"
    pages = [str(DOCS / "tutorials" / f"{name}.md") for name in TUTORIALS] + [
        str(DOCS / f"{name}.md") for name in PAGES
    ]
    done = subprocess.run([sys.executable, str(script), str(tmp_path), *pages], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [f"{name} {count}" for name, count in (TUTORIALS | PAGES).items()]


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("a … c", "a b c", True),
        ("first\n…\nlast", "first\nand\nmore\nlast\n", True),
        ("0.7 ± 0.1 (n = 2)", "-0.85 ± 0.1 (n = 2)", True),
        ("0.7 (n = 2)", "0.7 (n = 3)", False),
        ("0.7", "0.7\nmore", False),
    ],
)
def test_what_counts_as_the_same(shown: str, printed: str, equal: bool) -> None:
    assert same(shown, printed) == equal
    assert commands(f"$ fp3o list\n{shown}\n$ fp3o doctor\n") == [("fp3o list", f"{shown}\n"), ("fp3o doctor", "")]


def pages_of(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry if isinstance(entry, list) else entry.values()) for page in pages_of(part)]  # type: ignore[attr-defined]


def test_the_site_has_every_page_and_every_public_name() -> None:
    made = {"contributing.md", "changelog.md", "reference/commands.md"}  # by docs/site/hooks.py
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if path.parent.name != "evidence"}
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert sorted(pages_of(settings["nav"])) == sorted(written | made)
    import fp3o

    named = re.findall(r"^::: [\w.]+\.(\w+)$", (DOCS / "reference" / "api.md").read_text(), re.M)
    assert sorted(named) == sorted(set(fp3o.__all__) - {"__version__"})
