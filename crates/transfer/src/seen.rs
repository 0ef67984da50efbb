//! Progress of paths, of the connections of programs, of pipes, and of a relay's clients.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weftway_mux::StreamId;
use weftway_relay::{Class, Drops, FlowView, PipeView, WayView};

use crate::links::terms::LinkProgress;

/// Most connections that are told: those that carried most.
const MOST_TOLD: usize = 32;
/// Connections that are not read of which so many are told, those that hold most.
const MOST_UNREAD: usize = 5;

/// A path, at a moment or at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathProgress {
    /// The interface or address at the end that connected.
    pub path: String,
    /// True if data can take it.
    pub up: bool,
    /// Data that it carried: at the sender with repeated ones, at the receiver what it brought first.
    pub bytes: u64,
    /// The smoothed round-trip time.
    pub srtt_ms: Option<f64>,
    /// The least round-trip time: what the smoothed one is above it is time in queues. Of an end that sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rtt_ms: Option<f64>,
    /// Packets with data.
    pub packets: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Data that were sent again here after they were lost, here or elsewhere.
    pub retransmissions: u64,
    /// Number of times that the path was given up.
    pub given_up: u64,
    /// Time in which it could not be used, each time from when it was given up or closed until it was back.
    #[serde(default)]
    pub away_ms: f64,
    /// IP bytes that the link has carried in both directions since the program began: of a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<u64>,
    /// Progress of its link, where that has a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<LinkProgress>,
}

/// Open connections by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByClass {
    /// Connections whose data are of use only in time.
    pub realtime: u64,
    /// Somebody waits for each answer.
    pub interactive: u64,
    /// All else; the first bytes of each are interactive.
    pub bulk: u64,
}

/// A connection of a program, or its datagrams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowProgress {
    /// Destination; `udp:` for datagrams, which say so themselves.
    pub target: String,
    /// Class.
    pub class: &'static str,
    /// Bytes from the program.
    pub up: u64,
    /// Bytes to the program.
    pub down: u64,
    /// By which paths it went.
    pub paths: Vec<FlowPath>,
}

/// Bytes that this end sent and received of a connection on a path since it is connected, repeated bytes included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowPath {
    /// The path.
    pub path: String,
    /// Bytes that this end sent there.
    pub sent: u64,
    /// Bytes that came there.
    pub received: u64,
}

/// A pipe of `weft pipe`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PipeProgress {
    /// Its stream, while the relay carries it.
    #[serde(skip)]
    pub id: Option<StreamId>,
    /// Its name: the place where it takes datagrams, if the user has given none.
    pub name: String,
    /// Where it takes datagrams.
    pub listen: String,
    /// Where they lead.
    pub deliver: String,
    /// True if the relay carries them.
    pub open: bool,
    /// Number of sources.
    pub sources: usize,
    /// Datagrams to the relay.
    pub up: WayView,
    /// Datagrams from the relay.
    pub down: WayView,
    /// Bytes that this end sent over all links in the last second for each byte that came here; with what was sent again
    /// or twice, without headers of packets.
    pub overhead: Option<f64>,
    /// Rate at which its source may send.
    pub rate: PipeRate,
    /// Each link, and what it carried of it in the last second.
    pub links: Vec<PipeLink>,
    /// Datagrams that were dropped at this end, by reason.
    pub drops: Drops,
}

/// Rate at which the source of a pipe may send so that its datagrams arrive in time: for an encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PipeRate {
    /// Bits of data per second, now.
    pub now_bps: u64,
    /// In the next second: the least of the last one.
    pub next_bps: u64,
}

/// Health of a link, for a pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkHealth {
    /// It brings datagrams in time.
    #[default]
    Good,
    /// Its delay is longer than the latency of the pipe.
    Late,
    /// It does not answer at the moment.
    Silent,
    /// Its policy lets no data take it.
    Closed,
    /// It is no path of the connection at the moment.
    Down,
}

/// A link's part of a pipe in the last second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PipeLink {
    /// The path.
    pub path: String,
    /// Bytes that this end sent there.
    pub sent: u64,
    /// Its part of what this end sent.
    pub share: f64,
    /// Its health now.
    pub health: LinkHealth,
}

impl PipeProgress {
    pub(crate) fn of(view: PipeView) -> Self {
        let PipeView { id, name, listen, deliver, latency: _, open, sources, up, down, drops } = view;
        let (overhead, rate, links) = Default::default();
        Self { id, name, listen, deliver, open, sources, up, down, overhead, rate, links, drops }
    }
}

/// A packet with data that left a moment ago.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastPacket {
    /// The path that it took.
    pub path: String,
    /// The scheduler's reason, if it gives any.
    pub scheduler_says: Option<String>,
}

/// All clients of a relay with the same name, or all without one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClientProgress {
    /// Its name; none: it has shown the token that has none.
    pub name: Option<String>,
    /// Number of its connections to the relay.
    pub connections: u64,
    /// Number of its programs' connections.
    pub flows: u64,
    /// Bytes of its programs since the relay began.
    pub up: u64,
    /// Bytes to its programs.
    pub down: u64,
    /// The paths of its connections, by its address on each.
    pub paths: Vec<PathProgress>,
}

