"""Reports of iperf3: each is read whole, or refused with what would help."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from weftway import ScenarioError
from weftway.links import measured, new_scenario
from weftway.links.measured import Reading, Undecided

TCP, TCP_IPV6, UDP = 1500 / 1448, 1500 / 1428, 1476 / 1448
CLIENT, SERVER = "192.0.2.7", "198.51.100.1"
BLOCK = 131072

Report = dict[str, Any]


def sums(mbps: list[float], sender: bool, **more: object) -> list[Report]:
    """Intervals of a second."""
    return [
        {"start": float(n), "end": n + 1.0, "bits_per_second": rate * 1e6, "omitted": False, "sender": sender, **more}
        for n, rate in enumerate(mbps)
    ]


def report(
    intervals: list[Report], end: Report, protocol: str = "TCP", writer: str = "client", **test: object
) -> Report:
    here, there = (CLIENT, SERVER) if writer == "client" else (SERVER, CLIENT)
    peer = "connecting_to" if writer == "client" else "accepted_connection"
    size = BLOCK if protocol == "TCP" else 1448
    return {
        "start": {
            "connected": [{"socket": 5, "local_host": here, "remote_host": there}],
            peer: {"host": there, "port": 5201},
            "test_start": {"protocol": protocol, "blksize": size, "reverse": 0, **test},
        },
        "intervals": intervals,
        "end": end,
    }


def tcp(mbps: list[float], sent: float, received: float, sender: bool = True, **more: Any) -> Report:
    end = {
        f"sum_{name}": {"bits_per_second": rate * 1e6, "sender": sender}
        for name, rate in (("sent", sent), ("received", received))
    }
    return report([{"sum": part} for part in sums(mbps, sender)], end, reverse=int(not sender), **more)


def lost(packets: int, of: int, **more: object) -> Report:
    return {"lost_packets": packets, "packets": of, "lost_percent": 100 * packets / of, **more}


def read(folder: Path, content: Report | str, local: tuple[str, ...] = ()) -> Reading:
    file = folder / "lte.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return measured.read(file, local)


def rates(reading: Reading, factor: float = TCP) -> dict[str, float]:
    """As iperf3 says them."""
    return {name: round(rate.value / factor, 3) for name, rate in reading.rates.items()}


def test_udp_that_the_client_receives_is_counted_without_what_was_lost(tmp_path: Path) -> None:
    """20 Mbit/s are sent over a link of 10: intervals count the 10 that arrive. How many a link loses which is sent
    twice what it carries says nothing of it, and that is said."""
    intervals = [{"sum": part} for part in sums([9.8, 9.8, 9.8], False, **lost(830, 1700))]
    reading = read(tmp_path, report(intervals, {"sum": lost(2490, 5100)}, "UDP", reverse=1))
    assert rates(reading, UDP) == {"down": 9.8}
    assert reading.loss is None and "48.8 % of UDP was lost" in reading.loss_unknown


def test_udp_that_the_client_sends_arrives_without_what_was_lost(tmp_path: Path) -> None:
    intervals = [{"sum": part} for part in sums([10, 10, 10], True, packets=850)]
    reading = read(tmp_path, report(intervals, {"sum": lost(51, 2550)}, "UDP"))
    assert rates(reading, UDP) == {"up": 9.8}
    assert reading.loss is not None and reading.loss.value == 0.02


def test_udp_both_ways_loses_each_way(tmp_path: Path) -> None:
    up, down = sums([5, 5, 5], True, packets=400), sums([20, 20, 20], False, **lost(0, 1600))
    intervals = [{"sum": one, "sum_bidir_reverse": other} for one, other in zip(up, down, strict=True)]
    end = {"sum": lost(12, 1200), "sum_bidir_reverse": lost(0, 4800)}
    reading = read(tmp_path, report(intervals, end, "UDP", bidir=1))
    assert rates(reading, UDP) == {"up": 4.95, "down": 20}
    assert reading.loss is not None and reading.loss.value == pytest.approx(12 / 6000)


def test_a_slow_uplink_has_the_rate_of_what_arrived(tmp_path: Path) -> None:
    """A sender counts a block of 128 KiB, 1.05 Mbit, at once: a second with a block and two without."""
    for shape, arrived in (([1.05, 0, 0, 1.05, 0, 0], 0.49), ([1.05, 0, 1.05, 1.05, 0, 1.05], 0.68)):
        reading = read(tmp_path, tcp(shape, sum(shape) / 6, arrived))
        assert rates(reading) == {"up": arrived}


def test_what_only_left_for_a_queue_has_not_arrived(tmp_path: Path) -> None:
    reading = read(tmp_path, tcp([30, 30, 30, 30], 30, 20))
    assert rates(reading) == {"up": 20}


def test_intervals_tell_more_than_the_mean_with_its_slow_start(tmp_path: Path) -> None:
    assert rates(read(tmp_path, tcp([9, 28, 30, 29], 24, 24, sender=False))) == {"down": 29}
    assert rates(read(tmp_path, tcp([9, 28, 30, 29], 24, 23.5))) == {"up": 29}


def test_a_short_last_interval_and_omitted_ones_do_not_count(tmp_path: Path) -> None:
    content = tcp([30, 30, 30], 30, 30, sender=False)
    whole = content["intervals"]
    whole.append({"sum": {**whole[-1]["sum"], "start": 3.0, "end": 3.01, "bits_per_second": 3e9}})
    whole[:0] = [{"sum": {**interval["sum"], "bits_per_second": 1e9, "omitted": True}} for interval in whole[:3]]
    assert rates(read(tmp_path, content)) == {"down": 30}


def test_no_intervals_at_all(tmp_path: Path) -> None:
    assert rates(read(tmp_path, tcp([], 31, 30))) == {"up": 30}


def twice(content: Report) -> str:
    """As iperf3 before 3.11 wrote it: both directions under one name."""
    return json.dumps(content).replace("_bidir_reverse", "")


def both_ways(flagged: bool = True) -> Report:
    up, down = sums([5, 5, 5], True), sums([40, 40, 40], False)
    if not flagged:
        for interval in up + down:
            del interval["sender"]
    intervals = [{"sum": one, "sum_bidir_reverse": other} for one, other in zip(up, down, strict=True)]
    end = {
        "sum_sent": {"bits_per_second": 5e6, "sender": True},
        "sum_sent_bidir_reverse": {"bits_per_second": 4e7, "sender": False},
    }
    return report(intervals, end, bidir=1)


def test_keys_that_stand_twice_are_both_read(tmp_path: Path) -> None:
    assert rates(read(tmp_path, both_ways())) == {"up": 5, "down": 40}
    assert rates(read(tmp_path, twice(both_ways()))) == {"up": 5, "down": 40}


def test_events_of_a_stream(tmp_path: Path) -> None:
    content = tcp([40, 40, 40], 40, 40, sender=False)
    events = [
        ("start", content["start"]),
        *(("interval", interval) for interval in content["intervals"]),
        ("end", content["end"]),
    ]
    lines = [json.dumps({"event": kind, "data": data}) for kind, data in events]
    assert rates(read(tmp_path, "\n".join(lines))) == {"down": 40}
    # With --json-stream-full-output, the whole follows.
    assert rates(read(tmp_path, "\n".join([*lines, json.dumps(content, indent=1)]))) == {"down": 40}
    with pytest.raises(ScenarioError, match="the event `end` of iperf3 is missing"):
        read(tmp_path, "\n".join(lines[:-1]))
    failed = [*lines[:2], json.dumps({"event": "error", "data": "the server has terminated"})]
    with pytest.raises(ScenarioError, match="iperf3 failed: the server has terminated"):
        read(tmp_path, "\n".join(failed))


def test_who_is_the_user_in_a_report_of_the_server(tmp_path: Path) -> None:
    """It received from the client: up, if the user is the client."""
    content = tcp([40, 40, 40], 40, 40, sender=False, writer="server")
    content["start"]["test_start"]["reverse"] = 0
    with pytest.raises(Undecided) as refusal:
        read(tmp_path, content)
    assert refusal.value.addresses == [CLIENT, SERVER] and f"LINK.local={CLIENT}" in str(refusal.value)
    assert rates(read(tmp_path, content, (CLIENT,))) == {"up": 40}
    assert rates(read(tmp_path, content, (SERVER,))) == {"down": 40}


def test_the_user_may_be_given_as_a_network_or_in_another_spelling(tmp_path: Path) -> None:
    content = tcp([40, 40, 40], 40, 40, sender=False, writer="server")
    content["start"]["test_start"]["reverse"] = 0
    assert rates(read(tmp_path, content, ("192.0.2.0/24",))) == {"up": 40}
    content["start"]["connected"] = [{"local_host": "2001:db8:1::1", "remote_host": "2001:db8::7"}]
    assert list(read(tmp_path, content, ("2001:DB8:0::7",)).rates) == ["up"]
    content["start"]["connected"] = [{"local_host": "fe80::1%eth0", "remote_host": "fe80::7%eth0"}]
    assert list(read(tmp_path, content, ("fe80::7",)).rates) == ["up"]


def test_small_segments_carry_more_headers(tmp_path: Path) -> None:
    content = tcp([40, 40, 40], 40, 40)
    content["start"]["tcp_mss"] = 500
    assert rates(read(tmp_path, content), 552 / 500) == {"up": 40}


def test_warnings_before_the_report_are_no_part_of_it(tmp_path: Path) -> None:
    warning = "warning: this system does not seem to support IPv6 - trying IPv4\n"
    assert rates(read(tmp_path, warning + json.dumps(tcp([40, 40], 40, 40)))) == {"up": 40}


def test_headers_of_ipv6_are_longer(tmp_path: Path) -> None:
    content = tcp([40, 40, 40], 40, 40)
    content["start"]["connected"] = [{"local_host": "2001:db8::7", "remote_host": "2001:db8::1"}]
    assert rates(read(tmp_path, content), TCP_IPV6) == {"up": 40}


TEXT = """\
Connecting to host 198.51.100.1, port 5201
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  12.5 MBytes  10.5 Mbits/sec    0             sender
"""

HALF = {
    "text": (TEXT, "run `iperf3 --json`"),
    "an error as text": (
        "iperf3: error - unable to connect to server: refused\n",
        "unable to connect to server: refused",
    ),
    "an error": ({**tcp([40], 40, 40), "error": "interrupt - the client has terminated"}, "the client has terminated"),
    "two runs": (json.dumps(tcp([40], 40, 40)) + json.dumps(tcp([41], 41, 41)), "several runs of iperf3 in one file"),
    "SCTP": (report([], {}, "SCTP"), "measure over TCP or UDP"),
    "twice, without directions": (twice(both_ways(flagged=False)), "3.11 or later"),
    "one way of two": (tcp([40, 40], 40, 40, bidir=1), "`sum` is missing"),
    "blocks without what arrived": (tcp([1.05, 0, 1.05, 1.05], 0.8, 0), "measure longer"),
    "losses that do not add up": (
        report([{"sum": part} for part in sums([9, 9], True)], {"sum": {**lost(5, 100), "lost_percent": 50}}, "UDP"),
        "do not add up",
    ),
    "UDP without losses": (
        report([{"sum": part} for part in sums([9, 9], True)], {"sum": {}}, "UDP"),
        "`lost_packets` is missing",
    ),
    "cut off": (json.dumps(tcp([40], 40, 40))[:-20], "save the whole output"),
    "no number": (json.dumps(tcp([float("nan")], 0, 0)), "nothing was transferred"),
    "nothing": (tcp([0, 0], 0, 0), "nothing was transferred"),
    "losses that the server was not told": (
        report([{"sum": part} for part in sums([9, 9], True)], {"sum": {"lost_packets": 0, "packets": 0}}, "UDP"),
        "save what the client of iperf3 writes",
    ),
}


@pytest.mark.parametrize("case", HALF)
def test_what_is_understood_in_half_is_refused(tmp_path: Path, case: str) -> None:
    content, reason = HALF[case]
    with pytest.raises(ScenarioError) as refusal:
        read(tmp_path, content)  # type: ignore[arg-type]
    assert reason in str(refusal.value) and "\n" not in str(refusal.value)


def sending(retransmits: int = 7, cc: str = "cubic", **test: Any) -> Report:
    """20 Mbit/s up; round trips of 80 to 150 ms at the ends of intervals."""
    text = tcp([20, 20, 20], 20, 20, **test)
    sender = {"min_rtt": 80_000, "mean_rtt": 120_000, "max_rtt": 150_000, "retransmits": retransmits, "sender": True}
    text["end"] |= {"streams": [{"sender": sender, "receiver": {}}], "sender_tcp_congestion": cc}
    return text


UNFILLED = {
    "-b": (sending(target_bitrate=20_000_000), "-b limits the rate"),
    "bbr": (sending(cc="bbr"), "bbr sent, which fills no queue"),
    "nothing again": (sending(retransmits=0), "nothing was sent again"),
}


@pytest.mark.parametrize("case", UNFILLED)
def test_a_sender_that_never_filled_the_queue_does_not_tell_it(tmp_path: Path, case: str) -> None:
    content, why = UNFILLED[case]
    assert why in read(tmp_path, content).queue_unknown
    assert read(tmp_path, sending()).queue_unknown == ""


def scenario(folder: Path, *arguments: str) -> dict[str, str]:
    """The values of the link `lte`, with their comments."""
    new_scenario.from_measurements(str(folder / "home"), [*arguments, "b.rate=1Mbit/s"], None)
    text = (folder / "home.toml").read_text().split("[path.lte]")[1].split("[path.b]")[0]
    return dict(re.split(r" *= ", line, maxsplit=1) for line in text.splitlines() if " = " in line)


def test_round_trips_under_load_are_only_a_bound_of_the_delay(tmp_path: Path) -> None:
    """A queue stood all the time: half of the least is 40 ms, and the delay may be much shorter."""
    read(tmp_path, sending())
    text = scenario(tmp_path, str(tmp_path / "lte.json"))
    assert text["delay"].startswith('"40 ms" ')
    assert (
        "# assumed, at most: lte.json: half the least round trip (80 ms), measured under load; `ping`" in text["delay"]
    )
    assert text["queue"].startswith('"100 packets" ') and "# assumed: lte.json: how much waits" in text["queue"]
    assert "queue.up" not in text


PING = """\
100 packets transmitted, 100 received, 0% packet loss, time 99142ms
rtt min/avg/max/mdev = 29.812/30.000/30.902/0.245 ms
"""


@pytest.mark.parametrize(
    ("content", "key", "value"),
    [
        # 120 ms of 20 Mbit/s on the wire, 1500 B for 1448: (0.15 − 0.03) · 20e6 · 1500 / 1448 / 12000 = 207.2.
        (sending(), "queue.up", '"207 packets" '),
        (sending(retransmits=0), "queue", '"100 packets" '),
        # Round trips that hardly grew: 5 ms of it are 8.6 packets.
        (json.loads(json.dumps(sending()).replace("150000", "35000")), "queue", '"100 packets" '),
    ],
)
def test_a_queue_holds_what_round_trips_grew_by_over_those_of_ping(
    tmp_path: Path, content: Report, key: str, value: str
) -> None:
    read(tmp_path, content)
    (tmp_path / "lte-ping.txt").write_text(PING)
    text = scenario(tmp_path, str(tmp_path / "lte.json"), str(tmp_path / "lte-ping.txt"))
    assert text["delay"].startswith('"15 ms" ')
    assert text[key].startswith(value) and ("assumed" in text[key]) == (key == "queue")


def test_a_rate_that_was_asked_for_is_the_least_that_the_link_carries(tmp_path: Path) -> None:
    free, limited = (read(tmp_path, tcp([40, 40], 40, 40, target_bitrate=rate)) for rate in (0, 40_000_000))
    assert "at least" not in free.rates["up"].why and "at least: -b limits it" in limited.rates["up"].why
    paced = tcp([40, 40], 40, 40, fqrate=5_000_000)
    assert "at least: --fq-rate limits it" in read(tmp_path, paced).rates["up"].why
    earlier = tcp([40, 40], 40, 40)
    earlier["start"]["target_bitrate"] = 40_000_000
    assert "at least: -b limits it" in read(tmp_path, earlier).rates["up"].why


GOODBYE = "unable to send control message: Broken pipe"


@pytest.mark.parametrize("as_text", [True, False])
def test_a_whole_report_is_read_with_the_error_after_it(tmp_path: Path, as_text: bool) -> None:
    """iperf3 could not say goodbye (esnet/iperf#1143): the figures are whole."""
    whole = tcp([20, 20, 20], 20, 20)
    error = f"\niperf3: error - {GOODBYE}\n"
    reading = read(tmp_path, json.dumps(whole) + error if as_text else {**whole, "error": GOODBYE})
    assert reading.rates["up"].value == pytest.approx(20 * TCP)
    assert reading.rates["up"].why.endswith(f"; iperf3 ended with an error after it: {GOODBYE}")
    cut = {**whole, "end": {}}
    with pytest.raises(ScenarioError, match=f"iperf3 failed: {GOODBYE}"):
        read(tmp_path, {**cut, "error": GOODBYE})


def test_the_same_report_twice_is_one_run(tmp_path: Path) -> None:
    """iperf3 3.16 and 3.17 print it twice (esnet/iperf#1688)."""
    text = json.dumps(tcp([20, 20, 20], 20, 20))
    assert read(tmp_path, f"{text}\n{text}\n").rates["up"].value == pytest.approx(20 * TCP)
    other = json.dumps(tcp([20, 20, 21], 20, 20))
    with pytest.raises(ScenarioError, match="several runs of iperf3 in one file"):
        read(tmp_path, f"{text}\n{other}\n")


@pytest.mark.parametrize("word", ["-nan", "nan", "NaN", "inf", "-Infinity", "-nan(ind)"])
def test_what_iperf3_writes_in_place_of_a_number_costs_its_interval_alone(tmp_path: Path, word: str) -> None:
    """It divides by zero where an interval has no packets (esnet/iperf#613)."""
    intervals = [{"sum": {**part, **lost(0, 863)}} for part in sums([10, 10, 10, 10], sender=False)]
    text = json.dumps(report(intervals, {"sum": lost(0, 3452)}, "UDP", reverse=1))
    empty = text.replace('"lost_percent": 0.0', f'"lost_percent": {word}', 1)
    assert empty != text
    assert read(tmp_path, empty).rates["down"].value == pytest.approx(10 * UDP)
    needed = text.replace('"lost_packets": 0, "packets": 3452', f'"lost_packets": 0, "packets": {word}', 1)
    assert needed != text
    with pytest.raises(ScenarioError, match="iperf3 wrote `nan` in place of a number that is needed"):
        read(tmp_path, needed)
