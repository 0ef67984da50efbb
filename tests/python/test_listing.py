"""`weft list`, `weft run` and the help: one screen each."""

import json
import re
from pathlib import Path

import pytest

from conftest import Weft
from weftway import _native
from weftway.commands import catalogue
from weftway.report import one_run, papers
from weftway.scenario import HOME

SCREEN = 28


def test_the_list_is_one_screen_and_has_every_name(weft_here: Weft) -> None:
    output = weft_here("list").stdout
    assert len(output.splitlines()) <= SCREEN
    words = output.replace(",", " ").split()
    # Of experiments, their papers are named.
    assert "lubna-2022 (8)" in output
    for entry in (entry for entry in catalogue.entries() if entry["kind"] != "experiment"):
        assert {entry["name"], Path(entry["name"]).stem} & {word.rstrip(":") for word in words}, entry["name"]


@pytest.mark.parametrize("kind", catalogue.KINDS)
def test_a_kind_is_a_line_each(weft_here: Weft, kind: str) -> None:
    entries = [entry for entry in catalogue.entries() if entry["kind"] == kind]
    assert entries
    for word in (kind, f"{kind}s"):
        assert json.loads(weft_here("list", word, "--json").stdout) == entries
    output = weft_here("list", kind).stdout
    assert all(entry["name"] in output for entry in entries)


def test_one_entry_is_told_whole_by_any_of_its_names(weft_here: Weft) -> None:
    output = weft_here("list", "ecf").stdout
    (ecf,) = (entry for entry in _native.schedulers() if entry["name"] == "ecf")
    wanted = [ecf["reference"], *(param["doc"] for param in ecf["params"]), *(f":{p['name']}=" for p in ecf["params"])]
    flat = " ".join(output.split())
    assert all(text in flat for text in wanted)
    assert weft_here("list", "earliest-completion-first").stdout == weft_here("list", "ecf-paper").stdout == output


def test_a_scenario_is_told_with_its_paths_and_the_next_command(weft_here: Weft) -> None:
    output = " ".join(weft_here("list", "wifi-lte").stdout.split())
    assert "Phone with Wi-Fi and LTE" in output
    assert "path.wifi rate 30 Mbit/s, delay 10 ms, loss 0.5 %, queue 100 packets" in output
    assert "path.lte trace (down traces/lte.down, up traces/lte.up), delay 35 ms" in output
    assert "workload kind bulk, bytes 20 MB" in output
    assert "next weft compare wifi-lte --out out" in output
    for entry in catalogue.entries():
        if entry["kind"] in ("scenario", "experiment"):
            (listed,) = (match for match in catalogue.matching(entry["name"]) if match["name"] == entry["name"])
            assert listed["next"].split()[2] in catalogue.names(entry)


COMPLETED = {
    ("compare", "wifi"): ["wifi-lte"],
    ("compare", "wifi-lte", "--scheduler", "earliest"): ["earliest-delivery"],
    ("compare", "wifi-lte", "--scheduler", "ecf,min-rtt,dem"): ["ecf,min-rtt,dems"],
    ("compare", "wifi-lte", "--cc", "cubic,bbr"): ["cubic,bbr1", "cubic,bbr2", "cubic,bbr3"],
    ("run", "video-ca"): ["video-call"],
    ("emulate", "video-ca"): ["video-call"],
    ("steer", "video-ca"): ["video-call"],
    ("run", "wifi-lte", "--scheduler", "eccf"): [],
    ("evaluate", "foreseen", "--on", "mpq"): ["mpquic-pair"],
    ("send", "photos", "--cc", "newr"): ["newreno"],
    ("send", "photos", "--scheduler=ecf:be"): ["beta=0.25"],
    ("proxy", "--classes", "noth"): ["nothing\\", "here/"],
    ("list", "earliest-d"): ["earliest-delivery"],
    ("rank", "--on", "mpq"): ["mpquic-pair"],
    ("sweep", "loss"): ["lossy-wifi"],
    # What bash has already, up to the last `:` or `=`, is not answered again.
    ("compare", "--scheduler", "ecf:form="): ["kernel", "paper"],
    ("compare", "--scheduler", "min-rtt,ecf:form=paper:be"): ["beta=0.25"],
    ("compare", "--scheduler", "ecf:beta=0.5:be"): [],
    ("compare", "--scheduler", "ecf:beta=0.5,min-r"): ["0.5,min-rtt"],
    ("compare", "--set", "path.wifi.loss=2", "--scheduler=ecf:be"): ["beta=0.25"],
    # Names of ours and files of mine alike; of a folder that is alone, what is in it.
    ("compare", "work"): ["work-video.toml", "work.toml"],
    ("rank", "--on", "work"): ["work-video.toml", "work.toml"],
    ("rank", "--on", "mine"): ["mine/a.toml", "mine/b.toml"],
    ("sweep", "work.t"): ["work.toml"],
    ("compare", "my"): ["my\\", "links.toml"],
    ("compare", "noth"): ["nothing\\", "here/"],
    ("compare", "--scheduler", "ru"): ["rules.py"],
    ("compare", "--scheduler", "ecf,rules.py:"): ["Mine", "Other"],
    ("service", ""): ["proxy", "relay", "tunnel", "pipe"],
    ("service", "re"): ["relay"],
    ("service", "proxy", "--sched"): ["--scheduler"],
    ("service", "proxy", "--scheduler", "earliest"): ["earliest-delivery"],
    ("service", "relay", "--al"): ["--allow", "--allow-pipe"],
    ("service", "--wr"): ["--write"],
}
"""What is typed, the last word in part, and what bash offers for it."""


