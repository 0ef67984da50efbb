"""`weft pipe` and `weft relay`, as programs use them: over loopback."""

import json
import signal
import socket
import threading
from pathlib import Path
from urllib.request import urlopen

import pytest

from conftest import Weft
from ends import BOTH, PATIENCE_S, Start, ended, port
from test_proxy import until_told

PACKET = bytes(range(256)) * 5 + bytes(36)
"""As long as seven packets of MPEG-TS, of which SRT makes one."""


@pytest.fixture
def echo() -> int:
    """The port of a server that sends back what it gets."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            data, source = server.recvfrom(65536)
            server.sendto(data, source)

    threading.Thread(target=answer, daemon=True).start()
    return int(server.getsockname()[1])


def test_datagrams_go_there_and_back_and_are_told_of(start: Start, line: str, echo: int, tmp_path: Path) -> None:
    at, local = f"127.0.0.1:{port()}", port()
    (tmp_path / "weft.toml").write_text(
        f'[pipe]\nredundancy = "50%"\n[pipe.camera]\nlisten = "udp://127.0.0.1:{local}"\n'
        f'deliver = "udp://localhost:{echo}"\nlatency = "5s"\n'
    )
    relay = start("relay", "--listen", at, "--identity", "me", "--allow-pipe", f"localhost:{echo}")
    metrics = f"127.0.0.1:{port()}"
    words = ["--config", "weft.toml", "--json", "--metrics", metrics]
    pipe = start("pipe", "--to", at, "--pair", line, *BOTH, *words)
    until_told(pipe, f"127.0.0.1:{local} leads to localhost:{echo}")
    sources = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
    for source in sources:
        source.settimeout(PATIENCE_S)
        source.connect(("127.0.0.1", local))
    for number in range(20):
        for source in sources:
            sent = PACKET[number:] + bytes(number)
            source.send(sent)
            assert source.recv(65536) == sent
    assert pipe.stdout
    for told in map(json.loads, pipe.stdout):
        [one] = told["pipes"]
        if one["up"]["total"]["delivered"] == one["down"]["total"]["delivered"] == 60:
            break
    assert (one["listen"], one["deliver"], one["open"]) == (f"127.0.0.1:{local}", f"localhost:{echo}", True)
    assert (one["name"], one["sources"], one["drops"], told["scheduler"]) == ("camera", 3, {}, "deadline:redundancy=50")
    with urlopen(f"http://{metrics}/pipes") as answer:
        [asked] = json.load(answer)
    assert (asked["name"], "deliver" in asked) == ("camera", False)
    assert 0 < asked["rate"]["next_bps"] <= asked["rate"]["now_bps"]
    assert {link["health"] for link in asked["links"]} == {"good"}
    assert one["up"]["total"] == {
        "datagrams": 60, "bytes": 60 * len(PACKET), "delivered": 60, "late": 0, "lost": 0
    }  # fmt: skip
    assert 0 <= one["up"]["second"]["p50_ms"] <= one["up"]["second"]["p99_ms"] < 5000
    pipe.send_signal(signal.SIGINT)
    status, _, errors = ended(pipe)
    assert (status, errors) == (130, "weft: stopped carrying datagrams\n")
    relay.send_signal(signal.SIGINT)
    assert ended(relay)[0] == 130


def test_a_relay_that_does_not_allow_a_pipe_ends_it_with_a_line(start: Start, line: str, echo: int) -> None:
    at = f"127.0.0.1:{port()}"
    start("relay", "--listen", at, "--identity", "me", "--allow", "127.0.0.0/8")
    target = f"127.0.0.1:{echo}"
    status, _, errors = ended(start("pipe", "--to", at, "--pair", line, "--listen", str(port()), "--deliver", target))
    assert status == 1
    why = f"weft: the relay refuses a pipe to {target}: it allows no pipe there; `weft relay --allow-pipe` with this"
    assert why in errors, errors


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pipe", "--to", "h", "--pair", "weft1-x"], "weft pipe needs --listen [ADDR:]PORT and --deliver HOST:PORT"),
        (["relay", "--listen", "1", "--allow-pipe", "everything"], "--allow-pipe: everything is no target of pipes"),
    ],
)
def test_what_makes_no_sense_is_refused(weft: Weft, line: str, words: list[str], told: str) -> None:
    words = [line if word == "weft1-x" else "127.0.0.1" if word == "h" else word for word in words]
    identity = ["--identity", "me"] if words[0] == "relay" else []
    done = weft(*words, *identity)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr
