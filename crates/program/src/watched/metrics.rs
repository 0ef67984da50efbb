//! Metrics of a running program for Prometheus: counters and gauges of its last snapshot.

use std::fmt::Write;

use weftway_relay::WayView;
use weftway_transfer::{ClientProgress, LinkHealth, PathProgress, PipeProgress, PipeRate, Unread};

use super::snapshot::{PathNow, Snapshot};

/// The kind of a metric.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// Metrics in Prometheus' text format.
#[derive(Default)]
struct Families(String);

impl Families {
    /// Adds a metric with these samples, each with its labels. A counter's name ends in `_total`.
    fn add<'a>(
        &mut self,
        (name, kind, text): (&str, Kind, &str),
        samples: impl Iterator<Item = (Vec<(&'static str, &'a str)>, f64)>,
    ) {
        let (suffix, kind) = match kind {
            Kind::Counter => ("_total", "counter"),
            Kind::Gauge => ("", "gauge"),
        };
        let _ = writeln!(self.0, "# HELP {name}{suffix} {text}\n# TYPE {name}{suffix} {kind}");
        for (labels, value) in samples {
            let labels: Vec<_> = labels.iter().map(|(key, text)| format!("{key}=\"{}\"", escaped(text))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.0, "{name}{suffix}{labels} {value:?}");
        }
    }

    fn gauge(&mut self, name: &str, text: &str, value: f64) {
        self.add((name, Kind::Gauge, text), std::iter::once((Vec::new(), value)));
    }
}

/// The value of a label as the format has it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

/// The metrics of a snapshot. No token, target or name of a host is in it.
pub fn text(snapshot: &Snapshot) -> String {
    let mut told = Families::default();
    let about = vec![("program", &snapshot.program[..]), ("version", env!("CARGO_PKG_VERSION"))];
    told.add(("weft_info", Kind::Gauge, "The program"), std::iter::once((about, 1.0)));
    told.gauge("weft_connected", "Whether connections can be carried", number(snapshot.state == "relaying"));
    links(&mut told, &snapshot.paths);
    let (progress, seen) = (&snapshot.progress, &snapshot.progress.connections);
    let open = seen.by_class;
    let open = [("realtime", open.realtime), ("interactive", open.interactive), ("bulk", open.bulk)];
    let flows = open.into_iter().map(|(class, count)| (vec![("class", class)], count as f64));
    told.add(("weft_flows", Kind::Gauge, "Connections of programs that are open"), flows);
    let refusals = seen.refusals.iter().map(|(reason, &count)| (vec![("reason", *reason)], count as f64));
    told.add(("weft_refusals", Kind::Counter, "Connections that were refused"), refusals);
    let drops = seen.drops.iter().map(|(reason, &count)| (vec![("reason", *reason)], count as f64));
    told.add(("weft_dropped", Kind::Counter, "Packets and datagrams that were dropped"), drops);
    unread(&mut told, &seen.unread);
    if !progress.pipes.is_empty() {
        pipes(&mut told, &progress.pipes);
    }
    if progress.listening.is_some() {
        told.gauge("weft_clients", "Clients that are here", progress.clients as f64);
        clients(&mut told, &seen.by_client);
    }
    told.0
}

fn number(value: bool) -> f64 {
    if value { 1.0 } else { 0.0 }
}

/// A metric of a link: its name, kind and text, and its value, if there is one.
type OfLink = ((&'static str, Kind, &'static str), fn(&PathNow) -> Option<f64>);

