"""Records of a Starlink dish, irtt, SRT and nuttcp: read over time, or refused with the place."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weftway import ScenarioError
from weftway.links import measured, new_scenario
from weftway.links.measured import Reading
from weftway.scenario import load

SECONDS = 12


def read(folder: Path, name: str, text: str) -> Reading:
    file = folder / name
    file.write_text(text)
    return measured.read(file)


def dish_history(**changes: Any) -> str:
    """The answer to `get_history` as grpcurl prints it: rings of 12 values, of which 15 were made since the start.

    The oldest of them is at 15 mod 12 = 3. In order they are second 3 to 14, each of 40 ms + its number; in second 5
    every ping was lost, in second 6 three quarters.
    """
    order = [second + SECONDS if second < 3 else second for second in range(SECONDS)]
    history = {
        "current": "15",
        "popPingDropRate": [1 if second == 5 else 0.75 if second == 6 else 0 for second in order],
        "popPingLatencyMs": [0 if second == 5 else 40 + second for second in order],
        "downlinkThroughputBps": [1e6 * second for second in order],
        "uplinkThroughputBps": [2e5] * SECONDS,
        "powerIn": [55.5] * SECONDS,
    }
    return json.dumps({"id": "3", "apiVersion": "12", "dishGetHistory": {**history, **changes}}, indent=2)


DISH_NAMES = "datetimestamp_utc,pop_ping_drop_rate,pop_ping_latency_ms,downlink_throughput_bps,uplink_throughput_bps"
DISH_NAMES += ",snr,scheduled,obstructed,power_w"


def dish_table() -> str:
    lines = [
        f"2026-01-31T12:00:{second:02d},{1.0 if second == 2 else 0.0},{'' if second == 2 else 50.0 + second},"
        f"{second * 1e6},200000.0,,,,55.5"
        for second in range(SECONDS)
    ]
    return "\n".join([DISH_NAMES, *lines]) + "\n"


def irtt_report(lost: dict[int, str] | None = None, count: int = 120, **changes: Any) -> str:
    """The output of `irtt client -i 100ms`: packet n takes 30 ms + n mod 10, all in ns."""
    trips = [
        {
            "seqno": number,
            "lost": (lost or {}).get(number, "false"),
            "timestamps": {
                "client": {
                    "receive": {},
                    "send": {"wall": 1_700_000_000_000_000_000, "monotonic": 5_000_000 + number * 100_000_000},
                },
                "server": {"receive": {}, "send": {}},
            },
            "delay": {} if number in (lost or {}) else {"rtt": (30 + number % 10) * 1_000_000},
            "ipdv": {},
        }
        for number in range(count)
    ]
    whole = {"version": {"irtt": "0.9.1", "protocol": 1, "json_format": 1}, "stats": {}, "round_trips": trips}
    return json.dumps({**whole, **changes}, indent=4)


SRT_NAMES = "Timepoint,Time,SocketID,pktFlowWindow,msRTT,mbpsBandwidth,pktSent,pktSndLoss,pktRecv,pktRcvLoss"


def srt_table(received: int = 990, sent: int = 0) -> str:
    """Of each thousand packets ten are lost on the first way; the round trip is 25 ms + the record's number."""
    lost = ",".join(["10" if sent else "0", str(received), "10" if received else "0"])
    lines = [
        f"2026-01-31T12:00:00.0+0000,{1000 * n},77,8192,{25 + n},94.5,{sent},{lost}" for n in range(1, SECONDS + 1)
    ]
    return "\n".join([SRT_NAMES, *lines]) + "\n"


def srt_totals() -> str:
    """The same with `-f`: counts since the start."""
    counts = iter(range(1000, 99_000, 1000))
    return re.sub(r",990,10", lambda _: f",{next(counts)},10", srt_table())


