//! Cost of a decision: every registered scheduler, asked about a fresh packet over so many paths, the first of them
//! full, each decision carried out and told.

use std::hint::black_box;
use std::time::Instant;

use weftway_path::{
    BitRate, BlockedReason, Bytes, Context, Decision, Event, Flow, Offset, Packet, Path, PathId, PathSet, Receipt,
};
use weftway_path::{SendKind, Span};

/// Number of paths that are asked about.
pub const PATHS: [usize; 4] = [2, 4, 16, 64];
const MSS: Bytes = Bytes::new(1400);

pub(crate) fn paths(count: usize) -> Vec<Path> {
    let path = |n: usize| {
        let mut path = Path::new(PathId::new(n as u8), MSS, Bytes::new(40 * 1400));
        let rtt = Span::from_millis(20 + 7 * ((n as u64 * 5) % 13));
        (path.latest_rtt, path.srtt, path.min_rtt, path.max_rtt) = (rtt, rtt, rtt, rtt * 2);
        (path.rttvar, path.rtt_sum, path.rtt_samples) = (rtt / 8, rtt * 100, 100);
        path.ssthresh = Bytes::new(30 * 1400);
        path.bytes_in_flight = if n == 0 { path.cwnd } else { Bytes::new(10 * 1400) };
        path.blocked = if n == 0 { BlockedReason::Congestion } else { BlockedReason::None };
        (path.delivery_rate, path.pacing_rate) = (BitRate::from_mbps(10), BitRate::from_mbps(12));
        path.queue_room = Bytes::new(200_000);
        path
    };
    (0..count).map(path).collect()
}

/// Nanoseconds a decision of `scheduler` takes over `count` paths: the least of seven rounds.
pub fn nanoseconds(scheduler: &str, count: usize) -> f64 {
    const ROUND: u32 = 20_000;
    let paths = paths(count);
    let mut scheduler = weftway_sched::build(scheduler).expect("the name is registered");
    let mut least = f64::MAX;
    let mut serial = 0;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..ROUND {
            decide(scheduler.as_mut(), &paths, &mut serial);
        }
        least = least.min(start.elapsed().as_nanos() as f64 / f64::from(ROUND));
    }
    least
}

/// A fresh packet, and the data behind it.
pub(crate) struct Offer {
    pub(crate) packet: Packet,
    pub(crate) flow: Flow,
}

impl Offer {
    /// The packet with this number.
    fn number(serial: u64) -> Self {
        let offset = Offset::new(serial * MSS.get());
        let flow = Flow {
            una: Offset::new(offset.get().saturating_sub(200 * MSS.get())),
            next: offset,
            end: Offset::new(offset.get() + 1_000_000),
            edge: Offset::new(offset.get() + 4_000_000),
            unsent: Bytes::new(1_000_000),
            ..Flow::default()
        };
        Self {
            packet: Packet { offset, bytes: MSS, reinjection: false, carried: PathSet::EMPTY, avoid: PathSet::EMPTY },
            flow,
        }
    }

    /// The packet of this second.
    pub(crate) fn at(now: weftway_path::Instant) -> Self {
        Self::number(now.as_nanos() / 1_000_000_000)
    }
}

fn decide(scheduler: &mut dyn weftway_sched::Scheduler, paths: &[Path], serial: &mut u64) {
    let offer = Offer::number(*serial);
    let now = weftway_path::Instant::from_micros(*serial);
    let cx = Context::new(now, paths, Some(&offer.packet), Some(&offer.flow));
    let decision = black_box(scheduler.select(black_box(&cx)));
    if let Decision::Send(path) | Decision::Ahead(path, _) = decision {
        let receipt = Receipt { path, offset: offer.packet.offset, bytes: MSS, serial: *serial };
        scheduler.observe(&cx, &Event::Sent(receipt, SendKind::Fresh));
    }
    *serial += 1;
}
