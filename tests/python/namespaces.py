"""Two network namespaces of a test's own, and two links between them: a tunnel in one, a relay in the other."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import machine

SERVER = {4: "203.0.113.9", 6: "2001:db8:9::9"}
"""The far namespace's address behind the relay."""


def lacking() -> str | None:
    """Why there are no tunnels here."""
    if os.geteuid() != 0:
        return "it needs root"
    if shutil.which("ip") is None:
        return "it needs the command `ip`"
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}"
    name = f"weft-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return made.stderr.strip()
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return None


_WHY = lacking()
tunnels = pytest.mark.skipif(_WHY is not None, reason=f"no tunnels here: {_WHY}")


@dataclass
class Lab:
    """Both namespaces, and what runs in them."""

    near: str
    far: str
    folder: Path
    _running: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, where: str, *words: str | Path) -> subprocess.Popen[str]:
        """Starts a program."""
        command = ["ip", "netns", "exec", where, *map(str, words)]
        pipe = subprocess.PIPE
        self._running.append(subprocess.Popen(command, cwd=self.folder, stdout=pipe, stderr=pipe, text=True))
        return self._running[-1]

    def weft(self, where: str, *words: str | Path) -> subprocess.Popen[str]:
        """Starts the command."""
        return self.start(where, *machine.WEFT, *words)

    def run(self, where: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs a program."""
        command = ["ip", "netns", "exec", where, *map(str, words)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)

    def python(self, where: str, text: str, *words: str) -> str:
        """Output of a few lines of Python."""
        done = self.run(where, sys.executable, "-c", text, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def routes(self) -> str:
        """All routes and rules of the near namespace, and its filters of sources."""
        listing = [self.run(self.near, "ip", family, *what).stdout for family in ("-4", "-6") for what in _LISTS]
        filters = (
            "import glob\nfor f in sorted(glob.glob('/proc/sys/net/ipv4/conf/*/rp_filter')): print(f, open(f).read())"
        )
        return "\n".join([*listing, self.python(self.near, filters)])

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.communicate()
        with suppress(OSError):
            # What a tunnel that was killed has left goes with the namespace.
            inode = Path(f"/run/netns/{self.near}").stat().st_ino
            Path(f"/run/weftway/tunnel-{inode}.json").unlink(missing_ok=True)
        for name in (self.near, self.far):
            subprocess.run(["ip", "netns", "delete", name], check=False)


_LISTS = (["rule"], ["route", "show", "table", "all"])


@contextmanager
def lab(folder: Path) -> Iterator[Lab]:
    """The near end has a default route to the far one, by which it reaches the server without a tunnel."""
    made = Lab(f"weft-near-{os.getpid()}", f"weft-far-{os.getpid()}", folder)
    near, far = made.near, made.far
    script = f"""
set -eu
ip netns add {near}; ip netns add {far}
for name in {near} {far}; do ip -n $name link set lo up; done
for at in 1 2; do
    ip -n {near} link add near$at type veth peer name far$at netns {far}
    ip -n {near} link set near$at addrgenmode none; ip -n {far} link set far$at addrgenmode none
    ip -n {near} address add 10.9.$at.1/24 dev near$at; ip -n {near} link set near$at up
    ip -n {far} address add 10.9.$at.2/24 dev far$at; ip -n {far} link set far$at up
    ip -n {near} address add fd09:$at::1/64 dev near$at nodad
    ip -n {far} address add fd09:$at::2/64 dev far$at nodad
done
ip -n {far} address add {SERVER[4]}/32 dev lo
ip -n {far} address add {SERVER[6]}/128 dev lo
ip -n {near} route add default via 10.9.1.2
ip -n {near} -6 route add default via fd09:1::2
"""
    try:
        subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True)
        yield made
    finally:
        made.close()
