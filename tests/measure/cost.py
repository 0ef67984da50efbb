"""CPU seconds a GB of the proxy and the relay, beside `ssh -D` and a SOCKS server over the kernel's MPTCP.

    python tests/measure/cost.py    # table of the page "How fast the proxy is"; root; some minutes
    python tests/measure/cost.py --flows 1000    # so many connections at once: how soon they are open, and memory
    python tests/measure/cost.py --pipe 300      # so many Mbit/s of datagrams by `weft pipe`: what arrives, and cores

Two namespaces, two links without a limit between them. CPU seconds hold on a busy machine, too; rates do not.
"""

import argparse
import functools
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import machine
import namespaces

PORT = 8000
PIPE_IN, PIPE_OUT = 9000, 9001
DATAGRAM = 1316
_UDP_SEGMENT = 103
SOCKS = 1080
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
NEEDS = {
    "ssh -D, first link": ("ssh", "ssh-keygen", "sshd"),
    "mptcpize run microsocks, both links": ("mptcpize", "microsocks"),
}
"""What a row needs."""
TICKS = os.sysconf("SC_CLK_TCK")
_ASKED = struct.Struct("!cQ")


@functools.cache
def pattern() -> bytes:
    """What `p` sends, over and over."""
    return random.Random(1).randbytes(1_000_003)


def serve() -> None:
    """Sends zeros (`d`) or a pattern (`p`), or takes what comes (`u`), as many bytes as are asked for.

    `k` keeps the connection. Datagrams are sent back.
    """
    zeros = bytes(1 << 18)

    def answer(client: socket.socket) -> None:
        buffer = bytearray(1 << 18)
        with client:
            what, count = _ASKED.unpack(_read(client, _ASKED.size))
            while what == b"d" and count > 0:
                count -= client.send(zeros[:count] if count < len(zeros) else zeros)
            while what == b"u" and count > 0 and (got := client.recv_into(buffer)):
                count -= got
            for at in range(0, count if what == b"p" else 0, len(pattern())):
                client.sendall(pattern()[: count - at])
            if what == b"u":
                client.sendall(b"!")
            if what == b"k":
                client.sendall(bytes(20_000))
                client.recv(1)

    def echo() -> None:
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("", PORT))
        while True:
            datagrams.sendto(*datagrams.recvfrom(2048))

    threading.Thread(target=echo, daemon=True).start()
    server = socket.create_server(("", PORT), backlog=4096)
    while True:
        threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()


