"""The report: what it says is right, and the page holds together whatever the comparison was."""

import base64
import hashlib
import io
import json
import math
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import report_data as data
from weftway import report
from weftway.report import panels
from weftway.report.axis import axis, from_zero, most
from weftway.report.frames import path_shares
from weftway.report.page import asset, size
from weftway.report.palette import SCHEDULER_DARK, SCHEDULER_LIGHT, look, looks
from weftway.report.published import claims, ours
from weftway.report.series import read_timelines
from weftway.report.study import Cell, Study
from weftway.report.timeline import rate_lane
from weftway.report.words import remarks, verdict
from weftway.scenario import document, load
from weftway.stats.estimates import Estimate, estimate, middle, paired, t_quantile
from weftway.stats.units import unit_for

VOID = {"meta", "br", "img", "input", "link", "hr"}
SIZE_LIMIT = 3_000_000


class Balance(HTMLParser):
    """Every element that opens closes, in order, and no id is given twice."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def check(page: str) -> None:
    """Checks what holds for every page."""
    parser = Balance()
    parser.feed(page)
    assert not parser.open
    assert len(parser.ids) == len(set(parser.ids))
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:|//|file:)""", page), "the page fetches something"
    assert not re.search(r"@import|url\(|<link|<iframe", page)
    text = page.encode()
    assert len(text) < SIZE_LIMIT
    assert not re.search(r"\bnan\b|\binf\b|>None<|\$\{?title", page)


def simple(values: dict[str, list[float]], **columns: list[float]) -> pl.DataFrame:
    """Rows with a completion time per scheduler and seed; other columns likewise, in the same order."""
    rows: list[dict[str, Any]] = [
        {"scheduler": name, "cc": "cubic", "seed": seed, "fct_ms": fct}
        for name, times in values.items()
        for seed, fct in enumerate(times)
    ]
    frame = pl.DataFrame(rows)
    return frame.with_columns(pl.Series(name, column) for name, column in columns.items())


CASES = {
    "usual": (data.rows(4, 2, 10), data.timelines(data.rows(4, 2, 1)), data.scenario()),
    "one seed": (data.rows(4, 1, 1), {}, data.scenario()),
    "one scheduler, one path": (data.rows(1, 1, 3, 1), data.timelines(data.rows(1, 1, 1), 1), data.scenario(1)),
    "everything": (data.rows(13, 4, 30, 8), data.timelines(data.rows(13, 4, 1), 8), data.scenario(8)),
    "variants": (data.rows(3, 2, 4, loss=["0 %", "1 %", "2 %"]), {}, data.scenario(vary={"path.lte.loss": []})),
    "many variants": (data.rows(13, 4, 2, loss=[f"{i} %" for i in range(12)]), {}, data.scenario()),
    "no scenario": (data.rows(2, 1, 2), {}, {}),
    "bare rows": (simple({"ecf": [6000.0]}), {}, {}),
}


def test_a_median_is_enclosed_by_order_statistics() -> None:
    # Five runs: from the least to the largest, 1 − 2/32 = 0.9375.
    assert middle([1.0, 2.0, 3.0, 4.0, 100.0]) == Estimate(3.0, 49.5, 5)
    # Eleven: 1 − 2·(1 + 11 + 55)/2048 = 0.935 from the third to the ninth; one further in it is below 0.93.
    assert middle([float(n) for n in range(11)]) == Estimate(5.0, 3.0, 11)
    assert middle([7.0]) == Estimate(7.0, None, 1)
    assert middle([]) is None


@pytest.mark.parametrize("case", CASES)
def test_pages_hold_together(case: str) -> None:
    rows, timelines, scenario = CASES[case]
    page = report.render(rows, timelines, scenario)
    check(page)
    for name in rows["scheduler"].unique():
        assert name in page
    assert page == report.render(rows, timelines, scenario), "the same rows give the same bytes"


def test_no_row_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        report.render(data.rows().clear(), {}, {})


