"""Reference pages of the site: schedulers and controllers from the registries; command, package and crates from their
own texts (`manual`). `./weft docs` makes them."""

import re
from typing import Any

import manual
from weftway import _native
from weftway.markdown import cell, table
from weftway.scenario import HOME

Entry = dict[str, Any]

SCHEDULERS = """\
# Schedulers

Each decides on which path the next packet leaves, or that it waits. To choose one: the table, or
[the same by goal, traffic and inputs](overview.md). A name leads to its page: source, needs, switches.

{table}

## Words

A switch follows a colon: `ecf:beta=0.5`, several as `ecf:form=paper:beta=0`. Names are case-insensitive, and `_` may
stand for `-`.

- **Source**: `code`, read from the authors' or the kernel's source; `paper`, from print; `secondary`, from someone
  else's description; `reconstructed`, a concrete rule that fits what is known, not the original.
- **For**: what it is to improve, and for what traffic.
- **Decides by**: what the rule looks at; what only opens or closes a path does not count.
- **Needs**: what a host must offer beyond paths and the packet at hand. `flow`: the connection's data; `queueing`:
  packets wait in a path's queue; `copies`: data in flight can be sent again; `ahead`: data can be sent out of order;
  `recall`: what waits in a path's queue can be taken back; `wake`: it asks to be asked again later; `events`: it is
  told what happens; `device`: how much the sender's own device on each path holds.
- **Paths**: `any`, or `pair` where the rule is for a fast and a slow path. How a pair is found among more paths stands
  at the head of the scheduler's source file.
- **Waits**: whether by the rule, with any of its switches, new data may wait beside an open path that may serve them.
- **Transport**: the MPTCP v0.9x rules that go with it unless the scenario says otherwise: opportunistic
  retransmission and penalisation.
"""

CONTROLLERS = """\
# Congestion controllers

Each decides how much may be in flight on a path.

A switch follows a colon: `cubic:slow_start=hystart++`. A *coupled* controller reads what its siblings on the
connection's other paths publish; a *paced* one sets the rate at which packets leave.
"""

OPTIONS = """\
# Options of the transport

Keys of `[options]` with the value that each stack has where a scenario does not name one. A dash: the stack does not
have the option, which then has no effect.
"""

OVERVIEW = """\
# Schedulers by goal, traffic and inputs

A line per scheduler: what it is for, and what it decides by. The columns are those of the comparison of
MPTCP schedulers in the PRS-MPTCP paper (its Table 2), with more inputs and with every scheduler of the registry.

A dot: the rule decides by it. What only opens or closes a path (its window, what is in flight) is no input.
`rtt`: smoothed, newest or mean round-trip time; `rate`: delivery or pacing rate; `queue`: data not sent yet;
`window`: the peer's; `size`: of packets, messages or flows.

**Source** says whether the rule was read from `code` or the `paper`, is `secondary`, from a
description, or `reconstructed`: then it is a rule that fits what is known, and not to be taken for the original.
"""

LEFT_OUT = """\
## Left out, and why

- **Known by title alone**, from the reference list of the PRS-MPTCP paper; nothing was read that gives a rule:
  PPoS, Xing et al. for live video, Rajnish and Chand, MP-DASH, Kensuke and Yoshihiro, Morawski and Ignaciuk
  (energy; synchronising), Tang et al. for short flows, Helmke et al. (link quality), Sysomphone et al., Gao et al.
  (stochastic optimal), Neha et al. (redundant error).
- **BLP** (Das et al., ICC Workshops 2025, MERL TR2025-083): BLEST with a learned threshold. Only its abstract was to
  be had, which says neither how the probability of blocking is computed nor how its threshold is learned.
- **SOS** (Fahmi, 2020): decides by distributions of delay that are not given.
- **AR&P**, the scheduler part of the coupled-BBR paper, and **OLS**: no description of the rule was to be had.
- **XQUIC's `backup_fec` and its datagram reinjection**, and **S-EDPF's coded packets**: there is no forward error
  correction here, and the simulator has no datagrams.
- **C-MPBBR** (a controller): closes subflows, which is not a controller's business; its newest code has that
  commented out.
"""

LEARNED = """\
# Schedulers that learn

Schedulers whose rule comes from data: state, reward and actions. The columns are those of Table 1 in the
comparison of MPQUIC schedulers (Popov, Stepanov and Getman, 2025), with the learner and where the rule comes from; how
well they do is in [what the learned schedulers learned](../explanation/learning.md).
"""

INPUTS = ("rtt", "min_rtt", "cwnd", "in_flight", "mss", "loss", "rate", "queue", "window", "size", "bottleneck")


def pages() -> dict[str, str]:
    """The text of each page by its file's name."""
    return {
        "schedulers.md": SCHEDULERS.format(table=choice(_native.schedulers())),
        **{f"schedulers/{one['name']}.md": own_page(one) for one in _native.schedulers()},
        "controllers.md": page(CONTROLLERS, _native.controllers(), controller_facts),
        "overview.md": overview(_native.schedulers()),
        "learned.md": learned(_native.schedulers()),
        "command.md": manual.commands(),
        "python.md": manual.calls(),
        "rust.md": manual.crates(HOME / "crates"),
        "options.md": options(),
    }


