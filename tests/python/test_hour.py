"""The last hour of a program: what is kept, and the page of it."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from browser import Browser, needs_browser
from conftest import Weft
from test_status import PATH, progress, runtime
from weftway.status import hour_page
from weftway.status.hour import EVERY, MOST_NAMES, SAMPLES, Hour
from weftway.status.local_socket import LocalSocket, Reader
from weftway.status.snapshot import Snapshot

__all__ = ["runtime"]


def snapshot(at: int, **changes: Any) -> Snapshot:
    """What a program tells in second `at`."""
    told = progress(notes=[], program="proxy", pid=4711, at=1e9 + at, scheduler="min-rtt", **changes)
    return {**told, "paths": [{"mbps": 0.0, "minute": [], **path} for path in told["paths"]]}


def path(name: str, at: int, **changes: Any) -> dict[str, Any]:
    """A link that sends a hundred packets a second and loses one."""
    return {**PATH, "path": name, "packets": 100 * at, "lost": at, "min_rtt_ms": 10.0, **changes}


def test_ten_seconds_make_a_sample() -> None:
    hour = Hour()
    for at in range(EVERY):
        hour.tell(snapshot(at, paths=[path("wlan0", at, mbps=float(at), srtt_ms=10.0 + at)]))
    # The second link is there from now on; it has no round trip yet, and in the end the connection is another.
    for at in range(EVERY, 2 * EVERY):
        second = path("wwan0", at, srtt_ms=None, up=False, packets=0, lost=0)
        hour.tell(snapshot(at, paths=[path("wlan0", at, lost=9 + 20), second], flows=1))
    told = hour.told()
    # (0 + 1 + … + 9) / 10; the loss is that since the first snapshot: 9 of 900, and then 20 of 1000.
    assert told["links"]["wlan0"] == {
        "mbps": [4.5, 0.0],
        "srtt_ms": [14.5, 12.5],
        "queue_ms": [4.5, 2.5],
        "loss": [0.01, 0.02],
        "up": [1.0, 1.0],
    }
    assert told["links"]["wwan0"] == {
        "mbps": [None, 0.0],
        "srtt_ms": [None, None],
        "queue_ms": [None, None],
        "loss": [None, None],
        "up": [None, 0.0],
    }
    assert told["flows"]["bulk"]["open"] == [2.0, 2.0]


def test_of_clients_the_rates_are_kept() -> None:
    hour = Hour()
    for at in range(2 * EVERY):
        # 125 kB a second are 1 Mbit/s.
        laptop = {"name": "laptop", "up": 125_000 * at, "down": 250_000 * at}
        hour.tell(snapshot(at, paths=[], by_client=[laptop, {"name": None, "up": 0, "down": 0}]))
    told = hour.told()["clients"]
    assert told["laptop"] == {"up_mbps": [1.0, 1.0], "down_mbps": [2.0, 2.0]}
    assert told["without a name"]["up_mbps"] == [0.0, 0.0]


def full() -> tuple[Hour, Snapshot]:
    """The longest hour that there can be, and more: what came first is not kept."""
    hour = Hour()
    last: Snapshot = {}
    for at in range(EVERY * (SAMPLES + 5)):
        paths = [path(f"link{n}", at, mbps=1234.56, srtt_ms=1234.56) for n in range(MOST_NAMES + 1)]
        clients = [{"name": f"client{n}", "up": at * 10**8, "down": at * 10**8} for n in range(MOST_NAMES + 1)]
        last = {**snapshot(at, paths=paths, by_client=clients, busiest=[]), "notes": [f"note {at}"]}
        hour.tell(last)
    return hour, last


def test_an_hour_has_its_bounds_and_fits_into_an_answer(runtime: Path) -> None:
    hour, last = full()
    told = hour.told()
    assert len(told["links"]) == len(told["clients"]) == MOST_NAMES and len(told["notes"]) == 50
    series = [
        values for kind in ("links", "clients", "flows") for one in told[kind].values() for values in one.values()
    ]
    assert {len(values) for values in series} == {SAMPLES}
    socket = LocalSocket("proxy", hour.told)
    with contextlib.closing(socket), contextlib.closing(Reader(socket.path)) as reader:
        socket.tell(last)
        reader.ask({"hour": True})
        socket.requests()
        # Nothing is read before all is written: it has to fit into what the system keeps.
        socket.tell(last)
        found = None
        while not found or "hour" not in found:
            found = reader.read() or found
        assert found["hour"] == json.loads(json.dumps(told))


def shown_hour() -> Snapshot:
    """A proxy with two links, of which one was down for five minutes, and a target that means ill."""
    hour = Hour()
    last: Snapshot = {}
    for at in range(EVERY * 120):
        down = 300 <= at < 600
        paths = [
            path("wlan0", at, mbps=50.0 + at % 7, srtt_ms=12.0 + at % 3),
            path("wwan0", at, mbps=0.0 if down else 9.0, srtt_ms=None if down else 40.0, up=not down),
        ]
        target = "<b>mean</b>." + "a-very-long-name." * 8 + "org:443"
        shares = [{"path": "wlan0", "sent": 1, "received": 1}, {"path": "<i>", "sent": 0, "received": 1}]
        busiest = [{"target": target, "class": "bulk", "up": 1, "down": 2, "paths": shares}]
        last = {**snapshot(at, paths=paths, busiest=busiest), "notes": ["<i>connected</i>"] if at == 7 else []}
        hour.tell(last)
    return {**last, "hour": hour.told()}


class _Tags(HTMLParser):
    """Which elements are open, and those of each kind."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    text = hour_page.page([shown_hour()])
    tags = _Tags()
    tags.feed(text)
    assert tags.open == [] and {"table", "polyline", "svg"} <= tags.seen
    assert not tags.seen & {"script", "link", "img", "iframe", "b"}, "it loads nothing, and a target is only text"
    assert not re.search(r"https?://|@import|url\(", text)
    for words in ("wlan0", "wwan0", "secondary", "7.0 MB", "&lt;b&gt;mean", "&lt;i&gt;connected", "scheduler min-rtt"):
        assert words in text, words
    # A rate, a round trip, a queue, a loss of each link; three classes.
    assert text.count('class="lane"') == 2 * 4 + 3
    # 300 seconds were down: 30 samples in each of four lanes. The program runs for 1200 seconds: so wide is the page.
    assert text.count('class="down"') == 30 * 4 and 'x="250.0" y="0" width="8.3"' in text


