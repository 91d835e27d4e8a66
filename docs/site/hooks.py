"""What MkDocs does not do by itself: pages of the repository's own files and of the program's help, and formulas."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
# Pages that lie at the repository's root, where people look for them first.
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"\]\(((?:\.\./)+)([^)#\s]+)(#[^)\s]*)?\)")
SHIM = re.compile(r'<script src="https://unpkg.com/[^"]*"></script>')
FORMULA = re.compile(r'<(div|span) class="arithmatex">\\[\[(](.*?)\\[\])]</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that no file in docs/ holds."""
    made = {"reference/commands.md": commands()}
    for name, page in ROOT_PAGES.items():
        made[page] = (ROOT / name).read_text().replace("](docs/", "](")
    # A link to a file of the repository leads to a page that shows it.
    for file in files.documentation_pages():
        for up, name, _ in LINK.findall(file.content_string):
            if _leaves(up, file) and name not in ROOT_PAGES and (ROOT / name).is_file():
                text = (ROOT / name).read_text()
                made[f"source/{name}.md"] = f"# {name}\n\n```{Path(name).suffix[1:]}\n{text}```\n"
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links that leave docs/ lead to the pages made here."""

    def inside(found: re.Match[str]) -> str:
        up, name, anchor = found[1], found[2], found[3] or ""
        if not _leaves(up, page.file):
            return found[0]
        target = ROOT_PAGES.get(name) or f"source/{name}.md"
        return f"]({up.removeprefix('../')}{target}{anchor})"

    return LINK.sub(inside, markdown)


def _leaves(up: str, file: File) -> bool:
    """Whether so many "../" lead from the page to the repository's root."""
    return up.count("/") == file.src_uri.count("/") + 1


def on_page_content(html: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw themselves."""

    def drawn(found: re.Match[str]) -> str:
        text = found[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        return str(convert(text, display="block" if found[1] == "div" else "inline"))

    return FORMULA.sub(drawn, html)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """In place of what the theme's offline plug-in would fetch from the network, docs/site/search.js."""
    up = "../" * page.url.count("/")
    return SHIM.sub(f'<script src="{up}site/search.js"></script>', output)


def on_post_template(output_content: str, **_: Any) -> str:
    """The page that says that there is no such page."""
    return SHIM.sub("", output_content)


def commands() -> str:
    """The command line's reference: what every command says of itself."""
    whole = _help()
    names = re.search(r"\{([a-z,-]+)\}", whole)
    assert names is not None
    with ThreadPoolExecutor(2) as pool:
        texts = dict(zip(names[1].split(","), pool.map(_help, names[1].split(",")), strict=True))
    parts = [f"## fp3o {name}\n\n```text\n{text.strip()}\n```" for name, text in texts.items()]
    start = "# Commands\n\nWhat the program says of itself, by `fp3o --help` and `fp3o COMMAND --help`.\n"
    return "\n\n".join([start, f"```text\n{whole.strip()}\n```", *parts]) + "\n"


def _help(*command: str) -> str:
    environment = os.environ | {"COLUMNS": "86", "NO_COLOR": "1", "TERM": "dumb"}
    line = [sys.executable, "-m", "fp3o", *command, "--help"]
    return subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
