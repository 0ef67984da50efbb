"""Ten minutes of random faults, while programs fetch data through the proxy and check them, and a voice talks.

Links are cut, interfaces go, an address changes as behind a NAT that was started again, or is gone for a while, relay
and proxy are killed.

    python tests/measure/faults.py               # needs root
    python tests/measure/faults.py --minutes 2 --seed 7
    python tests/measure/faults.py --suspend 60

In the first four minutes relay and proxy are killed in turn, one a minute. Afterwards both live on; their memory is
told each minute. A fetch brings all bytes as they were sent, or ends with an error.
"""

import argparse
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import cost
from cost import _ASKED, SOCKS, connect, memory_mb

import machine
import namespaces

FETCHERS, IDLE = 8, 50
COUNTED = ("fetched", "bytes", "ended with an error", "wrong", "voice sent", "voice heard")
RATE = "40Mbit/s"
LINKS = ("near1", "near2")


class Programs:
    """What runs through the proxy, in threads of one program in the near namespace."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.counts = {
            "fetched": 0,
            "bytes": 0,
            "ended with an error": 0,
            "wrong": 0,
            "voice sent": 0,
            "voice heard": 0,
        }
        self.over = threading.Event()

    def add(self, what: str, count: int = 1) -> None:
        with self.lock:
            self.counts[what] += count

    def fetch(self, seed: int) -> None:
        draw = random.Random(seed)
        while not self.over.is_set():
            count = int(10 ** draw.uniform(3, 6.7))
            try:
                stream = connect("127.0.0.1", namespaces.SERVER[4])
                with stream:
                    stream.settimeout(90)
                    stream.sendall(_ASKED.pack(b"p", count))
                    right = self.check(stream, count)
                self.add("fetched" if right else "wrong")
            except OSError:
                self.add("ended with an error")
                time.sleep(0.2)

    def check(self, stream: socket.socket, count: int) -> bool:
        """Whether so many bytes come as they were sent. One that brings fewer ended with an error."""
        at, pattern = 0, cost.pattern()
        while at < count:
            data = stream.recv(1 << 18)
            if not data:
                raise OSError("it ended too soon")
            place = at % len(pattern)
            wanted = (pattern + pattern)[place : place + len(data)]
            if data != wanted:
                return False
            at += len(data)
            self.add("bytes", len(data))
        return True

    def idle(self) -> None:
        """Connections that are open and do nothing, opened anew when they end."""
        flows: list[socket.socket] = []
        while not self.over.is_set():
            try:
                if len(flows) < IDLE:
                    flows.append(connect("127.0.0.1", namespaces.SERVER[4]))
                    flows[-1].sendall(_ASKED.pack(b"k", 0))
                    continue
                flows = [flow for flow in flows if _is_open(flow)]
            except OSError:
                pass
            time.sleep(0.5)

    def voice(self) -> None:
        while not self.over.is_set():
            try:
                self.talk()
            except OSError:
                time.sleep(0.5)

    def talk(self) -> None:
        with socket.create_connection(("127.0.0.1", SOCKS), timeout=30) as control:
            control.sendall(b"\5\1\0\5\3\0\1" + bytes(6))
            answer = b""
            while len(answer) < 12:
                got = control.recv(12 - len(answer))
                if not got:
                    raise OSError("refused")
                answer += got
            to = (socket.inet_ntoa(answer[6:10]), int.from_bytes(answer[10:12], "big"))
            control.setblocking(False)
            head = b"\0\0\0\1" + socket.inet_aton(namespaces.SERVER[4]) + struct.pack("!H", cost.PORT)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as voice:
                voice.setblocking(False)
                while not self.over.is_set() and _is_open(control):
                    voice.sendto(head + bytes(160), to)
                    self.add("voice sent")
                    time.sleep(0.02)
                    try:
                        while voice.recv(2048):
                            self.add("voice heard")
                    except BlockingIOError:
                        pass

    def run(self) -> None:
        """Until standard input ends; counts on standard output each time that a line comes."""
        threads = [threading.Thread(target=self.fetch, args=(seed,)) for seed in range(FETCHERS)]
        threads += [threading.Thread(target=self.idle), threading.Thread(target=self.voice)]
        for thread in threads:
            thread.start()
        for _ in sys.stdin:
            with self.lock:
                print(self.counts, flush=True)
        self.over.set()
        for thread in threads:
            thread.join(timeout=120)
        print(self.counts, "stuck:", sum(thread.is_alive() for thread in threads), flush=True)


def _is_open(flow: socket.socket) -> bool:
    try:
        flow.setblocking(False)
        return flow.recv(1 << 16) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


class Lab:
    """What is broken, and put right again."""

    def __init__(self, lab: namespaces.Lab, seed: int) -> None:
        self.lab, self.draw = lab, random.Random(seed)
        self.line = lab.run(lab.far, *machine.WEFT, "pair", "--identity", "me").stdout
        (lab.folder / "line").write_text(self.line)
        self.server = lab.start(lab.far, sys.executable, cost.__file__, "serve")
        # A second address does not go with the first one.
        lab.run(lab.near, "sysctl", "-w", "net.ipv4.conf.near2.promote_secondaries=1")
        self.said: list[str] = []
        """What both have told."""
        self.relay = self.start_relay()
        self.proxy = self.start_proxy()
        self.host = 1

    def start_relay(self) -> subprocess.Popen[str]:
        words = (
            "relay",
            "--listen",
            "4433",
            "--identity",
            "me",
            "--allow",
            "203.0.113.0/24",
            "--client",
            f"rate={RATE}",
        )
        return self.started(self.lab.weft(self.lab.far, *words), "listening")

    def start_proxy(self) -> subprocess.Popen[str]:
        paths = [word for link in LINKS for word in ("--path", link)]
        words = ("proxy", "--to", "10.9.1.2:4433", "--pair", "line", *paths)
        return self.started(self.lab.weft(self.lab.near, *words), "connected")

    def started(self, process: subprocess.Popen[str], word: str) -> subprocess.Popen[str]:
        cost._until(process, word, self.said)
        return process

    def check(self) -> None:
        """Neither end may have ended by itself."""
        for name, end in (("proxy", self.proxy), ("relay", self.relay)):
            if end.poll() is not None:
                sys.exit(f"the {name} ended with status {end.returncode}: {self.said[-5:]}")

    def ip(self, where: str, *words: str) -> None:
        subprocess.run(["ip", "-n", where, *words], check=False, stderr=subprocess.DEVNULL)

    def cut(self) -> str:
        """Nothing goes over a link for a while: the other end's interface is down."""
        at, seconds = self.draw.choice("12"), self.draw.uniform(0.5, 8)
        self.ip(self.lab.far, "link", "set", f"far{at}", "down")
        time.sleep(seconds)
        self.ip(self.lab.far, "link", "set", f"far{at}", "up")
        return f"link {at} cut for {seconds:.1f} s"

    def take_interface(self) -> str:
        """An interface of this end is down for a while."""
        at, seconds = self.draw.choice("12"), self.draw.uniform(0.5, 8)
        self.ip(self.lab.near, "link", "set", f"near{at}", "down")
        time.sleep(seconds)
        self.ip(self.lab.near, "link", "set", f"near{at}", "up")
        self.ip(self.lab.near, "route", "replace", "default", "via", "10.9.1.2")
        return f"interface near{at} down for {seconds:.1f} s"

    def cut_both(self) -> str:
        seconds = self.draw.uniform(0.5, 4)
        for state in ("down", "up"):
            for at in "12":
                self.ip(self.lab.far, "link", "set", f"far{at}", state)
            time.sleep(seconds if state == "down" else 0)
        return f"both links cut for {seconds:.1f} s"

    def rebind(self) -> str:
        """The second link has another address at this end: to the relay that is a NAT that forgot its mapping."""
        before = f"10.9.2.{self.host}/24"
        self.host = 10 + (self.host + 1) % 200
        self.ip(self.lab.near, "address", "add", f"10.9.2.{self.host}/24", "dev", "near2")
        self.ip(self.lab.near, "address", "del", before, "dev", "near2")
        return f"the address of link 2 is 10.9.2.{self.host}"

    def lose_address(self) -> str:
        """The second interface has no address for a while, twice: its packets then have that of the first one."""
        seconds = self.draw.uniform(0.02, 1.5)
        for _ in range(2):
            self.ip(self.lab.near, "address", "del", f"10.9.2.{self.host}/24", "dev", "near2")
            time.sleep(seconds)
            self.host = 10 + (self.host + 1) % 200
            self.ip(self.lab.near, "address", "add", f"10.9.2.{self.host}/24", "dev", "near2")
        return f"interface near2 without an address for {seconds:.1f} s, twice; now 10.9.2.{self.host}"

    def fill_conntrack(self) -> str:
        """The far machine has no room for new connections: what is under way goes on."""
        seconds = self.draw.uniform(0.5, 8)
        self.nft("add rule inet full out ct state new drop")
        time.sleep(seconds)
        self.nft("flush chain inet full out")
        self.nft("add rule inet full out ct state new accept")
        return f"no new connections of the relay for {seconds:.1f} s, as with a full conntrack"

    def nft(self, rules: str) -> bool:
        command = ["ip", "netns", "exec", self.lab.far, "nft", rules]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0

    def tracks(self) -> bool:
        """Has the kernel keep track of connections from now on; whether it can."""
        rules = ("add table inet full", "add chain inet full out { type filter hook output priority 0; }")
        return shutil.which("nft") is not None and all(
            self.nft(rule) for rule in (*rules, "add rule inet full out ct state new accept")
        )

    def suspend(self, process: subprocess.Popen[str], seconds: float) -> None:
        """As a laptop that sleeps."""
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def kill_relay(self) -> str:
        self.relay.kill()
        self.relay.wait()
        time.sleep(self.draw.uniform(0, 3))
        self.relay = self.start_relay()
        return "relay killed and started again"

    def kill_proxy(self) -> str:
        self.proxy.kill()
        self.proxy.wait()
        self.proxy = self.start_proxy()
        return "proxy killed and started again"

    def memory(self) -> str:
        return f"proxy {memory_mb(self.proxy.pid):.1f} MB, relay {memory_mb(self.relay.pid):.1f} MB"


