"""`weft pair`, `send`, `recv` and `doctor`, as a person runs them: over loopback, and over emulated links."""

import csv
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import machine
from conftest import Weft
from ends import BOTH, PATIENCE_S, Narrow, Start, ended, partial, port, same, wait_until
from weftway.links import doctor


def test_a_folder_arrives_and_both_ends_say_how(weft: Weft, start: Start, line: str, folder: Path) -> None:
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me", "--json")
    sent = weft("send", folder, "--to", at, "--pair", line, *BOTH, "--scheduler", "min-rtt", "--json", "--qlog", "log")
    status, output, complaints = ended(receiver)
    assert (sent.returncode, status, complaints) == (0, 0, f"listening at {at}\n"), sent.stderr
    assert same(folder, folder.parent / "inbox" / "photos")
    (mine,), theirs = json.loads(sent.stdout), json.loads(output)
    assert (mine["role"], mine["scheduler"], mine["cc"]) == ("send", "min-rtt", "cubic:random_loss=2")
    assert mine["files"] == theirs["files"] == 3
    assert (mine["bytes"], mine["had_bytes"]) == (theirs["bytes"], theirs["had_bytes"]) == (3_000_005, 0)
    assert mine["sent_bytes"] == theirs["sent_bytes"] == 3_000_005 == sum(path["bytes"] for path in theirs["paths"])
    assert theirs["ratio_to_best_path"] == 3_000_005 / max(path["bytes"] for path in theirs["paths"])
    assert [path["path"] for path in mine["paths"]] == ["127.0.0.1", "127.0.0.2"]
    assert all(path["packets"] > 0 and path["srtt_ms"] > 0 for path in mine["paths"])
    records = (folder.parent / "log").read_text().split("\x1e")[1:]
    events = [json.loads(record).get("name") for record in records]
    # What a path had not sent yet when all was there, the scheduler was told alone.
    assert 0 <= events.count("quic:packet_sent") - sum(path["packets"] for path in mine["paths"]) <= 8
    again = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    table = weft("send", folder, "--to", at, "--pair", line)
    assert ended(again)[0] == table.returncode == 0
    assert "3 files, 3.0 MB, verified; 3.0 MB were there" in table.stdout


def test_the_end_that_connects_may_receive_and_the_line_may_be_in_a_file(
    weft: Weft, start: Start, line: str, folder: Path
) -> None:
    number = port()
    sender = start("send", folder, "--listen", f"127.0.0.1:{number}", "--identity", "me")
    (folder.parent / "line").write_text(f"{line}\n")
    received = weft("recv", "inbox", "--from", f"localhost:{number}", "--pair", "line")
    assert (ended(sender)[0], received.returncode) == (0, 0), received.stderr
    assert same(folder, folder.parent / "inbox" / "photos")


@pytest.mark.parametrize(("victim", "pauses"), [("sender", [2.0]), ("receiver", [2.0]), ("receiver", [0.1] * 10)])
def test_a_process_that_stands_still_for_a_while_goes_on(
    start: Start, narrow: Narrow, line: str, tmp_path: Path, victim: str, pauses: list[float]
) -> None:
    """A machine that sleeps, whose clock jumps; and a reader that is slow."""
    size, file, inbox = 60_000_000, tmp_path / "big", tmp_path / "inbox"
    file.write_bytes(random.Random(4).randbytes(size))
    at = f"127.0.0.1:{port()}"
    way = narrow(at)
    receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me", "--json")
    sender = start("send", file, "--to", way.address, "--pair", line, *BOTH, "--json")
    wait_until(lambda: partial(inbox) > 1_000_000)
    for pause in pauses:
        process = sender if victim == "sender" else receiver
        process.send_signal(signal.SIGSTOP)
        way.open()
        time.sleep(pause)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    status, output, complaints = ended(sender)
    assert (status, ended(receiver)[0]) == (0, 0), complaints
    assert file.read_bytes() == (inbox / "big").read_bytes()
    assert json.loads(output)[0]["sent_bytes"] == size


