"""Two ends over emulated links, for the measurements of this folder: what runs where, and their programs."""

import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

WEFT = (sys.executable, "-m", "weftway")
SERVER = "203.0.113.9"
"""The far end's address behind the relay."""
RELAY, SOCKS, BULK, ECHO = 4433, 1080, 8000, 9000
NEAR = ("10.0.1.1", "10.0.2.1")
"""The near end's addresses on the links."""

_PATH = """
[path.{name}]
rate  = "{mbps} Mbit/s"
delay = "{ms} ms"
queue = "300 packets"
{cuts}
"""


def links(best: tuple[float, float], other: tuple[float, float], cut: str = "") -> str:
    """A scenario with two links: Mbit/s and one-way delay in ms of each. `cut` is what the better one has besides."""
    head = 'title = "measured"\ntransport = "mpquic"\nseeds = "0..1"\n[workload]\nkind = "bulk"\nbytes = "1 MB"\n'
    named = (("best", best, cut), ("other", other, ""))
    return head + "".join(_PATH.format(name=name, mbps=link[0], ms=link[1], cuts=cuts) for name, link, cuts in named)


def emulate(scenario: str, far: list[str], near: list[str]) -> str:
    """What `near` prints, with `far` at the other end of the links, both as arguments to Python."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "links.toml"
        file.write_text(scenario)
        with (Path(folder) / "line").open("w") as line:
            subprocess.run([*WEFT, "pair", "--identity", "me"], cwd=folder, check=True, stdout=line)
        server = " ".join([sys.executable, *far])
        command = [*WEFT, "emulate", str(file), "--no-log", "--server", server, "--", sys.executable, *near]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"the measurement ended with status {done.returncode}")
        return next(line for line in done.stdout.splitlines() if line.startswith("{"))


def own_address() -> None:
    """This end is also `SERVER`."""
    subprocess.run(["ip", "address", "add", f"{SERVER}/32", "dev", "lo"], check=True)


def relay(*options: str) -> None:
    """Runs the relay until it ends."""
    words = ("relay", "--listen", str(RELAY), "--identity", "me", "--allow", "203.0.113.0/24", *options)
    subprocess.run([*WEFT, *words], check=False, stderr=subprocess.DEVNULL)


def serve_bulk() -> None:
    """Sends zeros to whoever connects, for as long as that reads."""

    def send(client: socket.socket) -> None:
        zeros = bytes(1 << 18)
        try:
            while True:
                client.sendall(zeros)
        except OSError:
            client.close()

    server = socket.create_server(("", BULK), backlog=2048)
    while True:
        client, _ = server.accept()
        threading.Thread(target=send, args=(client,), daemon=True).start()


def serve_echo() -> None:
    """Sends each datagram back, with the time of its arrival behind it."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", ECHO))
    while True:
        data, source = server.recvfrom(2048)
        server.sendto(data + struct.pack("!Q", time.monotonic_ns()), source)


def socks(command: int, host: str, port: int) -> tuple[socket.socket, tuple[str, int]]:
    """A connection to the proxy, and its address for datagrams. `command` is that of RFC 1928: 3 is for these."""
    asked = socket.create_connection(("127.0.0.1", SOCKS))
    asked.sendall(b"\5\1\0\5" + bytes([command]) + b"\0\1" + socket.inet_aton(host) + struct.pack("!H", port))
    answer = b""
    while len(answer) < 12:
        answer += asked.recv(12 - len(answer))
    if answer[3] != 0:
        raise OSError(f"SOCKS5 reply {answer[3]}")
    return asked, (socket.inet_ntoa(answer[6:10]), int.from_bytes(answer[10:12], "big"))


def connect(through: str) -> socket.socket:
    """A connection to the server of bulk, `through` the proxy, the tunnel or the first link alone."""
    if through == "proxy":
        return socks(1, SERVER, BULK)[0]
    return socket.create_connection((SERVER if through == "tunnel" else os.environ["WEFT_PEER"], BULK))


def start(*words: str) -> subprocess.Popen[str]:
    """Starts the command, and waits until it says that it is connected, if it says so."""
    process = subprocess.Popen([*WEFT, *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr
    for line in process.stderr:
        if "connected" in line or "listening" in line:
            break
    # It says more; somebody has to read that.
    threading.Thread(target=lambda pipe: list(pipe), args=(process.stderr,), daemon=True).start()
    return process


def client(through: str, *options: str) -> subprocess.Popen[str] | None:
    """The proxy or the tunnel of the near end; none if programs go over the first link."""
    if through == "direct":
        return None
    to = ("--to", f"{os.environ['WEFT_PEER']}:{RELAY}", "--pair", "line")
    paths = [word for address in NEAR for word in ("--path", address)]
    return start(through, *to, *paths, *options)
