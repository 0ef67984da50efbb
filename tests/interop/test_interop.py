"""noq with a gate, and picoquic: two stacks of different authors, over several paths, on loopback addresses.

One end is the example `hq` of weftway-noq; the other is foreign.py. Counts are of frames and bytes: no test looks at a
rate. noq counts frames by path, so its end says what each path carried, either way.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOREIGN = Path(__file__).with_name("foreign.py")
LIBRARY = next((ROOT / ".weft/picoquic/aiopquic/_binding").glob("_transport*.so"), None)
"""Module that `.ci/setup.sh` puts there."""

SERVER = "127.0.0.9"
FIRST, SECOND = "127.0.0.1", "127.0.0.2"
LIMIT_S = 45
MB = 1_000_000
CUT = 50_000
"""Bytes that a path has carried when it is cut."""
SOME, FEW = 50, 5
"""Frames of data, of some 700 in a megabyte, on a path that was used, and on one that picoquic used as it likes."""


def lacking() -> str | None:
    """Reason why there is no picoquic here, if there is none."""
    if shutil.which("cargo") is None:
        return "cargo is not installed"
    if LIBRARY is None:
        return "the wheel aiopquic could not be installed"
    done = subprocess.run([sys.executable, str(FOREIGN), str(LIBRARY), "try"], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    return (done.stderr.splitlines() or [f"picoquic cannot be loaded: status {done.returncode}"])[-1]


LACKS = lacking()
pytestmark = pytest.mark.skipif(LACKS is not None, reason=f"no picoquic here: {LACKS}")


@dataclass(frozen=True)
class Done:
    """Lines of JSON that both ends printed: noq's for each connection."""

    noq: list[dict[str, Any]]
    picoquic: dict[str, Any]

    def frames(self, kind: str) -> dict[int, list[int]]:
        """Numbers of such frames by path, sent and received, as noq counts them."""
        return {path["id"]: path[kind] for path in self.noq[-1]["paths"]}

    def both(self, kind: str) -> tuple[list[int], list[int]]:
        """Those of the first path and of the newest. picoquic may lose a path's number before it opens one."""
        frames = self.frames(kind)
        return frames[0], frames[max(frames)]

    def sent(self, kind: str) -> int:
        return sum(sent for sent, _ in self.frames(kind).values())

    def received(self, kind: str) -> int:
        return sum(received for _, received in self.frames(kind).values())


class Ends:
    """Both programs, and files of a certificate and its key."""

    def __init__(self, hq: Path, folder: Path) -> None:
        self.hq, self.certificate, self.key = str(hq), str(folder / "certificate.pem"), str(folder / "key.pem")
        subprocess.run([self.hq, "certificate", self.certificate, self.key], check=True)

    def schedulers(self) -> list[str]:
        return subprocess.run([self.hq, "schedulers"], check=True, capture_output=True, text=True).stdout.split()

    def fetch_with_noq(self, scheduler: str, *words: str, peer: Sequence[str] = ()) -> Done:
        """noq is the client. picoquic needs a first answer before further paths are opened."""
        server = [*picoquic("serve", f"{SERVER}:0", self.certificate, self.key), *peer]
        client = [self.hq, "fetch", f"{SERVER}:PORT", self.certificate, "--scheduler", scheduler, *words]
        theirs, ours = run(server, client)
        return Done([json.loads(line) for line in ours], json.loads(theirs[-1]))

    def fetch_with_picoquic(self, schedulers: Sequence[str], *steps: str, server: Sequence[str] = ()) -> Done:
        """picoquic is the client, which connects once for each scheduler of the server."""
        chosen = [word for name in schedulers for word in ("--scheduler", name)]
        serving = [self.hq, "serve", "0.0.0.0:0", self.certificate, self.key, *chosen, *server]
        ours, theirs = run(serving, picoquic("fetch", f"{SERVER}:PORT", f"{FIRST}:0", *steps), len(schedulers))
        return Done([json.loads(line) for line in ours], json.loads(theirs[-1]))


def picoquic(*words: str) -> list[str]:
    return [sys.executable, str(FOREIGN), str(LIBRARY), *words]


