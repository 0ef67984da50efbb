"""`weft record`: its packets, who is answered, and what comes of arrivals made by hand."""

import json
import re
import shlex
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Weft
from ends import BOTH, Start, port
from weftway import ScenarioError, new_drive_scenario
from weftway.progress import Bar
from weftway.record import arrivals, estimate, probes, recording
from weftway.record.arrivals import BIN, PROBE, Record
from weftway.record.channel import Channel, RoundTrip
from weftway.record.estimate import Direction, Step
from weftway.record.listening import Host
from weftway.record.report import drive_text, link_names
from weftway.record.window import LEAST_PACKETS, Window
from weftway.record.wire import (
    ASK,
    FULL_BYTES,
    HELLO_BYTES,
    LOAD,
    Cookies,
    Feedback,
    Kind,
    Plan,
    Probe,
    other_version,
    packed,
    unpacked,
)
from weftway.scenario import HOME

MS = 1_000_000
SESSION = b"session!"
HERE, ELSEWHERE = ("192.0.2.1", 5000), ("192.0.2.9", 5000)
PLAN = Plan(paths=2, seconds=10, load=False, cap=1_000_000)


def test_a_packet_is_its_head_and_its_body() -> None:
    data = packed(Kind.PROBE, 1, SESSION, Probe(7, 5, 3, 4).pack(), 64)
    # Magic number, version, kind, path, session; then number, time, echo and its time.
    assert data[:39] == b"weft\x01\x06\x01session!" + bytes.fromhex(
        "00000007 0000000000000005 00000003 0000000000000004"
    )
    assert data[39:] == bytes(25)
    packet = unpacked(data)
    assert packet
    assert (packet.kind, packet.path, packet.session) == (Kind.PROBE, 1, SESSION)
    assert Probe.unpack(packet.body) == Probe(7, 5, 3, 4)


@pytest.mark.parametrize("data", [b"", b"weft", b"wefT" + bytes(11), b"weft\x01\xff\x00session!"])
def test_what_is_no_packet_is_none(data: bytes) -> None:
    assert unpacked(data) is None
    assert other_version(data) is None


def test_another_version_is_told_by_the_first_bytes() -> None:
    assert other_version(b"weft\x02" + bytes(10)) == 2
    assert unpacked(b"weft\x02" + bytes(10)) is None


def test_records_cross_in_packets() -> None:
    kept = [Record(PROBE, 10, 92, 3), Record(BIN, 20, 2456, 15, 2)]
    assert arrivals.unpacked(arrivals.packed(1, 0, kept)) == (1, 0, kept)
    assert arrivals.unpacked(arrivals.packed(1, 1, kept)) == (1, 1, kept[1:])
    assert arrivals.unpacked(b"\0" * 7) is None


def test_a_cookie_is_of_one_address_one_path_and_one_time() -> None:
    cookies = Cookies(b"secret")
    baked = cookies.bake(0, "here 1", SESSION, 0)
    slot = Cookies.SLOT_NS
    assert cookies.is_valid(baked, 2 * slot - 1, "here 1", SESSION, 0)
    assert not cookies.is_valid(baked, 2 * slot, "here 1", SESSION, 0)
    assert not cookies.is_valid(baked, 0, "here 2", SESSION, 0)
    assert not cookies.is_valid(baked, 0, "here 1", SESSION, 1)
    assert not Cookies(b"another").is_valid(baked, 0, "here 1", SESSION, 0)


@pytest.fixture
def host() -> Host:
    """A listening end that grants a megabyte."""
    return Host(1_000_000, b"secret", lambda _: None)


def greeted(host: Host, plan: Plan = PLAN, path: int = 0, session: bytes = SESSION) -> bytes:
    """Greets `host` as one does; its last answer."""
    ((cookie, _),) = host.receive(0, 0, packed(Kind.HELLO, path, session, size=HELLO_BYTES), HERE)
    told = unpacked(cookie)
    assert told
    assert told.kind == Kind.COOKIE
    start = packed(Kind.START, path, session, plan.pack(told.body))
    ((answer, address),) = host.receive(0, 0, start, HERE)
    assert address == HERE
    return answer


def kind(data: bytes) -> Kind:
    packet = unpacked(data)
    assert packet
    return packet.kind


