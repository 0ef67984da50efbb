//! True state of a path now, and of what was sent before.

use weftway_host::sending::SentPacket;
use weftway_link::Link;
use weftway_path::{BitRate, BlockedReason, Bytes, Instant, Offset, PathId, Span};

use weftway_sim::Connection;
use weftway_sim::Sim;
use weftway_sim::wire::{Datagram, Load};

/// No delay counts as longer, in seconds.
pub const FAR: f64 = 60.0;

/// True state of one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truth {
    /// Bytes before a packet that is sent now: in the bottleneck's queue, and what the path owes (waiting in its own
    /// queue, or lost and not sent again).
    pub queue: Bytes,
    /// The bottleneck's rate; zero while it is down.
    pub rate: BitRate,
    /// Propagation delay in one direction.
    pub delay: Span,
    /// The probability that a packet is lost.
    pub loss: f64,
    /// Until the path may send: zero if it may now, else until its pacer lets it, or until its oldest packet is
    /// acknowledged, taken to be a smoothed round trip after it was sent.
    pub wait: Span,
}

impl Truth {
    /// True state of path `id` of the connection under test. Where data cross a shared link too, the slower one is the
    /// bottleneck, and queues, delays and losses are those of both.
    pub fn of(sim: &Sim, id: PathId) -> Self {
        let (conn, now) = (sim.connection(0), sim.now());
        let mut truth =
            Self { queue: owed(conn, id), rate: BitRate::from_bps(u64::MAX), wait: wait(conn, id, now), ..Self::NONE };
        for link in links(sim, id) {
            let outlook = link.outlook(now);
            truth.queue += link.backlog(now).1;
            truth.rate = truth.rate.min(outlook.rate);
            truth.delay += outlook.delay;
            truth.loss = 1.0 - (1.0 - truth.loss) * (1.0 - outlook.loss);
        }
        truth
    }

    const NONE: Self = Self { queue: Bytes::ZERO, rate: BitRate::ZERO, delay: Span::ZERO, loss: 0.0, wait: Span::ZERO };

    /// Time that the bottleneck takes for `bytes`, in seconds.
    pub fn seconds(&self, bytes: Bytes) -> f64 {
        match self.rate.as_bps() {
            0 => FAR,
            bps => bytes.get() as f64 * 8.0 / bps as f64,
        }
    }

    /// t: in how many seconds a message of `bytes` has arrived that is sent now in `packets`:
    /// `w + (q + s)/b + d + (1 − (1−p)^n)·(2d + q/b)`, and at most [`FAR`].
    pub fn arrival(&self, bytes: Bytes, packets: u64) -> f64 {
        let (delay, drain) = (self.delay.as_secs_f64(), self.seconds(self.queue));
        let lossy = 1.0 - libm::pow(1.0 - self.loss, packets as f64);
        let time = self.wait.as_secs_f64() + self.seconds(self.queue + bytes) + delay + lossy * (2.0 * delay + drain);
        time.min(FAR)
    }
}

/// The links that the path's data cross.
pub(crate) fn links(sim: &Sim, id: PathId) -> impl Iterator<Item = &Link<Datagram>> {
    let route = sim.connection(0).route(id);
    [Some(route.data), route.via].into_iter().flatten().map(|link| sim.link(link))
}

/// Bytes that the path has to send before anything new.
fn owed(conn: &Connection, id: PathId) -> Bytes {
    let lost = conn.flight(id).iter().filter(|packet| packet.lost && !packet.retransmitted);
    conn.view(id).queued + Bytes::new(lost.map(|packet| u64::from(packet.bytes)).sum())
}

fn wait(conn: &Connection, id: PathId, now: Instant) -> Span {
    let view = conn.view(id);
    match view.blocked {
        BlockedReason::None => Span::ZERO,
        BlockedReason::Pacing => view.release.max(now).since(now),
        _ => {
            let oldest = conn.flight(id).iter().find(|packet| !packet.acked);
            oldest.map_or(Span::ZERO, |packet| (packet.sent_at + view.srtt).max(now).since(now))
        }
    }
}

/// In how many seconds everything before `start` has arrived, as far as is settled now: the last packet in flight is
/// known to the links; what is lost comes a round trip after it was sent, and the path's queue later.
pub(crate) fn release(sim: &Sim, start: Offset) -> f64 {
    let conn = sim.connection(0);
    if conn.reordering().next() >= start {
        return 0.0;
    }
    let of = |view: &weftway_path::Path| path_release(sim, view.id, start);
    sim.context(0).paths.iter().map(of).fold(0.0, f64::max).min(FAR)
}

fn path_release(sim: &Sim, id: PathId, start: Offset) -> f64 {
    let (conn, now) = (sim.connection(0), sim.now());
    let (mut last, mut under_way) = (0.0_f64, Vec::new());
    for (at, link) in links(sim, id).enumerate() {
        // What is on its own link has the shared one before it.
        let further: f64 = links(sim, id).skip(at + 1).map(|link| crossing(link, now)).sum();
        for (arrival, datagram) in link.arrivals() {
            if let Load::Data(data) = datagram.load
                && (datagram.conn, datagram.path) == (0, id)
                && data.offset < start
            {
                last = last.max(arrival.max(now).since(now).as_secs_f64() + further);
                under_way.push(data.index);
            }
        }
    }
    let flight = conn.flight(id);
    let missing = |(index, packet): &(u64, &SentPacket)| {
        !packet.acked && packet.offset < start && !conn.reordering().has(packet.offset) && !under_way.contains(index)
    };
    let numbered = (flight.base()..).zip(flight.iter());
    let repairs = numbered.filter(missing).map(|(_, packet)| (packet.sent_at + conn.view(id).srtt).max(now));
    let repaired = repairs.max().map(|at| {
        let truth = Truth::of(sim, id);
        at.since(now).as_secs_f64() + truth.seconds(truth.queue) + truth.delay.as_secs_f64()
    });
    last.max(repaired.unwrap_or(0.0))
}

/// Time that a link takes for what it holds, and its delay, in seconds.
pub(crate) fn crossing(link: &Link<Datagram>, now: Instant) -> f64 {
    link.queueing_delay(now).as_secs_f64().min(FAR) + link.outlook(now).delay.as_secs_f64()
}
