//! The raw state of a connection, from which an agent of one's own makes its observation and its reward: a row of
//! float64 per environment. Names and units are those of `Context` in Python.

use weftway_path::{Bytes, Context, Flow, Path};

/// A number of the connection: its name, and how it is found.
type OfConnection = (&'static str, fn(&Context<'_>) -> f64);

/// A number of a path, likewise.
type OfPath = (&'static str, fn(&Path) -> f64);

const CONNECTION: [OfConnection; 13] = [
    ("now_ms", |cx| cx.now.as_nanos() as f64 / 1e6),
    ("packet_bytes", |cx| cx.packet.map_or(0.0, |packet| bytes(packet.bytes))),
    ("una", |cx| of_flow(cx, |flow| flow.una.get() as f64)),
    ("next", |cx| of_flow(cx, |flow| flow.next.get() as f64)),
    ("end", |cx| of_flow(cx, |flow| flow.end.get() as f64)),
    ("unsent", |cx| of_flow(cx, |flow| bytes(flow.unsent))),
    ("window", |cx| of_flow(cx, |flow| bytes(flow.window()))),
    ("credit", |cx| of_flow(cx, |flow| bytes(flow.credit()))),
    ("message_start", |cx| of_flow(cx, |flow| flow.message_start.get() as f64)),
    ("message_end", |cx| of_flow(cx, |flow| flow.message_end.get() as f64)),
    ("message_age_ms", |cx| of_flow(cx, |flow| flow.message_age.as_millis_f64())),
    ("message_class", |cx| of_flow(cx, |flow| f64::from(flow.class))),
    ("deadline_ms", |cx| of_flow(cx, |flow| flow.deadline.map_or(f64::INFINITY, |at| at.as_nanos() as f64 / 1e6))),
];

const PATH: [OfPath; 26] = [
    ("is_up", |_| 1.0),
    ("is_open", |path| f64::from(u8::from(path.is_open()))),
    ("is_active", |path| f64::from(u8::from(path.is_active()))),
    ("mss", |path| bytes(path.mss)),
    ("latest_rtt_ms", |path| path.latest_rtt.as_millis_f64()),
    ("srtt_ms", |path| path.srtt.as_millis_f64()),
    ("rttvar_ms", |path| path.rttvar.as_millis_f64()),
    ("min_rtt_ms", |path| path.min_rtt.as_millis_f64()),
    ("mean_rtt_ms", |path| path.mean_rtt().as_millis_f64()),
    ("cwnd", |path| bytes(path.cwnd)),
    ("ssthresh", |path| bytes(path.ssthresh)),
    ("bytes_in_flight", |path| bytes(path.bytes_in_flight)),
    ("queued", |path| bytes(path.queued)),
    ("space", |path| bytes(path.space())),
    ("next", |path| path.next.get() as f64),
    ("delivery_rate_mbps", |path| path.delivery_rate.as_mbps_f64()),
    ("pacing_rate_mbps", |path| path.pacing_rate.as_mbps_f64()),
    ("link_rate_mbps", |path| path.link_rate.as_mbps_f64()),
    ("bytes_sent", |path| bytes(path.sent.bytes)),
    ("bytes_acked", |path| bytes(path.acked.bytes)),
    ("bytes_lost", |path| bytes(path.lost.bytes)),
    ("packets_sent", |path| path.sent.packets as f64),
    ("packets_acked", |path| path.acked.packets as f64),
    ("packets_lost", |path| path.lost.packets as f64),
    ("packets_retransmitted", |path| path.retransmitted.packets as f64),
    ("pto_count", |path| f64::from(path.pto_count)),
];

/// The names: of the connection's numbers, and of each path's.
pub fn names() -> (Vec<&'static str>, Vec<&'static str>) {
    (CONNECTION.map(|(name, _)| name).to_vec(), PATH.map(|(name, _)| name).to_vec())
}

/// Count of the numbers in the state of a connection with so many paths has.
pub fn width(paths: usize) -> usize {
    CONNECTION.len() + paths * PATH.len()
}

/// The state at `cx`: the connection, then path after path by number. One that is not up has zeros.
pub fn state(cx: &Context<'_>, paths: usize) -> Vec<f64> {
    let mut all = vec![0.0; width(paths)];
    let (connection, rest) = all.split_at_mut(CONNECTION.len());
    for (place, (_, value)) in connection.iter_mut().zip(CONNECTION) {
        *place = value(cx);
    }
    for path in cx.paths.iter().filter(|path| path.id.index() < paths) {
        let from = path.id.index() * PATH.len();
        for (place, (_, value)) in rest[from..].iter_mut().zip(PATH) {
            *place = value(path);
        }
    }
    all
}

/// Without a limit, infinite.
fn bytes(bytes: Bytes) -> f64 {
    if bytes == Bytes::MAX { f64::INFINITY } else { bytes.get() as f64 }
}

/// Not a number where the task does not see the connection's data.
fn of_flow(cx: &Context<'_>, value: fn(&Flow) -> f64) -> f64 {
    cx.flow.map_or(f64::NAN, value)
}
