"""Outputs of `ping` in the languages of Linux and Windows: read by how numbers stand, or refused."""

from pathlib import Path

import pytest

from weftway import ScenarioError
from weftway.links import measured
from weftway.links.measured import Reading

HOST = "192.0.2.1"
ANSWERED = (1, 2, 3, 5, 6, 7, 8, 9, 10)
"""Of ten pings the fourth is lost; their round trips are 20.1, 20.2, 20.3, 20.5 … ms, the median of which is 20.6."""

UNIX = {
    "English": (
        "64 bytes from {host}: icmp_seq={n} ttl=58 time={ms} ms",
        "10 packets transmitted, 9 received, 10% packet loss, time 9123ms",
    ),
    "German": (
        "64 Bytes von {host}: icmp_seq={n} ttl=58 Zeit={ms} ms",
        "10 Pakete übertragen, 9 empfangen, 10% Paketverlust, Zeit 9123ms",
    ),
    "French": (
        "64 octets de {host} : icmp_seq={n} ttl=58 temps={ms} ms",
        "10 paquets transmis, 9 reçus, 10% paquets perdus, temps 9123 ms",
    ),
    "Turkish": (
        "{host} adresinden 64 bayt: icmp_seq={n} ttl=58 zaman={ms} ms",
        "10 paket iletildi, 9 alındı, %10 paket kaybı, zaman 9123ms",
    ),
    "Russian": (
        "64 байта от {host}: icmp_seq={n} ttl=58 время={ms} мс",
        "передано 10 пакетов, получено 9, 10% потеряно, время 9123мс",
    ),
    "Japanese": (
        "{host} から 64 バイト: icmp_seq={n} ttl=58 時間={ms}ミリ秒",
        "送信パケット数 10, 受信パケット数 9, 10%パケット損失, 時間 9123ミリ秒",
    ),
    "Chinese": (
        "64 字节，来自 {host}: icmp_seq={n} ttl=58 时间={ms} 毫秒",
        "已发送 10 个包，已接收 9 个包，10%丢包，用时 9123毫秒",
    ),
    "errors": (
        "64 bytes from {host}: icmp_seq={n} ttl=58 time={ms} ms",
        "10 packets transmitted, 9 received, +1 errors, 10% packet loss, time 9123ms",
    ),
    "macOS": (
        "64 bytes from {host}: icmp_seq={n} ttl=58 time={ms} ms",
        "10 packets transmitted, 9 packets received, 10.0% packet loss",
    ),
    "busybox": (
        "64 bytes from {host}: seq={n} ttl=58 time={ms} ms",
        "10 packets transmitted, 9 packets received, 10% packet loss",
    ),
    "a link-local host": (
        "64 bytes from fe80::1%1: icmp_seq={n} hlim=64 time={ms} ms",
        "10 packets transmitted, 9 received, 10% packet loss, time 9123ms",
    ),
    "a time before each line": (
        "[1767225600.123456] 64 bytes from {host}: icmp_seq={n} ttl=58 time={ms} ms",
        "10 packets transmitted, 9 received, 10% packet loss, time 9123ms",
    ),
}

WINDOWS = {
    "English": (
        "Reply from {host}: bytes=32 time={ms}ms TTL=58",
        "    Packets: Sent = 10, Received = 9, Lost = 1 (10% loss),",
        "    Minimum = 11ms, Maximum = 20ms, Average = 16ms",
    ),
    "German": (
        "Antwort von {host}: Bytes=32 Zeit={ms}ms TTL=58",
        "    Pakete: Gesendet = 10, Empfangen = 9, Verloren = 1\r\n    (10% Verlust),",
        "    Minimum = 11ms, Maximum = 20ms, Mittelwert = 16ms",
    ),
    "Italian": (
        "Risposta da {host}: byte=32 durata={ms}ms TTL=58",
        "    Pacchetti: Trasmessi = 10, Ricevuti = 9,\r\n    Persi = 1 (10% persi),",
        "    Minimo = 11ms, Massimo =  20ms, Medio =  16ms",
    ),
    "French": (
        "Réponse de {host} : octets=32 temps={ms} ms TTL=58",
        "    Paquets : envoyés = 10, reçus = 9, perdus = 1 (perte 10%),",
        "    Minimum = 11ms, Maximum = 20ms, Moyenne = 16ms",
    ),
    "Japanese": (
        "{host} からの応答: バイト数 ={ms} 時間 ={ms}ms TTL=58",
        "    パケット数: 送信 = 10、受信 = 9、損失 = 1 (10% の損失)、",
        "    最小 = 11ms、最大 = 20ms、平均 = 16ms",
    ),
    "Russian": (
        "Ответ от {host}: число байт=32 время={ms}мс TTL=58",
        "    Пакетов: отправлено = 10, получено = 9, потеряно = 1\r\n    (10% потерь)",
        "    Минимальное = 11мсек, Максимальное = 20 мсек, Среднее = 16 мсек",
    ),
}


