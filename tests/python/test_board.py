"""The board: editions that do not drift, three kinds of entry, verification, judgement, sealed sets, the page."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import board as tool
from browser import Browser, needs_browser
from conftest import RANDOM_PATHS, SMALL, SMALL_LOADS, Weft
from weftway import rank
from weftway._native import ScenarioError
from weftway.board import edition, entries, judgement, page, result, runs, verification
from weftway.board.result import Limits, Line
from weftway.scenario import HOME

DISTRIBUTION = (
    """\
title = "A small world"
transport = "mpquic"
cc = "newreno"
time_limit = "20 s"

"""
    + RANDOM_PATHS
    + "\n"
    + SMALL_LOADS
)

EDITION = """\
edition = "tiny"
title = "For tests"
rule = 1
digest = "{digest}"
seeds = "0..4"
draw = 3
split = "held-out"
controllers = ["newreno"]
measures = {{ bulk = "fct_ms", messages = "message_p99_ms" }}

[[set]]
distribution = "small-world.toml"
cells = 4
"""

MINE = """\
class Mine:
    def select(self, cx):
        return max(cx.sendable(), key=lambda path: path.cwnd, default=None)
"""

POLICY = HOME / "policies/dqn-all.safetensors"
ZEROS = "0" * 64


def make(folder: Path, more: str = "") -> Path:
    """An edition of four cells in a folder of its own, with the digest of what it draws."""
    file = folder / "tiny" / edition.FILE
    file.parent.mkdir(parents=True)
    (file.parent / "small-world.toml").write_text(DISTRIBUTION)
    file.write_text(EDITION.format(digest=ZEROS) + more)
    with pytest.raises(ScenarioError, match="a distribution, or the seeds, changed since") as refused:
        edition.load(str(file)).drawn()
    (digest,) = re.findall(r"have the digest ([0-9a-f]{64})", str(refused.value))
    file.write_text(EDITION.format(digest=digest) + more)
    return file


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return make(tmp_path / "board")


def ran(file: Path, name: str, sealed: Path | None = None) -> result.Result:
    """The result of an entry, as the command writes it."""
    there = edition.load(str(file))
    drawn = there.drawn()
    found = runs.run(there, name, drawn, there.unsealed(sealed) if sealed else {}, 2)
    return judgement.finished(found, drawn, entries.floor(there))


@pytest.mark.parametrize("name", edition.names())
def test_an_edition_draws_the_cells_whose_digest_it_names(name: str) -> None:
    """A change of a distribution is a new edition: `board/EDITION` keeps what it was."""
    there = edition.load(name)
    drawn = there.drawn()
    assert {one.name: len(drawn[one.name]) for one in there.sets} == {one.name: one.cells for one in there.sets}
    kept = entries.of(there)
    assert len(kept) >= 8 and {"min-rtt", "earliest-delivery"} <= {one.entry for one in kept}
    for one in kept:
        assert one.stated_digest == one.digest, one.entry
        assert {key: len(rows) for key, rows in one.rows.items()} == {key: len(some) for key, some in drawn.items()}
    for file in entries.folder(there).glob("*.json"):
        assert file.stat().st_size < 6000, f"{file}: an entry is small"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('edition = "tiny"', "", "edition: is missing"),
        ('edition = "tiny"', 'edition = "A B"', "edition: `A B`: a name such as 2027.1 is needed"),
        ("rule = 1", "rule = 2", "rule: 2: this Weftway judges by rule 1"),
        ("rule = 1", "rules = 1", "unknown key `rules`; there is edition, title, rule"),
        ('seeds = "0..4"', 'seeds = "0..5"', "seeds: an even number from 4 on is needed"),
        ('seeds = "0..4"', 'seeds = "0..2"', "seeds: an even number from 4 on is needed"),
        ('seeds = "0..4"', 'seeds = "x"', "seeds `x`: expected a range"),
        ("draw = 3", "draw = -1", "draw: -1: a whole number from 0"),
        ('"held-out"', '"test"', "split: `test`: there is train and held-out"),
        ('["newreno"]', '"newreno"', "controllers: a list of names is needed"),
        ('["newreno"]', '["cubic"]', "controllers: a cell has `newreno`, which is not named there"),
        ('["newreno"]', '["newreno", "cubic"]', "controllers: no cell has `cubic`"),
        ('bulk = "fct_ms"', 'bulk = "goodput_mbps"', "measures: bulk = 'goodput_mbps': this Weftway measures `fct_ms`"),
        ('bulk = "fct_ms", ', "", "measures: a cell has `bulk`, which is not named there"),
        ("cells = 4", "cells = 0", "set 1: cells: 0: a whole number from 1"),
        ("cells = 4", "", "set 1: `cells` is missing"),
        ("cells = 4", "cells = 4\nload = 1", "set 1: unknown key `load`; there is distribution, cells"),
        ("[[set]]", "[set]", "set: tables `[[set]]` are needed"),
        ("cells = 4", "cells = 4\n[[sealed]]\nname = 'a'\ndigest = 'b'", "sealed 1: digest: 64 hexadecimal digits"),
        ("cells = 4", "cells = 4\n[[sealed]]\nname = '../a'\ndigest = 'b'", "sealed 1: name: '../a' is no name"),
        (
            "cells = 4",
            f"cells = 4\n[[sealed]]\nname = 'all'\ndigest = '{ZEROS}'",
            "set: none can be called `all`",
        ),
        ("cells = 4", "cells = ", "Invalid value"),
    ],
)
def test_a_mistake_in_an_edition_is_told_with_its_place(tiny: Path, old: str, new: str, told: str) -> None:
    text = tiny.read_text()
    assert old in text
    tiny.write_text(text.replace(old, new))
    with pytest.raises(ScenarioError) as error:
        edition.load(str(tiny)).drawn()
    assert told in str(error.value) and str(tiny) in str(error.value)
    assert "\n" not in str(error.value)


def test_other_cells_are_refused(tiny: Path) -> None:
    """What decides runs counts: the rate of a path does, a comment does not."""
    world = tiny.with_name("small-world.toml")
    world.write_text(f"# A comment.\n{DISTRIBUTION}")
    edition.load(str(tiny)).drawn()
    world.write_text(DISTRIBUTION.replace('to = "10 Mbit/s"', 'to = "11 Mbit/s"'))
    with pytest.raises(ScenarioError, match="An edition stays as it is; other cells are another edition"):
        edition.load(str(tiny)).drawn()
    world.write_text(DISTRIBUTION)
    tiny.write_text(tiny.read_text().replace('"0..4"', '"0..6"'))
    with pytest.raises(ScenarioError, match="have the digest"):
        edition.load(str(tiny)).drawn()


def test_an_edition_that_is_not_there_is_told() -> None:
    with pytest.raises(ScenarioError, match=r"no edition `2026.9`, and no such file; there is .*2027\.1"):
        edition.load("2026.9")


def test_three_kinds_of_entry_write_the_same_bytes_again(tiny: Path, weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    kinds = {"ecf": ("ecf", "registry"), "mine.py:Mine": ("Mine", "class"), str(POLICY): ("dqn-all", "policy")}
    done = weft("board", "run", "--edition", tiny, "--entry", "one-path", "--out", tiny.with_name("one-path.json"))
    assert done.returncode == 0, done.stderr
    for name, (title, kind) in kinds.items():
        command = ("board", "run", "--edition", tiny, "--entry", name)
        done = weft(*command)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{title} costs ") and f"result in {title.lower()}.json" in done.stderr
        file = tmp_path / f"{title.lower()}.json"
        found = result.read(file)
        assert (found.entry, found.kind, found.edition, found.stated_digest) == (title, kind, "tiny", found.digest)
        assert (found.source is None) == (kind == "registry")
        assert str(tmp_path) not in file.read_text() and str(HOME) not in file.read_text()
        assert len(file.read_text().split("[\n")[1].split("\n]")[0].splitlines()) == 4, "a line is a cell"
        assert found.figures["all"]["of"] == 4 and found.figures["all"]["of_one_path"][0] > 0
        weft(*command, "--out", "again.json", "--jobs", "1")
        assert (tmp_path / "again.json").read_bytes() == file.read_bytes()
        again = weft("board", "verify", file, "--edition", tiny, "--entry", name)
        assert (again.returncode, again.stdout) == (0, f"{file}: 4 of 4 lines run again, the same\n"), again.stderr
    assert not list(tmp_path.glob("*.rows"))
    assert result.read(tmp_path / "dqn-all.json").run_as == "policies/dqn-all.safetensors"


def test_a_class_that_was_edited_is_another_entry(tiny: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    ran(tiny, f"{mine}:Mine").write(file := tmp_path / "mine.json")
    there = edition.load(str(tiny))
    with pytest.raises(ScenarioError, match=r"there is no such file.*--entry names the class that the file is of"):
        verification.verify(file, None, there)
    mine.write_text(MINE.replace("max", "min"))
    with pytest.raises(ScenarioError, match=r"its digest is [0-9a-f]{64}, and the file is of [0-9a-f]{64}"):
        verification.verify(file, f"{mine}:Mine", there)


def test_a_run_that_fails_is_no_entry(tiny: Path, weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("class Broken:\n    def select(self, cx):\n        return cx.nonsense\n")
    done = weft("board", "run", "--edition", tiny, "--entry", "broken.py:Broken")
    assert done.returncode == 1 and "nonsense" in done.stderr
    assert not (tmp_path / "broken.json").exists()
    # The cell lies where the message says, so that the run can be repeated.
    (name,) = re.findall(r"repeat it with: weft run (\S+)", done.stderr)
    assert (tmp_path / name).is_file()


def test_what_is_finished_is_not_run_again(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = edition.load(str(tiny))
    drawn = there.drawn()
    first = runs.run(there, "ecf", drawn, {}, 2, tmp_path / "rows")

    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("nothing is left to run")

    monkeypatch.setattr(runs, "threads", lambda *_, **__: refuse)
    assert runs.run(there, "ecf", drawn, {}, 2, tmp_path / "rows") == first


@pytest.mark.parametrize("name", ["ecf", "one-path"])
def test_some_cells_have_the_rows_that_they_have_among_all(tiny: Path, name: str) -> None:
    there = edition.load(str(tiny))
    drawn = there.drawn()
    both = {**drawn, "again": drawn["small-world"][1:2]}
    rows = runs.run(there, name, both, {}, 2).rows
    places = [("small-world", 3), ("again", 0), ("small-world", 1)]
    assert runs.rows_at(name, both, places, there.seeds, 2) == {place: rows[place[0]][place[1]] for place in places}
    assert rows["again"] == [rows["small-world"][1]]


def test_a_changed_line_is_found_and_named(tiny: Path, weft: Weft, tmp_path: Path) -> None:
    good = ran(tiny, "ecf")
    first, _ = good.rows["small-world"][2]
    text = good.text.replace(f"[{json.dumps(first)}", "[1.5", 1)
    (tmp_path / "ecf.json").write_text(text)
    done = weft("board", "verify", "ecf.json", "--edition", tiny)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "its digest is not that of its lines: it was changed after it was made"
    assert lines[1].startswith("line 3 of small-world"), "without a bound and single paths, figures are the same"
    assert re.search(
        r"^line 3 of small-world \(small-world-held-out-3-2\) is \[1\.5, .*\] in the file, and \[", done.stdout, re.M
    )
    assert lines[-1] == "ecf.json: 4 of 4 lines run again, " + f"{len(lines) - 1} differences"
    # With a digest that fits, only a sample finds it.
    rows = {"small-world": [*good.rows["small-world"]]}
    rows["small-world"][2] = [1.5, *rows["small-world"][2][1:]]
    forged = replace(good, rows=rows)
    judgement.finished(forged, edition.load(str(tiny)).drawn(), None).write(tmp_path / "ecf.json")
    there = edition.load(str(tiny))
    found: list[list[str]] = []
    while {len(one) for one in found} != {0, 1}:
        assert len(found) < 100, "one line of four is repeated: now and then it is the changed one"
        found.append(verification.verify(tmp_path / "ecf.json", None, there, 1, len(found)).differences)
    assert all(one[0].startswith("line 3 of small-world") for one in found if one)
    again = [verification.verify(tmp_path / "ecf.json", None, there, 1, draw).differences for draw in range(len(found))]
    assert again == found


def test_figures_that_do_not_follow_are_found(tiny: Path, tmp_path: Path) -> None:
    good = ran(tiny, "ecf")
    better = replace(good, figures={**good.figures, "all": {**good.figures["all"], "unfinished": 7}})
    better.write(file := tmp_path / "ecf.json")
    found = verification.verify(file, None, edition.load(str(tiny)))
    assert found.differences == ["the figures of all do not follow from its lines"]


def test_figures_against_other_single_paths_are_not_checked(tiny: Path, tmp_path: Path) -> None:
    ran(tiny, "one-path").write(tiny.with_name("one-path.json"))
    good = ran(tiny, "ecf")
    assert {*good.figures["all"]} >= {"of_one_path", "worse_than_one_path", "of_bound"}
    older = replace(good, code="0+0", figures={"one_path": ZEROS, "all": {"cells": 4}})
    older.write(file := tmp_path / "ecf.json")
    found = verification.verify(file, None, edition.load(str(tiny)))
    assert found.differences == [] and [note.partition(":")[0] for note in found.notes] == [
        "0+0 made it, and this is " + good.code,
        "figures not checked",
    ]
    better = replace(good, figures={**good.figures, "all": {**good.figures["all"], "worse_than_one_path": 2}})
    better.write(file)
    told = verification.verify(file, None, edition.load(str(tiny))).differences
    assert told == ["the figures of all do not follow from its lines"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda keys: keys.pop("code"), "no key `code`"),
        (lambda keys: keys.update(date="today"), "unknown key `date`"),
        (lambda keys: keys.update(kind="magic"), "kind: `magic`; there is registry, class, policy, one path"),
        (lambda keys: keys.update(board=2), "board = 2: this Weftway reads form 1"),
        (lambda keys: keys.update(rows=[]), "rows: [] is not what belongs there"),
        (lambda keys: keys["rows"].update(a=[[1, 2], [0, 1]]), "rows: line 2 of a, [0, 1], is not that of a cell"),
        (lambda keys: keys["rows"].update(a=[[1, 2, 3]]), "rows: line 1 of a, [1, 2, 3], is not that of a cell"),
        (lambda keys: keys["rows"].update(a=[[1, "2"]]), 'rows: line 1 of a, [1, "2"], is not that of a cell'),
        (lambda keys: keys["rows"].update(a=7), "rows: a: a list of lines is needed"),
        (lambda keys: keys.pop("board"), "no result of a board: `weft board run` writes one"),
    ],
)
def test_a_file_that_is_no_result_is_refused(tmp_path: Path, change: Any, told: str) -> None:
    keys = json.loads(_by_hand("a", [[1, 2]]).text)
    change(keys)
    (file := tmp_path / "a.json").write_text(json.dumps(keys))
    with pytest.raises(ScenarioError, match=re.escape(f"{file}: {told}")):
        result.read(file)
    file.write_text("{")
    with pytest.raises(ScenarioError, match="no result of a board"):
        result.read(file)
    file.write_text("{}", encoding="utf-16")
    with pytest.raises(ScenarioError) as error:
        result.read(file)
    assert str(error.value).count(str(file)) == 1, "one message"


@pytest.mark.parametrize("row", [None, [0, {}], [-1, {}], [True, {}], [1, {"a": [0, 1]}], [1, {"a": None}], [1]])
def test_a_line_of_single_paths_has_a_bound_above_zero_and_is_never_null(tmp_path: Path, row: Any) -> None:
    _by_hand("one-path", [[None, {}], [10, {"a": [1, 2]}]], "one path").write(file := tmp_path / "one-path.json")
    assert result.limits(result.read(file), "s") == [Limits(None, {}), Limits(10, {"a": (1, 2)})]
    _by_hand("one-path", [[10, {}], row], "one path").write(file)
    told = f"{file}: rows: line 2 of s, {json.dumps(row)}, is not that of a cell"
    with pytest.raises(ScenarioError, match=re.escape(told)):
        result.read(file)


def test_lines_are_as_short_as_they_can_be() -> None:
    assert result.row_of(Line((123456.0, 0.0123456), 0.0, 0)) == [123460, 0.012346]
    assert result.row_of(Line((1.0, 2.0), 0.12345, 0)) == [1, 2, 0.123]
    assert result.row_of(Line((1.0, 2.0), 0.0, 3)) == [1, 2, 0, 3]
    assert result.row_of_limits(Limits(None, {"a": (1.0, 2.25)})) == [None, {"a": [1, 2.25]}]


def _by_hand(name: str, rows: list[Any], kind: str = "registry") -> result.Result:
    return result.Result("tiny", ZEROS, name, kind, f"{name}@1", None, name, "0+0", {"s": rows})


def test_entries_are_judged_by_halves() -> None:
    """One cell; a costs 10 and 40 on the halves, b 20 and 20. The first half picks a, which the second judges at 40;
    the second picks b, which the first judges at 20. a: 10/20 and 40/40, b: 20/20 and 20/40: both 0.707. One path: p
    costs 30 and 32, q 40 and 16. The first half picks p, judged at 32, the second q, judged at 40; against a, picked
    by the first, at 40, and b at 20: (32/40 · 40/20)^½. a against one path: (40/32 · 10/40)^½. The bound is 10: a takes
    2.5 of it, b 2."""
    there = edition.Edition("tiny", "", Path("x/tiny/edition.toml"), ZEROS, [0, 1, 2, 3], 0, "held-out", [], {}, [], [])
    floor = _by_hand("one-path", [[10, {"p": [30, 32], "q": [40, 16]}]], "one path")
    both = [_by_hand("a", [[10, 40]]), _by_hand("b", [[20, 20, 0.5, 2]])]
    shown = judgement.judged(replace(there, sealed=[edition.Sealed("s", ZEROS)]), {}, both, floor)
    assert shown.cells == [], "nothing is drawn"
    (cell,) = judgement._judged("s", both, floor)
    assert cell.ratios == pytest.approx({"a": 0.5**0.5, "b": 0.5**0.5})
    assert cell.single == pytest.approx((32 / 40 * 40 / 20) ** 0.5)
    assert cell.singles["a"] == pytest.approx((40 / 32 * 10 / 40) ** 0.5)
    assert cell.of_bound == {"a": 2.5, "b": 2.0}
    assert (cell.copies, cell.unfinished) == ({"a": 0.0, "b": 0.5}, {"a": 0, "b": 2})


def test_the_board_says_what_a_ranking_of_the_same_cells_says(tiny: Path) -> None:
    names = ["min-rtt", "redundant", "ecf"]
    there = edition.load(str(tiny))
    world = tiny.with_name("small-world.toml")
    found = rank.run(rank.Request([str(world)], 4, "0..4", there.draw, names), 2)
    drawn = there.drawn()
    shown = judgement.judged(there, drawn, [ran(tiny, name) for name in names], ran(tiny, "one-path"))
    theirs, single = rank.standings(found), rank.single_path(found)
    assert [one.scheduler for one in shown.standings] == [one.scheduler for one in theirs]
    for own, other in zip(shown.standings, theirs, strict=True):
        for key in ("ratio", "ratio_low", "ratio_high", "median", "of_bound", "worst", "copies_share"):
            assert getattr(own, key) == pytest.approx(getattr(other, key), rel=1e-3), (own.scheduler, key)
        for key in ("worst_cell", "close_share", "worse_than_single_share", "unfinished"):
            assert getattr(own, key) == getattr(other, key)
    assert shown.single is not None and single is not None
    assert shown.single.ratio == pytest.approx(single.ratio, rel=1e-3)
    assert shown.by("workload").keys() == {"short bulk", "messages"}


def test_an_entry_that_lacks_cells_is_after_those_that_have_all(tiny: Path) -> None:
    there = edition.load(str(tiny))
    full, part = ran(tiny, "redundant"), replace(ran(tiny, "ecf"), entry="part")
    part = replace(part, rows={"small-world": [None, *part.rows["small-world"][1:]]})
    drawn = there.drawn()
    shown = judgement.judged(there, drawn, [part, full], None)
    assert [(one.scheduler, one.cells) for one in shown.standings] == [("redundant", 4), ("part", 3)]
    table = page.standings(there, shown, [part, full])
    assert [str(row.values[-2]) for row in table.rows] == ["4 of 4", "3 of 4"]


def test_sealed_cells_are_run_by_their_keeper_alone(tmp_path: Path, weft: Weft) -> None:
    keeper = tmp_path / "keeper/autumn"
    keeper.mkdir(parents=True)
    (keeper / "one.toml").write_text(SMALL)
    first = make(tmp_path / "first")
    block = weft("board", "seal", keeper, "--edition", first).stdout
    assert re.fullmatch(r'\[\[sealed\]\]\nname   = "autumn"\ndigest = "[0-9a-f]{64}"\n', block)
    file = make(tmp_path / "board", block)
    there = edition.load(str(file))
    without = ran(file, "ecf")
    assert (dict(without.sealed), [*without.rows]) == ({}, ["small-world"])
    closed = ran(file, "ecf", keeper.parent)
    assert dict(closed.sealed) == {"autumn": there.sealed[0].digest}
    assert len(closed.rows["autumn"]) == 1 and closed.rows["small-world"] == without.rows["small-world"]
    assert closed.figures["all"] == without.figures["all"], "what only one keeper has counts for no standing"
    closed.write(written := tmp_path / "ecf.json")
    assert "10 Mbit/s" not in written.read_text()
    # Others verify what they have.
    found = verification.verify(written, None, there)
    assert found.differences == [] and (found.repeated, found.of) == (4, 5)
    assert found.notes == ["not run again, since only their keeper has the cells: autumn"]
    with_cells = verification.verify(written, None, there, sealed=keeper.parent)
    assert with_cells.differences == [] and (with_cells.repeated, with_cells.notes) == (5, [])
    shown = judgement.judged(there, there.drawn(), [closed], None)
    assert [*shown.by("set")] == ["small-world", "autumn"]
    assert "autumn (1)" in page.render(there, there.drawn(), shown, [closed])
    (keeper / "one.toml").write_text(SMALL.replace("1 %", "2 %"))
    with pytest.raises(ScenarioError, match="these are other cells"):
        there.unsealed(keeper.parent)
    with pytest.raises(ScenarioError, match="has the name of a sealed set; there is autumn"):
        there.unsealed(keeper)


def test_the_page_sorts_entries_and_marks_none_as_best(tiny: Path) -> None:
    there = edition.load(str(tiny))
    drawn = there.drawn()
    results = [ran(tiny, name) for name in ("redundant", "min-rtt", "round-robin")]
    twin = replace(results[1], entry="twin")
    shown = judgement.judged(there, drawn, [*results, twin], ran(tiny, "one-path"))
    table = page.standings(there, shown, [*results, twin])
    ratios = [row.values[1].number for row in table.rows if not isinstance(row.values[1], str)]
    known = [ratio for ratio in ratios if ratio is not None]
    assert len(known) == 5 and known == sorted(known), "single paths have their place among the entries"
    assert not any(value.mark for row in table.rows for value in row.values if not isinstance(value, str))
    notes = [row.values[0].note for row in table.rows if not isinstance(row.values[0], str)]
    assert sum("= min-rtt" in note for note in notes) == 1
    text = page.render(there, drawn, shown, [*results, twin])
    for words in ("one path, same handshake", "By set", "By controller", "CPU time of a decision", there.digest):
        assert words in text, words


@needs_browser
def test_the_page_of_the_site_fits_a_phone(tmp_path: Path) -> None:
    (tmp_path / "board.html").write_text(tool.text())
    for width in (390, 1440):
        with Browser(width=width) as tab:
            tab.open(tmp_path / "board.html")
            assert tab.run("document.documentElement.scrollWidth") <= width
            first = tab.run("document.querySelector('#standings tbody th').textContent")
            assert first
            assert not tab.errors


def test_two_files_of_one_entry_are_refused(tiny: Path) -> None:
    there = edition.load(str(tiny))
    folder = entries.folder(there)
    folder.mkdir()
    one = replace(_by_hand("a", [[1, 2]]), cells=there.digest)
    one.write(folder / "a.json")
    replace(one, cells=ZEROS).write(folder / "older.json")
    assert [each.entry for each in entries.of(there)] == ["a"], "those of other editions are passed over"
    shutil.copy(folder / "a.json", folder / "b.json")
    with pytest.raises(ScenarioError, match="two files are of an entry `a`"):
        entries.of(there)
