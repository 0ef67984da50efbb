"""Both ends of a transfer, as processes of this machine."""

import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

BOTH = ("--path", "127.0.0.1", "--path", "127.0.0.2")
PARTIAL = ".weft-partial"
PATIENCE_S = 60

Start = Callable[..., subprocess.Popen[str]]


def port() -> str:
    """A free port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def same(one: Path, other: Path) -> bool:
    """Whether two trees hold the same files with the same bytes."""

    def held(root: Path) -> dict[str, bytes | None]:
        return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}

    return held(one) == held(other)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    told, complaints = process.communicate(timeout=PATIENCE_S)
    return process.returncode, told, complaints


def partial(target: Path) -> int:
    """Bytes that are partly there."""
    return sum(file.stat().st_size for file in (target / PARTIAL).glob("*.part"))


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)
