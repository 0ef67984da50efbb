"""Every command of the README runs as written, with fewer runs of each where it would take minutes."""

import re
import shutil
import sys
from pathlib import Path

import pytest

import machine
import pages
from ends import port
from test_measured import LINUX, iperf
from weftway.scenario import HOME

SMALLER = (
    (r"--cells \d+", "--cells 1"),
    # A cell of one link without loss. Others are run up to 29 times, while their median is not known well enough.
    (r"(weft fidelity .*--seed) \d+", r"\1 50"),
    (r"--seeds \d+\.\.\d+", "--seeds 0..1"),
    (r"(weft rank .*--seeds) 0\.\.1", r"\1 0..2"),
    # Figures of all schedulers take a minute, and a class in Python a second a run.
    (r"(weft (?:compare|rank) .*--schedulers?) all,(\S+)", r"\1 min-rtt,\2"),
    (r"--figures pdf,tex", "--figures tex"),
    (r"(weft evaluate .*--cc )\S+", r"\1cubic --instances 1"),
    (r"(weft advise \S+)", r"\1 --cells 1 --seeds 0..2"),
    (r"(weft train .*--quick)", r"\1 --steps 2000 --held-out 2 --trials 4"),
    (r"(weft sweep \S+)", r"\1 --seeds 0..1"),
    (r"(iperf3 -c [^']+)", r"\1 -t 2"),
    (r"(weft compare .* --backend sim,kernel)", r"\1 --set workload.bytes=2MB"),
    (r"^\./test .*$", ""),
)
"""What is made smaller: how many runs, how much is sent, and nothing else."""

ONE_MACHINE = (
    (
        r"/weft pair && (.*) --listen 4433\b.*",
        r"/weft pair > line && \1 --once --listen 127.0.0.1:PORT & until [ -s line ]; do sleep 0.1; done",
    ),
    (r"--to \S+ --pair \S+", '--to 127.0.0.1:PORT --pair "$(cat line)"'),
    (r"--path wlan0 --path wwan0.*", "--path 127.0.0.1 --path 127.0.0.2; wait"),
)
"""What makes one machine of the two that a transfer is between; PORT is a free one."""

BLOCKS = [fence for fence in pages.fences((HOME / "README.md").read_text()) if fence.kind == "sh"]


def _name(block: pages.Fence) -> str:
    return "-".join(re.findall(r"\./weft (\w+)", block.text))


def _needs_links(block: pages.Fence) -> bool:
    return bool(re.search(r"weft (emulate|fidelity)|sim,kernel", block.text))


def _follow(block: pages.Fence, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a block in a folder of its own, in which the measurements lie that the README speaks of."""
    for name in ("scenarios", "experiments", "sweeps", "traces"):
        (folder / name).symlink_to(HOME / name)
    (folder / "weft").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m weftway "$@"\n')
    (folder / "weft").chmod(0o755)
    for link in ("wifi", "lte"):
        (folder / f"{link}-ping.txt").write_text(LINUX)
        (folder / f"{link}-iperf3.json").write_text(iperf([29.0, 30.0, 31.0]))
    for fence in pages.fences((HOME / "README.md").read_text()):
        if fence.mark.startswith("file="):
            (folder / fence.mark.removeprefix("file=")).write_text(fence.text)
    text = block.text
    (folder / "photos").mkdir()
    (folder / "photos" / "one.jpg").write_bytes(bytes(range(256)) * 1000)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    # Trains as a reader does, with what JAX compiles optimised: the other tests leave that out.
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    for pattern, small in SMALLER if _needs_links(block) else (*SMALLER, *ONE_MACHINE):
        text = re.sub(pattern, small, text, flags=re.MULTILINE)
    text = text.replace("127.0.0.1:PORT", f"127.0.0.1:{port()}")
    return pages.output(pages.Fence(block.kind, "run", text, block.start, block.end), folder)


@pytest.mark.parametrize("block", [block for block in BLOCKS if not _needs_links(block)], ids=_name)
def test_the_commands_run(block: pages.Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _follow(block, tmp_path, monkeypatch)


@machine.kernel
@machine.emulation
@pytest.mark.realtime
@pytest.mark.parametrize("block", [block for block in BLOCKS if _needs_links(block)], ids=_name)
def test_the_commands_on_the_kernel_run(block: pages.Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing := [name for name in ("mptcpize", "iperf3") if name in block.text and not shutil.which(name)]:
        pytest.skip(f"README runs {' and '.join(missing)}: `apt install {' '.join(missing)}`")
    try:
        assert _follow(block, tmp_path, monkeypatch)
    except AssertionError as error:
        # `weft fidelity` takes no run whose packets were late.
        if late := re.search(r"the kernel ran no cell: 0 of \d+ runs in time", str(error)):
            pytest.skip(f"the machine is too busy: {late[0]}")
        raise


def test_every_command_is_in_a_block() -> None:
    verbs = set(re.findall(r"^\./weft (\w+)", (HOME / "README.md").read_text(), re.MULTILINE))
    assert verbs == {verb for block in BLOCKS for verb in re.findall(r"^\./weft (\w+)", block.text, re.MULTILINE)}
    assert {"compare", "new", "advise", "emulate", "fidelity", "rank", "train", "evaluate", "sweep"} <= verbs