def test_who_has_not_shown_its_address_gets_no_more_than_it_sent(host: Host) -> None:
    forged = [packed(kind, 0, SESSION, bytes(64), size) for kind in Kind for size in (0, 64, FULL_BYTES)]
    forged += [b"weft\x07" + bytes(10), b"weft\x07" + bytes(1000), packed(Kind.HELLO, 0, SESSION)]
    for data in forged:
        assert sum(len(answer) for answer, _ in host.receive(0, 0, data, HERE)) <= len(data)
    assert host.due(10**9) == []
    # A cookie of another address is none.
    ((cookie, _),) = host.receive(0, 0, packed(Kind.HELLO, 0, SESSION, size=HELLO_BYTES), ELSEWHERE)
    told = unpacked(cookie)
    assert told
    assert host.receive(0, 0, packed(Kind.START, 0, SESSION, PLAN.pack(told.body)), HERE) == []
    # Nor does a recording that goes on answer somebody else.
    greeted(host)
    assert host.receive(0, 0, packed(Kind.ASK, 0, SESSION, bytes(5)), ELSEWHERE) == []
    assert {address for _, address in host.due(10**9)} == {HERE}


def test_two_ends_of_different_versions_do_not_answer_each_other_for_ever(host: Host) -> None:
    theirs = b"weft\x09" + packed(Kind.HELLO, 0, SESSION, size=HELLO_BYTES)[5:]
    ((answer, _),) = host.receive(0, 0, theirs, HERE)
    assert kind(answer) == Kind.OTHER_VERSION
    assert host.receive(0, 0, b"weft\x09" + answer[5:], HERE) == []


def test_what_is_asked_for_beyond_the_limits_is_refused(host: Host) -> None:
    assert b"1.0 MB a path and direction, and 2.0 MB are asked for" in greeted(host, Plan(1, 10, True, 2_000_000))
    assert kind(greeted(host, Plan(1, 10, True, 1_000_001))) == Kind.REFUSED
    assert kind(greeted(host, Plan(1, 3601, False, 1000))) == Kind.REFUSED
    assert kind(greeted(host, Plan(17, 10, False, 1000))) == Kind.REFUSED
    assert kind(greeted(host, Plan(1, 10, False, 1000), path=1)) == Kind.REFUSED
    assert kind(greeted(host)) == Kind.READY
    assert b"busy" in greeted(host, session=b"another!")


def test_no_more_is_sent_than_the_cap_allows_however_much_is_asked_for(host: Host) -> None:
    plan = Plan(1, 10, True, 100_000)
    greeted(host, plan)
    sent = 0
    for at in range(0, 15_000, 10):
        now = at * MS
        told = Feedback(0, now + 1, at * 10, at * 10, now, 0, False)
        sent += sum(
            len(data) + 28 for data, _ in host.receive(now, now, packed(Kind.FEEDBACK, 0, SESSION, told.pack()), HERE)
        )
        sent += sum(len(data) + 28 for data, _ in host.due(now))
    assert 90_000 < sent <= 100_000


def test_feedback_is_within_the_cap_and_leaves_room_for_answers(host: Host) -> None:
    """Load comes for a minute: its feedback would take 230 kB, in a megabyte that this end's own load uses up."""
    greeted(host, Plan(1, 60, True, 1_000_000))
    sent = 0
    for number in range(3000):
        now = number * 20 * MS
        host.receive(now, now, packed(Kind.LOAD, 0, SESSION, LOAD.pack(number, now), FULL_BYTES), HERE)
        sent += sum(len(data) + 28 for data, _ in host.due(now))
    ((answer, _),) = host.receive(now, now, packed(Kind.ASK, 0, SESSION, ASK.pack(0, 0)), HERE)
    assert kind(answer) == Kind.RECORDS
    assert 980_000 < sent + len(answer) + 28 <= 1_000_000


def test_what_is_kept_of_a_peer_is_bounded(host: Host) -> None:
    """16 probes a second can come of 10 s, and of a minute besides; those of other numbers, or twice, are not kept."""
    greeted(host)
    assert host.session
    channel = host.session.peers[0].channel
    for number in [*range(2000), *range(2000), 2**32 - 3]:
        host.receive(0, 0, packed(Kind.PROBE, 0, SESSION, Probe(number, 0, 1, 0).pack()), HERE)
    assert len(channel.arrivals.records) == 16 * 70
    assert len(channel.trains) == 8 * 70
    assert (host.is_peer(HERE), host.is_peer(ELSEWHERE)) == (True, False)