def srt_json() -> str:
    records = [
        {
            "sid": 77,
            "time": 1000 * n,
            "window": {"flow": 8192, "congestion": 8192, "flight": 0},
            "link": {"rtt": 25 + n, "bandwidth": 94.5, "maxBandwidth": 1000},
            "send": {"packets": 0, "packetsLost": 0},
            "recv": {"packets": 990, "packetsLost": 10, "mbitRate": 8.1},
        }
        for n in range(1, SECONDS + 1)
    ]
    return '{"bandwidth":94.5}\n' + "\n".join(json.dumps(record) for record in records) + "\n"


def nuttcp_text(udp: bool = False, drop: int = 60) -> str:
    """The first second is slow; then each carries 2 MiB, which are 16.7772 Mbit/s, and every third one 1 MiB."""
    lines = []
    for second in range(SECONDS):
        mebi = 0.5 if second == 0 and not udp else 1.0 if second % 3 == 2 else 2.0
        rate = mebi * 2**20 * 8 / 1e6
        # Datagrams of 1024 bytes: 1024 of them are a MiB.
        lost = drop if mebi == 1.0 else 0
        tail = (
            f" {lost:5d} / {int(mebi * 1024) + lost:5d} ~drop/pkt {lost / 10:5.2f} ~%loss" if udp else "     3 retrans"
        )
        lines.append(f"{mebi:10.4f} MB / {1.0:6.2f} sec = {rate:9.4f} Mbps{tail}")
    end = "0 / 20000 drop/pkt 0.00 %loss" if udp else "36 retrans 41.50 msRTT"
    return "\n".join([*lines, f"   19.5000 MB /  12.00 sec =   13.6315 Mbps 2 %TX 3 %RX {end}"]) + "\n"


def test_the_ring_of_a_dish_is_read_from_its_oldest_value(tmp_path: Path) -> None:
    reading = read(tmp_path, "dish.json", dish_history())
    course = reading.course
    assert course is not None and list(course.at_s) == list(range(SECONDS))
    # Half of 43, 44, none, 46 … 54 ms.
    assert list(course.delay_ms) == [21.5, 22.0, None, *(second / 2 for second in range(46, 55))]
    # A round trip that is lost with probability 3/4 loses each way with 1 − √(1/4) = 1/2.
    assert list(course.loss["down"]) == [0, 0, 1, 0.5, *[0] * 8] == list(course.loss["up"])
    # The median of 43, 44 and 46 to 54 is 49; what was used is no rate of the link.
    assert reading.rtt_ms is not None and reading.rtt_ms.value == 49
    assert reading.rates == {} and "what was used (in the busiest seconds 13.9 Mbit/s down" in reading.rate_unknown
    assert reading.loss is not None and reading.loss.value == pytest.approx(1 - (1 - 1.75 / 12) ** 0.5)


def test_a_table_of_a_dish_is_read_by_its_names(tmp_path: Path) -> None:
    reading = read(tmp_path, "dish.csv", dish_table())
    assert reading.kind == "starlink" and reading.course is not None
    assert list(reading.course.delay_ms)[:4] == [25.0, 25.5, None, 26.5]
    assert list(reading.course.at_s)[-1] == 11
    # One answer of `get_status` tells a round trip; protobuf leaves out a drop rate of zero.
    one = read(tmp_path, "one.json", json.dumps({"dishGetStatus": {"popPingLatencyMs": 38.5}}))
    assert one.rtt_ms is not None and one.rtt_ms.value == 38.5
    assert one.course is None and one.loss is None and "too few" in one.loss_unknown


