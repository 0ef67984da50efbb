"""The documentation as a site: it builds without a broken link, and its search finds what newcomers looked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from browser import Browser, needs_browser
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


@needs_browser
def test_a_page_opens_from_the_disk_with_its_search_and_asks_nobody(site: Path) -> None:
    for dark, paper in ((False, "255, 255, 255"), (True, "")):
        with Browser(width=390, dark=dark) as tab:
            tab.open(site / "index.html")
            # The search has its index from a file of its own: a page on the disk may not fetch one.
            tab.until("typeof __index === 'object' && __index.items.length > 100")
            background = tab.run("getComputedStyle(document.body).backgroundColor")
            assert (paper in background) if paper else ("255, 255, 255" not in background)
            assert tab.run("document.documentElement.scrollWidth") <= 390
            asked = tab.run("performance.getEntriesByType('resource').map((one) => one.name)")
            assert not [name for name in asked if not name.startswith("file:")]
            assert not tab.errors


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
    "notebook": "how-to/install.html",
    "latex table": "how-to/figures.html",
    "perfetto": "how-to/logs.html",
}
"""What newcomers looked for and did not find, and the page that says it."""

FIRST = 5
"""How many pages a reader looks at."""


FOUND = """(() => {
  const box = [...document.querySelectorAll("*")].map((one) => one.shadowRoot).find((one) => one);
  const links = box ? [...box.querySelectorAll("a[href]")] : [];
  return { shown: box?.querySelector("input")?.value ?? null, pages: links.map((one) => one.href.split(/[?#]/)[0]) };
})()"""
"""What is in the field of the search, and where its results lead."""


@needs_browser
def test_the_search_finds_what_newcomers_looked_for(site: Path) -> None:
    for question, wanted in QUESTIONS.items():
        with Browser() as tab:
            tab.open(site / "how-to/noq.html")
            tab.until("document.querySelector('.md-search__button')")
            tab.run("document.querySelector('.md-search__button').click()")
            tab.until(f"{FOUND}.shown !== null")
            tab.send("Input.insertText", text=question)
            tab.until(f"{FOUND}.pages.length > 0")
            pages = list(dict.fromkeys(tab.run(FOUND)["pages"]))
            assert any(page.endswith(wanted) for page in pages[:FIRST]), (question, pages)