def test_a_recording_ends_by_itself_when_nothing_is_heard(host: Host) -> None:
    greeted(host, Plan(1, 3600, False, 1_000_000))
    assert host.due(29_000 * MS)
    host.due(31_000 * MS)
    assert host.session is None


def test_a_round_trip_is_without_the_wait_between_and_tells_the_other_clock() -> None:
    """The other clock is 1 s ahead. The probe leaves at 0, is there after 30 ms, and is told 100 ms later; that takes
    50 ms: 80 ms in all. By the mean of both ways the clocks differ by (1030 + (1130 − 180)) / 2 = 990 ms."""
    channel = Channel(SESSION, 0, PLAN, 0, 28)
    channel.due(0)
    answer = unpacked(packed(Kind.PROBE, 0, SESSION, Probe(4, 1130 * MS, 1, 1030 * MS).pack()))
    assert answer
    channel.receive(180 * MS, answer, 64)
    (trip,) = channel.round_trips
    assert (trip.at_ns, trip.rtt_ns, trip.offset_ns) == (180 * MS, 80 * MS, 990 * MS)


def test_the_clock_is_that_of_the_shortest_round_trip() -> None:
    trips = [RoundTrip(0, 80 * MS, 990 * MS), RoundTrip(1, 40 * MS, 1001 * MS)]
    assert estimate.clock_offset_ns(trips) == 1001 * MS


def test_the_window_is_what_arrives_in_a_round_trip_and_what_is_to_wait() -> None:
    """1000 packets a second, a round trip of 50 ms without the queue of 20 ms, 150 ms to wait: 200 packets."""
    window = Window()
    assert window.room(0, 0, 0) == LEAST_PACKETS
    for at in range(0, 201, 20):
        window.on_feedback((at + 70) * MS, Feedback(0, (at + 1) * MS, at, at, at * MS, 20 * MS, False), at)
    assert window.limit == 200
    assert window.room(0, 300, 0) == 100
    # All of it is under way: one packet each 50 ms.
    assert (window.room(49 * MS, 400, 0), window.room(50 * MS, 400, 0)) == (0, 1)


def direction(records: list[Record], trips: list[tuple[int, int]] | None = None) -> Direction:
    trains = {number: number for number in range(100)}
    return Direction(records, trains, 0, trips or [])


def probe(number: int, at_ms: float, size: int = 92) -> Record:
    return Record(PROBE, round(at_ms * MS), size, number)


def test_a_train_tells_the_rate_at_which_it_arrived() -> None:
    """Three packets of 1228 bytes after the first, one each ms: 9.824 Mbit/s; of a gap only the length counts."""
    whole = [probe(number, 20 + number, 1228) for number in range(4)]
    at_once = dict.fromkeys(range(4), 0)
    for train, left, fast in (
        (whole, at_once, True),
        ([whole[0], whole[3]], at_once, True),
        # It left at 2 ms of the 3 ms in which it arrived: that is the sender's rate.
        (whole, {0: 0, 3: 2 * MS}, False),
    ):
        found = estimate.train_mbps(train, left)
        assert found
        assert found[0] == pytest.approx(9.824)
        assert found[1] is fast
    # Two packets are too few.
    assert estimate.train_mbps(whole[:2], at_once) is None


def test_probes_tell_delay_loss_and_outages() -> None:
    """Four steps of 8 probes, each 30 ms on its way. In the second one packet is lost; in the third all are."""
    due = [(number, probes.due_ns(number) / MS + 30) for number in range(32)]
    there = [(number, at) for number, at in due if number != 13 and not 16 <= number < 24]
    records = [probe(number, at + 0.1 * (number % 8 if number % 8 < 4 else 0), 1228) for number, at in there]
    found = estimate.estimate(
        direction(records, [(100 * MS, 60 * MS), (200 * MS, 64 * MS), (700 * MS, 80 * MS)]), 4, False
    )
    # 1228 bytes in 0.1 ms. Nothing came in the third step; its probes are an outage, and not losses.
    assert [step.mbps for step in found.steps] == pytest.approx([98.24, 98.24, 0, 98.24])
    assert (found.probes_sent, found.probes_lost) == (24, 1)
    assert [step.loss_percent for step in found.steps] == [pytest.approx(100 / 24), None, None, None]
    # Half of 62 and of 80 ms; then nothing is known.
    assert [step.delay_ms for step in found.steps] == [31, 40, None, None]