def options() -> str:
    """A row per option of the transport: its value for each stack, and its meaning."""
    heads = ["key", "MPTCP v0.9x", "MPTCP linux-v1", "TCP", "MPQUIC", "meaning"]
    rows = [[f"`{key}`", *values, meaning.strip()] for key, values, meaning in _native.options()]
    return "\n".join([OPTIONS, *table(heads, rows), ""])


def choice(entries: list[Entry]) -> str:
    """Table to choose from: a line per scheduler."""
    heads = ["scheduler", "rule", "for", "waits"]
    lines = [
        [linked(one), one["summary"], f"{one['goal']}; {one['application']}", "yes" if one["waits"] else ""]
        for one in entries
    ]
    return "\n".join(table(heads, lines))


def linked(entry: Entry) -> str:
    """Name of a scheduler, which leads to its page."""
    return f"[`{entry['name']}`](schedulers/{entry['name']}.md)"


def overview(entries: list[Entry]) -> str:
    """A line per scheduler: goal, traffic, inputs."""
    heads = ["scheduler", "goal", "traffic", *(f"`{name}`" for name in INPUTS), "source"]
    lines = [
        [
            linked(one),
            one["goal"],
            one["application"],
            *("●" if name in one["inputs"] else "" for name in INPUTS),
            one["provenance"],
        ]
        for one in entries
    ]
    return f"{grid(OVERVIEW, heads, lines)}\n{LEFT_OUT}"


def learned(entries: list[Entry]) -> str:
    """A line per scheduler that learns: state, reward, actions."""
    heads = ["scheduler", "year", "learner", "state", "reward", "actions", "source"]
    lines = [
        [
            linked(one),
            *(str(one["learning"][key]) for key in ("year", "learner", "state", "reward", "actions")),
            one["provenance"],
        ]
        for one in entries
        if one["learning"]
    ]
    return grid(LEARNED, heads, sorted(lines, key=lambda line: line[1]))


def grid(head: str, heads: list[str], lines: list[list[str]]) -> str:
    return "\n".join([head, *table(heads, lines), ""])


def page(head: str, entries: list[Entry], facts: Any) -> str:
    return "\n".join([head, *(section(entry, facts(entry)) for entry in entries)])


OURS = re.compile(r"^(Reference: .*)docs/(\S+\.md)", re.MULTILINE)
"""A page of ours as a reference."""


def own_page(entry: Entry) -> str:
    """Page of a scheduler."""
    words = "[What the words mean](../schedulers.md#words), and [all schedulers](../schedulers.md)."
    return f"{section(entry, scheduler_facts(entry), '#', '../..')}\n{words}\n"


def section(entry: Entry, facts: list[tuple[str, str]], level: str = "##", up: str = "..") -> str:
    """Section of an entry: summary, facts, switches."""
    summary = entry["summary"]
    lines = [f"{level} `{entry['name']}`", "", f"{summary[0].upper()}{summary[1:]}.", ""]
    source = OURS.sub(rf"\1[\2]({up}/\2)", reference(entry))
    lines += [f"{source}  ", " · ".join(f"{name}: {value}" for name, value in [*named(entry), *facts])]
    if entry.get("presets"):
        lines += ["", "| name | stands for | what it is |", "|---|---|---|"]
        spelled = [(one["name"], f"{entry['name']}:{one['switches']}", one["doc"]) for one in entry["presets"]]
        lines += [f"| `{name}` | `{full}` | {doc} |" for name, full, doc in spelled]
    if entry["params"]:
        lines += ["", "| switch | default | values | meaning |", "|---|---|---|---|"]
        lines += [switch(param) for param in entry["params"]]
    return "\n".join([*lines, ""])


def named(entry: Entry) -> list[tuple[str, str]]:
    aliases = listed(entry["aliases"])
    also = [("Also called", aliases)] if aliases else []
    return [*also, ("Version", str(entry["version"]))]


def reference(entry: Entry) -> str:
    return f"Reference: {entry['reference']}"


def scheduler_facts(entry: Entry) -> list[tuple[str, str]]:
    rules = [name for name in ("opportunistic", "penalise") if entry[name]]
    facts = [
        ("Source", entry["provenance"]),
        ("For", f"{entry['goal']}; {entry['application']}"),
        ("Decides by", listed(entry["inputs"]) or "nothing it measures"),
        ("Needs", listed(entry["needs"]) or "nothing more"),
    ]
    waits = "yes" if entry["waits"] else "no"
    return [*facts, ("Paths", entry["arity"]), ("Waits", waits), ("Transport", listed(rules) or "neither rule")]


def controller_facts(entry: Entry) -> list[tuple[str, str]]:
    return [("Coupled", "yes" if entry["coupled"] else "no"), ("Paced", "yes" if entry["paced"] else "no")]


def switch(param: Entry) -> str:
    return f"| `{param['name']}` | `{param['default']}` | {cell(param['values'])} | {param['doc']} |"


def listed(words: list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
