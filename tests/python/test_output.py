"""Output of the command: into pipes that are closed, in encodings that lack characters, into files."""

import codecs
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from conftest import Weft
from weftway.commands.output import nearest
from weftway.learn.train import command
from weftway.scenario import HOME
from weftway.terminal import progress
from weftway.terminal.console import PlainConsole

COMMANDS = {
    "compare": ["compare", "small.toml", "--out", "out"],
    "compare, as JSON": ["compare", "small.toml", "--out", "out", "--json"],
    "sweep": ["sweep", "small.toml", "--out", "out"],
    "rank": ["rank", "--on", "small.toml", "--schedulers", "min-rtt,ecf", "--seeds", "0..2", "--out", "out"],
}


def started(words: list[str], folder: Path, **others: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "weftway", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, **others)  # type: ignore[call-overload, no-any-return]


def test_a_closed_pipe_costs_no_file_and_ends_quietly(small: Path, tmp_path: Path) -> None:
    running = []
    for name, words in COMMANDS.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "small.toml").write_text(small.read_text())
        process = started(words, folder, stderr=subprocess.PIPE)
        assert process.stdout
        process.stdout.close()
        running.append((folder, process))
    for folder, process in running:
        assert process.stderr
        errors = process.stderr.read().decode()
        assert process.wait(60) == 141, errors
        assert "Traceback" not in errors
        assert {"report.html", "rows.parquet"} <= {file.name for file in (folder / "out").iterdir()}, folder.name


def test_a_line_that_an_interrupt_cuts_off_is_not_written_again() -> None:
    class InterruptedAfterWriting(io.StringIO):
        def flush(self) -> None:
            if self.getvalue().count("\n") == 1:
                raise KeyboardInterrupt

    file = InterruptedAfterWriting()
    console = PlainConsole(file=file)
    with pytest.raises(KeyboardInterrupt):
        console.print("listening")
    console.print("stopped listening")
    assert file.getvalue() == "listening\nstopped listening\n"


def test_a_failed_run_has_its_own_status_in_a_closed_pipe_too(tmp_path: Path) -> None:
    process = started(["compare", "nowhere.toml"], tmp_path, stderr=subprocess.PIPE)
    assert process.stdout
    process.stdout.close()
    assert process.wait(60) == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_from_the_start_is_no_error(tmp_path: Path, closed: str) -> None:
    for words, status in (("list", 0), ("list nowhere", 2), ("new scenario my", 2)):
        command = f'"{sys.executable}" -m weftway {words} {closed}'
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        assert bool(done.stdout) == (status == 0 and " >" not in f" {closed}"), words
        assert bool(done.stderr) == (status != 0 and "2>" not in closed), words


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_of_few_characters_gets_the_nearest(small: Path, tmp_path: Path, encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    process = started(["compare", "small.toml", "--set", "path.lte.loss=5%"], tmp_path, env=environment)
    text = process.communicate(timeout=60)[0].decode(encoding)
    assert process.returncode == 0
    assert "min-rtt" in text
    assert ("±" if encoding == "cp1252" else "+-") in text
    assert "?" not in text


def test_names_are_printed_as_they_are(weft_here: Weft, small: Path, tmp_path: Path) -> None:
    """Neither `:Rocket:` nor `[red]` is anything but a name, in a table and in what is said below it."""
    rule = "class Rocket:\n    def select(self, cx):\n        return next(iter(cx.sendable()), None)\n"
    for name in ("emo.py", "[red]x.py"):
        (tmp_path / name).write_text(rule)
    done = weft_here("compare", "small.toml", "--scheduler", "emo.py:Rocket,[red]x.py:Rocket,min-rtt")
    assert "= emo.py:Rocket: " in done.stdout
    assert done.stdout.count("[red]x.py:Rocket") >= 2


def test_all_consoles_are_plain() -> None:
    for file in (HOME / "python/weftway").rglob("*.py"):
        assert file.name == "console.py" or not re.search(r"\bConsole\(", file.read_text()), file


def test_json_loses_nothing_in_any_encoding(small: Path, tmp_path: Path) -> None:
    (tmp_path / "日本.toml").write_text(small.read_text())
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    process = started(["compare", "日本.toml", "--json"], tmp_path, env=environment)
    rows = json.loads(process.communicate(timeout=60)[0].decode("latin-1"))
    assert rows[0]["scenario"] == "日本"


def test_the_nearest_characters() -> None:
    codecs.register_error("nearest-here", nearest)
    for text, expected in (("−3 … é\u2009→ 日", "-3 ... e -> ?"), ("plain", "plain")):
        assert text.encode("ascii", "nearest-here").decode() == expected


def test_lines_say_how_far_it_is_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.02)
    monkeypatch.setattr(progress, "LINE_S", 0.01)
    stream = io.StringIO()
    with progress.Bar(Console(file=stream)) as bar:
        bar.tell(3, 7)
        while stream.getvalue().count("\n") < 2:
            time.sleep(0.01)
    assert "3 of 7 runs finished after 0 s" in stream.getvalue()
    assert all(line.isprintable() for line in stream.getvalue().split("\n")), "no control characters"