def unix(reply: str, counts: str, answered: tuple[int, ...] = ANSWERED) -> str:
    lines = [reply.format(host=HOST, n=n, ms=20 + n / 10) for n in answered]
    end = ["", f"--- {HOST} ping ---", counts, "rtt min/avg/max/mdev = 20.100/20.567/21.000/0.300 ms"]
    return "\n".join([f"PING {HOST} ({HOST}) 56(84)", *lines, *end, ""])


def windows(reply: str, counts: str, times: str) -> str:
    """Nine answers of 11, 12, 13, 15 … 20 ms, the median of which is 16."""
    lines = [reply.format(host=HOST, ms=10 + n) for n in ANSWERED]
    return "\r\n".join(
        ["", f"Ping {HOST}:", *lines[:3], "...", *lines[3:], "", f"Ping {HOST}:", counts, "....:", times]
    )


def read(folder: Path, content: str | bytes) -> Reading:
    file = folder / "wifi-ping.txt"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return measured.read(file)


def lost(reading: Reading) -> float:
    """On a round trip."""
    assert reading.loss is not None
    return 1 - (1 - reading.loss.value) ** 2


@pytest.mark.parametrize("language", UNIX)
def test_languages_of_unix(tmp_path: Path, language: str) -> None:
    reading = read(tmp_path, unix(*UNIX[language]))
    assert reading.rtt_ms is not None and reading.rtt_ms.value == pytest.approx(20.6)
    assert lost(reading) == pytest.approx(0.1)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "console"])
@pytest.mark.parametrize("language", WINDOWS)
def test_languages_and_encodings_of_windows(tmp_path: Path, language: str, encoding: str) -> None:
    """The console has a code page of its own for each of them."""
    page = {"Russian": "cp866", "Japanese": "cp932"}.get(language, "cp850")
    reading = read(tmp_path, windows(*WINDOWS[language]).encode(page if encoding == "console" else encoding))
    assert reading.rtt_ms is not None and reading.rtt_ms.value == 16
    assert lost(reading) == pytest.approx(0.1)


def test_statistics_alone(tmp_path: Path) -> None:
    """Windows says least, most and mean; a deviation it does not say."""
    _, counts, times = WINDOWS["German"]
    reading = read(tmp_path, "\r\n".join([counts, times]))
    assert reading.rtt_ms is not None and (reading.rtt_ms.value, reading.jitter_ms) == (16, None)
    assert lost(reading) == pytest.approx(0.1)


def quiet(sent: int, received: int, mean: float, deviation: float = 1.0, host: str = HOST) -> str:
    share = 100 * (sent - received) / sent
    end = f"rtt min/avg/max/mdev = {mean - 2}/{mean}/{mean + 4}/{deviation} ms\n" if received else "\n"
    return f"--- {host} ping ---\n{sent} packets transmitted, {received} received, {share:g}% packet loss\n{end}"


def test_runs_in_one_file_are_added_up(tmp_path: Path) -> None:
    """150 of 200 came back; 100 took 40 ms and 50 took 70, which is 50 on the mean. The variances of the runs are 1 and
    those of their means about 50 are 100 and 400: together √(1 + 200)."""
    reading = read(tmp_path, quiet(100, 100, 40) + quiet(100, 50, 70) + quiet(50, 0, 0))
    assert reading.rtt_ms is not None and reading.jitter_ms is not None
    assert lost(reading) == pytest.approx(100 / 250)
    assert reading.rtt_ms.value == pytest.approx(50)
    assert reading.jitter_ms == pytest.approx(201**0.5)


def test_a_killed_run_counts_between_its_first_and_last_answer(tmp_path: Path) -> None:
    """It has no statistics, and of 1 to 10 the fourth did not come."""
    killed = unix(*UNIX["English"]).split("---")[0]
    assert lost(read(tmp_path, killed)) == pytest.approx(0.1)
    assert lost(read(tmp_path, killed + killed)) == pytest.approx(0.1)


UNANSWERED = (
    "no answer yet for icmp_seq={n}",
    "Request timeout for icmp_seq {n}",
    "From 192.0.2.254 icmp_seq={n} Destination Host Unreachable",
)


@pytest.mark.parametrize("line", UNANSWERED)
def test_a_killed_run_counts_the_pings_that_it_says_were_not_answered(tmp_path: Path, line: str) -> None:
    """Of 1 to 10 the fourth did not come, and none of the ten that followed."""
    killed = unix(*UNIX["English"]).split("---")[0]
    killed += "".join(f"{line.format(n=n)}\n" for n in range(11, 21))
    assert lost(read(tmp_path, killed)) == pytest.approx(11 / 20)
    silent = f"PING {HOST} ({HOST}) 56(84) bytes of data.\n" + "".join(f"{line.format(n=n)}\n" for n in range(1, 21))
    for text in (silent + unix(*UNIX["English"]), unix(*UNIX["English"]) + silent):
        with pytest.raises(ScenarioError, match="the statistics at the end are missing"):
            read(tmp_path, text)