def test_under_load_the_rate_is_what_arrived_in_the_step() -> None:
    """62 500 bytes in 0.5 s are 1 Mbit/s. The bin at 495 ms lies half in the second step."""
    records = [Record(BIN, 100 * MS, 62_500, 5000), Record(BIN, 495 * MS, 62_500, 5000), probe(3, 600, 31_250)]
    before = [(-900 * MS, 40 * MS), (-800 * MS, 44 * MS), (-100 * MS, 300 * MS), (-50 * MS, 300 * MS)]
    found = estimate.estimate(direction(records, [*before, (200 * MS, 500 * MS)]), 2, True)
    assert [step.mbps for step in found.steps] == pytest.approx([1.5, 1.0])
    # The delay is of the time before the load.
    assert [(step.delay_ms, step.loss_percent) for step in found.steps] == [(21, None), (None, None)]
    assert found.not_full == 0


def test_a_link_that_was_idle_under_load_is_told() -> None:
    idle = [Record(BIN, at * 10 * MS, 1000, 0 if at < 30 else 5000) for at in range(100)]
    assert estimate.estimate(direction(idle), 2, True).not_full == 1
    lossy = [Record(BIN, at * 10 * MS, 1000, 0, 1) for at in range(100)]
    assert estimate.estimate(direction(lossy), 2, True).not_full == 0


def test_a_drive_has_a_line_for_each_step_and_a_column_for_what_was_measured() -> None:
    one = [Step(1.0, 20.0, 0.5), Step(0.0, None, None)]
    other = [Step(2.5, None, None), Step(3.0, None, None), Step(4.0, None, None)]
    assert drive_text(["a", "b"], [one, other]) == (
        "at_s,a_mbps,a_delay_ms,a_loss_percent,b_mbps\n0.0,1.000,20.00,0.50,2.500\n0.5,0.000,,,3.000\n"
    )
    with pytest.raises(ScenarioError, match="two paths are the link `192-0-2-1`"):
        link_names(["192.0.2.1", "192-0-2-1"])


def listening(start: Start, *words: str) -> str:
    """Where a listening end is."""
    process = start("record", "--listen", "127.0.0.1:0", *words)
    assert process.stderr
    return process.stderr.readline().removeprefix("listening at ").strip()


ENOUGH = ("--cap", "5GB")
"""Of load, for two seconds over the fastest loopback device."""


@pytest.mark.parametrize("load", [(), ("--load", *ENOUGH)], ids=["probes", "load"])
def test_two_links_of_one_machine_are_recorded_and_compared(weft: Weft, start: Start, load: tuple[str, ...]) -> None:
    peer = listening(start, *ENOUGH)
    done = weft("record", *BOTH, "--peer", peer, "--for", "2s", "--json", *load)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["link"], row["direction"]) for row in rows] == [
        ("127-0-0-1", "down"), ("127-0-0-1", "up"), ("127-0-0-2", "down"), ("127-0-0-2", "up")
    ]  # fmt: skip
    assert all(row["rate_mbps"] > 0 and row["rtt_ms"] < 1000 for row in rows)
    compared = weft("compare", "recorded.toml", "--scheduler", "min-rtt", "--seeds", "0..1", "--json")
    assert compared.returncode == 0, compared.stderr
    (row,) = json.loads(compared.stdout)
    assert row["fct_ms"] > 0
    # It never overwrites what it wrote.
    again = weft("record", *BOTH, "--peer", peer)
    assert (again.returncode, again.stderr.startswith("weft: recorded.toml exists already")) == (2, True)