def run(server: list[str], client: list[str], times: int = 1) -> tuple[list[str], list[str]]:
    """Starts a server, runs a client so many times, and waits for both: the lines that they printed."""
    with subprocess.Popen(server, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            port = serving.stdout.readline().split()[-1]
            fetching = [word.replace("PORT", port) for word in client]
            lines = []
            for _ in range(times):
                done = subprocess.run(fetching, capture_output=True, text=True, timeout=LIMIT_S)
                assert done.stdout, done.stderr
                lines += done.stdout.splitlines()
            out, error = serving.communicate(timeout=LIMIT_S)
            assert out, error
            return out.splitlines(), lines
        finally:
            serving.kill()


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Ends:
    build = ["cargo", "build", "--quiet", "--locked", "--workspace", "--example", "hq"]
    made = subprocess.run([*build, "--message-format=json"], cwd=ROOT, check=True, capture_output=True, text=True)
    programs = [json.loads(line).get("executable") for line in made.stdout.splitlines()]
    return Ends(next(Path(program) for program in programs if program), tmp_path_factory.mktemp("hq"))


def all_right(done: Done) -> None:
    noq = done.noq[-1]
    assert {noq["ended"], done.picoquic["ended"]} <= {"right", "closed by the application", "closed by peer: 0"}, done
    assert noq["faults"] == 0, done


def uses_both(done: Done, scheduler: str) -> None:
    (first_sent, first_received), (second_sent, second_received) = done.both("stream")
    # picoquic takes the path that it likes: of seven hundred packets at times only twenty go over one.
    assert min(first_received, second_received) > FEW, done
    # Between equal paths min-RTT may prefer one.
    assert min(first_sent, second_sent) > (SOME if scheduler == "round-robin" else 0), done


@pytest.mark.parametrize("scheduler", ["round-robin", "min-rtt"])
def test_noq_sends_to_picoquic_and_gets_from_it_over_both_paths(ends: Ends, scheduler: str) -> None:
    done = ends.fetch_with_noq(scheduler, "get=1000", f"path={SECOND}", f"put={MB}", f"get={MB}")
    all_right(done)
    uses_both(done, scheduler)


@pytest.mark.parametrize("scheduler", ["round-robin", "min-rtt"])
def test_picoquic_gets_from_noq_and_sends_to_it_over_both_paths(ends: Ends, scheduler: str) -> None:
    done = ends.fetch_with_picoquic([scheduler], "get=1000", f"path={SECOND}", f"get={MB}", f"put={MB}")
    all_right(done)
    uses_both(done, scheduler)


def test_every_scheduler_that_a_gate_takes_sends_to_picoquic(ends: Ends) -> None:
    names = ends.schedulers()
    assert len(names) >= 20
    done = ends.fetch_with_picoquic(names, "get=1000", f"path={SECOND}", f"get={MB}")
    for one in done.noq:
        assert one["ended"] == "closed by peer: 0" and one["faults"] == 0 and one["asked"] > SOME, one
        assert sum(sent for sent, _ in (path["stream"] for path in one["paths"])) > MB / 1500, one
    assert len(done.noq) == len(names)


def test_a_peer_without_multipath_gets_one_path(ends: Ends) -> None:
    done = ends.fetch_with_noq("min-rtt", f"put={MB}", f"get={MB}", peer=["--single"])
    all_right(done)
    assert not done.noq[0]["multipath"] and len(done.noq[0]["paths"]) == 1, done
    refused = ends.fetch_with_noq("min-rtt", "get=1000", f"path={SECOND}", peer=["--single"])
    assert refused.noq[0]["ended"] == "multipath extension not negotiated"


def test_noq_closes_a_path_in_the_middle(ends: Ends) -> None:
    done = ends.fetch_with_noq("round-robin", "get=1000", f"path={SECOND}", f"close-in={4 * MB}", f"get={MB}")
    all_right(done)
    (first, first_received), (second, second_received) = done.both("stream")
    assert SOME < second < first, done
    # Both ends say so, once, and neither sends on it after that. picoquic forgets it some time later.
    assert (done.sent("path_abandon"), done.received("path_abandon")) == (1, 1), done
    assert second_received < SOME < first_received, done


@pytest.mark.parametrize(("verb", "address"), [("get", FIRST), ("get", SECOND), ("put", SECOND)])
def test_a_path_of_a_transfer_to_picoquic_is_cut(ends: Ends, verb: str, address: str) -> None:
    """Without its first path picoquic may stop sending for good, so that is not tried."""
    steps = ["get=1000", f"path={SECOND}", f"{verb}={4 * MB}", "--cut", f"{address}@{CUT}"]
    done = ends.fetch_with_picoquic(["round-robin"], *steps, server=["--idle", "1000"])
    all_right(done)
    assert f"cut {address}" in done.picoquic["told"], done


@pytest.mark.parametrize("address", [FIRST, SECOND])
def test_a_path_of_an_upload_from_noq_is_cut(ends: Ends, address: str) -> None:
    steps = ["--idle", "1000", "get=1000", f"path={SECOND}", f"put={4 * MB}"]
    done = ends.fetch_with_noq("round-robin", *steps, peer=["--cut", f"{address}@{CUT}"])
    all_right(done)
    assert f"cut {address}" in done.picoquic["told"], done


def test_noq_keeps_off_a_path_that_picoquic_makes_a_backup(ends: Ends) -> None:
    done = ends.fetch_with_picoquic(["round-robin"], "get=1000", f"path={SECOND}", "backup", "get=1000", f"get={MB}")
    all_right(done)
    (first, _), (second, _) = done.both("stream")
    assert done.received("path_status_backup") >= 1 and 5 * second < first, done


def test_picoquic_keeps_off_a_path_that_noq_makes_a_backup(ends: Ends) -> None:
    done = ends.fetch_with_noq("round-robin", "get=1000", f"backup={SECOND}", "get=1000", f"get={MB}", f"put={MB}")
    all_right(done)
    first, second = done.both("stream")
    # What picoquic had given to that path before it heard of it stays there.
    assert done.sent("path_status_backup") >= 1 and 5 * max(second) < min(first), done


def test_picoquic_opens_and_closes_twenty_paths(ends: Ends) -> None:
    """More than either end lets the other have at a time: the limit is raised for those that were closed. After some
    24, picoquic stalls."""
    steps = ["get=1000", *[f"path={SECOND}", "close"] * 20, f"path={SECOND}", f"get={MB}", f"put={MB}"]
    done = ends.fetch_with_picoquic(["round-robin"], *steps)
    all_right(done)
    assert done.picoquic["paths"][-1] >= 21 and len(done.picoquic["paths"]) == 2, done
    assert done.received("path_abandon") >= 20 and min(done.both("stream")[1]) > 0, done
    assert min(done.sent("max_path_id"), done.received("max_path_id")) >= 1, done


def test_another_number_of_path_ack_is_noticed(ends: Ends) -> None:
    steps = ["get=1000", f"path={SECOND}", f"put={MB}"]
    done = ends.fetch_with_noq("round-robin", *steps, peer=["--renumber", "3e=42"])
    assert "invalid frame ID" in done.noq[0]["ended"], done
