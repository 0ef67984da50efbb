"""Two ends over emulated links, for the measurements of this folder: what runs where, and their programs."""

import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

WEFT = (sys.executable, "-m", "weftway")
SERVER = "203.0.113.9"
"""The far end's address behind the relay."""
RELAY, SOCKS, BULK, SINK, ECHO = 4433, 1080, 8000, 8001, 9000
NEAR = ("10.0.1.1", "10.0.2.1")
"""The near end's addresses on the links."""
BEST, OTHER = (60, 5), (16, 15)
"""The links of the pages: Mbit/s, and ms one way."""
SUM_MBPS = BEST[0] + OTHER[0]

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


def emulate(
    scenario: str,
    far: Sequence[str],
    near: Sequence[str],
    before: Sequence[str] = (),
    seed: int = 0,
    said: list[str] | None = None,
) -> str:
    """What `near` prints, with `far` at the other end of the links, both as arguments to Python.

    `before` are words before the near one, as `mptcpize run`; `seed` is that of what the links draw. What goes to
    standard error is added to `said`, if that is given.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "links.toml"
        file.write_text(scenario)
        with (Path(folder) / "line").open("w") as line:
            subprocess.run([*WEFT, "pair", "--identity", "me"], cwd=folder, check=True, stdout=line)
        server = " ".join([sys.executable, *far])
        command = [*WEFT, "emulate", str(file), "--no-log", "--seed", str(seed), "--server", server, "--", *before]
        command += [sys.executable, *near]
        # What links with a cap have carried begins anew, and stays apart from what the user's own have.
        own = {**os.environ, "XDG_STATE_HOME": f"{folder}/state"}
        ends = {"stdout": subprocess.PIPE, "stderr": None if said is None else subprocess.PIPE}
        done = subprocess.run(command, cwd=folder, env=own, text=True, check=False, **ends)
        if said is not None:
            said += done.stderr.splitlines()
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


def socks(command: int, host: str, port: int, at: str = "127.0.0.1") -> tuple[socket.socket, tuple[str, int]]:
    """A connection to the proxy, and its address for datagrams. `command` is that of RFC 1928: 3 is for these."""
    asked = socket.create_connection((at, SOCKS))
    # Step by step: microsocks takes what comes with a greeting for a part of it.
    asked.sendall(b"\5\1\0")
    _read(asked, 2)
    asked.sendall(b"\5" + bytes([command]) + b"\0\1" + socket.inet_aton(host) + struct.pack("!H", port))
    answer = _read(asked, 10)
    if answer[1] != 0:
        raise OSError(f"SOCKS5 reply {answer[1]}")
    return asked, (socket.inet_ntoa(answer[4:8]), int.from_bytes(answer[8:10], "big"))


def _read(stream: socket.socket, count: int) -> bytes:
    data = stream.recv(count, socket.MSG_WAITALL)
    if len(data) < count:
        raise OSError("the connection ended")
    return data


def connect(through: str, port: int = BULK) -> socket.socket:
    """A connection to a server, `through` the proxy, microsocks at the far end, the tunnel or the first link alone."""
    if through in ("proxy", "microsocks"):
        return socks(1, SERVER, port, "127.0.0.1" if through == "proxy" else os.environ["WEFT_PEER"])[0]
    return socket.create_connection((SERVER if through == "tunnel" else os.environ["WEFT_PEER"], port))


class Received:
    """What comes on some connections, all read at once until it is closed."""

    def __init__(self, flows: Sequence[socket.socket]) -> None:
        self._flows, self._counts = flows, [0] * len(flows)
        for at in range(len(flows)):
            threading.Thread(target=self._read, args=(at,), daemon=True).start()

    def _read(self, at: int) -> None:
        buffer = bytearray(1 << 18)
        try:
            while got := self._flows[at].recv_into(buffer):
                self._counts[at] += got
        except OSError:
            pass

    @property
    def total(self) -> int:
        return sum(self._counts)

    def mbps(self, seconds: float) -> float:
        """The rate in the seconds that come."""
        begin, first = time.monotonic(), self.total
        time.sleep(seconds)
        return (self.total - first) * 8e-6 / (time.monotonic() - begin)

    def close(self) -> None:
        for flow in self._flows:
            flow.shutdown(socket.SHUT_RDWR)
            flow.close()


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


def client(through: str, *options: str, paths: Sequence[str] = NEAR) -> subprocess.Popen[str] | None:
    """The proxy or the tunnel of the near end; none if programs need none here."""
    if through not in ("proxy", "tunnel"):
        return None
    to = ("--to", f"{os.environ['WEFT_PEER']}:{RELAY}", "--pair", "line")
    return start(through, *to, *(word for path in paths for word in ("--path", path)), *options)


def end(process: subprocess.Popen[str] | None) -> None:
    if process:
        process.terminate()
        process.wait()


def links_began() -> float:
    """When the links' time was zero, as `time.monotonic` has it: this program was started then, to 10 ms."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    since_boot = ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)


def lacking(*programs: str) -> str | None:
    """Which of the programs is missing here."""
    return next((program for program in programs if shutil.which(program) is None), None)