def test_a_receiver_takes_one_transfer_after_another(start: Start, line: str, tmp_path: Path) -> None:
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--listen", at, "--identity", "me", "--json")
    assert receiver.stdout and receiver.stderr
    complaints = receiver.stderr.readline()
    for number in range(3):
        (tmp_path / f"{number}.bin").write_bytes(random.Random(number).randbytes(200_000))
        status, _, why = ended(start("send", f"{number}.bin", "--to", at, "--pair", line, *BOTH))
        assert status == 0, why
        # Its line comes when the transfer is over, and not only at the end.
        assert json.loads(receiver.stdout.readline())["sent_bytes"] == 200_000
        assert (tmp_path / f"inbox/{number}.bin").read_bytes() == (tmp_path / f"{number}.bin").read_bytes()
        complaints += receiver.stderr.readline()
    assert receiver.poll() is None, "it is still there"
    receiver.send_signal(signal.SIGINT)
    status, output, rest = ended(receiver)
    assert (status, output) == (0, "")
    again = f"listening for the next transfer at {at}\n"
    assert complaints + rest == f"listening at {at}\n{again * 3}stopped listening after 3 transfers\n"


def test_a_receiver_goes_on_after_what_failed(
    weft: Weft, start: Start, narrow: Narrow, line: str, folder: Path, tmp_path: Path
) -> None:
    """A transfer of which a file has no place is not whole, and one that cannot begin is none."""
    taken = tmp_path / "inbox" / "photos" / "ü"
    taken.mkdir(parents=True)
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--listen", at, "--identity", "me")
    assert receiver.stderr
    assert receiver.stderr.readline() == f"listening at {at}\n"
    assert weft("send", folder, "--to", at, "--pair", line).returncode == 23
    assert receiver.stderr.readline().startswith("weft: photos/ü: the target has a directory of this name")
    assert receiver.stderr.readline() == "weft: 1 entry did not arrive; all others did\n"
    assert receiver.stderr.readline() == f"listening for the next transfer at {at}\n"
    receiver.send_signal(signal.SIGINT)
    assert (ended(receiver)[0], receiver.poll()) == (130, 130), "no transfer was whole"
    receiver = start("recv", "inbox", "--listen", at, "--identity", "me")
    taken.rmdir()
    assert weft("send", folder, "--to", at, "--pair", line).returncode == 0
    assert receiver.stderr
    assert receiver.stderr.readline() == f"listening at {at}\n"
    assert receiver.stderr.readline() == f"listening for the next transfer at {at}\n"
    # Ctrl-C in the midst of a transfer says that it is not whole, though the one before it was.
    (tmp_path / "big").write_bytes(random.Random(12).randbytes(60_000_000))
    way = narrow(at)
    sender = start("send", "big", "--to", way.address, "--pair", line)
    wait_until(lambda: partial(tmp_path / "inbox") > 0)
    receiver.send_signal(signal.SIGINT)
    status, _, complaints = ended(receiver)
    way.open()
    assert status == 130
    assert complaints == "weft: interrupted; what has arrived is kept: run the same command again to go on\n"
    assert ended(sender)[0] == 1


def test_a_receiver_that_cannot_listen_again_ends(weft: Weft, start: Start, line: str, tmp_path: Path) -> None:
    """It says so once, and does not try without end."""
    (tmp_path / "x").write_text("x")
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--listen", at, "--identity", "me")
    assert receiver.stderr
    assert receiver.stderr.readline() == f"listening at {at}\n"
    shutil.move(tmp_path / "inbox", tmp_path / "moved")
    (tmp_path / "inbox").write_text("a file where the folder was")
    weft("send", "x", "--to", at, "--pair", line)
    status, _, complaints = ended(receiver)
    assert status == 1
    assert complaints.endswith("inbox: this is there, and is no folder\n"), complaints


