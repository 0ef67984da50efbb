"""The page of a comparison in a browser: what a reader can do with it, at the size of 885 runs."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import report_data as data
from browser import Browser, needs_browser
from weftway import report

pytestmark = needs_browser

LINES, CONTROLLERS, SEEDS = 58, 3, 5
LANES = 6
PAGE_LIMIT = 3_000_000


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of 885 runs, of which 240 are there over time."""
    frame = large()
    one_each = frame.filter(pl.col("scheduler") != "twin")
    cells = one_each.select("scheduler", "cc", "seed").unique(maintain_order=True).rows()
    first = [cell for cell in cells if cell[2] == 0] + [cell for cell in cells if cell[2]]
    runs = {
        cell: {**data.timeline(f"{cell[0]} {cell[2]}", cell[1], ["wifi", "lte"], 400), **whose(cell)}
        for cell in first[:240]
    }
    file = tmp_path_factory.mktemp("page") / "report.html"
    page = report.render(frame, runs, data.scenario(registry=[f"rule-{at:02}" for at in range(LINES)]))
    file.write_text(page, encoding="utf-8")
    return file


def whose(cell: tuple[str, str, int]) -> dict[str, object]:
    return {"scheduler": cell[0], "cc": cell[1], "seed": cell[2]}


def large() -> pl.DataFrame:
    """59 schedulers × 3 controllers × 5 seeds. All differ but `twin`, which equals `rule-07`: they share a line."""
    rows = []
    for at in range(LINES):
        name = "min-rtt" if at == 20 else f"rule-{at:02}"
        for cc in data.CONTROLLERS[:CONTROLLERS]:
            for seed in range(SEEDS):
                row = data.row(data.REGISTRY[at % len(data.REGISTRY)], cc, seed, ["wifi", "lte"], None)
                rows.append({**row, "scheduler": name, "fct_ms": row["fct_ms"] + 37.0 * at})
                if name == "rule-07":
                    rows.append({**rows[-1], "scheduler": "twin"})
    return pl.DataFrame(rows, infer_schema_length=None)


@pytest.fixture
def tab(page: Path) -> Iterator[Browser]:
    """The page, open. No test may leave an error in the console."""
    with Browser() as browser:
        opened(browser, page)
        yield browser
        assert not browser.errors


def opened(browser: Browser, page: Path, fragment: str = "") -> None:
    browser.open(page, fragment)
    browser.until("document.querySelector('#viewer[data-drawn]')")


def names(tab: Browser) -> list[str]:
    """The lines of cubic's table that are in sight."""
    found = tab.run(
        "[...document.querySelectorAll('.results tbody[data-cc=cubic] > [data-name]:not(.folded)')]"
        ".map((row) => row.dataset.name.split(' ')[0])"
    )
    assert isinstance(found, list)
    return found


def choose(tab: Browser, selector: str, value: str, kind: str = "change") -> None:
    tab.run(
        f"(() => {{ const one = document.querySelector({selector!r}); one.value = {value!r};"
        f" one.dispatchEvent(new Event({kind!r})); }})()"
    )


def test_885_runs_fit_into_three_megabytes(page: Path) -> None:
    assert large().height == 885
    assert page.stat().st_size <= PAGE_LIMIT


def test_the_first_ten_are_shown_and_the_rest_on_demand(tab: Browser) -> None:
    shown = names(tab)
    assert len(shown) in (10, 11)
    assert "min-rtt" in shown, "the reference stays in sight"
    tab.run("document.querySelector('.results tbody[data-cc=cubic] .more button').click()")
    assert len(names(tab)) == LINES
    assert "rows=all" in tab.run("location.hash")


def test_search_finds_what_is_folded(tab: Browser) -> None:
    choose(tab, "input[type=search]", "rule-5", "input")
    assert set(names(tab)) == {f"rule-5{digit}" for digit in range(8)}


def test_a_search_leaves_no_empty_panel_and_no_dead_button(tab: Browser) -> None:
    choose(tab, "input[type=search]", "no such scheduler", "input")
    assert tab.run("[...document.querySelectorAll('main .more')].length") == 0
    empty = (
        "[...document.querySelectorAll('main figure')].filter((one) => one.offsetParent && one.querySelector('.chart')"
    )
    empty += " && ![...one.querySelectorAll('[data-name]')].some((row) => row.offsetParent)).length"
    assert tab.run(empty) == 0
    headings = tab.run("[...document.querySelectorAll('.nothing')].map((one) => one.parentElement.id)")
    assert "completion" in headings and "results" in headings
    choose(tab, "input[type=search]", "", "input")
    assert tab.run("document.querySelectorAll('.nothing, .bare').length") == 0


def test_a_filter_that_leaves_a_section_empty_is_told_there(tab: Browser) -> None:
    first = tab.run("document.querySelector('#rate figure').dataset.cc")
    others = tab.run("[...document.querySelector('[data-filter=cc]').options].map((one) => one.value)")
    choose(tab, "[data-filter=cc]", next(other for other in others if other not in ("*", first)))
    assert tab.run("document.querySelector('#rate .nothing').textContent").startswith("Nothing here")
    assert tab.run("document.querySelectorAll('#completion .nothing').length") == 0
    choose(tab, "[data-filter=cc]", "*")
    assert tab.run("document.querySelectorAll('.nothing').length") == 0


