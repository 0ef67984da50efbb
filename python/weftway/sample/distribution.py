"""Distributions of scenarios: what a policy trains on, and what is held out to evaluate it.

A distribution is a scenario file in which a value may be left open: `{ from = "5 ms", to = "50 ms" }` is a number of
that range, log-uniform unless it begins at zero or says `scale = "linear"`; `{ one_of = [...], weights = [...] }` is
one of several; `{ sometimes = "50 %", value = ... }` is there or not, and `sometimes` in a table decides about the
whole table. Those with the same `draw = "NAME"` share their draw. Besides the keys of a scenario:

- `paths` says how many of the paths an instance has; `weight` in a path, how often it is among them against the others;
  `copies`, that there are so many of it. `order = "drawn"` draws which comes first, in place of the order of the file.
- `[failure]` has one path of the instance fail `at` a time, for good or for as long as it `lasts`. A workload may
  replace either with a `failure` of its own.
- `run = "drawn"` in `[drive]` takes one of the file's runs: an even one for training, an odd one that is held out.
- `load` in a workload is its rate as a share of what the instance's paths carry together, as they begin. The `rate`
  of a stream, or the `period` of messages, is then only a limit; and a `duration` of messages limits their `count`.
- `measure` names the measure that counts.
- `base` lists files, named from its folder, whose keys hold where the file, or a later one of the list, does not have
  them.

>>> there = load("mpquic-pair")
>>> one = there.sample(seed=1, index=0)
>>> one == there.sample(seed=1, index=0)
True
"""

import difflib
import hashlib
import itertools
import json
import math
import os
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from weftway import _native
from weftway._native import Scenario, ScenarioError, Variant
from weftway.files import reading, toml
from weftway.runs.store import whole
from weftway.sample import quantities, randomisation
from weftway.sample.randomisation import Draws, Uniform
from weftway.scenario import HOME, trace_file

FOLDER = HOME / "scenarios" / "distributions"
SPLITS = ("train", "held-out")
"""The parts of a distribution: the place here is the parity of the last digits, and of the seeds of the runs."""

NOT_HERE = ("seeds", "scheduler", "backend", "vary", "range", "figure", "published", "expect", "uncertain")
"""Keys of a scenario that a distribution has no use for."""

OWN = ("title", "description", "measure", "paths", "order", "failure")
"""Keys about the distribution as a whole."""

DECIDING = ("measure", "paths", "order", "failure")
"""Keys among these that no scenario has."""

ORDERS = ("file", "drawn")
"""Orders of an instance's paths: the connection is opened on the first."""

OF_FAILURE = ("sometimes", "draw", "at", "lasts")

OF_PATH = ("copies", "weight")
"""Keys of a path that say how it is drawn."""

TRACE_PACKET = 1500
"""Bytes that a line of a trace lets go."""

BITS = 8
SECOND = 10**9

USUAL_CC = "cubic"
"""A scenario's own default."""


@dataclass(frozen=True)
class Drawn:
    """An instance of a distribution."""

    id: str
    """`mpquic-pair-train-1-7`: the distribution, the split, the seed and the index."""
    text: str
    """The scenario file. It names the controller and the seed of its run."""
    values: dict[str, Any]
    """Its keys and values, as the text has them: `path.fast.rate`, …"""
    cc: str
    """The congestion controller that was drawn."""
    seed: int
    """The seed of its run: even for training, odd for held-out instances."""

    def scenario(self, sets: Sequence[str] = (), folder: str | None = None) -> Scenario:
        """The instance as a scenario, checked by the schema; `folder` is where its file is kept, if it is."""
        name = f"{self.id}.toml"
        place = name if folder is None else str(Path(folder) / name)
        return Scenario.parse(self.text, place, folder or str(FOLDER), list(sets))

    def keep(self, folder: Path, source: Path) -> None:
        """Writes the scenario file into a folder, and the traces that it names from `source` beside it."""
        with whole(folder / f"{self.id}.toml") as half:
            half.write_text(self.text, encoding="utf-8")
        for name in set(_traces(self.values)):
            if not Path(name).is_absolute() and not (folder / name).exists():
                with whole(folder / name) as half:
                    shutil.copyfile(_trace_path(name, source), half)