def measure(minutes: float, seed: int, kills_too: bool) -> int:
    with tempfile.TemporaryDirectory() as folder, namespaces.lab(Path(folder)) as made:
        lab = Lab(made, seed)
        programs = started_programs(made)
        begin, told, kills = time.monotonic(), 0, [lab.kill_relay, lab.kill_proxy] * (2 if kills_too else 0)
        faults = [lab.cut, lab.cut, lab.take_interface, lab.rebind, lab.rebind, lab.lose_address, lab.cut_both]
        faults += [lab.fill_conntrack] if lab.tracks() else []
        while (now := time.monotonic() - begin) < minutes * 60:
            what = lab.draw.choice(faults)()
            lab.check()
            print(f"{now:5.0f} s  {what}", flush=True)
            if now // 60 > told:
                told = int(now // 60)
                print(f"{told} min  {lab.memory()}  {asked(programs)}", flush=True)
                if kills:
                    print(f"{now:5.0f} s  {kills.pop(0)()}", flush=True)
            time.sleep(lab.draw.uniform(0.5, 5))
        print(lab.memory())
        return ended(programs)


def suspend(seconds: float, seed: int) -> int:
    """The proxy sleeps, then the relay, each for so long, while programs fetch."""
    with tempfile.TemporaryDirectory() as folder, namespaces.lab(Path(folder)) as made:
        lab = Lab(made, seed)
        programs = started_programs(made)
        for name in ("nobody", "proxy", "relay"):
            if name != "nobody":
                lab.suspend(lab.proxy if name == "proxy" else lab.relay, seconds)
            time.sleep(20)
            lab.check()
            print(f"{name} slept for {seconds:.0f} s; 20 s later  {asked(programs)}", flush=True)
        print("told:", *(line.strip() for line in lab.said[4:]), sep="\n    ")
        return ended(programs)


def started_programs(made: namespaces.Lab) -> subprocess.Popen[str]:
    command = ["ip", "netns", "exec", made.near, sys.executable, __file__, "programs"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def asked(programs: subprocess.Popen[str]) -> str:
    """What the programs have counted."""
    assert programs.stdin and programs.stdout
    programs.stdin.write("\n")
    programs.stdin.flush()
    return programs.stdout.readline().strip()


def ended(programs: subprocess.Popen[str]) -> int:
    assert programs.stdin and programs.stdout
    programs.stdin.close()
    print(f"end  {programs.stdout.read().strip()}")
    return programs.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("role", nargs="?", choices=("programs",), help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--no-kills", action="store_true", help="Relay and proxy live all the time.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--suspend", type=float, help="Proxy and relay sleep for so many seconds, and nothing else.")
    args = parser.parse_args()
    if args.role:
        Programs().run()
    elif args.suspend:
        sys.exit(suspend(args.suspend, args.seed))
    else:
        sys.exit(measure(args.minutes, args.seed, not args.no_kills))


if __name__ == "__main__":
    main()
