//! A run as qlog ([`weftway_scenario::qlog`]).
//!
//! The vantage point is the sender of the data. What its receiver sees, and what only a simulator
//! knows, has events and fields of our own, under their own schema URIs. Which note becomes which
//! event, and how MPTCP is mapped: `docs/reference/trace-format.md`.

use std::fmt::Display;
use std::io::{self, Write};

use serde_json::{Map, json};
use weftway_cc::Signal;
use weftway_host::Decided;
use weftway_link::{Reason, Verdict};
use weftway_path::{Decision, Instant, Offset, PathId};
use weftway_scenario::config::{Direction, SimConfig};
use weftway_scenario::qlog::{self, Head, SIMULATION, data_frame, packet};
use weftway_scenario::stack::Stack;

use super::golden::parts;
use crate::listeners::{Listener, Note};

/// A listener that writes a run as qlog.
pub struct Qlog<W: Write> {
    file: qlog::Qlog<W>,
    /// An acknowledgement confirms all segments below a number, as TCP's does.
    cumulative: bool,
    /// Bytes of a packet on the wire beside its payload.
    headers: u64,
    ack_packet: u64,
}

impl<W: Write> Qlog<W> {
    /// A qlog of a run of `config` into `out`; `details` say how the run was made.
    pub fn new(
        out: W,
        config: &SimConfig,
        title: &str,
        details: impl IntoIterator<Item = (impl Display, impl Display)>,
    ) -> Self {
        let transport = &config.transport;
        let description = match transport.stack {
            Stack::Mpquic => "simulated Multipath QUIC, seen by the sender of the data",
            Stack::MptcpV09x | Stack::MptcpLinuxV1 => {
                "simulated MPTCP, seen by the sender of the data: a packet is a segment, numbered on its subflow"
            }
            Stack::Tcp => {
                "simulated TCP, seen by the sender of the data: a packet is a segment, numbered on its connection"
            }
        };
        let is_client = transport.direction == Direction::Upload;
        let head = Head { title, description, is_client, schema: Some(SIMULATION) };
        let names = config.paths.iter().map(|path| path.name.clone()).collect();
        let mut file = qlog::Qlog::new(out, &head, names);
        let details: Map<_, _> =
            details.into_iter().map(|(key, value)| (key.to_string(), value.to_string().into())).collect();
        file.event(Instant::ZERO, "simulation:scenario", None, json!({ "name": title, "details": details }));
        Self {
            file,
            cumulative: transport.stack != Stack::Mpquic,
            headers: (transport.packet - transport.mss).get(),
            ack_packet: transport.ack_packet.get(),
        }
    }

    /// Writes out what is buffered. The first error since the start is reported here, once.
    pub fn finish(&mut self) -> io::Result<&W> {
        self.file.finish()
    }

    fn sent(&mut self, now: Instant, path: PathId, index: u64, range: (Offset, u32), verdict: Verdict) {
        let (offset, bytes) = (range.0.get(), u64::from(range.1));
        let mut data = json!({
            "header": packet(index), "raw": { "length": bytes + self.headers }, "frames": [data_frame(offset, bytes)]
        });
        if let Some(fate) = fate(verdict) {
            data["weftway_fate"] = json!(fate);
        }
        self.file.event(now, "quic:packet_sent", Some(path), data);
    }

    /// The acknowledgement itself, then what it changed.
    fn acked(&mut self, now: Instant, path: PathId, cum: u64, una: Offset, metrics: [u64; 3]) {
        let mut frame = json!({ "frame_type": "ack" });
        // TCP and MPTCP: exact. QUIC numbers below may be lost for good, so that no range is claimed.
        if self.cumulative && cum > 0 {
            frame["acked_ranges"] = if cum == 1 { json!([[0]]) } else { json!([[0, cum - 1]]) };
        }
        let data = json!({
            "header": { "packet_type": "1RTT" },
            "raw": { "length": self.ack_packet },
            "frames": [frame],
            "weftway_settled_below": cum,
            "weftway_una": una.get(),
        });
        self.file.event(now, "quic:packet_received", Some(path), data);
        self.file.metrics(now, path, metrics);
    }

    fn decided(&mut self, now: Instant, hand: Option<Offset>, decision: Decision, why: Option<&str>) {
        let (answer, path, asked) = parts(decision);
        let mut data = json!({ "answer": answer });
        if let Some(offset) = hand {
            data["offset"] = json!(offset.get());
        }
        if let Some(offset) = asked {
            data["asked"] = json!(offset.get());
        }
        if let Some(why) = why {
            data["reason"] = json!(why);
        }
        self.file.event(now, "weftway:decision", path, data);
    }

    fn congestion(&mut self, now: Instant, path: PathId, signal: Signal) {
        let (new, trigger) = match signal {
            Signal::Loss => ("recovery", "packet_loss"),
            Signal::Ecn => ("recovery", "ecn"),
            Signal::Timeout => ("slow_start", "retransmission_timeout"),
            Signal::Persistent => ("slow_start", "persistent_congestion"),
        };
        self.file.congestion(now, path, new, trigger);
    }
}