const LINKS: [OfLink; 9] = [
    (("weft_link_bytes", Kind::Counter, "Bytes both ways with IP headers, since the start"), |now| {
        now.path.carried.map(|bytes| bytes as f64)
    }),
    (("weft_link_sent_bytes", Kind::Counter, "Bytes of data sent on the connection"), |now| {
        Some(now.path.bytes as f64)
    }),
    (("weft_link_packets", Kind::Counter, "Packets with data sent on the connection"), |now| {
        Some(now.path.packets as f64)
    }),
    (("weft_link_lost_packets", Kind::Counter, "Those declared lost"), |now| Some(now.path.lost as f64)),
    (("weft_link_rate_bits_per_second", Kind::Gauge, "What it carried in the last second"), |now| Some(now.mbps * 1e6)),
    (("weft_link_rtt_seconds", Kind::Gauge, "Smoothed round-trip time"), |now| Some(now.path.srtt_ms? * 1e-3)),
    (("weft_link_up", Kind::Gauge, "Whether data can take it"), |now| Some(number(now.path.up))),
    (("weft_link_open", Kind::Gauge, "Whether its policy lets data take it"), |now| {
        now.path.policy.as_ref().map(|policy| number(policy.open))
    }),
    (("weft_link_cap_left_bytes", Kind::Gauge, "What is left of its caps"), |now| {
        now.path.policy.as_ref().and_then(|policy| policy.left).map(|bytes| bytes as f64)
    }),
];

fn links(told: &mut Families, paths: &[PathNow]) {
    let mut by_link: Vec<&PathNow> = Vec::new();
    for now in paths {
        // A name that is there twice would be a metric with two values.
        match by_link.iter_mut().find(|one| one.path.path == now.path.path) {
            Some(one) => *one = now,
            None => by_link.push(now),
        }
    }
    let name = |path: &PathProgress| path.path.clone();
    let names: Vec<String> = by_link.iter().map(|now| name(&now.path)).collect();
    let named = || names.iter().map(String::as_str).zip(&by_link);
    for (family, value) in LINKS {
        told.add(family, named().filter_map(|(link, now)| Some((vec![("link", link)], value(now)?))));
    }
    let tiers = named()
        .filter_map(|(link, now)| Some((vec![("link", link), ("tier", &now.path.policy.as_ref()?.tier[..])], 1.0)));
    told.add(("weft_link_tier", Kind::Gauge, "What a link is for"), tiers);
}

fn unread(told: &mut Families, unread: &Unread) {
    let values = [
        ("weft_unread_connections", "Connections with something that nobody has read for a second", unread.connections),
        ("weft_unread_bytes", "Bytes that have arrived on these", unread.bytes),
        ("weft_receive_memory_bytes", "Memory for what arrives", unread.memory),
        ("weft_receive_memory_promised_bytes", "How much of it is promised to connections", unread.promised),
    ];
    for (name, text, value) in values {
        told.gauge(name, text, value as f64);
    }
}

/// A metric of a direction of a pipe: its name, kind and text, and its value, if there is one.
type OfWay = ((&'static str, Kind, &'static str), fn(&WayView) -> Option<f64>);

const WAYS: [OfWay; 8] = [
    (("weft_pipe_datagrams", Kind::Counter, "Datagrams that came"), |way| Some(way.total.datagrams as f64)),
    (("weft_pipe_bytes", Kind::Counter, "Bytes of their data"), |way| Some(way.total.bytes as f64)),
    (("weft_pipe_delivered", Kind::Counter, "Datagrams that arrived in time"), |way| Some(way.total.delivered as f64)),
    (("weft_pipe_late", Kind::Counter, "Datagrams that arrived late"), |way| Some(way.total.late as f64)),
    (("weft_pipe_lost", Kind::Counter, "Datagrams that did not arrive"), |way| Some(way.total.lost as f64)),
    (
        ("weft_pipe_delay_p50_seconds", Kind::Gauge, "One-way delay that half did not exceed in the last second"),
        |way| Some(way.second.p50_ms? * 1e-3),
    ),
    (("weft_pipe_delay_p95_seconds", Kind::Gauge, "One-way delay that 95 % did not exceed"), |way| {
        Some(way.second.p95_ms? * 1e-3)
    }),
    (("weft_pipe_delay_p99_seconds", Kind::Gauge, "One-way delay that 99 % did not exceed"), |way| {
        Some(way.second.p99_ms? * 1e-3)
    }),
];