def test_irtt_tells_which_direction_lost_a_packet(tmp_path: Path) -> None:
    # Two of the first ten packets are lost on the way up, four of the eight that came on the way down.
    lost = {1: "true_up", 2: "true_up", 3: "true_down", 4: "true_down", 5: "true_down", 6: "true_down"}
    course = read(tmp_path, "irtt.json", irtt_report(lost)).course
    assert course is not None and list(course.at_s) == list(range(SECONDS))
    assert course.loss["up"][0] == 0.2 and course.loss["down"][0] == 0.5 and set(course.loss["up"][1:]) == {0}
    # Half of the medians of 30, 37, 38, 39 and of 30 … 39.
    assert course.delay_ms[0] == 18.75 and course.delay_ms[1] == 17.25
    # If the server did not count, both lose alike: 1 − √(1 − 3/10) of each ten.
    unknown = read(tmp_path, "irtt.json", irtt_report(dict.fromkeys((1, 2, 3), "true"))).course
    assert unknown is not None and unknown.loss["up"][0] == unknown.loss["down"][0] == pytest.approx(1 - 0.7**0.5)


@pytest.mark.parametrize(("name", "make"), [("srt.csv", srt_table), ("srt.json", srt_json)])
def test_srt_counts_what_it_lost_before_it_repaired_it(tmp_path: Path, name: str, make: Callable[[], str]) -> None:
    reading = read(tmp_path, name, make())
    # 10 of 990 + 10, in the direction of the receiver, who wrote the file.
    assert reading.loss is not None and reading.loss.value == 0.01
    assert reading.course is not None and list(reading.course.loss) == ["down"]
    assert set(reading.course.loss["down"]) == {0.01} and reading.course.delay_ms[0] == 13
    assert reading.rates == {} and "a stream of a given rate" in reading.rate_unknown


def test_a_sender_of_srt_loses_on_the_way_up(tmp_path: Path) -> None:
    reading = read(tmp_path, "srt.csv", srt_table(received=0, sent=1000))
    assert reading.course is not None and set(reading.course.loss["up"]) == {0.01}


def test_nuttcp_tells_a_rate_for_each_second(tmp_path: Path) -> None:
    reading = read(tmp_path, "lte.up", nuttcp_text())
    course = reading.course
    assert course is not None and list(course.mbps) == ["up"] and len(course.at_s) == SECONDS - 1
    # 2 MiB are 16 777 216 bit; of a packet of 1500 bytes 1448 count.
    rates = course.mbps["up"]
    assert rates[0] == pytest.approx(16.7772 * 1500 / 1448) and rates[1] == pytest.approx(8.3886 * 1500 / 1448)
    assert reading.rtt_ms is not None and reading.rtt_ms.value == 41.5
    assert reading.loss is None and "`nuttcp -u`" in reading.loss_unknown


def test_nuttcp_over_udp_has_seconds_in_which_nothing_arrives(tmp_path: Path) -> None:
    """None counts as one of TCP, at the beginning or later."""
    silent = "    0.0000 MB /   1.00 sec =    0.0000 Mbps     0 /     0 ~drop/pkt  0.00 ~%loss"
    lines = nuttcp_text(udp=True).splitlines()
    for at in (0, 2):
        assert (
            "UDP" in read(tmp_path, "lte.txt", "\n".join([*lines[:at], silent, *lines[at:]]) + "\n").rates["down"].why
        )


