"""Measurements as they are read: ping, iperf3, captures, Mahimahi traces; and the scenario that is made of them."""

import json
from pathlib import Path

import pytest

from captures import pcap, tcp, udp
from conftest import Weft
from weftway import ScenarioError
from weftway.links import measured, new_scenario
from weftway.scenario import load

LINUX = """\
PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
64 bytes from 192.0.2.1: icmp_seq=1 ttl=57 time=20.0 ms
64 bytes from 192.0.2.1: icmp_seq=2 ttl=57 time=22.0 ms
64 bytes from 192.0.2.1: icmp_seq=3 ttl=57 time=24.0 ms
64 bytes from 192.0.2.1: icmp_seq=4 ttl=57 time=26.0 ms
64 bytes from 192.0.2.1: icmp_seq=6 ttl=57 time=28.0 ms

--- 192.0.2.1 ping statistics ---
6 packets transmitted, 5 received, 16.6667% packet loss, time 5009ms
rtt min/avg/max/mdev = 20.000/24.000/28.000/2.828 ms
"""

MAC = """\
--- example.org ping statistics ---
50 packets transmitted, 50 packets received, 0.0% packet loss
round-trip min/avg/max/stddev = 61.0/70.0/131.0/8.0 ms
"""

WINDOWS = """\
Reply from 192.0.2.1: bytes=32 time=12ms TTL=57
Reply from 192.0.2.1: bytes=32 time<1ms TTL=57

Ping statistics for 192.0.2.1:
    Packets: Sent = 4, Received = 2, Lost = 2 (50% loss),
"""


