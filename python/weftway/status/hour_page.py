"""The last hour of running programs as a page: one file without a script, in the looks of a report."""

import time
from collections.abc import Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any

from weftway.report.axis import Axis, from_zero
from weftway.report.page import style
from weftway.report.palette import Look
from weftway.report.series import Timeline, Values, top
from weftway.report.study import Cell
from weftway.report.timeline import HEIGHT, WIDTH, lane, line, time_edge
from weftway.report.units import unit_for
from weftway.status.hour import EVERY, SAMPLES, queue_ms
from weftway.status.snapshot import Snapshot, path_shares, target_name
from weftway.transfer import amount, printable

LANES = (
    ("mbps", "Rate", "rate", "area"),
    ("srtt_ms", "Round trip", "time", "trace"),
    ("queue_ms", "Queue", "time", "trace"),
    ("loss", "Lost", "share", "trace"),
)
"""What is drawn of a link: the key in the hour, its title, the kind of its unit, how it is drawn."""
CLIENT_LANES = (("down_mbps", "To its programs", "rate", "area"), ("up_mbps", "From its programs", "rate", "area"))

WINDOWS_MIN = (8, 20, 60)
"""A program that has not run for an hour yet is shown over less."""
TICKS = 4

NOTHING = "–"


def page(snapshots: Sequence[Snapshot]) -> str:
    """The page of programs, each with its last hour."""
    template = resources.files(__package__).joinpath("hour.html").read_text(encoding="utf-8")
    heads = [f"weft {one['program']} ({one['pid']})" for one in snapshots]
    made = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(max(one["at"] for one in snapshots)))
    fills = {
        "style": style(),
        "title": escape(f"The last hour of {', '.join(heads)}"),
        "made": escape(made),
        "programs": "".join(map(_program, snapshots)),
    }
    return Template(template).substitute(fills)


def _program(snapshot: Snapshot) -> str:
    hour = snapshot["hour"]
    at = ", ".join(snapshot["ports"]) or snapshot["listening"] or ""
    head = f"weft {snapshot['program']}" + (f" at {at}" if at else "")
    scheduler = f", scheduler {snapshot['scheduler']}" if snapshot.get("scheduler") else ""
    facts = f"{snapshot['state']}{scheduler}, {snapshot['flows']} connections, process {snapshot['pid']}"
    parts = [
        _links(snapshot),
        *(_drawn(hour, "links", name, LANES, place) for place, name in enumerate(hour["links"])),
        *(_drawn(hour, "clients", name, CLIENT_LANES, place) for place, name in enumerate(hour["clients"])),
        _flows(snapshot),
        _notes(hour["notes"]),
    ]
    return f'<section><h2>{escape(head)}</h2><p class="lede">{escape(facts)}</p>{"".join(parts)}</section>'


def _links(snapshot: Snapshot) -> str:
    """Each link as it is now."""
    rows = []
    for place, path in enumerate(snapshot["paths"]):
        policy = path.get("policy") or {}
        queue = queue_ms(path)
        left = policy.get("left")
        state = "down" if not path["up"] else "open" if policy.get("open", True) else "closed"
        cells = (
            ("Mbit/s", f"{path['mbps']:.1f}"),
            ("round trip", NOTHING if path["srtt_ms"] is None else f"{path['srtt_ms']:.1f} ms"),
            ("queue", NOTHING if queue is None else f"{queue:.1f} ms"),
            ("lost", f"{100 * path['lost'] / path['packets']:.1f} %" if path["packets"] else NOTHING),
            ("carried", NOTHING if path.get("carried") is None else amount(path["carried"])),
            ("tier", policy.get("tier", NOTHING)),
            ("cap left", NOTHING if left is None else amount(left)),
            ("state", state),
        )
        swatch = f'<i class="swatch p{Look(place).path}" aria-hidden="true"></i>'
        name = f'<th scope="row"><span class="key">{swatch}{escape(printable(path["path"]))}</span></th>'
        rows.append((name, cells))
    return _table("Links now", "link", rows) if rows else ""