def test_nulls_and_endless_workloads() -> None:
    rows = data.rows(3, 2, 10).with_columns(
        fct_ms=pl.lit(None), jain=pl.lit(None), efficiency=pl.lit(float("nan")), reorder_delay_ms=pl.lit(None)
    )
    page = report.render(rows, {}, data.scenario(workload={"kind": "duration", "time": "10 s"}))
    check(page)
    assert "carried the most under" in page
    assert "Completion time" not in page


def test_names_are_text_not_markup() -> None:
    rows = data.rows(2, 1, 2).with_columns(scheduler=pl.col("scheduler").replace("min-rtt", "my.py:<b>&\"Rule'"))
    page = report.render(rows, data.timelines(rows), data.scenario(title="<script>alert(1)</script>"))
    check(page)
    assert "<script>alert" not in page
    assert "<b>&" not in page


def test_quantiles_of_one_and_two_degrees_have_closed_forms() -> None:
    # One degree is Cauchy's: P(|T| < t) = 2/π · atan t. Two: P(|T| < t) = t / √(2 + t²).
    assert t_quantile(1) == pytest.approx(math.tan(0.95 * math.pi / 2))
    assert t_quantile(2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)))
    # With many degrees the normal's 1.95996 is left, from above (t ≈ z + (z³ + z) / 4ν).
    z = 1.959964
    assert t_quantile(2001) == pytest.approx(z + (z**3 + z) / (4 * 2001), abs=1e-6)


def test_interval_of_three_runs() -> None:
    # Mean 2, sample deviation 1, so the half width is t(2) / √3.
    middle = estimate([1.0, 2.0, 3.0])
    assert middle is not None and middle.half is not None
    assert (middle.mean, middle.n) == (2.0, 3)
    assert middle.half == pytest.approx(t_quantile(2) / math.sqrt(3))
    assert estimate([]) is None
    lone = estimate([4.0])
    assert lone is not None and lone.half is None and not lone.excludes_zero


def test_pairing_cancels_what_seeds_share() -> None:
    # The seeds differ by hundreds, the schedulers by exactly 10; seed 9 has no partner and is left out.
    gap = paired({0: 110.0, 1: 510.0, 9: 1.0}, {0: 100.0, 1: 500.0})
    assert gap is not None
    assert (gap.mean, gap.half, gap.n) == (10.0, 0.0, 2)
    assert gap.excludes_zero


def test_verdict_says_who_won_and_by_how_much() -> None:
    # Means 6.1 and 7.1 s; every seed 1.0 s apart, 1.0 / 7.1 = 14 %. Deviation √0.02 s over two runs:
    # half width t(1) · 0.1 s = 1.27 s.
    rows = simple({"ecf": [6000.0, 6200.0], "min-rtt": [7000.0, 7200.0]}, aggregation_benefit=[0.82, 0.84, 0.4, 0.4])
    study = Study(rows, {"path": {"wifi": {}, "lte": {}}})
    assert verdict(study).replace("\u00a0", " ").replace("\u202f", " ") == (
        "ecf finished first under cubic: 6.10 ± 1.27 s; 14 % sooner than min-rtt; "
        "bonding gained 0.83 of what the second link could add."
    )


def test_a_tie_is_called_a_tie() -> None:
    # Differences of at most 20 in 6000, to both sides: the interval of their ratio is within 1 %.
    rows = simple({"ecf": [6000.0, 6400.0, 6000.0], "blest": [6020.0, 6390.0, 6006.0]})
    study = Study(rows, {})
    assert verdict(study).startswith("ecf and blest are level within 2 % at the front under cubic")
    assert remarks(study, Cell("", "cubic", "blest")) == ["level within 2 %"]


def test_what_the_seeds_do_not_tell_is_no_tie() -> None:
    # Differences +200, −200, +60: their interval is far wider than their mean of 20, and than 2 %.
    rows = simple({"ecf": [6000.0, 6400.0, 6000.0], "blest": [6200.0, 6200.0, 6060.0]})
    study = Study(rows, {})
    assert verdict(study).startswith("ecf has the best mean under cubic")
    assert remarks(study, Cell("", "cubic", "ecf")) == ["best so far"]
    assert remarks(study, Cell("", "cubic", "blest")) == ["not told apart from the best (worse in 2 of 3)"]


