"""`weft new scheduler NAME`: the first nine lines of CONTRIBUTING's recipe."""

import re
from pathlib import Path
from string import Template

from weftway import _native
from weftway._native import ScenarioError
from weftway.runs import specs

REGISTRY = Path("crates/sched/src/lib.rs")
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
RESERVED = re.compile(
    "abstract|as|async|await|become|box|break|const|continue|crate|do|dyn|else|enum|extern|false|final|fn|for|"
    "gen|if|impl|in|let|loop|macro|match|mod|move|mut|override|priv|pub|ref|return|self|static|struct|super|"
    "trait|true|try|type|typeof|unsafe|unsized|use|virtual|where|while|yield"
)
"""Rust's keywords, those kept for later among them: no module has such a name."""

LIST = re.compile(r"^schedulers! \{\n(?:    \w+::\w+\n)*(?=\}$)", re.MULTILINE)
"""The list `schedulers!`."""

RULE = Template("""\
//! $title: say in one line what it decides.
//!
//! Rule: the path that may send with the smallest srtt; without one, wait.
//! Reference: who described it, where; then which equation.
//! State: none.
//! Departs from print: nothing.

use weftway_path::{Context, Decision};

use crate::Scheduler;
use crate::entry::{Entry, Input, Provenance};

pub(crate) static ENTRY: Entry = Entry {
    name: "$name",
    summary: "the open path with the smallest smoothed round-trip time",
    reference: "who described it, where",
    provenance: Provenance::Reconstructed,
    goal: "what it is to improve",
    application: "for what traffic",
    inputs: &[Input::Rtt],
    build: |_| Ok(Box::new($type)),
    ..Entry::NEW
};

#[derive(Clone)]
struct $type;

impl Scheduler for $type {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        // Without a packet at hand only copies may go, and this rule makes none.
        let fastest = cx.packet.and(cx.sendable().min_by_key(|path| path.srtt));
        fastest.map_or(Decision::Wait, |path| Decision::Send(path.id))
    }
}
""")

TAKEN = frozenset(re.findall(r"(?<![:\w])[A-Z][a-z]\w*", re.sub(r"//.*", "", RULE.template)))
"""The types that the template names by one word: no rule's type has such a name."""

VECTORS = Template("""\
# Contexts, the decisions that follow, and why, worked with a pencil.
scheduler = "$name"

[[case]]
name   = "the fastest open path first"
why    = "F has the smaller srtt and room for 2 packets; then S, which has room for 1; then no path is open"
paths  = [{ name = "F", srtt = "5 ms", cwnd = 2 }, { name = "S", srtt = "10 ms", cwnd = 1 }]
expect = "F x2, S, wait"
""")


def scheduler(name: str, home: Path) -> list[str]:
    """Begins a scheduler in the source tree at `home`; tells what was made and what is left to do."""
    if not NAME.fullmatch(name):
        raise ScenarioError(f"`{name}`: a name is lower case, words joined by `-`, like `min-rtt`")
    module, kind = name.replace("-", "_"), name.title().replace("-", "")
    if RESERVED.fullmatch(module):
        raise ScenarioError(f"`{name}` is a keyword of Rust: its file cannot have that name")
    if kind in TAKEN:
        raise ScenarioError(f"`{name}`: its type would be `{kind}`, which the file uses for something else")
    rule = home / "crates/sched/src/rules" / f"{module}.rs"
    vectors = home / "vectors/sched" / f"{name}.toml"
    registry = home / REGISTRY
    _free(name, rule, vectors)
    listed = _listed(registry.read_text(), module)
    words = {"name": name, "title": name.replace("-", " ").capitalize(), "type": kind}
    rule.write_text(RULE.substitute(words))
    vectors.write_text(VECTORS.substitute(words))
    registry.write_text(listed)
    return [
        f"wrote   {rule.relative_to(home)}",
        f"wrote   {vectors.relative_to(home)}",
        f"listed  {module} in {REGISTRY}",
        f"left    your rule and its vectors, then `./weft dev compare wifi-lte --scheduler {name},min-rtt`, "
        "which builds in minutes once, and then in seconds",
    ]


def _free(name: str, *files: Path) -> None:
    if name == specs.EVERY:
        raise ScenarioError(f"`{name}` stands for every scheduler where some are named")
    taken = {alias for entry in _native.schedulers() for alias in (entry["name"], *entry["aliases"])}
    if name in taken:
        raise ScenarioError(f"`{name}` is the name or an alias of a scheduler already")
    for file in files:
        if file.exists():
            raise ScenarioError(f"{file} exists already")


def _listed(registry: str, module: str) -> str:
    """The registry's source with one more line at the end of its list."""
    match = LIST.search(registry)
    if match is None:
        raise ScenarioError(f"{REGISTRY} has no list `schedulers! {{ … }}`")
    return registry[: match.end()] + f"    rules::{module}\n" + registry[match.end() :]
