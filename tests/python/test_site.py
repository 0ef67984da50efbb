"""The documentation as a site: it builds without a broken link, and its search finds what newcomers looked for."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import made
import manual
from browser import Browser, needs_browser
from weftway.scenario import HOME

RUSTDOC = Path(os.environ.get("CARGO_TARGET_DIR", HOME / "target")) / "doc"
"""Where `./test` has made the reference of the crates before: it takes too long to be made here."""


def _crates() -> ModuleType:
    spec = importlib.util.spec_from_file_location("crates", HOME / "site/crates.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CRATES = _crates()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="the generator is not installed: pip install 'weftway[docs]'")
    folder = tmp_path_factory.mktemp("site")
    words = [str(HOME / "site/build.py"), "--work", str(folder / "work"), "--out", str(folder / "site")]
    words += ["--no-rustdoc"] if CRATES.missing(RUSTDOC) else ["--rustdoc", str(RUSTDOC)]
    # A broken link or anchor ends the build.
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_the_copied_pages_lie_where_no_stamp_of_the_set_up_is() -> None:
    stamps = re.findall(r"\bsetup (\w+)", (HOME / "weft").read_text())
    work = re.search(r'"\.weft/(\w+)"', (HOME / "site/build.py").read_text())
    assert "docs" in stamps and work and work[1] not in stamps


def test_every_page_is_there(site: Path) -> None:
    names = [page.relative_to(HOME / "docs") for page in (HOME / "docs").glob("**/*.md")]
    for page in [*names, *map(Path, made.names())]:
        name = "index.html" if page.stem == "README" else page.with_suffix(".html").name
        assert (site / page.parent / (name if page.suffix == ".md" else page.name)).is_file(), page


def test_a_link_to_the_index_of_made_pages_leads_to_the_page(site: Path) -> None:
    text = (site / "how-to/reproduce.html").read_text()
    assert 'href="../results/index.html"' in text and "reference/index.html#" not in text
    assert "## Who wins where" not in (HOME / "docs/explanation/matrix.md").read_text()
    assert 'id="who-wins-where"' in (site / "explanation/matrix.html").read_text()


def _targets(page: Path) -> list[Path]:
    """The files to which the relative links of a page lead. A name that rustdoc could not resolve has colons."""
    links = re.findall(r'(?:href|src)="(?!#|[^"]*:|[^"]*\$\{)([^"#?]+)', page.read_text())
    return [page.parent / link for link in links]


def test_the_reference_of_the_crates_is_in_the_site(site: Path) -> None:
    page = site / "reference/rust.html"
    fronts = [target for target in _targets(page) if target.parent.parent.name == "rust"]
    if not fronts:
        assert "This site has no reference of the crates" in page.read_text()
        pytest.skip(f"no reference of the crates in {RUSTDOC}: `cargo doc --workspace --no-deps`")
    folders = [file.parent for file in (HOME / "crates").glob("*/Cargo.toml")]
    assert len(fronts) == len(folders) > 10
    for front in fronts:
        assert all(target.exists() for target in [front, *_targets(front)]), front
    # A page of a crate, its source, and nothing of what else is in the folder.
    assert (site / "reference/rust/weftway_sched/trait.Scheduler.html").is_file()
    assert (site / "reference/rust/src/weftway_sched/lib.rs.html").is_file()
    there = {folder.name for folder in (site / "reference/rust").iterdir() if folder.is_dir()}
    assert there == {*CRATES.SHARED, *CRATES.libraries().values()}


def test_a_site_without_the_reference_of_the_crates_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    page = manual.crates(HOME / "crates")
    pages_led = CRATES.led(page, CRATES.built())
    assert "**This site has no reference of the crates**: `cargo` was not found when it was made" in pages_led
    assert CRATES.NAMED.findall(pages_led) == CRATES.NAMED.findall(page)
    whole = CRATES.led(page, tmp_path)
    assert "no reference" not in whole and not CRATES.NAMED.findall(whole)
    assert '<a href="rust/_native/index.html"><code>weftway-py</code></a>' in whole
    for text in (pages_led, whole):
        assert "[Write a scheduler in Rust](../how-to/rust-scheduler.md)" in text


def test_a_folder_without_the_reference_of_a_crate_is_refused(tmp_path: Path) -> None:
    words = ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "site"), "--rustdoc", str(tmp_path)]
    done = subprocess.run([sys.executable, HOME / "site/build.py", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "has nothing of weftway_bench, weftway_cc" in done.stderr


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


def test_code_ends_where_it_ends_in_a_row_with_bars(site: Path) -> None:
    """Bars between two pieces of code (`true` | a \\| b | `c`) are no code."""
    for page in (site / "reference").glob("**/*.html"):
        assert not re.search(r"<code>[^<]*(&lt;code|&amp;#124;)", page.read_text()), page


@needs_browser
def test_output_of_eighty_columns_fits_a_phone(site: Path) -> None:
    pages = ("start/engineer", "how-to/send", "how-to/proxy", "how-to/relay", "how-to/advise", "tutorial")
    with Browser(width=390) as tab:
        for name in pages:
            tab.open(site / f"{name}.html")
            blocks = tab.run(
                "[...document.querySelectorAll('.language-text pre > code')].map((one) => [one.scrollWidth,"
                " one.clientWidth, +getComputedStyle(one).getPropertyValue('--columns')])"
            )
            assert blocks
            for needed, there, columns in blocks:
                assert (needed > there + 1) == (columns > 84), (name, needed, there, columns)


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
    "recv listens for the next": "how-to/send.html",
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
    with Browser() as tab:
        for question, wanted in QUESTIONS.items():
            tab.open(site / "how-to/noq.html")
            tab.until("document.querySelector('.md-search__button')")
            tab.run("document.querySelector('.md-search__button').click()")
            tab.until(f"{FOUND}.shown !== null")
            tab.send("Input.insertText", text=question)
            tab.until(f"{FOUND}.pages.length > 0")
            pages = list(dict.fromkeys(tab.run(FOUND)["pages"]))
            assert any(page.endswith(wanted) for page in pages[:FIRST]), (question, pages)