def test_worse_than_the_best_link_is_said_in_words() -> None:
    rows = simple(
        {"ecf": [6000.0, 6010.0], "redundant": [9000.0, 9010.0]}, aggregation_benefit=[0.5, 0.52, -0.4, -0.41]
    )
    study = Study(rows, {"path": {"wifi": {}, "lte": {}}})
    assert remarks(study, Cell("", "cubic", "redundant")) == ["worse than the best link alone"]
    assert "worse than the best link alone" in report.render(rows, {}, {"path": {"wifi": {}, "lte": {}}})


@pytest.mark.parametrize(
    ("alone", "fair", "sentences"),
    [
        (-0.4, -0.2, ["worse than the best link alone, also with the same handshake"]),
        (-0.4, 0.2, ["worse than the best link alone, but not with the same handshake"]),
        (0.1, -0.2, ["worse than the best link with the same handshake"]),
        (0.1, 0.2, []),
    ],
)
def test_worse_than_one_link_is_told_by_both_measures(alone: float, fair: float, sentences: list[str]) -> None:
    rows = simple({"ecf": [6000.0]}, aggregation_benefit=[alone], benefit_fair=[fair])
    assert remarks(Study(rows, {"path": {"wifi": {}, "lte": {}}}), Cell("", "cubic", "ecf")) == sentences


def test_runs_that_did_not_finish_are_counted() -> None:
    rows = simple({"ecf": [6000.0, 6100.0]}).with_columns(verdict=pl.Series(["finished", "stalled"]))
    assert remarks(Study(rows, {}), Cell("", "cubic", "ecf")) == ["1 of 2 runs: stalled"]


def test_the_scenario_is_shown_as_it_was_set() -> None:
    keys = document(load("wifi-lte", {"path.wifi.loss": "4 %", "options.receive_buffer": "1 MiB"}))
    page = report.render(simple({"ecf": [6000.0]}), {}, keys)
    assert ">4 %<" in page and ">1 MiB<" in page
    assert ">0.5 %<" not in page and ">256 KiB<" not in page


def test_the_smallest_download_is_not_nothing() -> None:
    assert (size(612), size(1499)) == ("612 B", "1 kB")


def test_variants_are_told_from_measures_of_paths() -> None:
    rows = data.rows(2, 1, 3, loss=["1 %", "2 %"]).with_columns(pl.int_range(pl.len()).alias("path.lte.peak_queue_kb"))
    assert Study(rows, {}).settings == ["path.lte.loss = 1 %", "path.lte.loss = 2 %"]
    assert Study(data.rows(2, 1, 3), {}).settings == [""]


def test_who_runs_alone_is_first_of_nobody() -> None:
    both = data.rows(2, 1, 3, loss=["1 %", "2 %"])
    first = pl.col("path.lte.loss") == "1 %"
    half = both.filter(first | (pl.col("scheduler") == "min-rtt"))
    sentence = verdict(Study(half, data.scenario(vary={"path.lte.loss": []})))
    assert "in 1 of 2 settings (path.lte.loss = 1 %)" in sentence
    assert "one scheduler ran alone in 1 (path.lte.loss = 2 %)" in sentence
    only = both.filter(pl.col("scheduler") == "min-rtt")
    alone = verdict(Study(only, data.scenario(vary={"path.lte.loss": []})))
    assert "first" not in alone and alone.startswith("min-rtt: completion time") and "over 2 settings" in alone


@pytest.mark.parametrize(
    "more",
    [{"cc": "cubic"}, {}, {"unit": "kB/s", "metric": "goodput_kbytes", "value": 500}],
)
def test_published_values_find_ours(more: dict[str, Any]) -> None:
    rows = simple({"ecf": [6000.0, 6000.0]}, goodput_mbps=[5.0, 7.0], goodput_kbytes=[625.0, 875.0])
    record = {"scheduler": "ecf", "metric": "goodput_mbps", "value": 4.0, "unit": "Mbit/s", "place": "Table 1", **more}
    scenario = {"published": {"paper": "doi", "values": [record]}}
    study = Study(rows, scenario)
    [claim] = claims(study)
    estimate = ours(study, claim)
    assert (claim.value, claim.place) == (record["value"], "Table 1")
    assert estimate is not None and estimate.mean == 1.5 * claim.value
    page = report.render(rows, {}, scenario)
    check(page)
    assert "Published beside ours" in page
    assert ">1.50<" in page, "6 over 4"


