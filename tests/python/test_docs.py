"""The documentation is true: what it says to type works, prints what is shown, and its links lead somewhere."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import made
import manual
import reference
import weftway
from pages import pages, played, runnable
from weftway import _native
from weftway.cli import app
from weftway.runs.link_program import VERBS
from weftway.scenario import HOME

LINK = re.compile(r"\[[^]]*\]\((?P<to>[^)#:\s]+)(?:#[^)]*)?\)|(?:src|srcset)=\"(?P<image>[^\":]+)\"")

COMMAND = re.compile(r"\bweft (?P<verb>[a-z]+)(?P<rest>[^\n|;&#`]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


@cache
def reference_pages() -> dict[str, str]:
    """Text of each page of the reference, by its name."""
    return reference.pages()


@pytest.mark.parametrize("page", runnable(), ids=lambda page: str(page.relative_to(HOME)))
def test_a_page_can_be_followed(page: Path, tmp_path: Path) -> None:
    for fence, printed, shown in played(page, tmp_path):
        if shown:
            assert printed == shown.text, f"{fence.text}prints something else; python tests/python/pages.py renews it"


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(HOME)))
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(page.read_text()):
        target = page.parent / (match["to"] or match["image"])
        assert target.exists(), f"{page.relative_to(HOME)} links to {match.group()}"


def test_the_walks_name_what_is_there() -> None:
    text = (HOME / "ARCHITECTURE.md").read_text()
    source = "".join(file.read_text() for file in HOME.glob("crates/*/src/**/*.rs"))
    functions = {name for pair in re.findall(r"[A-Z]\w+::([a-z]\w+)", text) for name in pair.split()}
    assert functions
    assert not {name for name in functions if f"fn {name}" not in source}
    for file in re.findall(r"[\w/-]+\.(?:rs|py)\b", text):
        places = (HOME, HOME / "crates", HOME / "crates/sim/src", HOME / "tests/python", HOME / "python/weftway")
        assert any((place / file).exists() for place in places) or "my" in file, file


def test_the_readme_is_short() -> None:
    assert len((HOME / "README.md").read_text().split()) <= 700


def test_readme_and_zenodo_count_what_the_registries_have() -> None:
    text = " ".join((HOME / "README.md").read_text().split())
    schedulers, controllers = len(_native.schedulers()), len(_native.controllers())
    assert f"it has {schedulers}, from papers and kernels, and {controllers} congestion controllers" in text
    entry = (HOME / ".zenodo.json").read_text()
    assert f"{schedulers} packet schedulers and {controllers} congestion controllers" in entry


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(HOME)))
def test_a_command_has_the_options_that_a_page_gives_it(page: Path) -> None:
    sections = reference_pages()["command.md"].split("\n## `weft ")[1:]
    own: dict[str, set[str]] = {}
    for section in sections:  # A verb may have several, as `weft board run` and `weft board verify`.
        own.setdefault(section.split()[0].rstrip("`"), {"--help"}).update(OPTION.findall(section))
    own["service"] |= own["proxy"] | own["relay"] | own["tunnel"] | own["pipe"]
    del own["train"]  # Its options are those of the algorithm.
    for match in COMMAND.finditer(page.read_text().replace("\\\n", " ")):
        if match["verb"] in own:
            given = OPTION.findall(match["rest"].split(" -- ")[0].split("weft ")[0])
            assert own[match["verb"]].issuperset(given), match.group()


def test_the_reference_names_every_entry_switch_and_preset() -> None:
    made = reference_pages()
    of_schedulers = {
        name.removeprefix("schedulers/").removesuffix(".md"): text
        for name, text in made.items()
        if name.startswith("schedulers/")
    }
    of_controllers = {part.split("`")[0]: part for part in made["controllers.md"].split("\n## `")[1:]}
    for sections, entries in ((of_schedulers, _native.schedulers()), (of_controllers, _native.controllers())):
        assert list(sections) == [entry["name"] for entry in entries]
        for entry in entries:
            for named in [*entry["params"], *entry.get("presets", ())]:
                assert f"\n| `{named['name']}` |" in sections[entry["name"]], (entry["name"], named["name"])
    for name in ("overview.md", "learned.md"):
        wanted = [
            scheduler["name"] for scheduler in _native.schedulers() if name == "overview.md" or scheduler["learning"]
        ]
        assert sorted(re.findall(r"^\| \[`([\w-]+)`\]", made[name], re.MULTILINE)) == sorted(wanted)


def test_the_reference_names_every_option_of_the_command() -> None:
    page = reference_pages()["command.md"]
    parts = {part.split("`")[0]: part for part in page.split("\n## `weft ")[1:]}
    group: Any = get_command(app)
    verbs = dict(manual.verbs(group))
    sections = {
        name: part for name in (*verbs, *VERBS) for head, part in parts.items() if f"{head} ".startswith(f"{name} ")
    }
    assert verbs.keys() >= {"rank", "board run", "board verify"}
    for name, command in verbs.items():
        options = [word for param in command.params if not param.hidden for word in param.opts if word.startswith("--")]
        missing = (
            [] if name in VERBS else [word for word in options if f"`{word}" not in sections[name].replace(", ", "`")]
        )
        assert not missing, (name, missing)
    assert VERBS.keys() <= sections.keys()


def test_the_index_of_made_pages_has_a_heading_for_each() -> None:
    headings = re.findall(r"^## (\w+)$", (HOME / "docs" / made.INDEX).read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(made.targets([f"reference/{name}" for name in reference_pages()]))


def test_the_reference_defines_every_column_once(small: Path) -> None:
    row = weftway.run(small, scheduler="min-rtt", seed=0)
    pages = [(HOME / f"docs/reference/{name}.md").read_text() for name in ("columns", "columns-messages")]
    defined = re.findall(r"^\| `([\w.]+)`", "\n".join(pages), re.MULTILINE)
    assert len(defined) == len(set(defined))
    columns = {re.sub(r"^path\.\w+\.", "path.NAME.", name) for name in row}
    assert columns == set(defined)