def test_nuttcp_over_udp_counts_losses(tmp_path: Path) -> None:
    reading = read(tmp_path, "lte.txt", nuttcp_text(udp=True))
    # 4 of 12 seconds carry 1024 and lose 60 each; the others carry 2048: 240 of 4 · 1084 + 8 · 2048 = 20720.
    assert reading.loss is not None and reading.loss.value == pytest.approx(240 / 20720)
    assert reading.course is not None and reading.course.loss["down"][2] == pytest.approx(60 / 1084)
    assert reading.course.mbps["down"][0] == pytest.approx(16.7772 * 1052 / 1024)
    assert "assumed" in reading.rates["down"].why
    # Nothing lost: the sender's rate, at least, and nothing over time.
    whole = read(tmp_path, "lte.txt", nuttcp_text(udp=True, drop=0))
    assert whole.course is None and "at least: of UDP nothing was lost" in whole.rates["down"].why
    # A seventh of it lost: the rate is the link's, the loss is the sender's.
    flooded = read(tmp_path, "lte.txt", nuttcp_text(udp=True, drop=900))
    assert flooded.loss is None and flooded.course is not None and flooded.course.loss == {}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.json", dish_history(popPingLatencyMs=[1.0] * 5), r"line 1: `popPingLatencyMs` has 5 values, .* 12"),
        ("a.json", dish_history(current="many"), r"line 1: `current` is `many`, not a number; expected the JSON"),
        ("a.json", dish_history(popPingDropRate=[2] * 12), r"value 3 of the history: .* is `2`, not from 0 to 1"),
        ("a.json", dish_history()[:-20], r"line \d+, column \d+: no JSON, or cut off; expected"),
        ("a.json", dish_history() + dish_history(), "several answers of the dish"),
        ("a.json", dish_history(popPingDropRate=[1] * 12), "every ping to Starlink's point of presence was lost"),
        ("a.json", json.dumps({"dishGetStatus": {"popPingDropRate": 1}}), "`popPingLatencyMs` is missing"),
        ("a.csv", dish_table().replace("pop_ping_latency_ms", "latency"), "line 1: no column `pop_ping_latency_ms`"),
        ("a.csv", dish_table().split("\n", 1)[1], "line 1: no column `datetimestamp_utc`.*option -H"),
        ("a.csv", dish_table().replace("12:00:05", "12:00:03"), "line 7: `datetimestamp_utc` is not later"),
        ("a.csv", dish_table().replace("12:00:05", "noon"), "line 7: `datetimestamp_utc` is `2026-01-31Tnoon`"),
        ("a.csv", dish_table().replace(",57.0,", ",fast,"), "line 9: `pop_ping_latency_ms` is `fast`, not a number"),
        ("a.csv", dish_table().replace(",57.0,", ","), "line 9: 8 fields under 9 names"),
        ("a.json", irtt_report(version={"irtt": "1.0", "json_format": 2}), "`json_format` is 2; expected .* format 1"),
        ("a.json", irtt_report({4: "perhaps"}), "round trip 4: `lost` is `perhaps`, not one of false, true, true_up"),
        ("a.json", irtt_report(dict.fromkeys(range(120), "true")), "no packet of irtt came back"),
        ("a.json", irtt_report(round_trips=[{"lost": "false"}]), "round trip 0: `timestamps` is missing"),
        ("a.json", irtt_report() + irtt_report(), "2 reports of irtt"),
        ("a.csv", srt_table().replace(",77,", ",78,", 1), "2 SRT connections"),
        ("a.csv", srt_table(sent=500), "SRT sent and received"),
        ("a.csv", srt_table(received=0), "no packet was sent or received"),
        ("a.csv", srt_table().replace("msRTT,mbpsBandwidth", "msRTT,Bandwidth"), "line 1: no column `mbpsBandwidth`"),
        ("a.csv", srt_table().replace("5000,77", "4000,77"), "line 6: `Time` is not later"),
        ("a.csv", srt_totals(), "totals since the start.*without -f"),
        ("a.json", srt_json().replace('"packetsLost": 10', '"lost": 10'), "line 2: `recv.packetsLost` is missing"),
        (
            "a.txt",
            "======= SRT STATS: sid=77\nPACKETS SENT: 1",
            "for the eye; expected the output of `srt-live-transmit",
        ),
        ("a.txt", nuttcp_text().replace("MB", "KB", 1), "line 1: `0.5000 KB .* is no line of nuttcp"),
        (
            "a.txt",
            nuttcp_text().replace("3 retrans", "3 jitter", 1),
            "line 1: .* is half understood; expected lines of",
        ),
        ("a.txt", nuttcp_text().replace("2.0000 MB", "9.0000 MB", 1), "line 2: 9 MB in 1 s are not 16.7772 Mbit/s"),
        ("a.txt", nuttcp_text() + nuttcp_text(), "line 14: a second run of nuttcp"),
        ("a.txt", "megabytes=1.0 real_sec=1.00 rate_Mbps=8.4\n", "nuttcp with -fparse"),
    ],
)
def test_what_is_half_understood_is_refused_with_its_place(tmp_path: Path, name: str, text: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason) as error:
        read(tmp_path, name, text)
    assert str(error.value).startswith(f"{tmp_path / name}: ") and "\n" not in str(error.value)