/// Metrics of pipes, by their names. The way up is to the relay.
fn pipes<'a>(told: &mut Families, pipes: &'a [PipeProgress]) {
    let named = |pipe: &'a PipeProgress| ("pipe", &pipe.name[..]);
    for (family, value) in WAYS {
        let ways = pipes.iter().flat_map(|pipe| [(pipe, "up", &pipe.up), (pipe, "down", &pipe.down)]);
        let samples = ways.filter_map(|(pipe, way, view)| Some((vec![named(pipe), ("way", way)], value(view)?)));
        told.add(family, samples);
    }
    let overhead = pipes.iter().filter_map(|pipe| Some((vec![named(pipe)], pipe.overhead?)));
    told.add(("weft_pipe_overhead", Kind::Gauge, "Bytes sent over all links for each byte that came"), overhead);
    let shares = pipes.iter().flat_map(|pipe| pipe.links.iter().map(move |link| (pipe, link)));
    let shares = shares.map(|(pipe, link)| (vec![named(pipe), ("link", &link.path[..])], link.share));
    told.add(("weft_pipe_link_share", Kind::Gauge, "Part of what was sent that a link carried"), shares);
    let links = pipes.iter().flat_map(|pipe| pipe.links.iter().map(move |link| (pipe, link)));
    let good = links
        .map(|(pipe, link)| (vec![named(pipe), ("link", &link.path[..])], number(link.health == LinkHealth::Good)));
    told.add(("weft_pipe_link_good", Kind::Gauge, "Whether a link brings datagrams in time"), good);
    let rates = |of: fn(&PipeRate) -> u64| pipes.iter().map(move |pipe| (vec![named(pipe)], of(&pipe.rate) as f64));
    let text = "Rate at which its source may send now";
    told.add(("weft_pipe_rate_bits_per_second", Kind::Gauge, text), rates(|rate| rate.now_bps));
    let text = "Rate at which it may send in the next second";
    told.add(("weft_pipe_rate_next_bits_per_second", Kind::Gauge, text), rates(|rate| rate.next_bps));
}

/// A metric of a client: its name, kind and text, and its value.
type OfClient = ((&'static str, Kind, &'static str), fn(&ClientProgress) -> u64);

const CLIENTS: [OfClient; 4] = [
    (("weft_client_connections", Kind::Gauge, "Connections of a client to the relay"), |client| client.connections),
    (("weft_client_flows", Kind::Gauge, "Connections of its programs that are open"), |client| client.flows),
    (("weft_client_up_bytes", Kind::Counter, "Bytes of its programs"), |client| client.up),
    (("weft_client_down_bytes", Kind::Counter, "Bytes to its programs"), |client| client.down),
];

fn clients(told: &mut Families, clients: &[ClientProgress]) {
    for (family, value) in CLIENTS {
        let named = clients.iter().map(|client| (client.name.as_deref().unwrap_or(""), client));
        told.add(family, named.map(|(name, client)| (vec![("client", name)], value(client) as f64)));
    }
}

#[cfg(test)]
mod tests {
    use weftway_relay::{WayCounts, WaySecond};
    use weftway_transfer::{PipeLink, Progress, UnreadFlow};

    use super::super::snapshot::tests::{progress, snapshot};
    use super::*;

    #[test]
    fn links_connections_refusals_and_drops_are_told() {
        let told = text(&snapshot(&progress()));
        for line in [
            "# TYPE weft_info gauge",
            "weft_connected 1.0",
            "# TYPE weft_link_bytes_total counter",
            "weft_link_bytes_total{link=\"wlan0\"} 5000000.0",
            "weft_link_rtt_seconds{link=\"wlan0\"} 0.0125",
            "weft_link_open{link=\"wlan0\"} 0.0",
            "weft_link_tier{link=\"wlan0\",tier=\"secondary\"} 1.0",
            "weft_flows{class=\"bulk\"} 2.0",
            "weft_refusals_total{reason=\"not_allowed\"} 4.0",
            "weft_dropped_total{reason=\"malformed\"} 1.0",
        ] {
            assert!(told.lines().any(|one| one == line), "{line} is not in\n{told}");
        }
        assert!(!told.contains("weft_clients"), "it is no relay");
    }

