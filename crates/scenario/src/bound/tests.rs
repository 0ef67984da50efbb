use weftway_link::{Change, LinkConfig, Loss, Set};
use weftway_path::{BitRate, Role};

use super::*;
use crate::config::{Buffer, MessageSize, PathConfig, TransportConfig};

/// 10 Mbit/s are 1250 B a millisecond. Packets have no headers here, so that payload is what the links carry.
fn path(name: &str, mbps: u64, ms: u64) -> PathConfig {
    let rate = BitRate::from_mbps(mbps).into();
    let data = LinkConfig { rate, delay: Span::from_millis(ms), ..LinkConfig::default() };
    let (name, acks) = (name.to_owned(), LinkConfig { delay: Span::from_millis(ms), ..LinkConfig::default() });
    PathConfig { name, role: Role::Active, data, acks, via: None, presence: Vec::new() }
}

fn config(paths: Vec<PathConfig>, workload: Workload) -> SimConfig {
    let base = TransportConfig::mpquic();
    let transport = TransportConfig { packet: base.mss, ..base };
    SimConfig { workload, ..SimConfig::new(transport, paths, Bytes::ZERO) }
}

fn bulk(bytes: u64) -> Workload {
    Workload::Bulk { bytes: Bytes::new(bytes) }
}

fn messages(bytes: u64, every: u64, count: u64) -> Workload {
    let sizes = vec![MessageSize::of(Bytes::new(bytes))];
    Workload::Messages { sizes, period: Span::from_millis(every), count, deadline: None }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// In milliseconds, rounded: times are found to a microsecond below.
fn ms(span: Span) -> f64 {
    (span.as_millis_f64() * 100.0).round() / 100.0
}

fn completion(config: &SimConfig, start: u64) -> Option<f64> {
    Bound::of(config, 1, at(start)).completion.map(ms)
}

/// From 50 ms on, 10 Mbit/s with 10 ms and 10 Mbit/s with 30 ms of delay: by 60 + t ms 1250·t arrive on one, and
/// 1250·(t − 20) on the other. 100 000 B: 2t − 20 = 80, t = 50. Alone, the first would need 80 ms.
#[test]
fn bulk_data_arrive_as_fast_as_all_links_bring_them() {
    let two = config(vec![path("a", 10, 10), path("b", 10, 30)], bulk(100_000));
    assert_eq!(completion(&two, 50), Some(110.0));
    assert_eq!(completion(&config(vec![path("a", 10, 10)], bulk(100_000)), 50), Some(140.0));
}

/// Headers take 80 of 1280 B: 93 750 B of payload take 100 000 on the wire.
#[test]
fn headers_take_their_share() {
    let mut one = config(vec![path("a", 10, 10)], bulk(93_750));
    one.transport = TransportConfig::mpquic();
    assert_eq!(completion(&one, 50), Some(140.0));
}

/// Both paths go through one link of 10 Mbit/s with 5 ms: 80 ms of it, and at least 10 + 5 before.
#[test]
fn paths_share_what_their_common_link_carries() {
    let mut two = config(vec![path("a", 10, 10), path("b", 10, 30)], bulk(100_000));
    two.shared = vec![path("s", 10, 5).data];
    two.paths.iter_mut().for_each(|path| path.via = Some(0));
    // What leaves the shared link sets out there at 50 ms at the earliest, as far as the bound knows.
    assert_eq!(completion(&two, 50), Some(135.0));
    // Twice as fast, it is the paths that bound: as above, and 5 ms.
    two.shared = vec![path("s", 40, 5).data];
    assert_eq!(completion(&two, 50), Some(115.0));
}

/// 40 of 80 ms are done when the link fails at 90 ms; it returns at 190.
#[test]
fn a_failure_stops_the_data() {
    let mut one = config(vec![path("a", 10, 10)], bulk(100_000));
    one.paths[0].data.changes = [(90, Set::Down), (190, Set::Up)].map(|(ms, set)| Change { at: at(ms), set }).into();
    assert_eq!(completion(&one, 50), Some(240.0));
    one.paths[0].data.changes.pop();
    one.time_limit = Span::from_secs(2);
    assert_eq!(completion(&one, 50), None);
    // A loss that is random takes nothing: a sender that knew it would send it a packet of one byte.
    one.paths[0].data = LinkConfig { loss: Loss::Bernoulli(0.2), ..path("a", 10, 10).data };
    assert_eq!(completion(&one, 50), Some(140.0));
}

/// A message of 12 500 B takes 10 ms and 10 of delay. One every 8 ms: each waits 2 ms longer than the one before it.
/// One every 20 ms: none waits.
#[test]
fn a_message_waits_for_those_before_it() {
    let delays = |every| -> Vec<f64> {
        let one = config(vec![path("a", 10, 10)], messages(12_500, every, 4));
        Bound::of(&one, 1, at(50)).delays.into_iter().map(ms).collect()
    };
    assert_eq!(delays(8), [20.0, 22.0, 24.0, 26.0]);
    assert_eq!(delays(20), [20.0; 4]);
}

/// With 30 ms of delay beside 10, the second path helps a message of 62 500 B from 20 ms on: t + (t − 20) = 50, t = 35,
/// so that it takes 45 ms. The next, 10 ms later, waits for it: 2t − 20 = 100, t = 60, and 60 + 10 − 10 are 60 ms.
#[test]
fn messages_use_all_paths() {
    let two = config(vec![path("a", 10, 10), path("b", 10, 30)], messages(62_500, 10, 2));
    assert_eq!(Bound::of(&two, 1, at(50)).delays.into_iter().map(ms).collect::<Vec<_>>(), [45.0, 60.0]);
}

/// 12 500 B of window are 10 ms of the link, and each round takes 20 ms: the last window sets out when all before it
/// has arrived, and the sender knows. Of 100 000 B: 7 rounds, then 10 ms and 10 of delay.
#[test]
fn a_window_opens_once_a_round_trip() {
    let mut one = config(vec![path("a", 10, 10)], bulk(100_000));
    one.transport.receive_buffer = Buffer::Fixed(Bytes::new(12_500));
    assert_eq!(completion(&one, 50), Some(50.0 + 7.0 * 20.0 + 20.0));
    // 8 messages of 12 500 B at once: the same.
    one.workload = messages(12_500, 0, 8);
    assert_eq!(completion(&one, 50), Some(50.0 + 7.0 * 20.0 + 20.0));
    // Twice as much is what the link carries in a round trip.
    one.transport.receive_buffer = Buffer::Fixed(Bytes::new(25_001));
    assert_eq!(completion(&one, 50), Some(140.0));
}

/// An answer of 12 500 B takes 20 ms; thinking takes 5 ms and the request 10. Three of them: 3·20 + 2·15.
#[test]
fn a_request_waits_for_the_answer_before_it() {
    let (bytes, think) = (Bytes::new(12_500), Span::from_millis(5));
    let one = config(vec![path("a", 10, 10)], Workload::RequestResponse { bytes, think, count: 3 });
    let bound = Bound::of(&one, 1, at(50));
    assert_eq!(bound.completion.map(ms), Some(50.0 + 90.0));
    assert_eq!(bound.delays.into_iter().map(ms).collect::<Vec<_>>(), [20.0; 3]);
}

/// Requests later in a run may find the faster rate: 25 Mbit/s bring 12 500 B in 4 ms.
#[test]
fn an_answer_may_find_the_best_rate() {
    let (bytes, think) = (Bytes::new(12_500), Span::from_millis(5));
    let mut one = config(vec![path("a", 10, 10)], Workload::RequestResponse { bytes, think, count: 1 });
    one.paths[0].data.changes = vec![Change { at: at(5000), set: Set::Rate(BitRate::from_mbps(25).into()) }];
    let bound = Bound::of(&one, 1, at(50));
    assert_eq!((bound.completion.map(ms), bound.delays.into_iter().map(ms).collect()), (Some(70.0), vec![14.0]));
}

/// From 50 ms to a second at 1250 B a millisecond, the last 10 ms of which have not arrived.
#[test]
fn what_runs_for_a_time_has_an_amount() {
    let one = config(vec![path("a", 10, 10)], Workload::Duration { span: Span::from_secs(1) });
    assert_eq!(Bound::of(&one, 1, at(50)).delivered, Some(Bytes::new(940 * 1250)));
}
