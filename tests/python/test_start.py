"""The blocks of the pages for newcomers that need rights. All others run with `test_docs.py`."""

import re
import shutil
from pathlib import Path

import pytest

import machine
from weftway.scenario import HOME

SMALLER = (
    (r"(iperf3 -c \$WEFT_PEER)", r"\1 -t 2"),
    (r"(weft compare .*) --seeds 0\.\.5", r"\1 --seeds 0..1 --set workload.bytes=2MB"),
    (r"```sh run\n(./weft advise)", r"```sh\n\1"),
)
"""What is made smaller; advice is asked for elsewhere."""


@machine.kernel
@machine.emulation
def test_the_engineers_links_are_emulated_and_run_on_the_kernel(tmp_path: Path) -> None:
    if missing := [name for name in ("mptcpize", "iperf3") if not shutil.which(name)]:
        pytest.skip(f"the page runs {' and '.join(missing)}: `apt install {' '.join(missing)}`")
    text = (HOME / "docs/start/engineer.md").read_text()
    for pattern, small in SMALLER:
        text, count = re.subn(pattern, small, text)
        assert count, pattern
    page = tmp_path / "engineer.md"
    page.write_text(text)
    made, checked = machine.follow(page, tmp_path)
    assert "home.toml: wifi, lte" in made
    # The client's report of the emulated links, the comparison with the kernel's rows, and what is on this machine.
    assert "iperf Done." in checked
    assert "backend = sim, cubic" in checked
    assert "backend = kernel, cubic" in checked
    assert "kernel  MPTCP path manager" in checked
