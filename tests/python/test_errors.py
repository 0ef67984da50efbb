"""Errors from outside: full disks, wrong files, folders in place of files. One message, no traceback."""

import errno
import os
import threading
from pathlib import Path

import pytest

import machine
import weftway
from conftest import Weft
from weftway import ScenarioError, SimulationError, __main__, cli
from weftway.runs import store

CLASSES = """\
class First:
    def select(self, cx):
        return None


class Second(First):
    pass


class Helper:
    pass
"""

A_FOLDER = 'path.lte={trace={down="folder"}}'

A_DEVICE = 'path.lte={trace={down="/dev/null"}}'

WRONG_FILES = {
    "a missing file": (["compare", "nowhere.toml"], "there is no file `nowhere.toml` in "),
    "an unknown name": (["compare", "nowhere"], "no scenario is called `nowhere`"),
    "a folder as a scenario": (["compare", "."], "a folder, where a scenario file is expected"),
    "a binary file as a scenario": (["compare", "binary.toml"], "valid UTF-8"),
    "a binary file as a grid": (["sweep", "binary.toml", "--out", "out"], "it is not UTF-8"),
    "a binary file as a distribution": (["evaluate", "ecf", "--on", "binary.toml"], "it is not UTF-8"),
    "a folder as a trace": (["compare", "small.toml", "--set", A_FOLDER], "a folder, where a trace file is expected"),
    "a device as a trace": (["compare", "small.toml", "--set", A_DEVICE], "a device or a pipe, where a trace file is"),
    "a table that is none": (["compare", "small.toml", "--set", "path.lte=5"], "expected a table, found the number 5"),
    "a file that never ends as a scenario": (["compare", "/dev/zero"], "it has more than 256 MB"),
    "a file that never ends as a grid": (["sweep", "/dev/zero", "--out", "out"], "it has more than 256 MB"),
    "too many seeds": (["run", "small.toml", "--set", 'seeds="0..18446744073709551615"'], "at most 1000000 seeds"),
    "too many threads": (["compare", "small.toml", "--jobs", "9" * 30], "is not in the range 1<=x<=1024"),
    "too many instances": (["evaluate", "dqn", "--on", "phone", "--instances", "9" * 30], "is not in the range"),
    "a file without its class": (["compare", "small.toml", "--scheduler", "r.py"], "r.py:First or r.py:Second"),
    "a class that is not there": (["compare", "small.toml", "--scheduler", "r.py:Third"], "it has First, Second"),
    "a rule in no file": (["compare", "small.toml", "--scheduler", "none.py"], "there is no such file"),
    "a file for --out": (["compare", "small.toml", "--out", "r.py"], "r.py is a file"),
    "a class in no file": (["compare", "small.toml", "--scheduler", "none.py:X"], "there is no such file in /"),
    "a folder that cannot be made": (["compare", "small.toml", "--out", "/proc/x"], "/proc/x: "),
    "a folder that takes no file": (["compare", "small.toml", "--out", "/proc"], "/proc: "),
    "a book's folder that cannot be made": (["reproduce", "lubna-2022/table1", "--book", "/proc/x"], "/proc/x: "),
    "a ranking's folder that cannot be made": (["rank", "--on", "small.toml", "--out", "/proc/x"], "/proc/x: "),
    "two scenarios": (["compare", "small.toml", "other.toml"], "takes one scenario, and `other.toml` is one more"),
    "a seed below zero": (["run", "small.toml", "--seed", "-1"], "seed -1: a seed is a number from 0 to 2^64 - 1"),
    "an algorithm of one's own": (["train", "ppo"], "one of your own is trained as examples/ppo.py does it"),
    "a program that is none": (["service", "proxi"], "not proxi; did you mean `proxy`?"),
    "a price of a link": (["new", "scenario", "x", "lte.price=4 /GB"], "as `price` under [path.lte]"),
    "no bytes": (["run", "small.toml", "--set", "workload.bytes=0 MB"], "`bytes` must be more than zero"),
    "a key of a path": (["run", "small.toml", "--set", "loss=2%"], "did you mean `path.wifi.loss` or `path.lte.loss`?"),
    "a buffer of a byte": (
        ["run", "small.toml", "--set", "options.receive_buffer=1 B"],
        "the payload of a packet, 1428 B, does not fit into a `receive_buffer` of 1 B",
    ),
    "an unknown thing to list": (["list", "eccf"], "did you mean `ecf`?"),
    "an unknown part to measure": (["bench", "--only", "moon"], "there is simulator, decisions, learned"),
}