def test_a_click_on_a_head_sorts_each_controller(tab: Browser) -> None:
    tab.run("[...document.querySelectorAll('.results thead th')].find((h) => h.textContent === 'Efficiency').click()")
    values = tab.run(
        "[...document.querySelectorAll('.results tbody')].map((body) => [...body.querySelectorAll('[data-name]')]"
        ".map((row) => Number(row.querySelector('[data-label=Efficiency]').dataset.value)))"
    )
    assert len(values) == CONTROLLERS
    assert all(some == sorted(some) for some in values)
    tab.run("[...document.querySelectorAll('.results thead th')].find((h) => h.textContent === 'Efficiency').click()")
    assert "sort=-Efficiency" in tab.run("location.hash")


def test_the_crosshair_reads_every_lane_of_both_runs(tab: Browser) -> None:
    tab.run("document.documentElement.style.scrollBehavior = 'auto', document.querySelector('.side').scrollIntoView()")
    box = tab.run("(() => { const b = document.querySelector('.u-over').getBoundingClientRect();"
                  " return [b.left, b.top, b.width]; })()")  # fmt: skip
    for step in (0.3, 0.31):
        tab.point(box[0] + box[2] * step, box[1] + 40)
    tab.until("document.getElementById('readout').textContent")
    outputs = tab.run("[...document.querySelectorAll('.run-title output')].map((one) => one.textContent)")
    assert len(outputs) == 2 * LANES
    assert all(any(letter.isdigit() for letter in text) for text in outputs), outputs
    why = tab.run("[...document.querySelectorAll('.why')].map((one) => one.textContent)")
    assert all("send wifi: wifi has the smallest srtt, 20.51 ms" in text for text in why)


def test_dragging_zooms_all_charts_and_the_link_keeps_it(tab: Browser, page: Path) -> None:
    tab.run("document.documentElement.style.scrollBehavior = 'auto', document.querySelector('.side').scrollIntoView()")
    left, top, width = tab.run("(() => { const b = document.querySelector('.u-over').getBoundingClientRect();"
                               " return [b.left, b.top, b.width]; })()")  # fmt: skip
    tab.point(left + width / 4, top + 40)
    tab.point(left + width / 4, top + 40, "mousePressed", button="left", clickCount=1)
    tab.point(left + width / 3, top + 40, buttons=1)
    tab.point(left + width / 2, top + 40, buttons=1)
    tab.point(left + width / 2, top + 40, "mouseReleased", button="left", clickCount=1)
    tab.until("location.hash.includes('zoom=')")
    fragment = tab.run("location.hash")
    start, end = (float(part) for part in fragment.split("zoom=")[1].split("&")[0].split("-"))
    # A run of 6 s: from a quarter to a half of it, to some pixels.
    assert abs(start - 1500) < 60
    assert abs(end - 3000) < 60
    opened(tab, page, fragment)
    assert f"zoom={start:.0f}-{end:.0f}" in tab.run("location.hash")
    tab.run("document.getElementById('zoom-all').click()")
    assert "zoom" not in tab.run("location.hash")


def test_runs_are_chosen_by_scheduler_controller_and_seed(tab: Browser, page: Path) -> None:
    first = "#viewer .side:first-child .chooser select"
    choose(tab, first, "rule-07")
    tab.until("location.hash.includes('a=rule-07')")
    choose(tab, "#viewer .side:first-child .chooser label:nth-child(2) select", "lia")
    tab.until("decodeURIComponent(location.hash).includes('a=rule-07|lia')")
    fragment = tab.run("location.hash")
    opened(tab, page, fragment)
    chosen = tab.run(f"[...document.querySelectorAll('{first}')].map((one) => one.value)")
    assert chosen[:2] == ["rule-07", "lia"]
    choose(tab, "#viewer .side:last-child .chooser select", "")
    tab.until("document.querySelectorAll('#viewer canvas').length === 6")


def test_a_scheduler_that_equals_another_is_found(tab: Browser) -> None:
    choose(tab, "#viewer .side:first-child .chooser select", "twin")
    tab.until("location.hash.includes('a=twin')")
    label = "document.querySelector('#viewer .side:first-child .chooser select').selectedOptions[0].textContent"
    assert tab.run(label) == "twin (= rule-07)"
    choose(tab, "input[type=search]", "twin", "input")
    assert names(tab) == ["rule-07"]


def test_another_link_to_the_open_page_is_followed(tab: Browser) -> None:
    tab.run("void (location.hash = '#find=rule-33&at=results')")
    tab.until("document.querySelector('input[type=search]')?.value === 'rule-33'")
    assert names(tab) == ["rule-33"]


def test_one_controller_is_shown_and_kept_in_the_link(tab: Browser, page: Path) -> None:
    choose(tab, "[data-filter=cc]", "lia")
    opened(tab, page, tab.run("location.hash"))
    shown = tab.run("[...document.querySelectorAll('.results tbody:not([hidden])')].map((one) => one.dataset.cc)")
    assert shown == ["lia"]


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (1440, True), (390, False), (390, True)])
def test_nothing_is_wider_than_the_window(page: Path, tmp_path: Path, width: int, dark: bool) -> None:
    with Browser(width, 900, dark) as browser:
        opened(browser, page)
        assert browser.run("document.documentElement.scrollWidth") <= width
        paper = browser.run("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(20, 23, 26)" if dark else "rgb(253, 253, 251)")
        browser.picture(tmp_path / "page.png")
        assert (tmp_path / "page.png").stat().st_size > 10_000, "there is something to see"
        assert not browser.errors


def test_a_search_leaves_no_button_that_shows_nothing(tab: Browser) -> None:
    choose(tab, "input[type=search]", "rule-5", "input")
    assert tab.run("document.querySelectorAll('.more button').length") == 0
    choose(tab, "input[type=search]", "", "input")
    hidden = tab.run("document.querySelector('.results tbody[data-cc=cubic] .more button').textContent")
    assert hidden == f"{LINES - len(names(tab))} more"