def test_a_program_that_began_just_now_is_shown_over_less() -> None:
    hour, last = Hour(), snapshot(0)
    for minutes, window in ((1, 8), (8, 8), (9, 20), (20, 20), (21, 60), (60, 60)):
        while len(hour.told()["flows"].get("bulk", {"open": []})["open"]) < 6 * minutes:
            hour.tell(last)
        text = hour_page.page([{**last, "hour": hour.told()}])
        assert re.findall(r'left:0.0%">([^<]*)<', text) == [f"−{window}\u202fmin"] * 2, (
            "of the link, and of connections"
        )


@needs_browser
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_fits_a_desk_and_a_telephone(tmp_path: Path, width: int) -> None:
    (tmp_path / "hour.html").write_text(hour_page.page([shown_hour()]), encoding="utf-8")
    with Browser(width) as browser:
        browser.open(tmp_path / "hour.html")
        assert browser.run("document.documentElement.scrollWidth") == width
        assert browser.errors == []


@contextlib.contextmanager
def running(hour: Hour, last: Snapshot) -> Iterator[None]:
    """A program that tells the same again and again, and hears what is asked."""
    with contextlib.closing(LocalSocket("proxy", hour.told)) as told:
        is_over = threading.Event()

        def tell() -> None:
            while not is_over.wait(0.05):
                told.tell(last)
                told.requests()

        thread = threading.Thread(target=tell)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def test_the_page_is_written_by_the_command(weft: Weft, runtime: Path, tmp_path: Path) -> None:
    nobody = weft("top", "--page", "hour.html")
    assert nobody.returncode == 1 and "no weft proxy" in nobody.stderr and not (tmp_path / "hour.html").exists()
    both = weft("top", "--page", "hour.html", "--json")
    assert both.returncode == 2 and "a page is no JSON" in both.stderr
    with running(Hour(), snapshot(0)):
        told = weft("top", "--page", "hour.html")
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "written: hour.html\n")
    assert "wlan0" in (tmp_path / "hour.html").read_text(encoding="utf-8"), (
        "a program that began just now has a page, too"
    )
