"""Sections of the page, in order: each section's title, how to read it, its charts, its data."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from markupsafe import Markup

from weftway.stats.units import MEASURES

from . import frames, html, panels, published, tables
from .charts import legend
from .earlier import Earlier, summary
from .earlier import table as changes_table
from .provenance import provenance
from .series import Watched
from .study import TOP, Study
from .timeline import MULTIPLE_BINS, small_multiples
from .viewer import viewer

TIMELINE_KEY = Markup(
    '<span class="key"><i class="swatch tick loss" aria-hidden="true"></i>loss</span>'
    '<span class="key"><i class="swatch tick rto" aria-hidden="true"></i>timeout</span>'
    '<span class="key"><i class="swatch shade" aria-hidden="true"></i>path down</span>'
)

RUN_LEDE = (
    "Both on one time axis. Move over a chart to read values and the scheduler's reasons; drag to zoom, double-click "
    "to see the whole run. A scheduler with the results of another is shown by the other's run."
)
RUN_KEY = Markup(
    '<span class="key"><i class="swatch tick loss" aria-hidden="true"></i>short stroke: loss</span>'
    '<span class="key"><i class="swatch tick rto" aria-hidden="true"></i>full stroke: timeout</span>'
    '<span class="key"><i class="swatch shade" aria-hidden="true"></i>path down</span>'
)
MEMORY_LEDE = "What waiting for the slower path costs the receiver."
RULES_LEDE = (
    "Source: read from code or from the paper; secondary, from a description; reconstructed, a rule that fits what is "
    "known and is not to be taken for the original."
)
KEPT = Markup(
    "Your own classes (<em>yours</em>) and what you named beside <em>all</em> (*) come first and stay in sight."
)
LIMITS_LEDE = (
    "Aggregation benefit: 0 is the best single link under the same controller and seed, 1 the sum of all links. "
    "Same handshake: the same against links in a connection that opens as this one does, and then has its data on one "
    "of them. "
    "Both are left out if the other links add less than a tenth. "
    "Efficiency: goodput as part of what the links could carry."
)


@dataclass(frozen=True)
class Section:
    """A heading, a line that says how to read what follows, the content, and its data."""

    id: str
    title: str
    lede: str
    body: Markup
    data: pl.DataFrame | None = None

    @property
    def csv(self) -> str:
        """The data as CSV; nothing without a row."""
        return self.data.write_csv() if self.data is not None and self.data.height else ""


def all_sections(study: Study, runs: list[Watched], earlier: Earlier | None = None) -> list[Section]:
    """Every section that has content."""
    sections = [*table_sections(study), *chart_sections(study), *time_sections(study, runs)]
    if earlier:
        changed = changes_table(study, earlier) or Markup(" ")
        sections.append(Section("earlier", "Against an earlier comparison", summary(study, earlier), changed))
    sections += [
        Section("rules", "Schedulers", RULES_LEDE, tables.rules(study)),
        Section("scenario", "Scenario", str(study.scenario.get("description") or ""), tables.scenario(study)),
        Section("provenance", "Provenance", "What it takes to get these numbers again.", provenance(study)),
    ]
    ranks = {name: rank for rank, name in enumerate(ORDER)}
    return sorted((section for section in sections if section.body), key=lambda s: ranks.get(s.id, len(ORDER)))


ORDER = (
    *("results", "earlier", "settings", "published", "completion", "difference"),
    *("share", "rate", "memory", "limits", "run"),
)
"""Sections that come before all others."""


def table_sections(study: Study) -> list[Section]:
    mean = "Mean ± half of its 95 % interval." if len(study.seeds) > 1 else "A single seed: no intervals."
    if len(study.seeds) > 1 and not all(study.is_repeatable(cell) for cell in study.cells()):
        mean += f" Of the kernel and live links, median ± {study.interval_of_medians()}."
    paired = f" Differences are paired by seed, against {study.reference}."
    paired = paired if len(study.schedulers) > 1 else ""
    lede = Markup("{}{}{}").format(mean, Markup(" ") + KEPT if study.kept else "", paired)
    across = f"{study.primary.title}. Bold: who may be the best of each column."
    printed = "The number as printed, ours for the same cell, and their ratio."
    claims = html.table(published.table(study, published.claims(study)))
    return [
        Section("results", "Results", lede, tables.results(study)),
        Section("settings", "Settings side by side", across, tables.settings(study)),
        Section("published", "Published beside ours", printed, claims),
    ]


def chart_sections(study: Study) -> list[Section]:
    many = len(study.seeds) > 1
    marks = "Markers are means, bars 95 % intervals, fine strokes single runs" if many else "Markers are single runs"
    if many and not all(study.is_repeatable(cell) for cell in study.cells()):
        marks += f"; of the kernel and live links, medians with their {study.interval_of_medians()}"
    after = ", after yours and those that you named" if study.kept else ""
    by = f"each controller lists its schedulers by {study.primary.title.lower()}, best first{after}"
    order = f"{marks}; {by}.{left_out(study)}"
    paired = difference_lede(study, many)
    parts = Markup("Part of the bytes, in percent. {}").format(legend(study.paths))
    completions = frames.completion_measures(study)
    ends = frames.estimates(study, completions)
    buffers = study.measures(frames.MEMORY)
    costs = frames.estimates(study, buffers)
    bounds = frames.estimates(study, study.measures(frames.LIMITS))
    against = f"Difference from {study.reference}"
    return [
        Section("completion", headline(study), order, panels.by_measure(study, completions), ends),
        Section("difference", against, paired, panels.difference(study), frames.differences(study)),
        Section("share", "Share of each path", parts, panels.share(study), frames.shares(study)),
        Section("memory", "Receive buffer and reordering", MEMORY_LEDE, panels.by_measure(study, buffers), costs),
        Section("limits", "Against the limits", LIMITS_LEDE, panels.limits(study), bounds),
    ]


def time_sections(study: Study, runs: list[Watched]) -> list[Section]:
    """Sections that need timelines; a comparison may come without, or with runs in which nothing ever happened."""
    places = {(*cell[1:], seed): place for place, (cell, seed) in enumerate(study.watched())}
    runs = sorted(runs, key=lambda run: places.get((*run.cell[1:], run.seed), len(places)))
    front = next((run for run in runs if run.timeline.steps), None)
    if front is None:
        return []
    beside = (front.cell.cc, front.cell.setting, front.seed)
    alike = [run.timeline for run in runs if (run.cell.cc, run.cell.setting, run.seed) == beside]
    few = alike[:TOP]
    seed = f", seed {front.seed}" if front.seed is not None else ""
    paths = legend(study.paths)
    which = "One run each" if len(alike) <= TOP else f"One run each of the first {TOP} of {len(alike)} schedulers"
    each = Markup("{} under {}{}, rates stacked. {}").format(which, front.cell.cc, seed, paths)
    steps = frames.timeline_frame(few, MULTIPLE_BINS)
    return [
        Section("rate", "Rate of each path over time", each, small_multiples(few, study.look), steps),
        Section(
            "run", "Two runs side by side", Markup("{} {} {}").format(RUN_LEDE, paths, RUN_KEY), viewer(study, runs)
        ),
    ]


def headline(study: Study) -> str:
    """The section is called after what it shows first."""
    columns = [m.column for m in frames.completion_measures(study)]
    if columns[:2] == ["fct_ms", "goodput_mbps"]:
        return "Completion time and goodput"
    return MEASURES[columns[0]].title if len(columns) == 1 else "Delay and goodput"


def difference_lede(study: Study, many: bool) -> str:
    pairs = "the mean of the differences seed by seed, so that what the seeds share cancels"
    spread = "If the bar crosses 0, the difference is not significant." if many else "One seed, so no interval."
    good = "left" if study.primary.lower_is_better else "right"
    return f"{study.primary.title}: {pairs}. {spread} Better lies to the {good}."


def left_out(study: Study) -> str:
    shown = len(panels.drawn_settings(study))
    if shown == len(study.settings):
        return ""
    return f" Charts show the first {shown} of {len(study.settings)} settings; the tables show all."