def written(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def iperf(mbps: list[float], reverse: int = 1, rtt_us: tuple[int, int, int] | None = None, udp: float = -1.0) -> str:
    """Output of iperf3, as far as it is read."""
    sums = [{"start": float(n), "end": n + 1.0, "bits_per_second": rate * 1e6} for n, rate in enumerate(mbps)]
    names = ("min_rtt", "mean_rtt", "max_rtt")
    sender = {**dict(zip(names, rtt_us, strict=True)), "retransmits": 7} if rtt_us else {}
    end: dict[str, object] = {"streams": [{"sender": sender, "receiver": {}}]}
    if udp >= 0:
        end["sum"] = {"lost_percent": udp, "lost_packets": int(udp * 10), "packets": 1000}
    test = {"protocol": "TCP" if udp < 0 else "UDP", "reverse": reverse}
    return json.dumps({"start": {"test_start": test}, "intervals": [{"sum": summed} for summed in sums], "end": end})


def test_ping_of_linux(tmp_path: Path) -> None:
    """The median of five is 24 ms; quantiles 0.84 and 0.16 of 20, 22, … 28 are 26.72 and 21.28 ms. One of six is lost
    on a round trip: 1 − √(5/6) one way."""
    reading = measured.read(written(tmp_path, "a.txt", LINUX))
    assert reading.rtt_ms is not None and reading.loss is not None and reading.jitter_ms is not None
    assert (reading.kind, reading.rtt_ms.value) == ("ping", 24.0)
    assert reading.jitter_ms == pytest.approx(2.72)
    assert reading.loss.value == pytest.approx(1 - (5 / 6) ** 0.5)
    assert reading.loss.low < reading.loss.value < reading.loss.high


def test_ping_of_others(tmp_path: Path) -> None:
    mac = measured.read(written(tmp_path, "a.txt", MAC))
    assert mac.rtt_ms is not None and (mac.rtt_ms.value, mac.rtt_ms.low, mac.rtt_ms.high) == (70.0, 62.0, 78.0)
    assert mac.loss is not None and mac.loss.value == 0 and mac.loss.high > 0
    windows = measured.read(written(tmp_path, "b.txt", WINDOWS))
    assert windows.loss is not None and windows.loss.value == pytest.approx(1 - 0.5**0.5)


def test_iperf3_over_tcp(tmp_path: Path) -> None:
    """Slow start, the first second, does not count: the median of 28, 30, 29 is 29, and 1500 B carry 1448."""
    down = measured.read(written(tmp_path, "a.json", iperf([9, 28, 30, 29])))
    assert list(down.rates) == ["down"]
    assert down.rates["down"].value == pytest.approx(29 * 1500 / 1448)
    assert down.rtt_ms is None
    up = measured.read(written(tmp_path, "b.json", iperf([5, 5], 0, (40_000, 90_000, 140_000))))
    assert (list(up.rates), up.rtt_ms, up.rtt_at_most_ms, up.rtt_loaded_ms) == (["up"], None, 40.0, 140.0)


def test_iperf3_over_udp(tmp_path: Path) -> None:
    """Losses of 2 % of 10 Mbit/s. A test that loses 20 % was sent too fast: its losses are not the link's."""
    sent = measured.read(written(tmp_path, "a.json", iperf([10, 10], udp=2.0)))
    assert sent.rates["down"].value == pytest.approx(9.8 * 1500 / 1472)
    assert sent.loss is not None and sent.loss.value == 0.02
    flooded = measured.read(written(tmp_path, "b.json", iperf([10, 10], udp=20.0)))
    assert flooded.loss is None


def test_a_trace_has_its_direction_in_its_name(tmp_path: Path) -> None:
    """Four times 1500 B in 12 ms are 4 Mbit/s."""
    trace = measured.read(written(tmp_path, "lte.up", "0\n4\n8\n12\n"))
    assert trace.traces == {"up": pytest.approx(4.0)}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "the file is empty"),
        ("hello\n", "unknown kind of file; expected the output of `ping`"),
        (b"\x00\xff\xfe\x01", "a binary file, but not a capture"),
        ('{"start": ', "no JSON at line 1"),
        ("{}", "JSON of another program than iperf3; expected the output of `iperf3 --json`"),
        ('{"error": "unable to connect"}', "iperf3 failed: unable to connect; measure again"),
        (iperf([0.0, 0.0]), "nothing was transferred"),
        ("3 packets transmitted, 0 received, 100% packet loss", "no ping was answered"),
        ("0\n5\n3\n", "line 3: `3` is less than the time before it"),
        ("0\n0\n", "ends at 0 ms"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_line(tmp_path: Path, content: str | bytes, reason: str) -> None:
    file = written(tmp_path, "wifi.txt", content)
    with pytest.raises(ScenarioError) as refusal:
        measured.read(file)
    assert (
        str(refusal.value).startswith(f"{file}: ") and reason in str(refusal.value) and "\n" not in str(refusal.value)
    )


def test_a_missing_file_a_folder_and_a_device(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        measured.read(tmp_path / "none")
    with pytest.raises(ScenarioError, match="a folder"):
        measured.read(tmp_path)
    with pytest.raises(ScenarioError, match="a device"):
        measured.read(Path("/dev/null"))


@pytest.fixture
def links(tmp_path: Path) -> list[str]:
    """Measurements of two links; of LTE nothing tells a loss or a rate up."""
    written(tmp_path, "wifi-ping.txt", LINUX)
    written(tmp_path, "wifi-iperf3.json", iperf([9, 28, 30, 29]))
    written(tmp_path, "wifi-iperf3-up.json", iperf([5, 5], 0, (20_000, 60_000, 120_000)))
    written(tmp_path, "lte.down", "0\n1\n2\n3\n")
    return ["wifi-ping.txt", "wifi-iperf3.json", "wifi-iperf3-up.json", "lte.down"]


def test_the_scenario_says_where_each_value_comes_from(weft_here: Weft, tmp_path: Path, links: list[str]) -> None:
    done = weft_here("new", "scenario", "home", *links)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "home.toml").read_text()
    values = [line for line in text.split("[workload]")[0].splitlines() if " = " in line and "title" not in line]
    assert all("#" in line for line in values if not line.startswith("seeds"))
    for line in (
        'rate.down  = "30 Mbit/s"       # wifi-iperf3.json: median of 3 intervals of iperf3 over TCP, with headers',
        'delay      = "12 ms"           # one way; wifi-ping.txt: half the median of 5 round trips (24 ms)',
        'trace.down = "lte.down"        # Mahimahi trace, 16 Mbit/s on the mean',
        'rate.up    = "4 Mbit/s"        # assumed: a quarter of the rate down',
        '"path.wifi.delay" = "10.4 ms..13.6 ms"',
    ):
        assert line in text.splitlines()
    assert "lte.delay" in done.stdout and "wifi.delay" not in done.stdout
    # 120 ms under load are 96 more than without: of 5.18 Mbit/s 41 packets of 1500 B.
    assert 'queue.up   = "41 packets"' in text
    (variant,) = load(tmp_path / "home.toml").variants()
    assert variant.transport == "mptcp"


def test_nothing_is_overwritten_and_nothing_half_written(weft_here: Weft, tmp_path: Path, links: list[str]) -> None:
    (tmp_path / "home.toml").write_text("mine")
    done = weft_here("new", "scenario", "home", *links)
    assert (done.returncode, done.stderr) == (2, "weft: home.toml exists already; give another name, or move it away\n")
    assert (tmp_path / "home.toml").read_text() == "mine"
    done = weft_here("new", "scenario", "other", *links, "lte.loss=3 pct")
    assert done.returncode == 2 and "`pct` is no unit" in done.stderr
    assert not (tmp_path / "other.toml").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["wifi-ping.txt"], "measurements only of the link `wifi`; a scenario needs two or more"),
        (["wifi-ping.txt", "lte.down"], "link `wifi`: no measurement gives its rate down; add the output of"),
        ([], "needs measurements of two or more links"),
        (
            ["wifi-ping.txt", "lte.down", "--workload", "game"],
            "--workload game: there is bulk, web, stream, voip, call",
        ),
        (
            ["wifi-ping.txt", "lte.down", "wifi.rat=3"],
            "`wifi.rat=3`: the keys of a link here are rate, rate.down, rate.up, delay, loss, queue, local",
        ),
        (["wifi=none.txt", "lte.down"], "none.txt: No such file or directory"),
        (["ping.txt", "lte.down"], "ping.txt: its name does not name a link; write wifi=ping.txt"),
    ],
)
def test_what_is_missing_is_said(
    weft_here: Weft, tmp_path: Path, links: list[str], words: list[str], reason: str
) -> None:
    written(tmp_path, "ping.txt", LINUX)
    done = weft_here("new", "scenario", "home", *words)
    assert done.returncode == 2 and reason in done.stderr
    assert not (tmp_path / "home.toml").exists()