def test_each_download_holds_its_figure() -> None:
    rows = simple({"ecf": [6000.0, 6200.0], "min-rtt": [7000.0, 7200.0]})
    page = report.render(rows, {}, {})
    links = dict(re.findall(r'download="([\w-]+)\.csv" href="data:text/csv;base64,([^"]+)"', page))
    ends = pl.read_csv(io.BytesIO(base64.b64decode(links["completion"])))
    assert dict(ends.select("scheduler", "mean").rows()) == {"ecf": 6100.0, "min-rtt": 7100.0}
    gaps = pl.read_csv(io.BytesIO(base64.b64decode(links["difference"])))
    assert gaps["mean"].to_list() == [-1000.0]
    assert pl.read_csv(io.BytesIO(base64.b64decode(links["rows"]))).height == rows.height


@pytest.mark.parametrize(
    ("rate", "mbps"),
    [
        ("20 Mbit/s", 20),
        ("20Mbit/s", 20),
        ("20_000 kbit/s", 20),
        ("2.5 MB/s", 20),
        ("20_ Mbit/s", 20),
        ("5 Mbit/s..9 Mbit/s", None),
        (None, None),
    ],
)
def test_a_link_rate_is_read_as_scenarios_have_it(rate: object, mbps: float | None) -> None:
    assert panels.mbps(rate) == mbps


def test_shares_come_from_bytes_or_from_records() -> None:
    # Seed 0 carried 30 + 10, seed 1 carried 10 + 10: mean of 0.75 and 0.5.
    columns = simple({"ecf": [1.0, 1.0]}, **{"path.wifi.bytes": [30.0, 10.0], "path.lte.bytes": [10.0, 10.0]})
    records = simple({"ecf": [1.0, 1.0]}).with_columns(
        paths=pl.Series(
            [
                [{"name": "wifi", "bytes": 30}, {"name": "lte", "bytes": 10}],
                [{"name": "wifi", "bytes": 10}, {"name": "lte", "bytes": 10}],
            ]
        )
    )
    for rows in (columns, records):
        assert path_shares(Study(rows, {}), Cell("", "cubic", "ecf")) == {"wifi": 0.625, "lte": 0.375}


def test_thinning_keeps_bytes_and_peaks() -> None:
    record = {
        "step_ms": 10,
        "paths": ["wifi"],
        "mbps": {"wifi": [0, 8, 4, 4]},
        "srtt_ms": [[20, 50, None, 30]],
        "receive_buffer_kb": [1, 9, 2, 3],
    }
    timeline = read_timelines({"ecf/cubic": record})[0].timeline
    thin = timeline.thinned(2)
    assert timeline.cell == Cell("", "cubic", "ecf")
    assert thin.step_ms == 20
    assert thin.paths["wifi"]["mbps"] == [4.0, 4.0]
    assert thin.paths["wifi"]["srtt_ms"] == [50.0, 30.0]
    assert thin.connection["receive_buffer_kb"] == [9.0, 3.0]


def test_timeline_marks_losses_and_outages() -> None:
    record = {
        "step_ms": 100,
        "paths": ["wifi"],
        "mbps": {"wifi": [10.0] * 10},
        "events": [
            {"t_ms": 200, "path": "wifi", "kind": "loss"},
            {"t_ms": 500, "path": "wifi", "kind": "down"},
            {"t_ms": 750, "path": "wifi", "kind": "up"},
        ],
    }
    read = read_timelines({"ecf/cubic": record})[0].timeline
    # The run lasts 1000 ms on 1000 units: times are places.
    lane = rate_lane(read, "wifi", 0, from_zero(10.0))
    assert '<path class="loss" d="M200 82V100"/>' in lane
    assert '<rect class="down" x="500" y="0" width="250" height="100"/>' in lane
    page = report.render(simple({"ecf": [1000.0]}), {"ecf/cubic": record}, {"path": {"wifi": {}}})
    check(page)
    text = unpacked(page)
    assert text["marks"] == [[200, 0, "loss"]]
    assert text["down"] == [[0, 500, 750]]