def from_source(via: str) -> str:
    header = f"PING {HOST} ({HOST}){via}: 56(84) bytes of data.\n"
    return header + quiet(100, 100, 40)


def test_pings_from_two_links_are_not_added_up(tmp_path: Path) -> None:
    one, other = (from_source(f" from {via}") for via in ("192.0.2.7 wlan0", "198.51.100.7 wwan0"))
    again = from_source(" from 192.0.2.9 wlan0")
    assert lost(read(tmp_path, one + again)) == 0
    with pytest.raises(ScenarioError, match="pings from wlan0 and wwan0; write a file for each link"):
        read(tmp_path, one + other)


def test_text_in_two_encodings_is_refused(tmp_path: Path) -> None:
    """Text that two shells of Windows write for `>` and `>>`: half of the file would be read as letters of China."""
    text = windows(*WINDOWS["English"]) + "\r\n"
    for content in (
        text.encode("utf-16") + text.encode(),
        text.encode("utf-16") + b"\n" + text.encode(),
        text.encode() + (2 * text).encode("utf-16-le"),
        text.encode() + b" " + (2 * text).encode("utf-16-le"),
    ):
        with pytest.raises(ScenarioError, match="a binary file"):
            read(tmp_path, content)
    cut = read(tmp_path, text.encode("utf-16") + b"P")
    assert lost(cut) == pytest.approx(0.1)


def test_duplicates_and_reports_on_the_way_do_not_count(tmp_path: Path) -> None:
    reply, _ = UNIX["English"]
    twice = reply.format(host=HOST, n=5, ms=99) + " (DUP!)"
    text = unix(reply, "10 packets transmitted, 9 received, +1 duplicates, 10% packet loss, time 9ms")
    lines = text.splitlines()
    lines[6:6] = [
        twice,
        "4/5 packets, 20% loss, min/avg/ewma/max = 20.1/20.3/20.2/20.5 ms",
        "no answer yet for icmp_seq=4",
    ]
    reading = read(tmp_path, "\n".join(lines))
    assert reading.rtt_ms is not None and reading.rtt_ms.value == pytest.approx(20.6)
    assert lost(reading) == pytest.approx(0.1)


WAY_OUT = "LC_ALL=C ping"
ENGLISH = UNIX["English"]

HALF = {
    "an unknown unit": (unix(ENGLISH[0].replace(" ms", " millis"), ENGLISH[1]), WAY_OUT),
    "counts that nobody could add up": (
        unix(ENGLISH[0], "10 sent, 9 back, 30% away"),
        "round trips without the counts",
    ),
    "counts in words": (unix(ENGLISH[0], "ten sent, nine back"), "round trips without the counts"),
    "a part of the file": (unix(*ENGLISH, answered=ANSWERED[4:]), "count 9 replies, and 5 lines have a round trip"),
    "unreachable hosts that Windows counts as answers": (
        windows(*WINDOWS["English"]).replace("time=12ms TTL=58", "Destination host unreachable."),
        "count 9 replies, and 8 lines have a round trip",
    ),
    "Windows without its statistics": (windows(*WINDOWS["English"]).split("Packets")[0], "the statistics at the end"),
    "two hosts": (quiet(10, 10, 5) + quiet(10, 10, 50, host="198.51.100.1"), "pings of several hosts"),
    "answers too small for a time": (unix("16 bytes from {host}: icmp_seq={n} ttl=58", ENGLISH[1]), "no times in ms"),
    "fping": (f"{HOST} : xmt/rcv/%loss = 10/9/10%, min/avg/max = 20.1/20.6/21.0", "the output of `fping`"),
    "fping, whose lines look like counts": (
        "".join(f"{HOST} : [{n}], 64 bytes, 20.1 ms (20.1 avg, 0% loss)\n" for n in range(80))
        + f"\n{HOST} : xmt/rcv/%loss = 100/80/20%, min/avg/max = 20.1/20.6/21.0\n",
        "the output of `fping`",
    ),
    "nothing came back": (quiet(10, 0, 0), "no ping was answered"),
}


@pytest.mark.parametrize("case", HALF)
def test_what_is_understood_in_half_is_refused(tmp_path: Path, case: str) -> None:
    content, reason = HALF[case]
    with pytest.raises(ScenarioError) as refusal:
        read(tmp_path, content)
    assert reason in str(refusal.value) and "\n" not in str(refusal.value)