def _flows(snapshot: Snapshot) -> str:
    """How many connections were open, and those that carried most."""
    hour = snapshot["hour"]
    flows = {name: series["open"] for name, series in hour["flows"].items()}
    axis = from_zero(max(top(flows.values()), 3.0))
    unit = unit_for("count", [axis.high])
    lanes = "".join(
        lane(escape(name), "connections open", _line(hour, values, axis, name, f"area p{Look(place).path}"), axis, unit)
        for place, (name, values) in enumerate(flows.items())
    )
    rows = [
        (
            f'<th scope="row">{escape(printable(target_name(one)))}</th>',
            (
                ("class", one["class"]),
                ("sent", amount(one["up"])),
                ("received", amount(one["down"])),
                ("links", printable(path_shares(one))),
            ),
        )
        for one in snapshot["busiest"][:10]
    ]
    table = _table("Connections that carried most, of those that are open", "connection", rows) if rows else ""
    return (f'<h3>Connections</h3><div class="lanes">{lanes}{_ago(hour)}</div>' if lanes else "") + table


def _drawn(hour: dict[str, Any], kind: str, name: str, lanes: Sequence[tuple[str, ...]], place: int) -> str:
    """The lanes of a link or a client. All of its kind have the same scale."""
    drawn = ""
    for key, title, of, css in lanes:
        axis = from_zero(top(series[key] for series in hour[kind].values()) or 1e-3)
        unit = unit_for(of, [axis.high])
        values = hour[kind][name][key]
        known = [value for value in values if value is not None]
        note = f"{unit.value(known[-1])} at the end, {unit.value(max(known))} at most" if known else "not known"
        shape = _down(hour, hour[kind][name].get("up", [])) + _line(
            hour, values, axis, name, f"{css} p{Look(place).path}"
        )
        drawn += lane(title, escape(note), shape, axis, unit)
    swatch = f'<i class="swatch p{Look(place).path}" aria-hidden="true"></i>'
    head = f'<h3><span class="key">{swatch}{escape(printable(name))}</span></h3>'
    return f'{head}<div class="lanes">{drawn}{_ago(hour)}</div>'


def _line(hour: dict[str, Any], values: Values, axis: Axis, name: str, css: str) -> str:
    """A series over the whole hour, the latest on the right."""
    whole: Values = [*([None] * (_window(hour) - len(values))), *values]
    timeline = Timeline(Cell("", "", name), EVERY * 1e3, {name: {"value": whole}}, {})
    return line(timeline, whole, axis, name, css)


def _window(hour: dict[str, Any]) -> int:
    """How many samples are shown: the shortest window that has all."""
    known = max((len(series["open"]) for series in hour["flows"].values()), default=0)
    windows = (60 * minutes // EVERY for minutes in WINDOWS_MIN)
    return next(window for window in windows if window >= min(known, SAMPLES))


def _down(hour: dict[str, Any], up: Values) -> str:
    """Shades where a link was down."""
    first, width = _window(hour) - len(up), WIDTH / _window(hour)
    return "".join(
        f'<rect class="down" x="{(first + at) * width:.1f}" y="0" width="{width:.1f}" height="{HEIGHT}"/>'
        for at, value in enumerate(up)
        if value == 0
    )


def _ago(hour: dict[str, Any]) -> str:
    """The axis of time, in minutes before now."""
    minutes = _window(hour) * EVERY // 60
    past = [(at / TICKS, f"−{minutes - minutes * at // TICKS}\u202fmin") for at in range(TICKS)]
    places = [*past, (1.0, "now")]
    marks = "".join(f'<i class="{time_edge(at)}" style="left:{100 * at:.1f}%">{text}</i>' for at, text in places)
    return f'<div class="lane foot"><span></span><span class="ticks time">{marks}</span></div>'


def _notes(notes: Sequence[Sequence[Any]]) -> str:
    """What the user was told, the latest first."""
    rows = [
        (
            f'<th scope="row">{time.strftime("%H:%M:%S", time.localtime(at))}</th>',
            (("", printable(str(text))),),
        )
        for at, text in reversed(notes)
    ]
    return _table("What was told", "at", rows) if rows else ""


def _cell(cell: tuple[str, str]) -> str:
    name, text = map(escape, cell)
    return f'<td data-label="{name}">{text}</td>'


def _table(title: str, first: str, rows: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> str:
    """A table whose rows are cards on a narrow screen; a column's name stands in each row."""
    heads = "".join(f"<th>{escape(name)}</th>" for name, _ in rows[0][1])
    body = "".join(f"<tr>{head}{''.join(map(_cell, cells))}</tr>" for head, cells in rows)
    return (
        f'<table class="cards"><caption>{escape(title)}</caption>'
        f"<thead><tr><th>{escape(first)}</th>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )
