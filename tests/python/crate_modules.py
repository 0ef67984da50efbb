"""Which modules of a crate use which others, read from its source text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: `("driver", "connection")` for src/driver/connection.rs; `()` for src/lib.rs.
Module = tuple[str, ...]

# Comments and texts are matched so that nothing in them is taken for code.
TOKEN = re.compile(
    r"""
      //[^\n]* | /\*.*?\*/ | b?r(?P<fence>\#*)".*?"(?P=fence) | b?"(?:\\.|[^"\\])*" | b?'(?:\\[^']+|[^'\\])' | \s+
    | (?P<token>\$?\w+ | :: | .)
    """,
    re.VERBOSE | re.DOTALL,
)
UNIT_TESTS = ["#", "[", "cfg", "(", "test", ")", "]"]


@dataclass
class Use:
    """A path of names in the code: in which module it stands, and whether it is only passed on (`pub use`)."""

    scope: Module
    path: list[str]
    exported: str | None = None


@dataclass
class File:
    """Uses and words of one file."""

    uses: list[Use] = field(default_factory=list)
    words: set[str] = field(default_factory=set)


def tokens(text: str) -> list[str]:
    return [match["token"] for match in TOKEN.finditer(text) if match["token"]]


def closing(code: list[str], at: int) -> int:
    """Index at which the bracket at `at` closes."""
    depth = 0
    for here in range(at, len(code)):
        depth += (code[here] in "([{") - (code[here] in ")]}")
        if depth == 0:
            return here
    raise ValueError("a bracket is not closed")


def item_end(code: list[str], at: int) -> int:
    """Behind the item whose attributes begin at `at`."""
    while code[at] not in (";", "{"):
        at = closing(code, at) if code[at] in "([" else at
        at += 1
    return at + 1 if code[at] == ";" else closing(code, at) + 1


def use_tree(code: list[str], at: int, before: list[str]) -> tuple[list[tuple[str, list[str]]], int]:
    """The names that a `use` brings and the path of each, and where it ends."""
    path, found = list(before), []
    while True:
        if code[at] == "{":
            at += 1
            while code[at] != "}":
                more, at = use_tree(code, at, path)
                found += more
                at += code[at] == ","
            return found, at + 1
        path.append(code[at])
        at += 1
        if code[at] != "::":
            break
        at += 1
    if path[-1] == "self" and len(path) > 1:
        path.pop()
    name = path[-1]
    if code[at] == "as":
        name, at = code[at + 1], at + 2
    return [(name, path)], at


class Crate:
    """The modules of a crate: those that have a file, and those that stand within one."""

    def __init__(self, source: Path) -> None:
        self.files: dict[Module, File] = {}
        self.homes: dict[Module, Module] = {}
        self.names: dict[Module, dict[str, list[str]]] = {}
        self.tests: set[Module] = set()
        for path in sorted(source.rglob("*.rs")):
            parts = path.relative_to(source).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "mod" or parts in (("lib",), ("main",)) else parts
            self.files.setdefault(parts, File())
            self.homes[parts] = parts
            self.names.setdefault(parts, {})
            self.read(parts, tokens(path.read_text(encoding="utf-8")))

    def read(self, module: Module, code: list[str]) -> None:
        file, scopes, at = self.files[module], [(module, len(code))], 0
        while at < len(code):
            while at > scopes[-1][1]:
                scopes.pop()
            scope = scopes[-1][0]
            if code[at : at + len(UNIT_TESTS)] == UNIT_TESTS:
                begin, at = at, item_end(code, at + len(UNIT_TESTS))
                if "mod" in code[begin:at] and code[at - 1] == ";":
                    self.tests.add((*scope, code[at - 2]))
            elif code[at] == "mod" and code[at + 2] in (";", "{"):
                if code[at + 2] == "{":
                    inner = (*scope, code[at + 1])
                    self.homes[inner] = module
                    self.names.setdefault(inner, {})
                    scopes.append((inner, closing(code, at + 2)))
                at += 3
            elif code[at] == "use" and (at == 0 or code[at - 1] in (";", "}", "{", "]", ")", "pub")):
                is_public = at > 0 and code[at - 1] in ("pub", ")")
                found, at = use_tree(code, at + 1 + (code[at + 1] == "::"), [])
                for name, path in found:
                    self.names[scope][name] = path
                    file.uses.append(Use(scope, path, name if is_public else None))
            elif re.match(r"\$?[A-Za-z_]", code[at]):
                path = [code[at]]
                while code[at + 1 : at + 2] == ["::"] and code[at + 2].isidentifier():
                    path.append(code[at + 2])
                    at += 2
                file.words.add(path[0])
                if len(path) > 1:
                    file.uses.append(Use(scope, path))
                at += 1
            else:
                at += 1

    def owner(self, scope: Module, path: list[str], seen: frozenset[tuple[Module, str]] = frozenset()) -> Module | None:
        """The module with a file that has what `path` names, seen from `scope`. A name that a module only passes on is
        looked for where it comes from."""
        first, at = path[0], scope
        if first in ("crate", "$crate"):
            at, path = (), path[1:]
        elif first == "self":
            path = path[1:]
        elif first == "super":
            while path and path[0] == "super":
                at, path = at[:-1], path[1:]
        elif (*scope, first) not in self.homes:
            return self.imported(scope, path, seen)
        while path and (*at, path[0]) in self.homes:
            at, path = (*at, path[0]), path[1:]
        if path and path[0] in self.names.get(at, {}):
            return self.imported(at, path, seen)
        return self.homes.get(at)

    def imported(self, scope: Module, path: list[str], seen: frozenset[tuple[Module, str]]) -> Module | None:
        source, key = self.names[scope].get(path[0]), (scope, path[0])
        if source is None or key in seen:
            return None
        return self.owner(scope, source + path[1:], seen | {key})

    def is_test(self, module: Module) -> bool:
        return any(module[: len(test)] == test for test in self.tests)

    def edges(self) -> Iterator[tuple[Module, Module, str]]:
        """Each module, one that it uses, and by which path. Unit tests do not count, nor what is only passed on."""
        for module, file in self.files.items():
            for use in [] if self.is_test(module) else file.uses:
                if use.exported and use.exported not in file.words:
                    continue
                owner = self.owner(use.scope, use.path)
                if owner is not None and owner != module and not self.is_test(owner):
                    yield module, owner, "::".join(use.path)


def reachable(graph: dict[str, dict[str, str]], node: str) -> set[str]:
    found: set[str] = set()
    new = [node]
    while new:
        following = set(graph.get(new.pop(), {})) - found
        found |= following
        new += following
    return found


def mutual(graph: dict[str, dict[str, str]]) -> list[set[str]]:
    """The groups of nodes each of which leads to all others of its group."""
    reach = {node: reachable(graph, node) for node in sorted(graph)}
    groups = [{other for other in reach[node] if node in reach.get(other, ())} for node in reach]
    return [group for at, group in enumerate(groups) if group and group not in groups[:at]]


def circles(source: Path) -> list[str]:
    """The circles among the modules of each folder of a crate, a line for each circle with one reason for each step.

    To those beside it, a module and the files in the folder of its name are one thing. Between these everything is
    allowed: a file may add to a type of the module that it is part of.
    """
    crate, found = Crate(source), []
    for folder in sorted({module[:depth] for module in crate.files for depth in range(len(module))}):
        graph: dict[str, dict[str, str]] = {}
        for user, used, path in crate.edges():
            if user[: len(folder)] == used[: len(folder)] == folder and len(user) > len(folder) < len(used):
                one, other = user[len(folder)], used[len(folder)]
                if one != other:
                    graph.setdefault(one, {}).setdefault(other, f"{'/'.join(user)}.rs: {path}")
        for group in mutual(graph):
            steps = (
                f"{member} → {to} ({why})"
                for member in sorted(group)
                for to, why in graph[member].items()
                if to in group
            )
            found.append("; ".join(steps))
    return found