/// The memory for what has arrived, and who holds it without reading: programs, or at a relay the servers that they
/// send to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// Bytes of memory, over all clients that are connected.
    pub memory: u64,
    /// Bytes of it that are promised to connections.
    pub promised: u64,
    /// Connections on which something has waited for its reader for a second.
    pub connections: u64,
    /// Bytes that wait on these.
    pub bytes: u64,
    /// The connections that hold most.
    pub most: Vec<UnreadFlow>,
}

/// A connection that is not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadFlow {
    /// Its target.
    pub target: String,
    /// Bytes that wait on it.
    pub bytes: u64,
}

/// Connections of programs, and refusals.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Connections {
    /// Number of connections.
    pub by_class: ByClass,
    /// Connections that carried most.
    pub busiest: Vec<FlowProgress>,
    /// The memory for what has arrived, and who holds it without reading.
    pub unread: Unread,
    /// Refusals since the program began, by reason.
    pub refusals: BTreeMap<&'static str, u64>,
    /// Packets and datagrams that were dropped since the program began, by reason: of a proxy or a tunnel.
    pub drops: Drops,
    /// Clients of a relay, those included that have left.
    pub by_client: Vec<ClientProgress>,
}

impl Connections {
    /// Counts connections, and keeps those that carried most. Each comes with `W`, whose it is. `paths` says by which
    /// paths one went, `unread` how many bytes it holds that are not read.
    pub(crate) fn of<'a, W>(
        flows: impl Iterator<Item = (W, FlowView<'a>)>,
        paths: impl Fn(&W, StreamId) -> Vec<FlowPath>,
        unread: impl Fn(&W, StreamId) -> u64,
    ) -> Self {
        let mut flows: Vec<(W, FlowView<'_>)> = flows.collect();
        let held = flows.iter().map(|(whose, flow)| (unread(whose, flow.id), flow));
        let unread = Unread::of(held.filter(|&(bytes, _)| bytes > 0).collect());
        let mut by_class = ByClass::default();
        for (_, flow) in &flows {
            *match flow.class {
                Class::Realtime => &mut by_class.realtime,
                Class::Interactive => &mut by_class.interactive,
                Class::Bulk => &mut by_class.bulk,
            } += 1;
        }
        let most_first = |(_, flow): &(W, FlowView<'_>)| Reverse(flow.up + flow.down);
        if flows.len() > MOST_TOLD {
            flows.select_nth_unstable_by_key(MOST_TOLD, most_first);
            flows.truncate(MOST_TOLD);
        }
        flows.sort_by_key(most_first);
        let told = |(whose, flow): &(W, FlowView<'_>)| FlowProgress {
            target: flow.purpose.to_string(),
            class: flow.class.name(),
            up: flow.up,
            down: flow.down,
            paths: paths(whose, flow.id),
        };
        Self { by_class, busiest: flows.iter().map(told).collect(), unread, ..Self::default() }
    }
}

impl Unread {
    /// Counts connections that are not read; each comes with the bytes that it holds.
    fn of(mut flows: Vec<(u64, &FlowView<'_>)>) -> Self {
        flows.sort_by_key(|&(bytes, _)| Reverse(bytes));
        let told = |&(bytes, flow): &(u64, &FlowView<'_>)| UnreadFlow { target: flow.purpose.to_string(), bytes };
        Self {
            connections: flows.len() as u64,
            bytes: flows.iter().map(|&(bytes, _)| bytes).sum(),
            most: flows.iter().take(MOST_UNREAD).map(told).collect(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use weftway_mux::{Limits, Mux, Side};
    use weftway_path::Instant;
    use weftway_relay::Purpose;

    use super::*;

    #[test]
    fn all_are_counted_and_the_busiest_are_told_first() {
        let purposes: Vec<Purpose> = (1..=40).map(|port| format!("example.org:{port}").parse().unwrap()).collect();
        let mut mux = Mux::new(Side::Connecting, Limits::default(), Limits::default()).unwrap();
        let id = mux.open(Instant::ZERO, 2, b"", None).unwrap();
        let view = |at: usize| {
            let class = [Class::Realtime, Class::Interactive, Class::Bulk][at % 3];
            (at, FlowView::new(id, &purposes[at], class, [at as u64, 1000]))
        };
        let paths = |at: &usize| vec![FlowPath { path: "wlan0".into(), sent: *at as u64, received: 1000 }];
        // Nine of them are not read.
        let unread = |at: &usize| if *at < 10 { 1000 * *at as u64 } else { 0 };
        let seen = Connections::of((0..40).map(view), |at, _| paths(at), |at, _| unread(at));
        assert_eq!(seen.by_class, ByClass { realtime: 14, interactive: 13, bulk: 13 });
        assert_eq!(seen.busiest.len(), MOST_TOLD);
        assert_eq!(
            seen.busiest[0],
            FlowProgress { target: "example.org:40".into(), class: "realtime", up: 39, down: 1000, paths: paths(&39) }
        );
        assert!(seen.busiest.is_sorted_by_key(|flow| Reverse(flow.up)));
        assert_eq!((seen.unread.connections, seen.unread.bytes), (9, 45_000));
        let most: Vec<_> = seen.unread.most.iter().map(|flow| (&flow.target[..], flow.bytes)).collect();
        assert_eq!(most[..2], [("example.org:10", 9000), ("example.org:9", 8000)]);
        assert_eq!(most.len(), MOST_UNREAD);
    }
}