@pytest.mark.parametrize("workload", new_scenario.WORKLOADS)
def test_every_workload_is_sound(weft_here: Weft, tmp_path: Path, links: list[str], workload: str) -> None:
    done = weft_here("new", "scenario", "home", "a=wifi-iperf3.json", "b.rate=3 Mbit/s", "--workload", workload)
    assert done.returncode == 0, done.stderr
    assert f'kind  = "{workload}"' in (tmp_path / "home.toml").read_text().replace("     =", "  =")


def test_answers_make_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"Name of link 2": "dsl", "  Round trip without load": "30 ms", "  Packets lost": "0.5 %"}
    made = new_scenario.from_answers("home", "voip", lambda text, default: given.get(text, default))
    assert made.links == ["wifi", "dsl"]
    text = made.file.read_text()
    assert 'delay      = "15 ms"           # answered' in text and 'loss       = "0.5 %"           # answered' in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("1\n5\n\n", "line 3 is blank; delete it"),
        ("1\n\n5\n", "line 2 is blank; delete it"),
        ("1\n5\n7 \n9.5\n", "line 4: `9.5` is no whole number"),
        ("\ufeff1\n5\n", "an encoding that nothing else reads"),
        (f"1\n{2**32}\n", f"line 2: `{2**32}` is later than 49 days"),
        (
            "".join(f"{3 * 86_400_000 + n}\n" for n in range(1, 101)),
            "nothing may leave in the first 3 days of this trace",
        ),
    ],
    ids=["blank last line", "blank line", "fraction", "byte order mark", "epoch", "since boot"],
)
def test_a_trace_that_would_not_run_leaves_no_scenario(
    weft_here: Weft, tmp_path: Path, content: str, reason: str
) -> None:
    """A single line says what is wrong. When it is mended, the same command works."""
    written(tmp_path, "lte.down", content)
    words = ("new", "scenario", "home", "lte.down", "dsl.rate=20 Mbit/s")
    done = weft_here(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("weft: lte.down: ") and reason in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["lte.down"]
    written(tmp_path, "lte.down", "1\n5\n")
    assert weft_here(*words).returncode == 0


def test_traces_that_begin_late_or_are_slow_are_read(tmp_path: Path) -> None:
    """A packet every two minutes is 100 bit/s; ten minutes of pause before an hour are a pause."""
    assert measured.read(written(tmp_path, "a.down", "120000\n")).traces == {"down": pytest.approx(1e-4)}
    late = "".join(f"{600_000 + n * 1000}\n" for n in range(3600))
    assert measured.read(written(tmp_path, "b.down", late)).traces["down"] > 0


def test_numbers_have_a_unit_that_is_easy_to_read(weft_here: Weft, tmp_path: Path) -> None:
    written(tmp_path, "slow.up", "120000\n")
    done = weft_here("new", "scenario", "home", "slow.up", "dsl.rate=20 Mbit/s")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "home.toml").read_text()
    assert 'trace.up   = "slow.up"' in text and "100 bit/s on the mean" in text
    assert 'rate.down  = "100 bit/s"' in text


