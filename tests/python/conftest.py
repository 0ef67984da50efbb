"""Fixtures that the tests of the package share: a small scenario, and the command as a person runs it."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest

import machine
from ends import Bottleneck, Narrow, Start
from weftway.cli import main
from weftway.runs import link_program
from weftway.sample import distribution

# What is started by nohup, or by a shell in the background, ignores signals, and so would every command under test.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests of training compile many programs and run each for a moment: optimisation costs more than it gains, LLVM's
# as well as that which joins operations. A flag that JAX does not know ends the process.
XLA_FLAGS = ["--xla_backend_optimization_level=0"]
if find_spec("jax") and tuple(map(int, version("jax").split(".")[:2])) < (0, 11):
    XLA_FLAGS.append("--xla_cpu_use_fusion_emitters=false")
# Test processes beside one another have a core each; JAX would start a thread per core in every one of them.
if "PYTEST_XDIST_WORKER" in os.environ:
    XLA_FLAGS.append("--xla_cpu_multi_thread_eigen=false")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", " ".join(XLA_FLAGS))

# What JAX has compiled serves the other processes of this run as well: the workers, and what the tests start.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _compiled = tempfile.TemporaryDirectory(prefix="weftway-jax-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _compiled.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# Programs under test are killed, and the sockets that they had for `weft top` are left.
_runtime = tempfile.TemporaryDirectory(prefix="weftway-")
os.environ["XDG_RUNTIME_DIR"] = _runtime.name

RANDOM_PATHS = """\
[path.a]
rate = { from = "2 Mbit/s", to = "10 Mbit/s" }
delay = { from = "5 ms", to = "20 ms" }

[path.b]
rate = { from = "2 Mbit/s", to = "10 Mbit/s" }
delay = { from = "20 ms", to = "60 ms" }
"""
"""Two paths of a distribution."""

SMALL_LOADS = """\
[[workload]]
kind = "bulk"
bytes = "100 kB"

[[workload]]
kind = "messages"
size = "1 kB"
load = "20 %"
count = 30
"""
"""Workloads of a distribution whose runs take a moment."""

SMALL = """\
title = "Two small paths"
transport = "mptcp"
scheduler = ["min-rtt", "round-robin"]
cc = "newreno"
seeds = "0..2"

[path.wifi]
rate = "10 Mbit/s"
delay = "10 ms"
loss = "1 %"
queue = "50 packets"

[path.lte]
rate = "5 Mbit/s"
delay = "30 ms"
queue = "50 packets"

[workload]
kind = "bulk"
bytes = "300 kB"
"""

# How long an example takes depends on what runs beside it.
hypothesis.settings.register_profile("weftway", deadline=None)
hypothesis.settings.load_profile("weftway")


LONG = ("test_examples.py", "test_new.py", "test_readme.py", "test_train_stsgat.py")
"""Files of which one test takes longer than most files. They come first: nobody waits for them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest first. What needs emulated links or runs of the kernel runs on the real clock."""
    items.sort(key=lambda item: item.path.name not in LONG)
    needs = (machine.emulation.mark, machine.kernel.mark)
    for item in items:
        if any(mark in needs for mark in item.iter_markers("skipif")):
            item.add_marker(pytest.mark.realtime)


Weft = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A scenario whose runs take a moment."""
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return file


@pytest.fixture
def weft(tmp_path: Path) -> Weft:
    """The command, in a folder of its own."""

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "weftway", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture
def weft_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Weft:
    """The command in this process, which saves its start: for tables of what it refuses."""

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        command = ["weft", *map(str, words)]
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", command)
        if words and words[0] in link_program.VERBS:
            link = link_program.program()
            return subprocess.run(command, executable=link, capture_output=True, text=True, timeout=120)
        capsys.readouterr()
        status = 0
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(command, status, captured.out, captured.err)

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the command, and ends it after the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str | Path) -> subprocess.Popen[str]:
        command = [*machine.WEFT, *map(str, words)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def narrow() -> Iterator[Narrow]:
    """Puts a bottleneck before an end: only so much of a transfer is over before the test opens it."""
    with contextlib.ExitStack() as opened:
        yield lambda server: opened.enter_context(contextlib.closing(Bottleneck(server)))


@pytest.fixture
def short(tmp_path: Path) -> str:
    """The distribution `mpquic-pair` with a tenth of the bytes: of a tiny training nine tenths of the time are spent on
    measuring it, over whole transfers."""
    text = (distribution.FOLDER / "mpquic-pair.toml").read_text()
    shorter = text.replace('{ from = "2 MB", to = "10 MB" }', '{ from = "200 kB", to = "1000 kB" }')
    assert shorter != text
    (tmp_path / "short.toml").write_text(shorter)
    return str(tmp_path / "short.toml")


@pytest.fixture
def line(weft: Weft) -> str:
    """The pairing line of an identity in the file `me`."""
    return weft("pair", "--identity", "me").stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a few files."""
    made = tmp_path / "photos"
    (made / "2024").mkdir(parents=True)
    (made / "2024" / "a").write_bytes(random.Random(1).randbytes(3_000_000))
    (made / "ü").write_text("short")
    (made / "empty").touch()
    return made