@pytest.mark.parametrize(
    ("schedulers", "sentence"), [(10, "One run each under"), (11, "One run each of the first 10 of 11 ")]
)
def test_rates_of_how_many_schedulers_are_shown_is_told(schedulers: int, sentence: str) -> None:
    rows = data.rows(schedulers, 1, 2)
    page = report.render(rows, data.timelines(rows, steps=40), data.scenario())
    lede = page.partition("Rate of each path over time</h2>")[2].partition("</p>")[0]
    assert sentence in lede


def unpacked(page: str) -> dict[str, Any]:
    """The first run that the page holds."""
    match = re.search(r'<script type="application/json" id="runs">(.*?)</script>', page)
    assert match
    timeline: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(json.loads(match[1])["runs"][0][4])))
    return timeline


def test_a_run_in_the_page_has_decisions_and_readable_reasons() -> None:
    record = data.timeline("ecf", "cubic", ["wifi", "lte"], 400)
    text = unpacked(report.render(simple({"ecf": [6000.0]}), {"ecf/cubic": record}, data.scenario()))
    # 400 steps become 200: pairs add up, and one of each pair has the wait.
    assert (text["step"], text["end"]) == (30, 6000)
    assert (text["send"][0][0], text["send"][1][0], text["wait"][:3]) == (20, 2, [1, 0, 1])
    assert text["why"][0] == [0, "send", 0, "wifi has the smallest srtt, 20.51 ms"]
    assert [0, "wait", None, "wifi is blocked and faster"] in text["why"]


def test_a_scheduler_keeps_its_look() -> None:
    few, many = Study(data.rows(2, 1, 1), data.scenario()), Study(data.rows(9, 1, 1), data.scenario())
    assert look("min-rtt", few.registry) == look("min-rtt", many.registry)
    looks = [look(name, data.REGISTRY) for name in data.REGISTRY]
    assert len({(look.hue, look.shape) for look in looks}) == len(looks)
    assert look("my.py:Mine", data.REGISTRY) == look("my.py:Mine", data.REGISTRY)


def test_no_two_schedulers_share_a_colour_while_there_are_others() -> None:
    registry = [f"s{place}" for place in range(40)]
    # The places 1, 11 and 21 have one colour of their own: the first keeps it.
    few = looks(["s21", "s11", "s1", "s2"], registry)
    assert len({look.hue for look in few.values()}) == 4
    assert few["s1"].hue == look("s1", registry).hue
    many = looks(registry, registry)
    assert all(many[f"s{n}"].hue != many[f"s{n + 1}"].hue for n in range(39)), "neighbours in rank differ"
    assert len({(look.hue, look.shape) for look in many.values()}) == 40


@pytest.mark.parametrize("palette", [SCHEDULER_LIGHT, SCHEDULER_DARK])
def test_colours_are_told_apart(palette: tuple[str, ...]) -> None:
    # Distance in OKLab: 0.02 is just noticeable side by side; small markers need five times that.
    places = [oklab(colour) for colour in palette]
    pairs = [math.dist(one, other) for at, one in enumerate(places) for other in places[:at]]
    assert min(pairs) > 0.1


def oklab(colour: str) -> tuple[float, float, float]:
    """https://bottosson.github.io/posts/oklab/"""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    l_ = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    m_ = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    s_ = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * l_ + 0.7936177850 * m_ - 0.0040720468 * s_,
        1.9779984951 * l_ - 2.4285922050 * m_ + 0.4505937099 * s_,
        0.0259040371 * l_ + 0.7827717662 * m_ - 0.8086757660 * s_,
    )