REFUSED = {
    "send x --to h": "--to needs --pair LINE",
    "send x": "either --to HOST:PORT or --listen ADDR",
    "send x --to h --listen 1": "either --to HOST:PORT or --listen ADDR",
    "send x --to 127.0.0.1:port --pair weft1-x": "a port is a number",
    "send x --to 127.0.0.1:1 --pair weft1-x": "this is no line of `weft pair`",
    "send x --to 127.0.0.1:1 --pair nowhere": "nowhere: No such file",
    "send x --listen 1 --identity nowhere": "run `weft pair` here",
    "send x --listen 1 --identity me --pair weft1-x": "--pair goes with --to",
    "send me --listen 1 --identity me --scheduler min-rtx": "min-rtt",
    "send me --listen 1 --identity me --cc cubik": "cubic",
    "send me --listen 1 --identity x.json": "no identity",
    "recv d --from h --listen 1": "either listens or connects",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line(weft_here: Weft, tmp_path: Path, words: str) -> None:
    weft_here("pair", "--identity", "me")
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "x.json").chmod(0o600)
    run = weft_here(*words.split())
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("weft: ") and run.stderr.count("\n") == 1
    assert REFUSED[words] in run.stderr, run.stderr


def test_what_cannot_be_read_or_written_is_told_in_one_line(weft_here: Weft, tmp_path: Path) -> None:
    weft_here("pair", "--identity", "me")
    (tmp_path / "file").touch()
    missing = weft_here("send", "missing", "--listen", "127.0.0.1:0", "--identity", "me")
    taken = weft_here("recv", "file", "--listen", "127.0.0.1:0", "--identity", "me")
    device = weft_here("send", "file", "--listen", "127.0.0.1:0", "--identity", "me", "--path", "no-such-link")
    for found, status, why in (
        (missing, 2, "missing: No such file"),
        (taken, 2, "file: this is there, and is no folder"),
        (device, 1, "path no-such-link"),
    ):
        assert (found.returncode, found.stdout) == (status, "")
        assert why in found.stderr and found.stderr.count("\n") == 1, found.stderr


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for 2 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no small file system here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_folder_of_the_inbox_may_be_a_mount_point(
    weft: Weft, start: Start, line: str, tmp_path: Path, small: Path
) -> None:
    (tmp_path / "photos/small").mkdir(parents=True)
    for name, size in (("photos/a", 3), ("photos/small/b", 1_500_000), ("photos/small/empty", 0)):
        (tmp_path / name).write_bytes(random.Random(name).randbytes(size))
    at = f"127.0.0.1:{port()}"
    (tmp_path / "inbox/photos").mkdir(parents=True)
    inner = tmp_path / "inbox/photos/small"
    inner.mkdir()
    subprocess.run(["mount", "--bind", small, inner], check=True)
    try:
        receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
        sent = weft("send", "photos", "--to", at, "--pair", line)
        status, _, complaints = ended(receiver)
        assert (sent.returncode, status) == (0, 0), (sent.stderr, complaints)
        for name in ("photos/a", "photos/small/b", "photos/small/empty"):
            assert (tmp_path / "inbox" / name).read_bytes() == (tmp_path / name).read_bytes()
        assert sorted(file.name for file in small.iterdir()) == ["b", "empty"]
    finally:
        subprocess.run(["umount", "--lazy", inner], check=True)


def test_files_that_do_not_fit_are_refused_before_data_flow(
    weft: Weft, start: Start, line: str, tmp_path: Path, small: Path
) -> None:
    (tmp_path / "big").write_bytes(random.Random(6).randbytes(4_000_000))
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", small, "--once", "--listen", at, "--identity", "me")
    sent = weft("send", "big", "--to", at, "--pair", line)
    status, _, complaints = ended(receiver)
    assert (sent.returncode, status) == (1, 1)
    assert f"weft: {small}: not enough room: 4000000 bytes are to be written" in complaints, complaints
    # Where the inbox is, is nothing to the sender.
    assert sent.stderr.startswith("weft: the other end: not enough room: 4000000 bytes"), sent.stderr
    assert list(small.iterdir()) == []


