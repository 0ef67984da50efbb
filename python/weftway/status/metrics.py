"""What a running program tells Prometheus: counters and gauges of its last snapshot, over HTTP."""

from collections.abc import Iterator
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from weftway._native import TransferError, __version__
from weftway.status.snapshot import Snapshot

PORT = 9464


class Metrics(Collector):
    """A server at `address` for the last snapshot. No token, target or name of a host is in what it tells."""

    def __init__(self, host: str, port: int) -> None:
        self._snapshot: Snapshot | None = None
        registry = CollectorRegistry()
        registry.register(self)
        self._server: WSGIServer
        self._thread: Thread
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise TransferError(f"--metrics {host}:{port}: {error.strerror or error}") from None
        named = f"[{host}]" if ":" in host else host
        self.address = f"http://{named}:{self._server.server_port}/metrics"

    def tell(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def collect(self) -> Iterator[Metric]:
        snapshot = self._snapshot
        if snapshot is None:
            return
        yield InfoMetricFamily("weft", "The program", {"program": snapshot["program"], "version": __version__})
        yield _gauge("weft_connected", "Whether connections can be carried", snapshot["state"] == "relaying")
        yield from _links(snapshot["paths"])
        flows = GaugeMetricFamily("weft_flows", "Connections of programs that are open", labels=["class"])
        for name, count in snapshot["by_class"].items():
            flows.add_metric([name], count)
        yield flows
        refusals = CounterMetricFamily("weft_refusals", "Connections that were refused", labels=["reason"])
        for reason, count in snapshot["refusals"].items():
            refusals.add_metric([reason], count)
        yield refusals
        drops = CounterMetricFamily("weft_dropped", "Packets and datagrams that were dropped", labels=["reason"])
        for reason, count in snapshot["drops"].items():
            drops.add_metric([reason], count)
        yield drops
        if unread := snapshot.get("unread"):
            for name, text, key in UNREAD:
                yield _gauge(name, text, unread[key])
        if snapshot["listening"]:
            yield _gauge("weft_clients", "Clients that are here", snapshot["clients"])
            yield from _clients(snapshot["by_client"])


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


UNREAD = (
    ("weft_unread_connections", "Connections with something that nobody has read for a second", "connections"),
    ("weft_unread_bytes", "Bytes that have arrived on these", "bytes"),
    ("weft_receive_memory_bytes", "Memory for what arrives", "memory"),
    ("weft_receive_memory_promised_bytes", "How much of it is promised to connections", "promised"),
)
"""Name, text, the key in what a snapshot says of memory."""

LINKS: tuple[tuple[str, type[CounterMetricFamily | GaugeMetricFamily], str, tuple[str, ...], float], ...] = (
    ("weft_link_bytes", CounterMetricFamily, "Bytes both ways with IP headers, since the start", ("carried",), 1),
    ("weft_link_sent_bytes", CounterMetricFamily, "Bytes of data sent on the connection", ("bytes",), 1),
    ("weft_link_packets", CounterMetricFamily, "Packets with data sent on the connection", ("packets",), 1),
    ("weft_link_lost_packets", CounterMetricFamily, "Those declared lost", ("lost",), 1),
    ("weft_link_rate_bits_per_second", GaugeMetricFamily, "What it carried in the last second", ("mbps",), 1e6),
    ("weft_link_rtt_seconds", GaugeMetricFamily, "Smoothed round-trip time", ("srtt_ms",), 1e-3),
    ("weft_link_up", GaugeMetricFamily, "Whether data can take it", ("up",), 1),
    ("weft_link_open", GaugeMetricFamily, "Whether its policy lets data take it", ("policy", "open"), 1),
    ("weft_link_cap_left_bytes", GaugeMetricFamily, "What is left of its caps", ("policy", "left"), 1),
)
"""Name, kind, text, the key in a path of a snapshot, and what its value is multiplied by."""


def _links(paths: list[dict[str, Any]]) -> Iterator[Metric]:
    by_link = {path["path"]: path for path in paths}
    for name, kind, text, keys, factor in LINKS:
        family = kind(name, text, labels=["link"])
        for link, path in by_link.items():
            value: Any = path
            for key in keys:
                value = (value or {}).get(key)
            if value is not None:
                family.add_metric([link], value * factor)
        yield family
    tiers = GaugeMetricFamily("weft_link_tier", "What a link is for", labels=["link", "tier"])
    for link, path in by_link.items():
        if path.get("policy"):
            tiers.add_metric([link, path["policy"]["tier"]], 1)
    yield tiers


CLIENTS: tuple[tuple[str, type[CounterMetricFamily | GaugeMetricFamily], str, str], ...] = (
    ("weft_client_connections", GaugeMetricFamily, "Connections of a client to the relay", "connections"),
    ("weft_client_flows", GaugeMetricFamily, "Connections of its programs that are open", "flows"),
    ("weft_client_up_bytes", CounterMetricFamily, "Bytes of its programs", "up"),
    ("weft_client_down_bytes", CounterMetricFamily, "Bytes to its programs", "down"),
)


def _clients(clients: list[dict[str, Any]]) -> Iterator[Metric]:
    for name, kind, text, key in CLIENTS:
        family = kind(name, text, labels=["client"])
        for client in clients:
            family.add_metric([client["name"] or ""], client[key])
        yield family