def test_a_trace_error_is_a_scenario_error(tmp_path: Path) -> None:
    written(tmp_path, "lte.down", "1\n\n")
    written(tmp_path, "home.toml", '[path.lte]\ntrace = "lte.down"\n[workload]\nkind = "bulk"\nbytes = "1 MB"\n')
    with pytest.raises(ScenarioError, match="line 2 is blank"):
        load(tmp_path / "home.toml")


def stranger() -> bytes:
    """Two seconds of packets from one public address to another, at ports that say nothing."""
    return pcap((n / 1000, udp(("198.51.100.1", 40001, "192.0.2.7", 40000), 972)) for n in range(2000))


def test_who_is_the_user_is_said_on_the_command_line(weft_here: Weft, tmp_path: Path) -> None:
    written(tmp_path, "wifi.pcap", stranger())
    words = ("new", "scenario", "home", "wifi.pcap", "dsl.rate=20 Mbit/s")
    done = weft_here(*words)
    assert done.returncode == 2 and "wifi.local=192.0.2.7 (it has 192.0.2.7, 198.51.100.1)" in done.stderr
    assert not (tmp_path / "home.toml").exists()
    assert weft_here(*words, "wifi.local=192.0.2.7").returncode == 0
    assert 'rate.down  = "8 Mbit/s"        # wifi.pcap' in (tmp_path / "home.toml").read_text()
    assert "is no address" in weft_here("new", "scenario", "x", *words[3:], "wifi.local=me").stderr
    assert (
        "there is none of the link `dsl`"
        in weft_here(*words[:2], "x", *words[3:], "wifi.local=192.0.2.7", "dsl.local=::1").stderr
    )


def test_who_is_the_user_is_asked_where_somebody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "wifi.pcap", stranger())
    asked: list[tuple[str, str]] = []

    def ask(text: str, default: str) -> str:
        asked.append((text, default))
        return "198.51.100.1"

    new_scenario.from_measurements("home", ["wifi.pcap", "dsl.rate=20 Mbit/s"], None, ask)
    assert asked == [("wifi.pcap: which address is on your side (192.0.2.7, 198.51.100.1)?", "")]
    assert 'rate.up    = "8 Mbit/s"        # wifi.pcap' in Path("home.toml").read_text()


CAPTURE = pcap(
    (n / 1000, tcp(("198.51.100.1", 443, "192.0.2.7", 40000), sequence=n * 960, payload=960)) for n in range(2000)
)
"""A download in which nothing was sent again."""


@pytest.mark.parametrize("turn", [1, -1])
def test_ping_tells_losses_wherever_it_is_named(weft_here: Weft, tmp_path: Path, turn: int) -> None:
    """A capture does not tell them: what was sent again, a full queue may have dropped."""
    written(tmp_path, "wifi.pcap", CAPTURE)
    written(tmp_path, "wifi-ping.txt", "100 packets transmitted, 81 received, 19% packet loss\nrtt = 20/21/24/1 ms\n")
    files = ["wifi.pcap", "wifi-ping.txt"][::turn]
    assert weft_here("new", "scenario", "home", *files, "dsl.rate=20 Mbit/s").returncode == 0
    assert 'loss       = "10 %"            # wifi-ping.txt' in (tmp_path / "home.toml").read_text()


