"""The documentation as a site: it builds without a broken link, and its search finds what newcomers looked for."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from weftway.scenario import HOME


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="the generator is not installed: pip install 'weftway[docs]'")
    folder = tmp_path_factory.mktemp("site")
    words = [str(HOME / "site/build.py"), "--work", str(folder / "work"), "--out", str(folder / "site")]
    # A broken link or anchor ends the build.
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_every_page_is_there(site: Path) -> None:
    for page in (HOME / "docs").glob("**/*.md"):
        name = "index.html" if page.stem == "README" else f"{page.stem}.html"
        assert (site / page.relative_to(HOME / "docs").parent / name).is_file(), page


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.glob("**/*.html"):
        text = page.read_text()
        for part in ('<script src="http', '<link rel="stylesheet" href="http', '<img src="http', "fonts.googleapis"):
            assert part not in text, page


def test_no_mark_of_the_tests_is_shown(site: Path) -> None:
    """A fence with a mark that is left would be text in the midst of the page."""
    for page in (site / "how-to").glob("*.html"):
        assert "```" not in page.read_text(), page


def test_a_bar_in_code_is_a_bar(site: Path) -> None:
    """In a table it is escaped, for GitHub."""
    for name in ("command", "schedulers"):
        assert "\\|" not in (site / f"reference/{name}.html").read_text()


QUESTIONS = {
    "install": "how-to/install.html",
    "uninstall": "how-to/install.html",
    "command reference weft compare": "reference/command.html",
    "python package compare run": "reference/python.html",
    "bond my programs": "how-to/which-way.html",
    "MPTCP from zero": "how-to/advise.html",
    "does not work": "how-to/troubleshooting.html",
    "doctor": "how-to/troubleshooting.html",
    "own observation reward": "start/researcher.html",
    "torch network scheduler": "start/researcher.html",
    "methods seeds intervals": "how-to/figures.html",
    "recv stay service": "how-to/send.html",
    "notebook": "start/student.html",
    "latex table": "how-to/figures.html",
    "perfetto": "how-to/logs.html",
}
"""What newcomers looked for and did not find, and the page that says it."""

FIRST = 5
"""How many pages a reader looks at."""


@pytest.fixture(scope="module")
def search(site: Path) -> Any:
    lunr = pytest.importorskip("lunr", reason="lunr is not installed: pip install 'weftway[docs]'")
    documents = json.loads((site / "search.json").read_text())["items"]
    for one in documents:
        one["text"] = re.sub(r"<[^>]*>", " ", one["text"])
    # A word in a heading counts most, as in the site's own search.
    fields = [{"field_name": "title", "boost": 1000}, {"field_name": "text", "boost": 1}]
    return lunr.lunr(ref="location", fields=fields, documents=documents)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_finds_what_newcomers_looked_for(search: Any, question: str) -> None:
    found = search.search(question)
    pages = list(dict.fromkeys(one["ref"].split("#")[0] for one in found))
    assert QUESTIONS[question] in pages[:FIRST], pages[:10]