def test_a_full_disk_is_told_at_both_ends_and_what_is_there_is_kept(
    weft: Weft, start: Start, line: str, tmp_path: Path, small: Path
) -> None:
    # Each of these files takes a page of 4 kB or more: their bytes would fit.
    many = tmp_path / "many"
    many.mkdir()
    for number in range(1000):
        (many / f"{number:03}").write_text("x")
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "small", "--once", "--listen", at, "--identity", "me")
    sent = weft("send", "many", "--to", at, "--pair", line)
    status, _, complaints = ended(receiver)
    assert (sent.returncode, status) == (1, 1)
    for text in (complaints, sent.stderr):
        assert "No space left on device" in text, text
    # How many were complete by then depends on the disk; none has other content.
    assert {file.read_text() for file in (small / "many").glob("[0-9]*")} <= {"x"}
    assert list(small.rglob("*"))


def test_one_receiver_at_a_time_has_an_inbox(weft: Weft, start: Start, line: str, folder: Path) -> None:
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    assert receiver.stderr
    assert receiver.stderr.readline() == f"listening at {at}\n"
    second = weft("recv", "inbox", "--listen", "127.0.0.1:0", "--identity", "me")
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.startswith(f"weft: inbox: another weft recv (process {receiver.pid})"), second.stderr
    assert second.stderr.count("\n") == 1
    # One that was killed holds nothing.
    receiver.kill()
    receiver.wait()
    again = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    assert weft("send", folder, "--to", at, "--pair", line).returncode == ended(again)[0] == 0
    assert same(folder, folder.parent / "inbox" / "photos")


def test_a_file_without_a_place_is_named_at_both_ends_and_the_rest_arrives(
    weft: Weft, start: Start, line: str, folder: Path
) -> None:
    taken = folder.parent / "inbox" / "photos" / "ü"
    taken.mkdir(parents=True)
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me", "--json")
    sent = weft("send", folder, "--to", at, "--pair", line, "--json")
    status, output, complaints = ended(receiver)
    assert (sent.returncode, status) == (23, 23)
    for text, report in ((complaints, output), (sent.stderr, sent.stdout)):
        assert "weft: photos/ü: the target has a directory of this name" in text.splitlines(), text
        assert text.endswith("weft: 1 entry did not arrive; all others did\n")
        outcome = json.loads(report.strip("[]\n"))
        assert (outcome["files"], [file["path"] for file in outcome["failed"]]) == (2, ["photos/ü"])
    taken.rmdir()
    again = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    assert weft("send", folder, "--to", at, "--pair", line).returncode == ended(again)[0] == 0
    assert same(folder, folder.parent / "inbox" / "photos")


def test_a_second_sender_is_told_that_the_receiver_is_busy(
    weft: Weft, start: Start, narrow: Narrow, line: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "big").write_bytes(random.Random(8).randbytes(60_000_000))
    at = f"127.0.0.1:{port()}"
    way = narrow(at)
    receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    first = start("send", "big", "--to", way.address, "--pair", line)
    wait_until(lambda: partial(tmp_path / "inbox") > 0)
    second = weft("send", folder, "--to", at, "--pair", line)
    way.open()
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.startswith("weft: the other end is busy with another transfer"), second.stderr
    assert second.stderr.count("\n") == 1
    assert (ended(first)[0], ended(receiver)[0]) == (0, 0)
    assert [path.name for path in (tmp_path / "inbox").iterdir()] == ["big"]


def test_what_is_neither_file_nor_folder(weft: Weft, start: Start, line: str, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "queue")
    (folder.parent / "latest").symlink_to("photos")
    refused = weft("send", folder / "pipe", "--listen", "127.0.0.1:0", "--identity", "me")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.endswith("pipe: this is a FIFO; weft send takes a file or a directory\n")
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    sent = weft("send", folder.parent / "latest", "--to", at, "--pair", line)
    assert (sent.returncode, ended(receiver)[0]) == (0, 0), sent.stderr
    assert sent.stderr == "skipped 2 FIFOs: latest/pipe, latest/queue\n"
    # A link that is named itself is followed, and what arrives has its name.
    assert (folder.parent / "inbox" / "latest" / "ü").read_text() == "short"


