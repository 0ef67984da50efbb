"""Knowledge of each link, from the arguments of `weft new scenario`, which are files and values."""

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from weftway._native import ScenarioError
from weftway.links import measured
from weftway.links.measured import Reading, Undecided

KIND_WORDS = {
    "ping",
    "iperf",
    "iperf3",
    "speedtest",
    "pcap",
    "capture",
    "trace",
    "mahimahi",
    "down",
    "downlink",
    "download",
}
KIND_WORDS |= {"up", "uplink", "upload", "tcp", "udp", "irtt", "nuttcp", "srt", "dish", "history", "status", "stats"}
"""Words of a file's name that are about its kind, not its link."""

KEYS = ("rate", "rate.down", "rate.up", "delay", "loss", "queue")
"""Keys that can be given as values: `lte.rate="20 Mbit/s"`."""

LOCAL = "local"
"""Says which addresses in captures are on the user's side: `lte.local=192.0.2.7`."""

ADDRESSED = ("capture", "iperf3")
"""Kinds of measurements that have addresses."""

Ask = Callable[[str, str], str]
"""Asks a question with a default, which may be empty for none; the answer."""


@dataclass
class Link:
    """A link, with its measurements and the values that are given for it."""

    name: str
    readings: list[Reading] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)
    """Keys that were said outright."""
    local: list[str] = field(default_factory=list)
    """Addresses, or networks, of the user's side."""
    origin: str = "given on the command line"


def links_of(arguments: Iterable[str], ask: Ask | None) -> list[Link]:
    """The links that the arguments name, in their order; what no file tells is asked."""
    links: dict[str, Link] = {}
    files: list[tuple[Link, Path]] = []
    for argument in arguments:
        match = re.fullmatch(r"([\w-]+)\.([a-z.]+)=(.+)", argument)
        if match and match[2] in (*KEYS, LOCAL):
            _say(links.setdefault(match[1], Link(link_name(match[1]))), match[2], match[3])
            continue
        if match and not Path(argument).exists():
            keys = ", ".join((*KEYS, LOCAL))
            other = f"; others are written into the file that this makes, as `{match[2]}` under [path.{match[1]}]"
            raise ScenarioError(f"`{argument}`: the keys of a link here are {keys}, as in {match[1]}.delay=20ms{other}")
        named = re.fullmatch(r"([\w-]+)=(.+)", argument, re.DOTALL)
        file = Path(named[2] if named and not Path(argument).exists() else argument)
        name = link_name(named[1]) if named and file != Path(argument) else _name_of(file)
        files.append((links.setdefault(name, Link(name)), file))
    # A value given for a link holds for all its files, wherever it stands.
    for link, file in files:
        link.readings.append(_read(link, file, ask))
    seen: dict[str, str] = {}
    for link in links.values():
        if (other := seen.setdefault(link.name.lower(), link.name)) != link.name:
            raise ScenarioError(f"the links `{other}` and `{link.name}` differ in case alone; name them alike")
        _check_readings(link)
        if link.local and not any(reading.kind in ADDRESSED for reading in link.readings):
            raise ScenarioError(f"{link.name}.{LOCAL} is about captures, and there is none of the link `{link.name}`")
    if len(links) < 2:
        where = f"only of the link `{next(iter(links))}`" if links else "of no link"
        raise ScenarioError(
            f"measurements {where}; a scenario needs two or more: weft new scenario NAME wifi=FILE lte=FILE\n"
            "files whose names begin alike belong to one link: wifi-ping.txt and wifi-iperf3.json to `wifi`"
        )
    return list(links.values())


def _say(link: Link, key: str, value: str) -> None:
    """Adds a value that is given for a link: each key once."""
    if key == LOCAL:
        link.local += _addresses(value)
        return
    whole = key.partition(".")[0]
    rival = next(
        (known for known in link.given if known == key or whole == known or key == known.partition(".")[0]), None
    )
    if rival:
        conflict = "is given twice" if rival == key else f"and {link.name}.{rival} are both given"
        raise ScenarioError(f"{link.name}.{key} {conflict}; leave one of them out")
    link.given[key] = value


def _check_readings(link: Link) -> None:
    """Refuses files of which only one could count."""
    pings = [reading.file for reading in link.readings if reading.kind == "ping"]
    if len(pings) > 1:
        raise ScenarioError(
            f"link `{link.name}`: {pings[0]} and {pings[1]} are both of `ping`; runs in one file are added up, so put "
            "them into one, or leave one out"
        )
    traces: dict[str, Path] = {}
    for reading in link.readings:
        for side in reading.traces:
            if side in traces:
                raise ScenarioError(
                    f"link `{link.name}`: {traces[side]} and {reading.file} are both traces of the direction {side}; "
                    "leave one out, or name its direction, as in lte.up"
                )
            traces[side] = reading.file


def _read(link: Link, file: Path, ask: Ask | None) -> Reading:
    try:
        return measured.read(file, link.local)
    except Undecided as error:
        if ask is None:
            raise ScenarioError(str(error).replace("LINK.", f"{link.name}.")) from None
        question = f"{file}: which address is on your side ({', '.join(error.addresses)})?"
        return measured.read(file, _addresses(ask(question, "")))


def _addresses(text: str) -> list[str]:
    """The addresses and networks in a list with commas."""
    addresses = [part.strip() for part in text.split(",") if part.strip()]
    for address in addresses:
        try:
            ipaddress.ip_network(address, strict=False)
        except ValueError:
            raise ScenarioError(f"`{address}` is no address; expected one such as {LOCAL}=192.0.2.7") from None
    return addresses


def _name_of(file: Path) -> str:
    """The link that a file's name tells.

    >>> _name_of(Path("x/wifi-ping.txt")), _name_of(Path("LTE_iperf3_down.json")), _name_of(Path("Verizon.up"))
    ('wifi', 'lte', 'verizon')
    """
    stem = file.name if file.suffix in (".up", ".down") else file.stem
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", stem.lower()) if part]
    own = [part for part in parts if part not in KIND_WORDS]
    if not own:
        raise ScenarioError(f"{file}: its name does not name a link; write wifi={file}")
    return "-".join(own)


def link_name(text: str) -> str:
    name = text.strip()
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ScenarioError(f"`{text}` is not a name for a link; use letters, digits, `-` and `_`")
    return name
