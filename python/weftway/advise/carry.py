"""Commands that carry the traffic as advised: a line for each end."""

import re

from weftway.runs import plan

from .candidates import CARRIERS, KERNEL, WINDOW, paths
from .runs import Advice, keys_of
from .words import end_of

RELAY = "weft pair && weft relay --listen 4433"
RECV = "weft pair && weft recv inbox --listen 4433"
PROGRAMS = {
    "proxy": ("weft proxy", RELAY),
    "tunnel": ("weft tunnel", RELAY),
    "pipe": (
        "weft pipe --listen 9000 --deliver SERVER:PORT --latency 200ms",
        f"{RELAY} --allow-pipe SERVER:PORT",
    ),
    "send": ("weft send FOLDER", RECV),
}
"""Command here, and command at the other end."""

ADDRESS = re.compile(r"<address of [^>]+>")
"""What a command of the kernel leaves open."""


def lines(advice: Advice) -> list[str]:
    """The commands for both ends, and what has to be filled in; without `--for`, the option that prints them."""
    carrier = advice.request.carrier
    if not carrier:
        asked = advice.request
        options = [("--set", one) for one in asked.set] + [("--add", one) for one in asked.added]
        words = [plan.quoted(asked.scenario), *(f"{name} {plan.quoted(one)}" for name, one in options), "--for proxy"]
        return [f"next      weft advise {' '.join(words)} prints the commands for both ends; or {_others()}"]
    here, there = _kernel(advice) if carrier == KERNEL else _program(advice)
    blanks = {
        KERNEL: "COMMAND and SERVER: your programs; both need MPTCP, as in `weft advise --write`",
        "pipe": "SERVER:PORT: where the datagrams go",
        "send": "FOLDER: what is sent",
    }
    links = f"HOST: the other end; LINE: what `weft pair` prints there; {', '.join(_links(advice))}: interfaces here"
    fill = [blanks[carrier]] if carrier in blanks else []
    fill += [] if carrier == KERNEL else [links]
    if addresses := ADDRESS.findall(here + there):
        fill.append(f"{', '.join(addresses)}: your address on that link, as in `ip mptcp endpoint`")
    return [f"there     {there}", f"here      {here}", f"fill in   {'; '.join(fill)}"]


def _others() -> str:
    rest = [name for name in CARRIERS if name != "proxy"]
    return f"{', '.join(rest[:-1])} or {rest[-1]}"


def _links(advice: Advice) -> list[str]:
    return paths(keys_of(advice.scenario))


def _program(advice: Advice) -> tuple[str, str]:
    """Both ends schedule what they send, so both get the pair."""
    chosen = advice.chosen.candidate
    options = f"--scheduler {plan.quoted(chosen.scheduler)} --cc {plan.quoted(chosen.cc)}"
    options += f" --initial-window {chosen.window}" if chosen.window != WINDOW else ""
    here, there = PROGRAMS[advice.request.carrier]
    links = [f"--path {name}{',tier=backup' * (name in chosen.backups)}" for name in _links(advice)]
    own = " ".join([here, "--to HOST:4433", "--pair LINE", *links, options])
    return own, there if there == RECV else f"{there} {options}"


def _kernel(advice: Advice) -> tuple[str, str]:
    commands = advice.chosen.candidate.commands
    ends = {"here": ["mptcpize run COMMAND"], "on the server": ["mptcpize run SERVER"]}
    for command in reversed(commands):
        ends[end_of(command, advice.is_upload)].insert(0, command)
    return "; ".join(ends["here"]), "; ".join(ends["on the server"])
