"""The page of a program's last hour, as `weft top` writes it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import Browser, needs_browser
from conftest import Weft
from test_status import PATH, Program, progress, runtime
from weftway.report import palette

__all__ = ["runtime"]

SAMPLES = 360


def hour() -> dict[str, Any]:
    """A whole hour of two links, of which one was down for five minutes."""
    values: list[float | None] = [50.0 + at % 7 for at in range(SAMPLES)]
    link: dict[str, Any] = {
        "mbps": values,
        "srtt_ms": values,
        "queue_ms": values,
        "loss": [0.01] * SAMPLES,
        "up": [1.0] * SAMPLES,
    }
    away = {key: [*column[:60], *([None] * 30), *column[90:]] for key, column in link.items()}
    away["up"] = [float(not 60 <= at < 90) for at in range(SAMPLES)]
    flows = {name: {"open": [float(at % 3) for at in range(SAMPLES)]} for name in ("realtime", "interactive", "bulk")}
    notes = [[1e9 + 7, "<i>connected</i>"]]
    return {"every_s": 10, "at": 1e9, "links": {"wlan0": link, "wwan0": away}, "clients": {}, "flows": flows} | {
        "notes": notes
    }


def snapshot() -> dict[str, Any]:
    """Snapshot of a proxy that carries a connection to a target with a long name."""
    shares = [{"path": "wlan0", "sent": 1, "received": 1}, {"path": "<i>", "sent": 0, "received": 1}]
    target = "<b>mean</b>." + "a-very-long-name." * 8 + "org:443"
    busiest = [{"target": target, "class": "bulk", "up": 1, "down": 2, "paths": shares}]
    report = progress(busiest=busiest, scheduler="min-rtt", program="proxy", pid=4711, at=1e9, notes=[])
    paths = [{**PATH, "path": name, "mbps": 50.0, "minute": [50.0]} for name in ("wlan0", "wwan0")]
    return {**report, "paths": paths, "dropped_lines": 0}


@contextlib.contextmanager
def running(runtime: Path, report: dict[str, Any]) -> Iterator[None]:
    """A program that tells the same again and again, and hears what is asked."""
    with contextlib.closing(Program(runtime, snapshot(), report)):
        yield


def written(weft: Weft, runtime: Path, folder: Path, report: dict[str, Any]) -> str:
    """The page of a program with this hour."""
    with running(runtime, report):
        done = weft("top", "--page", "hour.html")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "written: hour.html\n")
    return (folder / "hour.html").read_text(encoding="utf-8")


@needs_browser
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_fits_a_desk_and_a_telephone(weft: Weft, runtime: Path, tmp_path: Path, width: int) -> None:
    written(weft, runtime, tmp_path, hour())
    with Browser(width) as browser:
        browser.open(tmp_path / "hour.html")
        assert browser.run("document.documentElement.scrollWidth") == width
        assert browser.errors == []


def test_the_page_is_written_by_the_command(weft: Weft, runtime: Path, tmp_path: Path) -> None:
    nobody = weft("top", "--page", "hour.html")
    assert nobody.returncode == 1 and "no weft proxy" in nobody.stderr and not (tmp_path / "hour.html").exists()
    both = weft("top", "--page", "hour.html", "--json")
    assert both.returncode == 2 and "a page is no JSON" in both.stderr
    text = written(weft, runtime, tmp_path, hour())
    assert "&lt;b&gt;mean" in text and "&lt;i&gt;connected" in text and "2001-09-09" in text
    assert text.count('class="lane"') == 2 * 4 + 3
    # 300 seconds were down: 30 samples in each of four lanes.
    assert text.count('class="down"') == 30 * 4
    just_now = {**hour(), "links": {}, "flows": {}, "notes": []}
    assert "wlan0" in written(weft, runtime, tmp_path, just_now), "a program that began just now has a page, too"


def test_a_link_has_the_colour_that_a_path_has_in_a_report(weft: Weft, runtime: Path, tmp_path: Path) -> None:
    text = written(weft, runtime, tmp_path, hour())
    for colours in (palette.PATH_LIGHT, palette.PATH_DARK):
        assert "".join(f"--p{place}:{colour};" for place, colour in enumerate(colours)) in text