    #[test]
    fn of_what_is_not_read_the_amount_is_told_and_not_the_target() {
        let mut told = progress();
        let most = vec![UnreadFlow { target: "example.org:443".into(), bytes: 2_000_000 }];
        told.connections.unread =
            Unread { memory: 536_870_912, promised: 90_000_000, connections: 2, bytes: 3_500_000, most };
        let told = text(&snapshot(&told));
        assert!(told.contains("\nweft_unread_connections 2.0\n"));
        assert!(told.contains("\nweft_unread_bytes 3500000.0\n"));
        assert!(told.contains("\nweft_receive_memory_bytes 536870912.0\n"));
        assert!(told.contains("\nweft_receive_memory_promised_bytes 90000000.0\n"));
        assert!(!told.contains("example"));
    }

    #[test]
    fn pipes_are_told_by_their_names() {
        let counts = WayCounts { datagrams: 10, bytes: 5000, delivered: 7, late: 2, lost: 1 };
        let second = WaySecond { counts, p50_ms: Some(20.0), p95_ms: None, p99_ms: Some(250.0) };
        let up = WayView { total: counts, second };
        let links = vec![PipeLink { path: "wlan0".into(), sent: 6000, share: 0.75, health: LinkHealth::Late }];
        let pipe = PipeProgress {
            name: "camera".into(),
            listen: "127.0.0.1:9000".into(),
            deliver: "secret.example:9001".into(),
            up,
            overhead: Some(1.25),
            rate: PipeRate { now_bps: 8_000_000, next_bps: 5_000_000 },
            links,
            ..PipeProgress::default()
        };
        assert!(!text(&snapshot(&progress())).contains("weft_pipe"), "it has none");
        let told = text(&snapshot(&Progress { pipes: vec![pipe], ..progress() }));
        for line in [
            "weft_pipe_datagrams_total{pipe=\"camera\",way=\"up\"} 10.0",
            "weft_pipe_late_total{pipe=\"camera\",way=\"up\"} 2.0",
            "weft_pipe_lost_total{pipe=\"camera\",way=\"down\"} 0.0",
            "weft_pipe_delay_p99_seconds{pipe=\"camera\",way=\"up\"} 0.25",
            "weft_pipe_overhead{pipe=\"camera\"} 1.25",
            "weft_pipe_link_share{pipe=\"camera\",link=\"wlan0\"} 0.75",
            "weft_pipe_link_good{pipe=\"camera\",link=\"wlan0\"} 0.0",
            "weft_pipe_rate_bits_per_second{pipe=\"camera\"} 8000000.0",
            "weft_pipe_rate_next_bits_per_second{pipe=\"camera\"} 5000000.0",
        ] {
            assert!(told.lines().any(|one| one == line), "{line} is not in\n{told}");
        }
        assert!(!told.contains("secret") && !told.contains("delay_p95_seconds{"));
        // What the dashboard draws is told.
        let dashboard = include_str!("../../../../packaging/grafana.json");
        let named = dashboard.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let named: std::collections::BTreeSet<_> = named.filter(|word| word.starts_with("weft_")).collect();
        assert!(named.len() > 10, "{named:?}");
        for name in named {
            assert!(told.contains(&format!("# TYPE {name} ")), "{name} is no metric");
        }
    }

    #[test]
    fn a_label_cannot_end_its_line() {
        let mut told = progress();
        told.paths[0].path = "a\"} 1\nb\\".into();
        assert!(text(&snapshot(&told)).contains("weft_link_up{link=\"a\\\"} 1\\nb\\\\\"} 1.0\n"));
    }
}