@pytest.mark.parametrize(("words", "hint"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_wrong_file_is_one_message_and_status_2(
    weft_here: Weft, small: Path, tmp_path: Path, words: list[str], hint: str
) -> None:
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    (tmp_path / "folder").mkdir()
    (tmp_path / "r.py").write_text(CLASSES)
    done = weft_here(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr


def test_a_full_disk_names_the_file_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    file = tmp_path / "rows" / "rows.parquet"
    with pytest.raises(OSError, match="No space") as raised, store.whole(file) as half:
        half.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(file))
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize("option", ["--events", "--perfetto"])
def test_a_pipe_is_written_to_and_of_a_link_what_it_leads_to(
    weft_here: Weft, small: Path, tmp_path: Path, option: str
) -> None:
    """A device, as `/dev/stdout`, would be replaced by a file for every program of the machine."""
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "folder" / "file"
    os.mkfifo(pipe)
    file.parent.mkdir()
    file.touch()
    link.symlink_to(file)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    read: list[str] = []
    reader.start()
    for place in (pipe, link):
        assert weft_here("run", small, option, place, "--json").returncode == 0
    reader.join(10)
    assert (pipe.is_fifo(), link.is_symlink()) == (True, True)
    assert read == [file.read_text()] != [""]
    assert sorted(file.parent.iterdir()) == [file]


def test_too_many_open_files_are_no_mistake_in_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 2 would keep a service manager from starting it again."""

    def exhausted() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(cli, "app", exhausted)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1


def test_an_interrupt_as_the_last_lines_are_written_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", lambda: None)
    monkeypatch.setattr(cli, "_flush_output", interrupted)
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == 130


def test_what_polars_says_of_a_full_disk_is_understood(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised, store.whole(tmp_path / "x"):
        raise OSError("No space left on device (os error 28)")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tmp_path / "x"))


def test_a_full_disk_ends_every_try_alike(
    weft_here: Weft, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path, data: bytes) -> int:
        with file.open("wb") as half:
            half.write(bytes(data)[:100])
        if len(data) < 100:
            return len(data)  # the trial before the first run
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        for _ in range(2):
            done = weft_here("compare", small, "--out", "out")
            assert (done.returncode, done.stdout) == (1, "")
            (line,) = machine.told(done.stderr)
            assert line.startswith("weft: out/")
            assert line.endswith("No space left on device")
            assert not [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert weft_here("compare", small, "--out", "out").returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output_is_told(small: Path, unbuffered: str) -> None:
    """It is told once, whether Python writes at once or what is left at the end."""
    import os
    import subprocess
    import sys

    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    for words in (["list"], ["run", str(small), "--json"]):
        with Path("/dev/full").open("w") as full:
            command = [sys.executable, "-m", "weftway", *words]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, env=environment)
        assert (done.returncode, done.stderr) == (1, "weft: standard output: No space left on device\n")


SPELT = """\
class Mine:
    def select(self, cx):
        return cx.flow.send_window
"""


def test_an_attribute_that_a_view_has_not_is_told_with_those_that_it_has(small: Path, tmp_path: Path) -> None:
    (tmp_path / "rule.py").write_text(SPELT)
    with pytest.raises(SimulationError, match=r"'send_window'; it has .*\bwindow\b"):
        weftway.run(small, scheduler=f"{tmp_path}/rule.py:Mine")


def test_a_call_with_something_else_says_what_would_be_right(small: Path) -> None:
    class Mine:
        def select(self, cx: object) -> None:
            return None

    with pytest.raises(ScenarioError, match=r"this is an instance; pass the class, `scheduler=Mine`"):
        weftway.compare(small, scheduler=Mine())
    with pytest.raises(ScenarioError, match=r"out=3: `out` is a folder"):
        weftway.compare(small, out=3)  # type: ignore[arg-type]


def test_both_spellings_of_the_option_are_taken(weft_here: Weft, small: Path) -> None:
    done = weft_here("compare", "small.toml", "--schedulers", "ecf", "--seeds", "0..1", "--json")
    assert done.returncode == 0 and '"scheduler": "ecf"' in done.stdout, done.stderr


def test_where_no_run_finishes_that_is_told(weft_here: Weft, small: Path) -> None:
    done = weft_here("compare", "small.toml", "--set", "path.wifi.delay=1000 s", "--set", "path.lte.delay=1000 s")
    assert "warning: no run finished: raise `time_limit`" in done.stderr, done.stderr