@pytest.mark.parametrize("words", COMPLETED, ids=" ".join)
def test_names_are_completed(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, weft_here: Weft
) -> None:
    monkeypatch.setenv("_WEFT_COMPLETE", "complete_bash")
    for name in ("mine", "nothing here"):
        (tmp_path / name).mkdir()
    for name in ("work.toml", "work-video.toml", "my links.toml", "mine/a.toml", "mine/b.toml"):
        (tmp_path / name).touch()
    (tmp_path / "rules.py").write_text("class Mine:\n    pass\n\nclass Other(Mine):\n    pass\n")
    broken = [part for word in words for part in re.findall("[:=]+|[^:=]+", word) or [""]]
    monkeypatch.setenv("COMP_WORDS", "\n".join(("weft", *broken)))
    monkeypatch.setenv("COMP_CWORD", str(len(broken)))
    done = weft_here()
    assert done.stdout.split() == COMPLETED[words], done.stderr


def test_one_run_is_in_the_groups_of_the_reference(weft_here: Weft, small: Path) -> None:
    row = json.loads(weft_here("run", small, "--json").stdout)[0]
    pages = "\n".join((HOME / f"docs/reference/{name}.md").read_text() for name in ("columns", "columns-messages"))
    sections = {part.split("\n")[0]: part for part in pages.split("\n## ")}
    for first, title in one_run.GROUPS.items():
        if first != "late":  # a list of the kernel's own
            assert sections[title].index(f"| `{first}`") < sections[title].find(
                "\n| `", sections[title].index(f"| `{first}`")
            )
    shown = weft_here("run", small).stdout
    titles = [line for line in shown.splitlines() if line.strip() in one_run.GROUPS.values()]
    assert [title.strip() for title in titles] == [
        "How it ended",
        "Against the limits",
        "Order, memory, retransmissions",
        "Decisions",
        "Sharing",
        "Which run it was",
    ]
    for name, value in row.items():
        if value is not None and not name.startswith("path."):
            section = sections[next(title for title in one_run.GROUPS.values() if f"| `{name}`" in sections[title])]
            assert section.split("\n")[0] in shown
    assert "wifi" in shown.split("Each path")[1].splitlines()[1]


def test_short_options(weft_here: Weft) -> None:
    assert weft_here("-V").stdout == weft_here("--version").stdout
    assert weft_here("-h").stdout == weft_here("--help").stdout
    assert "--scheduler" in weft_here("compare", "-h").stdout


def test_the_shell_can_complete(weft_here: Weft) -> None:
    assert "--show-completion" in weft_here("--help").stdout


def test_the_schema_is_that_of_scenario_files(weft_here: Weft) -> None:
    schema = json.loads(weft_here("schema").stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert {"path", "workload", "seeds", "transport", "vary"} <= schema["properties"].keys()


def test_what_a_gate_takes_is_told_and_why_it_refuses_the_others(weft_here: Weft) -> None:
    records = json.loads(weft_here("list", "--gate", "--json").stdout)
    assert [record["name"] for record in records] == [entry["name"] for entry in _native.schedulers()]
    assert all((record["runs"] is None) != (record["refused"] is None) for record in records)
    told = {record["name"]: record["runs"] or record["refused"] for record in records}
    assert told["min-rtt"] == "min-rtt" and told["earliest-delivery"] == "earliest-arrival"
    assert told["ecf"] == "it needs a view of the connection's data (flow), which a gate does not offer"
    output = " ".join(weft_here("list", "--gate").stdout.split())
    taken = sum(record["runs"] is not None for record in records)
    assert output.startswith(f"a gate in noq takes {taken} of {len(records)} ")
    assert f" ecf {told['ecf']} " in output and " earliest-delivery runs as earliest-arrival " in output
    assert weft_here("list", "blest", "--gate").stdout.startswith("a gate in noq takes 0 of 1")
    refused = weft_here("list", "wifi-lte", "--gate")
    assert refused.returncode == 2 and "`--gate`" in refused.stderr


def test_the_papers_of_an_entry_are_told_as_bibtex(weft_here: Weft) -> None:
    output = weft_here("list", "earliest-completion-first", "--bibtex").stdout
    assert output.startswith("@inproceedings{lim-2017,") and output.endswith("}\n") and "weftway" not in output
    everything = weft_here("list", "--bibtex").stdout
    keys = re.findall(r"^@\w+\{(\S+),$", everything, re.MULTILINE)
    assert len(keys) == len(set(keys)) and output in everything
    refused = weft_here("list", "wifi-lte", "--bibtex")
    assert refused.returncode == 2 and refused.stdout == ""
    assert "wifi-lte" in refused.stderr and "weft list ecf --bibtex" in refused.stderr


def test_what_a_paper_describes_is_in_the_registries() -> None:
    names = {entry["name"] for entry in [*_native.schedulers(), *_native.controllers()]}
    assert papers.described() <= names


def test_a_policy_file_is_listed_with_its_card(weft: Weft) -> None:
    shipped = HOME / "crates/sched/policies/dqn-all.safetensors"
    done = weft("list", str(shipped))
    assert done.returncode == 0 and "run by dqn" in done.stdout and "task" in done.stdout