def test_an_interrupted_recording_keeps_what_was_measured(start: Start, tmp_path: Path) -> None:
    process = start("record", *BOTH, "--peer", listening(start), "--for", "60s")
    assert process.stderr
    # Two steps are there when a second is.
    while (line := process.stderr.readline()) and not re.match(r"[1-9]\d* of 60 seconds recorded", line):
        pass
    process.send_signal(signal.SIGINT)
    told, complaints = process.communicate(timeout=60)
    assert process.returncode == 130, complaints
    assert "were measured and are written" in complaints
    assert "weft compare recorded.toml" in told
    assert len((tmp_path / "recorded.up.csv").read_text().splitlines()) >= 2


def until(seconds: int, do: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Does something once when so many seconds are recorded: the seconds that the bar is told."""
    told: list[int] = []

    def tell(_: Bar, done: int, total: int) -> None:
        told.append(done)
        if done == seconds and len(told) > 1:
            monkeypatch.setattr(Bar, "tell", lambda _, done, total: told.append(done))
            do()

    monkeypatch.setattr(Bar, "tell", tell)
    return told


@pytest.mark.parametrize(
    ("again", "why"),
    [
        (None, "has not answered for 2 s"),
        ((), "began anew, and what it had got before is lost"),
        (("--cap", "1kB"), "refused to go on: it grants at most 1.0 kB a path and direction"),
    ],
    ids=["gone", "started again", "started again with another cap"],
)
def test_a_recording_whose_other_end_ends_is_cut_short_and_says_so(
    weft_here: Weft,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    again: tuple[str, ...] | None,
    why: str,
) -> None:
    peer = f"127.0.0.1:{port()}"
    listens = start("record", "--listen", peer)
    assert listens.stderr and listens.stderr.readline()

    def end() -> None:
        listens.kill()
        listens.wait()
        if again is not None:
            start("record", "--listen", peer, *again)

    if again is None:
        monkeypatch.setattr(recording, "SILENCE_NS", 2_000 * MS)
    told = until(3, end, monkeypatch)
    done = weft_here("record", *BOTH, "--peer", peer, "--for", "60s", "--json")
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()
    assert last.startswith(f"weft: {peer} {why}"), done.stderr
    rows = json.loads(done.stdout)
    seconds = rows[0]["seconds"]
    assert last.endswith(f"; {seconds:g} of 60 s were measured and are written")
    assert 1 <= seconds <= 3.5
    if again is None:
        assert max(told) == 3, "what is not heard is not recorded"
    # No time in which nobody was there is in any number.
    assert {row["steps"] for row in rows} == {2 * seconds}
    for side in ("down", "up"):
        assert len((tmp_path / f"recorded.{side}.csv").read_text().splitlines()) == 1 + 2 * seconds


def test_an_other_end_that_ends_before_anything_is_measured_is_named(
    weft_here: Weft, start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    peer = f"127.0.0.1:{port()}"
    listens = start("record", "--listen", peer)
    assert listens.stderr and listens.stderr.readline()
    monkeypatch.setattr(recording, "SILENCE_NS", 2_000 * MS)
    until(0, listens.kill, monkeypatch)
    done = weft_here("record", *BOTH, "--peer", peer)
    assert done.returncode == 1
    assert f"weft: {peer} has not answered for 2 s; it was over before the first half second" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "needs either --peer HOST"),
        (("--peer", "127.0.0.1"), "needs --path for each link"),
        (("--peer", "127.0.0.1", "--path", "nowhere0"), "--path nowhere0: there is no such interface; there is lo"),
        (("--peer", "127.0.0.1", "--path", "192.0.2.77"), "--path 192.0.2.77: no address of this machine"),
        (("--peer", "127.0.0.1", "--path", "::1"), "has no address of that family (IPv6)"),
        (("--peer", "127.0.0.1", *BOTH, "--path", "127.0.0.1"), "two paths are the link `127-0-0-1`"),
        (("--peer", "127.0.0.1", *BOTH, "--for", "0.5 s"), "whole seconds from 1 to 3600"),
        (("--peer", "127.0.0.1", *BOTH, "--for", "soon"), "`soon` is not a time"),
        (("--peer", "127.0.0.1", *BOTH, "--cap", "1 MB"), "it goes with --load"),
        (("--peer", "127.0.0.1", *BOTH, "--load", "--cap", "1 MB"), "are not enough for 60 s"),
        (("--peer", "127.0.0.1", *BOTH, "--workload", "none"), "--workload none: there is bulk"),
        (("--listen", "4434", "--load"), "takes --cap alone"),
        (("--listen", "4434", "--json"), "takes --cap alone"),
        (("--listen", "99999"), "a port is a number up to 65535"),
    ],
)
def test_what_makes_no_sense_is_refused(weft_here: Weft, words: tuple[str, ...], told: str) -> None:
    done = weft_here("record", *words)
    assert done.returncode == 2
    assert told in done.stderr


def test_the_path_without_an_answer_is_named(weft: Weft, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind(("127.0.0.1", 0))
        done = weft("record", *BOTH, "--peer", f"127.0.0.1:{mute.getsockname()[1]}")
    assert done.returncode == 1
    assert "no answer from 127.0.0.1" in done.stderr
    assert "over any path within 5 s" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_peer_of_another_version_is_told(weft: Weft, start: Start) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        process = start("record", *BOTH, "--peer", f"127.0.0.1:{other.getsockname()[1]}")
        data, address = other.recvfrom(2000)
        other.sendto(b"weft\x09" + data[5:], address)
        _, complaints = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "speaks version 9 of its packets, this one 1" in complaints


def test_a_scenario_of_a_run_of_a_drive(weft: Weft, tmp_path: Path) -> None:
    shutil.copy(HOME / "traces/drives/us-2023.down.csv", tmp_path)
    done = weft("new", "scenario", "my", "--drive", "us-2023.down.csv", "--run", "12", "att.delay=30 ms")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "wrote    my.toml: att, verizon"
    written = (tmp_path / "my.toml").read_text()
    assert 'file = { down = "us-2023.down.csv" }\nrun  = 12\n' in written
    assert 'delay      = "30 ms"           # given on the command line' in written
    ran = weft("run", "my.toml", "--scheduler", "min-rtt", "--json")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("name", "content", "words", "told"),
    [
        ("a.csv", "at_s,lte_mbps\n0,1\n", ("lte.speed=3",), "the keys are rate"),
        ("a.csv", "at_s,lte_mbps\n0,1\n", ("dsl.delay=3 ms",), "the drive has no link `dsl`; it has lte"),
        ("a.csv", "at_s,lte_mbps\n0,1\n", ("lte.rate=3 Mbit/s",), "`lte.rate=3 Mbit/s`: the drive has measured it"),
        ("a.csv", "at_s,lte_mbps\n0,1\n", ("--run", "3"), "a.csv: no run 3; it has one run alone"),
        ("a.csv", "run,at_s,lte_mbps\n1,0,1\n2,0,1\n", (), "it has 2 runs, from 1 to 2; --run says which"),
        ("a.csv", "at_s,lte\n0,1\n", (), "a.csv: line 1: `lte` is no column of a drive"),
        ("a.csv", "at_s,wi fi_mbps\n0,1\n", (), "a.csv: the column `wi fi_mbps`: `wi fi` is not a name for a link"),
        ("a.down.csv", "at_s,lte_mbps\n0,1\n", ("--drive", "a.down.csv"), "has the direction down already"),
    ],
)
def test_a_drive_that_makes_no_scenario(
    weft_here: Weft, tmp_path: Path, name: str, content: str, words: tuple[str, ...], told: str
) -> None:
    (tmp_path / name).write_text(content)
    done = weft_here("new", "scenario", "my", "--drive", name, *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert not (tmp_path / "my.toml").exists()


def test_what_a_drive_did_not_measure_is_assumed_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.down.csv").write_text("at_s,lte_mbps,lte_delay_ms\n0,8,20\n")
    made = new_drive_scenario.from_drive("my", [Path("a.down.csv")], None, "web")
    assert made.assumed == ["lte.rate.up", "lte.delay.up", "lte.loss", "lte.queue", "transport, direction"]
    text = Path("my.toml").read_text()
    assert 'rate.up    = "2 Mbit/s"        # assumed: a quarter of the mean rate down' in text


def test_the_next_command_is_one_that_a_shell_takes(weft_here: Weft, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at_s,lte_mbps,dsl_mbps\n0,8,2\n")
    # It is longer than a line of output that goes to no terminal.
    name = 'it\'s "re c" and more ' * 8
    done = weft_here("new", "scenario", name, "--drive", "a.csv")
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert shlex.split(last) == ["next", "weft", "compare", f"{name}.toml"]