impl<W: Write + Send> Listener for Qlog<W> {
    fn note(&mut self, now: Instant, conn: u8, note: &Note) {
        if conn != 0 {
            return;
        }
        match *note {
            Note::Decided(Decided { offset, decision, ref why }) => self.decided(now, offset, decision, why.as_deref()),
            Note::Sent { path, index, offset, bytes, verdict } => self.sent(now, path, index, (offset, bytes), verdict),
            Note::Arrived { path, index, offset, bytes, in_order_to, held } => {
                let data = json!({
                    "packet_number": index, "offset": offset.get(), "length": bytes,
                    "in_order_to": in_order_to.get(), "held": held,
                });
                self.file.event(now, "weftway:packet_arrived", Some(path), data);
            }
            Note::Acked { path, cum, una, cwnd, in_flight, srtt_us } => {
                self.acked(now, path, cum, una, [srtt_us, cwnd, in_flight]);
            }
            Note::Lost { path, index } => self.file.lost(now, path, index),
            Note::Timeout { path, kind } => {
                let data = json!({ "timer_type": kind, "event_type": "expired" });
                self.file.event(now, "quic:timer_updated", Some(path), data);
            }
            Note::Congestion { path, signal } => self.congestion(now, path, signal),
            Note::Up(path) => self.file.tuple(now, path, true),
            Note::Down(path) => self.file.tuple(now, path, false),
        }
    }
}

/// Fate of a packet, which a simulator knows when the packet leaves and its sender does not.
fn fate(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Queued => None,
        Verdict::Lost => Some("lost"),
        Verdict::Dropped(Reason::Queue) => Some("queue_full"),
        Verdict::Dropped(Reason::Down) => Some("link_down"),
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::{Bytes, Role};

    use super::*;
    use weftway_scenario::config::{PathConfig, TransportConfig};

    const PATH: PathId = PathId::new(0);

    fn config(transport: TransportConfig) -> SimConfig {
        let path = PathConfig {
            name: "wifi".to_owned(),
            role: Role::Active,
            data: Default::default(),
            acks: Default::default(),
            via: None,
            presence: Vec::new(),
        };
        SimConfig::new(transport, vec![path], Bytes::new(1))
    }

    /// The records that follow from `note`, 1.5 ms into a run of `transport`.
    fn records(transport: TransportConfig, note: &Note) -> Vec<String> {
        let config = config(transport);
        let mut log = Qlog::new(Vec::new(), &config, "one note", [("seed", 1)]);
        log.note(Instant::from_micros(1500), 0, note);
        let text = String::from_utf8(log.finish().unwrap().clone()).unwrap();
        text.split_terminator('\n').skip(2).map(str::to_owned).collect()
    }

    #[test]
    fn a_log_says_which_transport_was_simulated() {
        for (transport, name) in [
            (TransportConfig::mpquic(), "simulated Multipath QUIC,"),
            (TransportConfig::mptcp_v09x(), "simulated MPTCP,"),
            (TransportConfig::mptcp_linux_v1(), "simulated MPTCP,"),
            (TransportConfig::tcp(), "simulated TCP,"),
        ] {
            let config = config(transport);
            let mut log = Qlog::new(Vec::new(), &config, "no note", [("seed", 1)]);
            let text = String::from_utf8(log.finish().unwrap().clone()).unwrap();
            assert!(text.contains(name), "{text}");
        }
    }

    fn acked(cum: u64) -> Note {
        Note::Acked { path: PATH, cum, una: Offset::new(2400), cwnd: 12_000, in_flight: 1200, srtt_us: 20_250 }
    }

    #[test]
    fn a_record_is_framed_and_times_are_milliseconds() {
        let records = records(TransportConfig::mpquic(), &Note::Lost { path: PATH, index: 7 });
        let event = r#"{"time":1.5,"name":"quic:packet_lost","tuple":"wifi","#;
        let data = r#""data":{"header":{"packet_type":"1RTT","packet_number":7}}}"#;
        assert_eq!(records, [format!("\x1e{event}{data}")]);
    }

    #[test]
    fn an_acknowledgement_comes_with_what_it_changed() {
        let records = records(TransportConfig::mpquic(), &acked(2));
        assert_eq!(records.len(), 2);
        assert!(records[0].contains(r#""frames":[{"frame_type":"ack"}],"weftway_settled_below":2,"weftway_una":2400"#));
        let metrics = r#"{"smoothed_rtt":20.25,"congestion_window":12000,"bytes_in_flight":1200}"#;
        assert!(records[1].contains(metrics), "{}", records[1]);
    }

    #[test]
    fn mptcp_acknowledges_all_segments_below() {
        let frame = |cum| {
            let record = records(TransportConfig::mptcp_linux_v1(), &acked(cum)).remove(0);
            let start = record.find(r#"{"frame_type""#).unwrap();
            record[start..record.find("],\"weftway").unwrap()].to_owned()
        };
        assert_eq!(frame(0), r#"{"frame_type":"ack"}"#);
        assert_eq!(frame(1), r#"{"frame_type":"ack","acked_ranges":[[0]]}"#);
        assert_eq!(frame(5), r#"{"frame_type":"ack","acked_ranges":[[0,4]]}"#);
    }

    #[test]
    fn a_path_that_goes_is_a_tuple_without_ends() {
        let data = |note| records(TransportConfig::mpquic(), &note)[0].split_once(r#""data":"#).unwrap().1.to_owned();
        assert_eq!(data(Note::Up(PATH)), r#"{"tuple_id":"wifi","tuple_remote":{},"tuple_local":{}}}"#);
        assert_eq!(data(Note::Down(PATH)), r#"{"tuple_id":"wifi"}}"#);
    }
}