def test_recordings_become_a_drive_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "dish.json").write_text(dish_history())
    (tmp_path / "lte.down").write_text(nuttcp_text())
    files = [f"starlink={tmp_path}/dish.json", f"{tmp_path}/lte.down", "lte.delay=30 ms"]
    # A dish tells no rate.
    with pytest.raises(ScenarioError, match=r"its rate down \(dish\.json: a dish records what was used"):
        new_scenario.from_measurements(str(tmp_path / "van"), files, None)
    files += ["starlink.rate.down=120 Mbit/s", "starlink.rate.up=15 Mbit/s"]
    new_scenario.from_measurements(str(tmp_path / "van"), files, None)
    text = (tmp_path / "van.toml").read_text()
    assert 'file = { down = "van.down.csv", up = "van.up.csv" }' in text
    assert re.search(r'drive += "starlink" +# dish.json: delay and loss over time', text)
    assert re.search(r'drive += "lte" +# lte.down: rate over time', text)
    assert "# rate.up is 4.34 Mbit/s" in text and "assumed: a quarter of the rate down" in text
    down = (tmp_path / "van.down.csv").read_text().splitlines()
    assert down[0] == "at_s,starlink_mbps,starlink_delay_ms,starlink_loss_percent,lte_mbps"
    # 2 MiB a second with headers are 17.380 Mbit/s; a value that does not change is empty.
    assert down[1] == "0.00,120.000,21.500,0.000,17.380"
    assert down[2] == "1.00,,22.000,,8.690"
    assert down[3] == "2.00,,,100.000,17.380" and down[4] == "3.00,,23.000,50.000,"
    # The shorter recording, 11 s of LTE, ends both.
    assert down[-1].startswith("10.00,")
    (variant,) = load(tmp_path / "van.toml").variants()
    assert variant
    up = (tmp_path / "van.up.csv").read_text().splitlines()
    assert up[1] == "0.00,15.000,21.500,0.000,4.340"


def test_a_value_that_is_given_is_not_taken_from_a_recording(tmp_path: Path) -> None:
    (tmp_path / "dish.json").write_text(dish_history())
    values = ["a.rate=50 Mbit/s", "b.rate=9 Mbit/s", "a.delay=20 ms"]
    new_scenario.from_measurements(str(tmp_path / "van"), [f"a={tmp_path}/dish.json", *values], None)
    assert (tmp_path / "van.down.csv").read_text().startswith("at_s,a_mbps,a_loss_percent\n0.00,50.000,0.000\n")
    assert re.search(r'delay += "20 ms" +# given on the command line', (tmp_path / "van.toml").read_text())


def test_a_drive_that_is_there_is_not_overwritten_and_none_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "dish.json").write_text(dish_history())
    words = [f"a={tmp_path}/dish.json", "a.rate=fast", "b.rate=9 Mbit/s"]
    with pytest.raises(ScenarioError, match="`fast` is not a rate"):
        new_scenario.from_measurements(str(tmp_path / "van"), words, None)
    assert not list(tmp_path.glob("van*"))
    (tmp_path / "van.up.csv").write_text("mine")
    with pytest.raises(ScenarioError, match=r"van\.up\.csv exists already"):
        new_scenario.from_measurements(str(tmp_path / "van"), [words[0], "a.rate=5 Mbit/s", words[2]], None)
    assert (tmp_path / "van.up.csv").read_text() == "mine" and not (tmp_path / "van.toml").exists()