def test_an_outlier_lies_beyond_the_axis() -> None:
    times = [9.0, 9.5, 10.0, 10.5, 11.0, 12.0, 152.0]
    assert most(times) == times[:-1]
    assert most([1.0, 2.0, 4.0, 7.0]) == [1.0, 2.0, 4.0, 7.0], "a spread is no outlier"
    twice = [20.0, 24.0, 26.0, 28.0, 30.0, 32.0, 34.0, 54.0]
    assert most(twice) == twice, "an axis twice as long squeezes nothing"
    page = report.render(simple({f"s{at}": [1000 * t, 1000 * t + 1] for at, t in enumerate(times)}), {}, {})
    check(page)
    assert "beyond the axis" in page


def test_the_best_lies_on_the_axis_of_its_worst_measure() -> None:
    """The first to finish has five times as many packets out of order as the next; then the last one does."""
    times = {f"s{at}": [1000 * t, 1000 * t + 1] for at, t in enumerate([9.0, 9.5, 10.0, 10.5, 11.0, 12.0])}
    shares = [0.5, 0.5001, 0.09, 0.0901, 0.095, 0.0951, 0.096, 0.0961, 0.098, 0.0981, 0.1, 0.1001]
    assert "beyond the axis" not in report.render(simple(times, ooo_share=shares), {}, {})
    assert "beyond the axis" in report.render(simple(times, ooo_share=shares[::-1]), {}, {})


def test_the_chart_library_is_the_one_that_was_released() -> None:
    # https://registry.npmjs.org/uplot/-/uplot-1.6.32.tgz, dist/uPlot.iife.min.js; sha512 of the archive is in npm's
    # register: KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==.
    digest = hashlib.sha256(asset("vendor/uPlot.iife.min.js").encode()).hexdigest()
    assert digest == "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"


def test_numbers_are_written_for_reading() -> None:
    seconds = unit_for("time", [6123.0])
    assert seconds.value(6123.0) == "6.12\u202fs"
    assert seconds.signed(-720.0) == "\u22120.72\u202fs"
    assert seconds.signed(-0.4) == "0.00\u202fs", "no minus before nothing"
    assert unit_for("count", [12345.0]).value(12345.0) == "12\u202f345"
    assert unit_for("rate", [0.25]).value(0.25) == "250\u202fkbit/s"


def test_what_rounds_to_a_thousand_has_the_next_unit() -> None:
    assert [unit_for("time", [ms]).symbol for ms in (999.4, 999.5)] == ["ms", "s"]


def test_axes_start_at_zero_when_values_spread() -> None:
    assert axis([2.0, 10.0]).low == 0.0
    near = axis([9.0, 10.0])
    assert 8.5 < near.low < 9.0
    assert all(near.low <= tick <= near.high for tick in near.ticks)
    assert axis([-1.0, 3.0]).at(-1.0) < axis([-1.0, 3.0]).at(0.0)


def test_figures_are_written_in_each_format(tmp_path: Path) -> None:
    rows = data.rows(3, 2, 3).select("scheduler", "cc", "seed", "fct_ms", "path.wifi.share", "path.lte.share")
    files = report.figures(rows, data.timelines(rows, steps=40), data.scenario(), tmp_path)
    figures = ("fct_ms", "fct_ms_cdf", "difference", "share", "rate")
    assert {file.name for file in files} == {
        *(f"{name}.{kind}" for name in figures for kind in ("svg", "pdf", "csv")),
        *("methods.txt", "methods.tex", "tables.tex"),
    }
    for file in files:
        start = {".svg": b"<svg", ".pdf": b"%PDF-", ".csv": b"setting,", ".tex": b"", ".txt": b""}[file.suffix]
        assert file.read_bytes().startswith(start)
    drawn = (tmp_path / "fct_ms.svg").read_text()
    assert all(f">{name}<" in drawn for name in ("prs", "linux-v1", "min-rtt", "cubic", "bbr1"))


def test_unknown_figure_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'png', one of svg, pdf, csv, tex"):
        report.figures(data.rows(), {}, {}, tmp_path, formats=("png",))