@pytest.mark.parametrize(
    ("algorithm", "options", "unit"),
    [
        ("dqn", [], "decisions"),
        ("falcon", [], "decisions"),
        ("pdaa3c", [], "decisions"),
        ("evolved", [], "generations"),
        ("dqn", ["--objective", "completion"], "generations"),
        ("stsgat", [], "epochs"),
        ("stsgat-study", [], "epochs"),
    ],
)
def test_lines_of_a_training_name_what_it_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, algorithm: str, options: list[str], unit: str
) -> None:
    pytest.importorskip("jax", reason="training needs JAX: pip install 'weftway[train]'")
    monkeypatch.setattr(progress, "PATIENCE_S", 0.02)
    monkeypatch.setattr(progress, "LINE_S", 0.01)
    stream = io.StringIO()

    def trained(args: object, tell: Callable[[int, int], None]) -> None:
        tell(3, 7)
        while not stream.getvalue():
            time.sleep(0.01)

    objective, _ = command.objective(algorithm, options)
    monkeypatch.setattr(command.module(algorithm, objective), "train", trained)
    with progress.Bar(Console(file=stream)) as bar:
        command.run(algorithm, [*options, "--out", str(tmp_path)], bar)
    assert f"3 of 7 {unit} finished after " in stream.getvalue()


def test_what_stands_above_the_bar_is_made_anew_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", -1.0)
    monkeypatch.setattr(progress, "REDRAW_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    stream, made = io.StringIO(), iter(["first line", "second line", "third line"])
    with progress.Bar(Console(file=stream, force_terminal=True, width=60), above=lambda: next(made)) as bar:
        bar.tell(1, 3)
        bar.tell(2, 3)
    text = stream.getvalue()
    assert "second line" in text
    assert "2/3" in text
    # The cursor goes up over the two lines, and what is there is erased.
    assert text.rstrip().endswith("\x1b[1A\x1b[2K")


def test_what_is_over_at_once_says_nothing() -> None:
    stream = io.StringIO()
    with progress.Bar(Console(file=stream)) as bar:
        bar.tell(7, 7)
    assert stream.getvalue() == ""


MARK = codecs.BOM_UTF8.decode()


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "marked.toml"],
        ["sweep", "marked.toml", "--out", "out"],
        ["rank", "--on", "marked.toml", "--schedulers", "min-rtt,ecf", "--seeds", "0..2"],
        ["compare", "above.toml"],
    ],
)
def test_a_mark_before_a_text_is_read_over(weft_here: Weft, small: Path, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "marked.toml").write_text(MARK + small.read_text(), encoding="utf-8")
    (tmp_path / "above.toml").write_text(f'{MARK}base = "marked.toml"\n', encoding="utf-8")
    done = weft_here(*words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("words", [["compare"], ["run"], ["sweep", "--out=out"], ["rank", "--on"]])
def test_utf_16_is_refused_in_one_line(
    weft_here: Weft, small: Path, tmp_path: Path, words: list[str], encoding: str
) -> None:
    (tmp_path / "wide.toml").write_text(small.read_text(), encoding=encoding)
    done = weft_here(*words, "wide.toml")
    assert done.returncode == 2
    assert "UTF-16" in done.stderr
    assert "save it as UTF-8" in done.stderr
    assert "wide.toml" in done.stderr
    assert "Traceback" not in done.stderr