@dataclass(frozen=True)
class Distribution:
    """Scenarios of one kind, and how likely each is."""

    name: str
    file: str
    keys: dict[str, Any]
    """The file as it stands, over its bases."""
    folder: Path = FOLDER
    """Folder in which it lies: its traces are looked for there and above."""

    @property
    def title(self) -> str:
        """Title, in a line."""
        return str(self.keys.get("title", self.name))

    @property
    def controllers(self) -> list[str]:
        """The congestion controllers that are drawn, in the order of the file."""
        cc = self.keys.get("cc", USUAL_CC)
        return [cc] if isinstance(cc, str) else [*(randomisation.options(cc, "cc") if isinstance(cc, dict) else cc)]

    @property
    def measure(self) -> str | None:
        """The measure by which its instances are judged; by their workload, if it names none."""
        return self.keys.get("measure")

    def sample(self, seed: int, index: int, split: str = "train") -> Drawn:
        """Instance `index` of a seed: a pure function of the three and of the file.

        Each value that is left open has a stream of its own, named by its key: a new one moves no other's draw.
        """
        parity = self._parity(split)
        label = f"{self.name}-{split}-{seed}-{index}"

        def uniform(name: str) -> float:
            return _hash(split, seed, index, name) / 2**64

        run = (_hash(split, seed, index, "seed of the run") >> 32) // 2 * 2 + parity
        return self._drawn(label, run, Draws(uniform, parity))

    def variant(self, drawn: Drawn, sets: Sequence[str] = (), folder: str | None = None) -> Variant:
        """An instance as the native side takes it. A mistake is told with the distribution's file."""
        try:
            (variant,) = drawn.scenario(sets, folder or str(self.folder)).variants()
        except ScenarioError as error:
            raise ScenarioError(f"{self.file}, as drawn for {drawn.id}: {error}") from None
        return variant

    def pool(self, seed: int, n: int, split: str = "train") -> list[Variant]:
        """The first `n` instances of a seed, each read and checked."""
        return [self.variant(self.sample(seed, index, split)) for index in range(n)]

    def checked(self) -> "Distribution":
        """Itself, if the ends of every range and every choice make a scenario; else it says what is wrong."""
        steps = max(_widest(self.keys), 2)
        for place, parity in itertools.product(range(steps + 1), range(len(SPLITS))):
            at = min(place / steps, 1 - 2**-40)
            self.variant(self._drawn(f"{self.name}, every draw {at:.3g}", 0, Draws(_always(at), parity)))
        return self

    def _parity(self, split: str) -> int:
        if split not in SPLITS:
            raise ScenarioError(f"no split `{split}`: there is {' and '.join(SPLITS)}")
        return SPLITS.index(split)

    def _drawn(self, label: str, run: int, draws: Draws) -> Drawn:
        try:
            keys = self._instance(draws)
        except ScenarioError as error:
            raise ScenarioError(f"{self.file}: {error}") from None
        head = {"title": label, "seeds": f"{run}..{run + 1}"}
        body = {key: value for key, value in keys.items() if key not in OWN}
        return Drawn(label, written({**head, **body}), flat(body), str(body.get("cc", USUAL_CC)), run)

    def _instance(self, draws: Draws) -> dict[str, Any]:
        if refused := [key for key in NOT_HERE if key in self.keys]:
            raise ScenarioError(f"`{refused[0]}`: a distribution has no such key; it describes scenarios, not runs")
        keys = {**self.keys, "path": _paths(self.keys, draws)}
        keys["workload"] = _workload(keys.get("workload"), draws)
        if isinstance(keys.get("cc"), list):
            keys["cc"] = {"one_of": keys["cc"]}
        instance: dict[str, Any] = randomisation.drawn({key: keys[key] for key in keys if key not in OWN}, "", draws)
        work = instance["workload"]
        own = work.pop("failure", {}) if isinstance(work, dict) else {}
        _fail(instance["path"], self.keys.get("failure"), own, draws)
        if isinstance(instance.get("drive"), dict):
            instance["drive"] = _drive(instance["drive"], self.folder, draws)
        if isinstance(work, dict) and "load" in work:
            side = "up" if instance.get("direction") == "upload" else "down"
            rates = {} if "drive" not in instance else _mean_rates(instance["drive"], side, self.folder)
            carried = sum(
                (_carried(name, path, side, self.folder, rates) for name, path in instance["path"].items()), Decimal(0)
            )
            instance["workload"] = _loaded(work, carried)
        return _pruned(instance, _every_path(self.keys))


