"""Addresses of a capture on the user's side of the link: decided by what is certain, or asked."""

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from weftway._native import ScenarioError

from .packets import Flow, Packet
from .reading import Undecided

SYN, ACK = 2, 16

SERVERS = {4433, 4443, 5201, 8080, 8443}
"""Ports at which servers listen, beside those below 1024."""

PRIVATE = [
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
]
"""RFC 1918, 6598 and 4193."""

MUCH = 0.05
"""Share of bytes between addresses of unknown sides, or of the wrong one, above which the user is asked."""

SHOWN = 4

Pair = tuple[str, str]


def users(file: Path, packets: Sequence[Packet], local: Sequence[str]) -> set[str]:
    """The addresses on the user's side."""
    carried: Counter[Pair] = Counter()
    for packet in packets:
        carried[_pair(packet)] += packet.bytes
    busiest: Counter[str] = Counter()
    for pair, count in carried.items():
        for address in pair:
            busiest[address] += count
    named = [address for address, _ in busiest.most_common(SHOWN)]
    if local:
        addresses = {address for address in busiest if is_in(address, local)}
        if not addresses:
            raise ScenarioError(f"{file}: no packet of {', '.join(local)}; it has {', '.join(named)}")
        return addresses
    sides = _sides(packets)
    # The side of an address is that of most of its bytes: a stray connection the other way does not turn a link round.
    votes: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    for pair, user in sides.items():
        for address in pair if user else ():
            votes[address][address == user] += carried[pair]
    addresses = {address for address, vote in votes.items() if vote[True] > vote[False]}
    unsure = sum(count for pair, count in carried.items() if len(addresses & {*pair}) != 1)
    unsure += sum(min(vote[True], vote[False]) for vote in votes.values())
    if unsure > MUCH * carried.total():
        raise Undecided(file, "it does not show which side is the user's", named)
    return addresses


def _pair(packet: Packet) -> Pair:
    return min(packet.source, packet.target), max(packet.source, packet.target)


def _sides(packets: Iterable[Packet]) -> dict[Pair, str]:
    """The user's address in each pair, or nothing where its packets say nothing or both."""
    signs: defaultdict[Pair, set[str]] = defaultdict(set)
    seen: set[tuple[Pair, Flow | None, int]] = set()
    for packet in packets:
        opening = packet.flags & (SYN | ACK) if packet.flags & SYN else 0
        key = (_pair(packet), packet.flow, opening)
        if key not in seen:
            seen.add(key)
            signs[key[0]].update(_signs(packet, opening))
    return {pair: next(iter(addresses)) if len(addresses) == 1 else "" for pair, addresses in signs.items()}


def _signs(packet: Packet, opening: int) -> list[str]:
    """The user's address, as far as this packet says it: who opens, who talks to a server's port, who is private."""
    addresses = []
    if opening:
        addresses.append(packet.target if opening & ACK else packet.source)
    if packet.flow and _serves(packet.flow.source_port) != _serves(packet.flow.target_port):
        addresses.append(packet.target if _serves(packet.flow.source_port) else packet.source)
    if _is_private(packet.source) != _is_private(packet.target):
        addresses.append(packet.source if _is_private(packet.source) else packet.target)
    return addresses


def _serves(port: int) -> bool:
    return port < 1024 or port in SERVERS


def _is_private(address: str) -> bool:
    return any(ipaddress.ip_address(address) in network for network in PRIVATE)


def is_in(address: str, networks: Sequence[str]) -> bool:
    """Returns whether it is one of the addresses, or in one of the networks."""
    own = ipaddress.ip_address(address.partition("%")[0])
    return any(own in ipaddress.ip_network(network, strict=False) for network in networks)