def _read(stream: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        got = stream.recv(count - len(data))
        if not got:
            raise OSError("the connection ended")
        data += got
    return data


def connect(proxy: str, host: str) -> socket.socket:
    if not proxy:
        return socket.create_connection((host, PORT))
    stream = socket.create_connection((proxy, SOCKS), timeout=60)
    stream.sendall(b"\5\1\0")
    _read(stream, 2)
    stream.sendall(b"\5\1\0\1" + socket.inet_aton(host) + struct.pack("!H", PORT))
    if _read(stream, 10)[1] != 0:
        raise OSError("the proxy refused")
    return stream


def transfer(proxy: str, host: str, way: str, count: int) -> None:
    """One connection that carries `count` bytes down or up."""
    stream = connect(proxy, host)
    stream.sendall(_ASKED.pack(way.encode(), count))
    buffer = bytearray(1 << 18)
    left = count
    while way == "d" and left > 0:
        got = stream.recv_into(buffer)
        if not got:
            raise OSError("the connection ended")
        left -= got
    if way == "u":
        while left > 0:
            left -= stream.send(buffer[: min(left, len(buffer))])
        _read(stream, 1)


def keep(proxy: str, host: str, count: int) -> None:
    """Opens so many connections one after the other and keeps them: half of them read what comes."""
    begin = time.monotonic()
    flows = [connect(proxy, host) for _ in range(count)]
    print(f"{count} connections are open after {time.monotonic() - begin:.2f} s", flush=True)
    for flow in flows:
        flow.sendall(_ASKED.pack(b"k", 0))
    for flow in flows[::2]:
        _read(flow, 20_000)
    print(f"{count // 2} have read their 20 kB after {time.monotonic() - begin:.2f} s", flush=True)
    sys.stdin.read()


def family(pid: int) -> list[int]:
    """A process and those that it started, as far as they run."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """What these processes took, with what they started; ended children count where they were waited for."""
    total = 0
    for member in (member for pid in pids for member in family(pid)):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11:15])
    return total / TICKS


def memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


Ends = tuple[list[int], list[int]]
"""The processes at the near end and at the far one."""


class Bench:
    """Both namespaces with the server; what is measured is started between."""

    def __init__(self, lab: namespaces.Lab) -> None:
        self.lab = lab
        self.server = lab.start(lab.far, sys.executable, __file__, "serve")

    def weft(self) -> Ends:
        lab = self.lab
        line = lab.run(lab.far, *machine.WEFT, "pair", "--identity", "me").stdout
        (lab.folder / "line").write_text(line)
        relay = lab.weft(lab.far, "relay", "--listen", "4433", "--identity", "me", "--allow", "203.0.113.0/24")
        _until(relay, "listening")
        to = ("--to", "10.9.1.2:4433", "--pair", "line")
        proxy = lab.weft(lab.near, "proxy", *to, "--path", "near1", "--path", "near2")
        _until(proxy, "connected")
        return [_only(proxy)], [_only(relay)]

    def ssh(self) -> Ends:
        lab, folder = self.lab, self.lab.folder
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name], cwd=folder, check=True)
        (folder / "keys").write_text((folder / "user.pub").read_text())
        Path("/run/sshd").mkdir(exist_ok=True)
        options = (f"HostKey={folder}/host", f"AuthorizedKeysFile={folder}/keys", "StrictModes=no", "UsePAM=no")
        words = [word for option in (*options, "PermitRootLogin=yes") for word in ("-o", option)]
        server = lab.start(lab.far, "/usr/sbin/sshd", "-D", "-f", "/dev/null", "-p", "2222", *words)
        known = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")
        time.sleep(0.5)
        client = lab.start(lab.near, "ssh", *known, "-i", "user", "-p", "2222", "-N", "-D", str(SOCKS), "root@10.9.1.2")
        self._until_open("127.0.0.1")
        return [_only(client)], [_only(server)]

    def mptcp(self) -> Ends:
        lab = self.lab
        for where, words in (
            (lab.far, "endpoint add 10.9.2.2 dev far2 signal"),
            (lab.near, "endpoint add 10.9.2.1 dev near2 subflow"),
            (lab.far, "limits set subflows 2 add_addr_accepted 2"),
            (lab.near, "limits set subflows 2 add_addr_accepted 2"),
        ):
            subprocess.run(["ip", "-n", where, "mptcp", *words.split()], check=True)
        server = lab.start(lab.far, "mptcpize", "run", "microsocks", "-p", str(SOCKS))
        self._until_open("10.9.1.2")
        return [], [_only(server)]

    def _until_open(self, host: str) -> None:
        connecting = f"socket.create_connection(('{host}', {SOCKS})); sys.exit()"
        text = f"import socket, sys, time\nfor _ in range(100):\n  try: {connecting}\n"
        self.lab.python(self.lab.near, text + "  except OSError: time.sleep(0.1)\nsys.exit(1)")

    def cost(self, ours: Ends, proxy: str, host: str, way: str, count: int, *before: str) -> list[float]:
        """CPU seconds a GB: at this end, at the other one, and of the programs at both ends."""
        pids = [*ours, [_only(self.server)]]
        taken = [cpu_seconds(group) for group in pids]
        times = os.times()
        done = self.lab.run(self.lab.near, *before, sys.executable, __file__, "transfer", proxy, host, way, str(count))
        if done.returncode != 0:
            sys.exit(done.stderr)
        after = os.times()
        program = after.children_user + after.children_system - times.children_user - times.children_system
        near, far, server = (cpu_seconds(group) - at for group, at in zip(pids, taken, strict=True))
        return [part / (count / 1e9) for part in (near, far, server + program)]


def _until(process: subprocess.Popen[str], word: str, said: list[str] | None = None) -> None:
    """Until the process says so. What it says goes to `said`, now and later."""
    assert process.stderr
    said = [] if said is None else said
    for line in process.stderr:
        said.append(line)
        if word in line:
            break
    threading.Thread(target=said.extend, args=(process.stderr,), daemon=True).start()


def _only(process: subprocess.Popen[str]) -> int:
    """`ip netns exec` becomes the program that it starts."""
    return process.pid


def table(gigabytes: float) -> None:
    kinds: dict[str, tuple[Callable[[Bench], Ends], str, str, tuple[str, ...]]] = {
        "no proxy, first link": (lambda _: ([], []), "", "10.9.1.2", ()),
        "weft proxy, both links": (Bench.weft, "127.0.0.1", namespaces.SERVER[4], ()),
        "ssh -D, first link": (Bench.ssh, "127.0.0.1", namespaces.SERVER[4], ()),
        "mptcpize run microsocks, both links": (Bench.mptcp, "10.9.1.2", namespaces.SERVER[4], ("mptcpize", "run")),
    }
    count = int(gigabytes * 1e9)
    print(f"{'CPU seconds a GB':38}{'way':>5}{'client':>9}{'relay':>9}{'programs':>9}")
    for name, (start, proxy, host, before) in kinds.items():
        if missing := [program for program in NEEDS.get(name, ()) if shutil.which(program, path=PATH) is None]:
            print(f"{name:38} left out: {', '.join(missing)} not found")
            continue
        with tempfile.TemporaryDirectory() as folder, namespaces.lab(Path(folder)) as lab:
            bench = Bench(lab)
            time.sleep(0.5)
            ours = start(bench)
            for way in "du":
                costs = bench.cost(ours, proxy, host, way, count, *before)
                print(
                    f"{name:38}{ {'d': 'down', 'u': 'up'}[way]:>5}{costs[0]:9.2f}{costs[1]:9.2f}{costs[2]:10.2f}",
                    flush=True,
                )


def many(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder, namespaces.lab(Path(folder)) as lab:
        bench = Bench(lab)
        time.sleep(0.5)
        (near,), (far,) = bench.weft()
        before = cpu_seconds([near]), cpu_seconds([far])
        words = (sys.executable, __file__, "keep", "127.0.0.1", namespaces.SERVER[4], str(count))
        command = ["ip", "netns", "exec", lab.near, *words]
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert program.stdout and program.stdin
        for _ in range(2):
            print(program.stdout.readline().strip())
        for name, pid, taken in (("proxy", near, before[0]), ("relay", far, before[1])):
            print(f"{name}: {memory_mb(pid):.1f} MB, {cpu_seconds([pid]) - taken:.2f} CPU seconds")
        program.stdin.close()
        program.wait()


def flood(mbps: float, seconds: float) -> None:
    """Sends datagrams at a rate, those of a millisecond at once; the kernel divides what it is given."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_UDP, _UDP_SEGMENT, DATAGRAM)
    sender.connect(("127.0.0.1", PIPE_IN))
    zeros, begin, sent = bytes(DATAGRAM * 49), time.monotonic(), 0
    while (now := time.monotonic() - begin) < seconds:
        due = int(now * mbps * 1e6 / 8 / DATAGRAM)
        while sent < due:
            count = min(due - sent, 49)
            sender.send(zeros[: count * DATAGRAM])
            sent += count
        time.sleep(0.001)
    print(sent)


def datagrams(mbps: float, seconds: float, scheduler: str) -> None:
    """What of so many Mbit/s arrives, and the cores that each end takes."""
    if shutil.which("nft", path=PATH) is None:
        sys.exit("left out: nft not found")
    with tempfile.TemporaryDirectory() as folder, namespaces.lab(Path(folder)) as lab:
        line = lab.run(lab.far, *machine.WEFT, "pair", "--identity", "me").stdout
        (lab.folder / "line").write_text(line)
        to = f"{namespaces.SERVER[4]}:{PIPE_OUT}"
        words = ("--scheduler", scheduler)
        relay = lab.weft(lab.far, "relay", "--listen", "4433", "--identity", "me", "--allow-pipe", to, *words)
        _until(relay, "listening")
        ends = ("--listen", f"udp://127.0.0.1:{PIPE_IN}", "--deliver", f"udp://{to}")
        paths = ("--path", "near1", "--path", "near2")
        pipe = lab.weft(lab.near, "pipe", "--to", "10.9.1.2:4433", "--pair", "line", *ends, *paths, *words)
        _until(pipe, "connected")
        # The kernel counts what arrives, and this socket never reads it: that costs nothing here.
        bound = (
            f"import socket, time\ns = socket.socket(type=socket.SOCK_DGRAM)\ns.bind(('', {PIPE_OUT}))\ntime.sleep(999)"
        )
        lab.start(lab.far, sys.executable, "-c", bound)
        rules = "add table inet n; add counter inet n c; add chain inet n in { type filter hook input priority 0; }"
        rules += f"; add rule inet n in udp dport {PIPE_OUT} counter name c"
        lab.run(lab.far, "nft", rules)
        time.sleep(1)
        before = [cpu_seconds([_only(end)]) for end in (pipe, relay)]
        told = lab.run(lab.near, sys.executable, __file__, "flood", str(mbps), str(seconds))
        time.sleep(0.5)
        near, far = (cpu_seconds([_only(end)]) - at for end, at in zip((pipe, relay), before, strict=True))
        sent, counted = int(told.stdout), lab.run(lab.far, "nft", "list counters").stdout.split()
        came = int(counted[counted.index("packets") + 1])
        full = lab.run(lab.near, "cat", "/proc/net/snmp").stdout.split("Udp:")[2].split()[4]
        print(
            f"{mbps:.0f} Mbit/s, {scheduler}: {sent} sent ({sent * DATAGRAM * 8e-6 / seconds:.0f} Mbit/s), "
            f"{100 * came / sent:.3f} % arrived, {full} found the pipe's socket full; "
            f"{near / seconds:.2f} cores at the pipe, {far / seconds:.2f} at the relay",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("role", nargs="?", choices=("serve", "transfer", "keep", "flood"), help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="How much goes each way.")
    parser.add_argument("--pipe", type=float, metavar="MBPS", help="So much of datagrams, in place of the table.")
    parser.add_argument("--seconds", type=float, default=10, help="So long datagrams are sent.")
    parser.add_argument("--scheduler", default="deadline", help="That of the pipe.")
    parser.add_argument("--flows", type=int, help="So many connections at once, in place of the table.")
    args = parser.parse_args()
    match args.role:
        case "serve":
            serve()
        case "transfer":
            proxy, host, way, count = args.rest
            transfer(proxy, host, way, int(count))
        case "keep":
            proxy, host, count = args.rest
            keep(proxy, host, int(count))
        case "flood":
            flood(*map(float, args.rest))
        case _ if args.pipe:
            datagrams(args.pipe, args.seconds, args.scheduler)
        case _ if args.flows:
            many(args.flows)
        case _:
            table(args.gigabytes)


if __name__ == "__main__":
    main()