def load(name: str | os.PathLike[str]) -> Distribution:
    """The distribution in a file, or one of ours by its name, checked."""
    file = Path(name)
    if not file.is_file():
        file = FOLDER / f"{os.fspath(name)}.toml"
    if not file.is_file():
        ours = names()
        near = difflib.get_close_matches(os.fspath(name), ours, n=1)
        raise ScenarioError(
            f"no distribution `{name}`; {f'did you mean `{near[0]}`?' if near else 'there is ' + ', '.join(ours)}"
        )
    shown = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return parse(reading.text(shown), file.stem, str(shown), file.resolve().parent)


def parse(text: str, name: str, file: str = "", folder: Path = FOLDER) -> Distribution:
    """The distribution that `text` describes, checked."""
    try:
        keys = _with_bases(tomllib.loads(text), folder)
    except (tomllib.TOMLDecodeError, ScenarioError) as error:
        raise ScenarioError(f"{file or name}: {error}") from None
    return Distribution(name, file or name, keys, folder).checked()


def _with_bases(keys: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The keys of a file over those of its bases, whose own bases stand before them."""
    names = keys.get("base", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ScenarioError('base: a list of files is needed, such as ["world.toml"]')
    whole: dict[str, Any] = {}
    for name in names:
        try:
            below = tomllib.loads(reading.text(folder / name))
        except (OSError, ScenarioError) as error:
            raise ScenarioError(f"base: `{name}` cannot be read: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise ScenarioError(f"base: `{name}`: {error}") from None
        if not set(below.pop("base", [])) <= set(names[: names.index(name)]):
            raise ScenarioError(f"base: `{name}` has a base of its own; name that before it")
        whole = _over(below, whole)
    merged: dict[str, Any] = _over({key: value for key, value in keys.items() if key != "base"}, whole)
    return merged


def _over(top: Any, below: Any) -> Any:
    """`top` over `below`: tables key by key, anything else, and what is drawn, as a whole."""
    tables = [isinstance(one, dict) and not randomisation.SIGNS & one.keys() for one in (top, below)]
    if not all(tables):
        return top
    return {**below, **{key: _over(value, below[key]) if key in below else value for key, value in top.items()}}


def names() -> list[str]:
    """The distributions of the source tree."""
    return sorted(file.stem for file in FOLDER.glob("*.toml"))


def is_one(keys: dict[str, Any]) -> bool:
    """Returns whether a file with these keys is a distribution, and no scenario: something in it is left to chance."""
    lists = any(isinstance(keys.get(key), list) for key in ("base", "workload"))
    return lists or any(key in keys for key in DECIDING) or _is_open(keys)


def _is_open(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(randomisation.SIGNS & value.keys()) or any(map(_is_open, value.values()))
    return isinstance(value, list) and any(map(_is_open, value))


def number_of_bytes(text: str, where: str) -> int:
    """A size such as `"20 MB"` in bytes."""
    return int(quantities.quantity(text, "size", where))


def _always(number: float) -> Uniform:
    return lambda name: number


def _hash(*parts: object) -> int:
    """64 bits that depend on every part. No generator's state: any draw can be had without the others."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:8], "big")


def _every_path(keys: dict[str, Any]) -> dict[str, Any]:
    """The paths of the file, copies made."""
    tables = keys.get("path")
    if not isinstance(tables, dict) or not tables or not all(isinstance(table, dict) for table in tables.values()):
        raise ScenarioError("path: at least one table `[path.NAME]` is needed")
    paths: dict[str, Any] = {}
    for name, table in tables.items():
        body = {key: value for key, value in table.items() if key not in OF_PATH}
        copies = table.get("copies")
        if copies is not None and (type(copies) is not int or copies < 1):
            raise ScenarioError(f"path.{name}.copies: `{copies}` is not a number of paths")
        labels = [name] if copies is None else [f"{name}{place}" for place in range(1, copies + 1)]
        paths.update(dict.fromkeys(labels, body))
    return paths


def _paths(keys: dict[str, Any], draws: Draws) -> dict[str, Any]:
    """The paths of an instance: as many as `paths` says, in the order of the file."""
    every = _every_path(keys)
    count = randomisation.drawn(keys.get("paths", len(every)), "paths", draws)
    if type(count) is not int or not 0 < count <= len(every):
        raise ScenarioError(f"paths: cannot choose {count} of {len(every)} paths")
    weights = _path_weights(keys)
    if count > sum(weight > 0 for weight in weights.values()):
        raise ScenarioError(f"paths: cannot choose {count} paths where the rest have weight 0")
    equal = len(set(weights.values())) == 1

    def rank(name: str) -> float:
        uniform = draws.uniform(f"paths.{name}")
        return uniform if equal else _rank(uniform, weights[name])

    kept = sorted(every, key=rank)[:count]
    order = keys.get("order", ORDERS[0])
    if order not in ORDERS:
        raise ScenarioError(f"order: `{order}` is not an order of paths; there is {' and '.join(ORDERS)}")
    if order == "drawn":
        kept.sort(key=lambda name: draws.uniform(f"order.{name}"))
        return {name: every[name] for name in kept}
    return {name: table for name, table in every.items() if name in kept}


def _path_weights(keys: dict[str, Any]) -> dict[str, float]:
    """Weight with which each path is drawn against the others."""
    weights: dict[str, float] = {}
    for name, table in keys["path"].items():
        weight = table.get("weight", 1)
        if type(weight) not in (int, float) or weight < 0:
            raise ScenarioError(f"path.{name}.weight: `{weight}` is not a weight such as 2, against the others' 1")
        copies = table.get("copies")
        labels = [name] if copies is None else [f"{name}{place}" for place in range(1, copies + 1)]
        weights.update(dict.fromkeys(labels, float(weight)))
    return weights


def _rank(uniform: float, weight: float) -> float:
    """Rank by which paths are drawn, the least first: as when one after the other is taken out of an urn in which each
    has its weight (Efraimidis and Spirakis, 2006). With equal weights it is the order of the numbers themselves."""
    return -math.log1p(-uniform) / weight if weight else math.inf


def _fail(paths: dict[str, Any], given: Any, own: Any, draws: Draws) -> None:
    """Has one of the paths fail, if the draws say so."""
    if given is None:
        return
    if not isinstance(given, dict) or not isinstance(own, dict):
        raise ScenarioError('failure: a table is needed, such as { sometimes = "20 %", at = "2 s", lasts = "1 s" }')
    if extra := [key for key in (*given, *own) if key not in OF_FAILURE]:
        raise ScenarioError(f"failure: unknown key `{extra[0]}`; there is {', '.join(OF_FAILURE)}")
    table = {**given, **own}
    if "at" not in table:
        raise ScenarioError("failure: `at` is missing: when the path fails")
    there = randomisation.drawn({"failure": table}, "", draws).get("failure")
    able = [name for name, path in paths.items() if "schedule" not in path]
    if there is None or not able:
        return
    at = quantities.quantity(there["at"], "time", "failure.at")
    schedule = [{"at": there["at"], "state": "down"}]
    if "lasts" in there:
        end = at + quantities.quantity(there["lasts"], "time", "failure.lasts")
        schedule.append({"at": f"{format((end / SECOND).normalize(), 'f')} s", "state": "up"})
    fails = able[min(int(draws.uniform("failure.path") * len(able)), len(able) - 1)]
    paths[fails] = {**paths[fails], "schedule": schedule}


def _carried(name: str, path: dict[str, Any], side: str, folder: Path, measured: dict[str, Decimal]) -> Decimal:
    """Rate of a path as it begins, in bit/s: towards `side`, as given, or the mean of its trace or drive."""
    if measured and "drive" in path:
        if path["drive"] not in measured:
            there = ", ".join(measured)
            raise ScenarioError(f"path.{name}.drive: unknown link of the drive `{path['drive']}`; there is {there}")
        return measured[path["drive"]]
    trace, rate = (
        entry.get(side) if isinstance(entry, dict) else entry for entry in (path.get("trace"), path.get("rate"))
    )
    if trace is not None:
        return _mean_rate(_trace_path(trace, folder))
    if rate is None:
        raise ScenarioError(f"path.{name}: no rate towards `{side}`, and `load` in the workload is a share of it")
    return quantities.quantity(rate, "rate", f"path.{name}.rate")


def _drive(given: dict[str, Any], folder: Path, draws: Draws) -> dict[str, Any]:
    """The drive of an instance: with one of its runs, if that is drawn."""
    if given.get("run") != "drawn":
        return given
    runs = [run for run in _runs(_trace_path(_drive_file(given), folder)) if run % 2 == draws.parity]
    if not runs:
        raise ScenarioError("drive.run: to draw one, the file has to have runs of even and of odd numbers")
    return {**given, "run": runs[min(int(draws.uniform("drive.run") * len(runs)), len(runs) - 1)]}


def _drive_file(given: dict[str, Any]) -> str:
    """A file of the drive: all have the same runs."""
    file = given.get("file")
    names = list(file.values()) if isinstance(file, dict) else [file]
    if not names or not isinstance(names[0], str):
        raise ScenarioError("drive.file: the name of a file is needed")
    return names[0]


def _mean_rates(given: dict[str, Any], side: str, folder: Path) -> dict[str, Decimal]:
    """Mean rates of a drive's links towards `side`, in bit/s; empty where that was not measured."""
    file = given.get("file")
    name = file.get(side) if isinstance(file, dict) else file
    if name is None:
        return {}
    runs = _runs(_trace_path(str(name), folder))
    run = given.get("run", next(iter(runs)))
    if run not in runs:
        raise ScenarioError(f"drive.run: `{name}` has no run {run}")
    return runs[run]


@cache
def _runs(file: Path) -> dict[int, dict[str, Decimal]]:
    """Each run of a drive file, with the mean rate of each of its links."""
    try:
        runs = _native.drive_runs(reading.text(file))
    except ScenarioError as error:
        raise ScenarioError(f"drive `{file}`: {error}") from None
    return {run: {name: Decimal(rate) for name, rate in means.items()} for run, _, means in runs}


def _trace_path(trace: str, folder: Path) -> Path:
    """The trace's file, as a scenario looks for it."""
    if (path := trace_file(trace, folder)) is None:
        raise ScenarioError(
            f"trace `{trace}`: no such file; traces are looked for in {folder} and the folders above it"
        )
    return path


@cache
def _mean_rate(file: Path) -> Decimal:
    try:
        lines = [int(line) for line in reading.text(file).split()]
    except ValueError:
        raise ScenarioError(f"trace `{file}`: each line is a whole number of milliseconds") from None
    if not lines or lines[-1] <= 0:
        raise ScenarioError(f"trace `{file}`: it carries nothing")
    return Decimal(len(lines) * TRACE_PACKET * BITS * 1000) / lines[-1]


def _loaded(work: dict[str, Any], carried: Decimal) -> dict[str, Any]:
    """A workload with its rate in the place of its load."""
    load = Decimal(str(quantities.share(work["load"], "workload.load")))
    rest = {key: value for key, value in work.items() if key != "load"}
    rate = load * carried
    if rate <= 0:
        raise ScenarioError("workload.load: expected more than 0")
    if work.get("kind") in ("stream", "limited", "datagrams"):
        if "rate" in rest:
            rate = min(rate, quantities.quantity(rest["rate"], "rate", "workload.rate"))
        return {**rest, "rate": f"{quantities.digits(rate / 10**6)} Mbit/s"}
    if work.get("kind") == "messages":
        return _paced(rest, rate)
    kinds = "messages, stream, limited, datagrams"
    raise ScenarioError(f"workload.load: `{work.get('kind')}` has no rate; there is {kinds}")


def _paced(work: dict[str, Any], rate: Decimal) -> dict[str, Any]:
    """Messages at such a rate."""
    sizes = work.get("sizes", [{"weight": 1, "bytes": work.get("size")}])
    weights = [Decimal(str(size.get("weight", 1))) for size in sizes]
    bytes_ = [quantities.quantity(size.get("bytes"), "size", "workload.sizes") for size in sizes]
    if not sum(weights):
        raise ScenarioError("workload.sizes: not all weights can be zero")
    mean = sum((weight * size for weight, size in zip(weights, bytes_, strict=True)), Decimal(0)) / sum(weights)
    period = mean * BITS * SECOND / rate
    if "period" in work:
        period = max(period, quantities.quantity(work["period"], "time", "workload.period"))
    paced = {**work, "period": f"{quantities.digits(period / 10**6)} ms"}
    if "duration" in paced:
        fitting = max(int(quantities.quantity(paced.pop("duration"), "time", "workload.duration") / period), 1)
        paced["count"] = min(fitting, paced.get("count", fitting))
    return paced


def _workload(given: Any, draws: Draws) -> Any:
    """Draws one of several workloads, by their `weight`."""
    if not isinstance(given, list):
        return given
    weights = [workload.get("weight", 1) for workload in given]
    bodies = [{key: value for key, value in workload.items() if key != "weight"} for workload in given]
    return randomisation.drawn({"one_of": bodies, "weights": weights}, "workload", draws)


def _pruned(keys: dict[str, Any], every: dict[str, Any]) -> dict[str, Any]:
    """Removes links that no path of the instance crosses, and sources on paths and links that it lacks."""
    crossed = {path.get("via") for path in keys["path"].values()}
    links = {name: link for name, link in keys.get("link", {}).items() if name in crossed}
    lacking = {*every, *keys.get("link", {})} - {*keys["path"], *links}
    cross = {name: source for name, source in keys.get("cross", {}).items() if source.get("on") not in lacking}
    return {key: value for key, value in {**keys, "link": links, "cross": cross}.items() if value != {}}


def _widest(value: Any) -> int:
    """The most values that a choice of the file has."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = len(value) if isinstance(value, list) else 0
    return max([own, *map(_widest, inner)])


def _traces(values: dict[str, Any]) -> Iterator[str]:
    """The names of the traces and drive files among an instance's values."""
    for key, value in values.items():
        if (".trace" in key or key.startswith("drive.file")) and isinstance(value, str):
            yield value


def flat(keys: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Dotted keys and their values."""
    dotted: dict[str, Any] = {}
    for key, value in keys.items():
        dotted.update(flat(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value})
    return dotted


def written(keys: dict[str, Any]) -> str:
    """A scenario file of these keys: tables where a scenario has tables, the rest inline."""
    tables = {key: value for key, value in keys.items() if isinstance(value, dict)}
    lines = [f"{toml.key(key)} = {toml.inline(value)}" for key, value in keys.items() if key not in tables]
    for key, table in tables.items():
        named = key in ("path", "link", "cross")
        parts = [(f"{key}.{toml.key(name)}", body) for name, body in table.items()] if named else [(key, table)]
        for head, body in parts:
            lines += ["", f"[{head}]", *(f"{toml.key(name)} = {toml.inline(value)}" for name, value in body.items())]
    return "\n".join(lines) + "\n"