def test_an_error_does_not_command_the_terminal(weft_here: Weft, tmp_path: Path) -> None:
    weft_here("pair", "--identity", "me")
    run = weft_here("send", "\x1b]0;owned\x07", "--listen", "127.0.0.1:0", "--identity", "me")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(r"weft: \x1b]0;owned\x07: No such file"), run.stderr


def test_another_scheduler_takes_over_while_data_are_under_way(
    start: Start, narrow: Narrow, line: str, tmp_path: Path
) -> None:
    (tmp_path / "big").write_bytes(random.Random(4).randbytes(60_000_000))
    at = f"127.0.0.1:{port()}"
    way = narrow(at)
    start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    words = ("send", "big", "--to", way.address, "--pair", line, "--scheduler", "min-rtt", "--switch", "--json")
    with subprocess.Popen(
        [*machine.WEFT, *words],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as sender:
        assert sender.stdin and sender.stderr
        sender.stdin.write("round-robbin\nround-robin\n")
        sender.stdin.flush()
        wrong, right = sender.stderr.readline(), sender.stderr.readline()
        way.open()
        output, complaints = sender.communicate(timeout=PATIENCE_S)
    assert (sender.returncode, complaints) == (0, "")
    assert "`round-robin`?" in wrong and wrong.endswith("; min-rtt goes on\n"), wrong
    assert right == "round-robin schedules from now on\n"
    assert json.loads(output)[0]["scheduler"] == "round-robin"


def test_the_doctor_knows_the_links(weft: Weft) -> None:
    run = weft("doctor", "--json")
    findings = json.loads(run.stdout)
    loopback = next(finding for finding in findings if finding["kind"] == "link" and finding["name"] == "lo")
    assert loopback["there"] and "127.0.0.1" in loopback["addresses"]
    assert {"bind to lo", "GSO (UDP_SEGMENT)", "receive buffer"} <= {finding["name"] for finding in findings}
    assert all(finding["remedy"] for finding in findings if not finding["there"]), findings
    assert weft("doctor").returncode == 0
    assert len(doctor.table(findings).rows) == len(findings)


@pytest.mark.parametrize("enabled", ["0", "1"])
def test_the_doctor_says_whether_this_machine_has_mptcp(
    enabled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace of its own, as labs have, has it in any case."""
    (tmp_path / "enabled").write_text(f"{enabled}\n")
    monkeypatch.setattr(doctor, "ENABLED", tmp_path / "enabled")
    [finding] = [finding for finding in doctor.examine() if finding["name"] == "net.mptcp.enabled"]
    assert (finding["there"], finding["note"][0]) == (enabled == "1", enabled)


TWO_LINKS = """\
title = "Two links, one of which is cut"
transport = "mpquic"
seeds = "0..1"
[path.a]
rate = "40 Mbit/s"
delay = "10 ms"
queue = "100 packets"
loss = { during = ["CUT"] }
[path.b]
rate = "40 Mbit/s"
delay = "10 ms"
queue = "100 packets"
[workload]
kind = "bulk"
bytes = "1 MB"
"""


@machine.emulation
def test_a_link_that_is_cut_and_returns_costs_what_it_carried(weft: Weft, line: str, tmp_path: Path) -> None:
    """Two links of 40 Mbit/s, one of which loses everything for four seconds. A slow run is repeated."""
    (tmp_path / "links.toml").write_text(TWO_LINKS.replace("CUT", "5 s..9 s"))
    (tmp_path / "big").write_bytes(random.Random(3).randbytes(70_000_000))
    send = f"sleep 1; {' '.join(machine.WEFT)} send big --to $WEFT_PEER --pair {line} --path 10.0.1.1 --path 10.0.2.1"
    server = f"{' '.join(machine.WEFT)} recv inbox --once --listen 4433 --identity me"
    complaints = []
    for _ in range(machine.TRIES):
        shutil.rmtree(tmp_path / "inbox", ignore_errors=True)
        ran = weft("emulate", "links.toml", "--log", "log", "--server", server, "--", "sh", "-c", send)
        assert ran.returncode == 0, ran.stderr
        assert (tmp_path / "big").read_bytes() == (tmp_path / "inbox" / "big").read_bytes()
        complaints = slow(rates(arrivals(tmp_path / "log")))
        if not complaints:
            return
    pytest.fail("\n".join(complaints))


ADDRESS = """sleep 1
(sleep 1; ip addr del 10.0.1.1/24 dev a; sleep 2; ip addr add 10.0.1.1/24 dev a) &
exec {send}
"""


@machine.emulation
def test_a_path_is_used_again_once_its_address_is_back(weft: Weft, line: str, tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(TWO_LINKS.replace('loss = { during = ["CUT"] }\n', ""))
    (tmp_path / "big").write_bytes(random.Random(5).randbytes(40_000_000))
    send = f"{' '.join(machine.WEFT)} send big --to $WEFT_PEER --pair {line} --path 10.0.1.1 --path 10.0.2.1 --json"
    (tmp_path / "send.sh").write_text(ADDRESS.format(send=send))
    server = f"{' '.join(machine.WEFT)} recv inbox --once --listen 4433 --identity me"
    ran = weft("emulate", "links.toml", "--no-log", "--server", server, "--", "sh", "send.sh")
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "big").read_bytes() == (tmp_path / "inbox" / "big").read_bytes()
    report = json.loads(next(text for text in ran.stdout.splitlines() if text.startswith('{"role"')))
    lost, kept = report["paths"]
    assert (lost["given_up"], kept["given_up"], lost["up"], kept["away_ms"]) == (1, 0, True, 0), report
    # It is given up after half a second or more of silence, and asked four times a second whether it is back.
    assert 500 < lost["away_ms"] < 2500, report


def slow(rates: list[tuple[float, float, int]]) -> list[str]:
    """Rates over half seconds that are less than they should be: end, Mbit/s, bytes of the link that is cut."""
    alone, both = 0.9 * 40, 0.9 * 80
    quiet = [at for at, _, of_a in rates if of_a == 0]
    if not quiet or not 3 < quiet[-1] - quiet[0] < 5:
        return [f"the link was not quiet for four seconds: {rates}"]
    cut, returned = quiet[0], quiet[-1]
    found = [f"{rate:.1f} Mbit/s at {at:.1f} s, cut" for at, rate, _ in rates if cut <= at <= returned and rate < alone]
    after = [(at, rate) for at, rate, _ in rates[:-1] if at > returned]
    if max(rate for at, rate in after if at <= returned + 2) < both:
        found.append(f"not {both:.1f} Mbit/s within two seconds of the return: {after}")
    if statistics.mean(rate for at, rate in after if at > returned + 1) < both:
        found.append(f"less than {both:.1f} Mbit/s after the return: {after}")
    return found


def arrivals(log: Path) -> Iterator[tuple[float, list[int]]]:
    """Times at which packets with data arrived, and the bytes that each link had brought by then."""
    lines = csv.DictReader(line for line in log.read_text().splitlines() if not line.startswith("#"))
    arrived = [line for line in lines if line["fate"] == "delivered" and int(line["bytes"]) > 1000]
    brought = {"a.up": 0, "b.up": 0}
    for line in sorted(arrived, key=lambda line: int(line["left_ns"])):
        if line["link"] in brought:
            brought[line["link"]] += int(line["bytes"])
            yield 1e-9 * int(line["left_ns"]), list(brought.values())


def rates(moments: Iterator[tuple[float, list[int]]]) -> list[tuple[float, float, int]]:
    """Over each half second: its end, what arrived in Mbit/s, and how much of it over the first path."""
    found = []
    begin, before = None, [0, 0]
    for at, now in moments:
        if begin is None:
            begin, before = at, now
        elif at - begin >= 0.5:
            fresh = [new - old for new, old in zip(now, before, strict=True)]
            found.append((at, 8e-6 * sum(fresh) / (at - begin), fresh[0]))
            begin, before = at, now
    return found