def test_losses_of_both_directions_count(weft_here: Weft, tmp_path: Path) -> None:
    written(tmp_path, "wifi-up.json", iperf([10, 10], 0, udp=2.0))
    written(tmp_path, "wifi-down.json", iperf([20, 20], 1, udp=4.0))
    assert weft_here("new", "scenario", "home", "wifi-up.json", "wifi-down.json", "dsl.rate=20 Mbit/s").returncode == 0
    text = (tmp_path / "home.toml").read_text()
    assert 'loss       = "3 %"             # wifi-up.json: 20 of 1000' in text and "wifi-down.json: 40 of 1000" in text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["wifi=wifi-ping.txt", "wifi=more.txt"], "wifi-ping.txt and more.txt are both of `ping`; runs in one file"),
        (["lte.down", "lte-down.trace"], "lte.down and lte-down.trace are both traces of the direction down"),
        (["wifi.rate=5 Mbit/s", "wifi.rate.up=9 Mbit/s"], "wifi.rate.up and wifi.rate are both given"),
        (["wifi.rate.up=5 Mbit/s", "wifi.rate=9 Mbit/s"], "wifi.rate and wifi.rate.up are both given"),
        (["wifi.rate=5 Mbit/s", "wifi.rate=9 Mbit/s"], "wifi.rate is given twice"),
        (["wifi-iperf3.json", "WIFI.delay=9 ms"], "`wifi` and `WIFI` differ in case alone"),
        (["wlanü.rate=5 Mbit/s"], "`wlanü` is not a name for a link"),
    ],
)
def test_what_would_count_for_nothing_is_refused(
    weft_here: Weft, tmp_path: Path, links: list[str], words: list[str], reason: str
) -> None:
    written(tmp_path, "more.txt", LINUX)
    written(tmp_path, "lte-down.trace", "0\n5\n")
    done = weft_here("new", "scenario", "home", *words, "dsl.rate=20 Mbit/s")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert reason in done.stderr and not (tmp_path / "home.toml").exists()


@pytest.mark.parametrize("name", ['my "lte\\.down', "a\nb.down", "tab\there.down", "é.down"])
def test_a_file_may_have_any_name(weft_here: Weft, tmp_path: Path, name: str) -> None:
    written(tmp_path, name, "0\n1\n2\n3\n")
    text = "100 packets transmitted, 81 received, 19% packet loss\nrtt = 20/21/24/1 ms\n"
    ping = written(tmp_path, f"{name}.txt", text).name
    done = weft_here("new", "scenario", "home", f"lte={name}", f"lte={ping}", "dsl.rate=20 Mbit/s")
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "home.toml").variants()


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "caf\udce9.down", "0\n1\n2\n3\n")
    with pytest.raises(ScenarioError, match="is not UTF-8, so no scenario can have it"):
        new_scenario.from_measurements("home", ["lte=caf\udce9.down", "dsl.rate=20 Mbit/s"], None)
    assert not Path("home.toml").exists()


def test_losses_that_were_counted_but_say_nothing_are_not_called_unmeasured(weft_here: Weft, tmp_path: Path) -> None:
    written(tmp_path, "wifi.json", iperf([10, 10], udp=20.0))
    assert weft_here("new", "scenario", "home", "wifi.json", "dsl.rate=20 Mbit/s").returncode == 0
    text = (tmp_path / "home.toml").read_text()
    assert "# assumed: wifi.json: 20 % of UDP was lost, as more was sent than the link carries" in text


def test_a_trace_whose_name_says_no_direction_is_assumed_to_be_down(weft_here: Weft, tmp_path: Path) -> None:
    written(tmp_path, "lte.trace", "0\n1\n2\n3\n")
    done = weft_here("new", "scenario", "home", "lte.trace", "dsl.rate=20 Mbit/s")
    assert done.returncode == 0 and "lte.trace" in done.stdout.splitlines()[1]
    assert (
        'trace.down = "lte.trace"       # assumed, as the name says no direction'
        in (tmp_path / "home.toml").read_text()
    )


def test_a_capture_of_a_handshake_alone_tells_no_rate(weft_here: Weft, tmp_path: Path) -> None:
    ends = ("192.0.2.7", 40000, "198.51.100.1", 443)
    back = ("198.51.100.1", 443, "192.0.2.7", 40000)
    written(tmp_path, "wifi.pcap", pcap([(0, tcp(ends, 2)), (0.02, tcp(back, 18)), (0.02, tcp(ends))]))
    words = ("new", "scenario", "home", "wifi.pcap", "dsl.rate=20 Mbit/s")
    done = weft_here(*words)
    assert done.returncode == 2 and "its rate down (wifi.pcap: too short to tell a rate)" in done.stderr
    assert weft_here(*words, "wifi.rate=9 Mbit/s").returncode == 0
    assert 'delay      = "10 ms"' in (tmp_path / "home.toml").read_text()
