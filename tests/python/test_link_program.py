"""The program weft-link by itself: its help, what a shell completes, its manual, and what it is packaged with."""

import re
import subprocess
from pathlib import Path

import pytest

from weftway.runs import link_program
from weftway.scenario import HOME

VERBS = ["pair", "send", "recv", "relay", "proxy", "pipe", "tunnel", "top", "service", "record", "doctor"]


def link(*words: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The program as it is called where there is no Python."""
    command = [link_program.program(), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_the_help_names_every_verb_and_no_hidden_one() -> None:
    run = link("--help")
    assert run.returncode == 0 and run.stderr == ""
    lines = run.stdout.splitlines()
    assert all(any(line.startswith(f"  {verb} ") for line in lines) for verb in VERBS), run.stdout
    assert not any(line.startswith(("  complete ", "  manual ")) for line in lines)
    assert "Exit status: 0 it worked, 1 a run failed, 2 bad input, 130 interrupted." in run.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_each_option_is_described(verb: str) -> None:
    run = link(verb, "--help")
    assert run.returncode == 0, run.stderr
    assert run.stdout[0].isupper() and "Usage: weft-link " in run.stdout
    _, _, options = run.stdout.partition("Options:\n")
    described = re.split(r"\n(?= +-)", options.strip("\n"))
    assert described and "--help" in described[-1]
    for one in described:
        # The name, and what it does below it or beside it.
        assert re.search(r"(?:\n|  )\s*[A-Z]", one), one


def test_a_word_that_is_no_verb_is_bad_input() -> None:
    run = link("tunel")
    assert run.returncode == 2 and run.stdout == ""
    assert "tunnel" in run.stderr


COMPLETED = {
    ("pro",): ["proxy"],
    ("comp",): ["completion"],
    ("send", "photos", "--cc", "newr"): ["newreno"],
    ("relay", "--scheduler", "earliest-d"): ["earliest-delivery"],
    ("relay", "--scheduler", "ecf:form="): ["ecf:form=kernel", "ecf:form=paper"],
    ("proxy", "--al"): [],
    ("proxy", "--classes", "ru"): ["rules.toml"],
    ("recv", "in"): ["inbox/"],
    ("tunnel", "--dns", "o"): ["off"],
    ("completion", "z"): ["zsh"],
    ("service", ""): ["proxy", "relay", "tunnel", "pipe"],
    ("service", "relay", "--al"): ["--allow", "--allow-pipe"],
    ("service", "proxy", "--pair", "ru"): ["rules.toml"],
}
"""Words, the last one in part, and what it may become."""


@pytest.mark.parametrize("words", COMPLETED, ids=" ".join)
def test_words_are_completed(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "rules.toml").touch()
    run = link("complete", *words, folder=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == COMPLETED[words]


def in_bash(folder: Path, *words: str) -> list[str]:
    """Completions that the script offers in bash, which has broken these words."""
    script = f"""
PATH={link_program.program().parent}:$PATH
eval "$(weft-link completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_weft_link
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    run = subprocess.run(
        ["bash", "-c", script, "bash", "weft-link", *words], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_bash_is_answered_in_the_words_that_it_makes(tmp_path: Path) -> None:
    (tmp_path / "my links.toml").touch()
    assert in_bash(tmp_path, "send", "--scheduler", "earliest-d") == ["earliest-delivery"]
    assert in_bash(tmp_path, "send", "--scheduler", "ecf", ":", "form", "=") == ["kernel", "paper"]
    assert in_bash(tmp_path, "send", "--cc", "=", "newr") == ["newreno"]
    assert in_bash(tmp_path, "proxy", "--classes", "my") == ["my\\ links.toml"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    run = link("completion", shell)
    assert run.returncode == 0 and run.stdout.startswith("#")
    assert re.search(r"""(weft-link|words\[1\]\}"|COMP_WORDS\[0\]\}") complete --(bash|told)""", run.stdout), run.stdout


def test_the_manual_has_a_page_for_each_verb(tmp_path: Path) -> None:
    run = link("manual", tmp_path / "man1")
    assert run.returncode == 0, run.stderr
    pages = {page.name for page in (tmp_path / "man1").iterdir()}
    assert {"weft-link.1", *(f"weft-link-{verb}.1" for verb in VERBS)} <= pages
    assert "weft-link-complete.1" not in pages
    assert ".SH OPTIONS" in (tmp_path / "man1/weft-link-proxy.1").read_text()


ROUTER = """\
config_load() { :; }
config_foreach() { "$1" here "$2"; }
config_get() { eval "$1=\\$(value \\"$2\\" \\"$3\\")"; }
config_get_bool() { config_get "$1" "$2" "$3"; eval "[ -n \\"\\$$1\\" ] || $1=$4"; }
config_list_foreach() { for one in $(value "$1" "$2_items"); do "$3" "$one" "$4"; done; }
procd_open_instance() { line=; }
procd_set_param() { [ "$1" != command ] || { shift; line="$*"; }; }
procd_append_param() { shift; line="$line $*"; }
procd_close_instance() { echo "$line"; }
mkdir() { :; }
chmod() { :; }
value() {
    case $verb/$2 in
    proxy/enabled | tunnel/enabled | tunnel/kill_switch) echo 1 ;;
    proxy/to) echo 192.0.2.1 ;;
    proxy/path_LENGTH) echo 2 ;;
    proxy/path | proxy/path_items) echo wan wwan0,tier=backup ;;
    proxy/listen) echo 1080 ;;
    esac
}
"""
"""What the service of a router finds there, and a configuration."""


def test_the_service_of_a_router_has_the_options_of_its_configuration() -> None:
    service = HOME / "packaging/openwrt/files/weft-link.init"
    script = f'{ROUTER}\n. "{service}"\nstart_service'
    run = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "/usr/bin/weft-link proxy --to 192.0.2.1 --listen 1080 --path wan --path wwan0,tier=backup",
        "/usr/bin/weft-link tunnel --kill-switch",
    ]
    words = re.findall(r"^(?:VALUES|LISTS|SWITCHES)='(.*)'$", service.read_text(), re.MULTILINE)
    known = "".join(link(verb, "--help").stdout for verb in ("relay", "proxy", "tunnel", "recv"))
    for name in " ".join(words).split():
        assert f"--{name.replace('_', '-')}" in known, name
