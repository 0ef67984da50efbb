//! A sender reduced to bookkeeping: no links and no timers; packets are acknowledged or lost when
//! its user says so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weftway_path::{
    BitRate, BlockedReason, Bytes, Context, Decision, Event, Flow, Instant, Offset, Packet, Path, PathId, PathSet,
    Receipt, SendKind, Span,
};

/// The payload of every packet on a [`Bench`].
pub const MSS: Bytes = Bytes::new(1400);

/// `n` packets' worth of bytes.
pub fn packets(n: u64) -> Bytes {
    Bytes::new(n * MSS.get())
}

/// Path `n` in congestion avoidance, with a srtt and a window; blocked if the window is full.
pub fn path(n: u8, srtt_ms: u64, cwnd: u64, in_flight: u64) -> Path {
    let srtt = Span::from_millis(srtt_ms);
    let rate = BitRate::of(packets(cwnd), srtt);
    let mut path = Path {
        latest_rtt: srtt,
        srtt,
        min_rtt: srtt,
        max_rtt: srtt,
        rtt_sum: srtt,
        rtt_samples: 1,
        ssthresh: packets(cwnd),
        bytes_in_flight: packets(in_flight),
        delivery_rate: rate,
        pacing_rate: rate,
        ..Path::new(PathId::new(n), MSS, packets(cwnd))
    };
    refresh(&mut path);
    path
}

/// Sets or lifts the congestion hold, as the window and what is in flight say.
fn refresh(path: &mut Path) {
    if matches!(path.blocked, BlockedReason::None | BlockedReason::Congestion) {
        let waiting = path.queued.min(path.cwnd.saturating_sub(path.bytes_in_flight));
        path.queued -= waiting;
        path.bytes_in_flight += waiting;
        path.blocked = if path.space() < path.mss { BlockedReason::Congestion } else { BlockedReason::None };
    }
}

/// Segment: one packet's worth of the connection's data.
#[derive(Clone, Copy, Default)]
struct Segment {
    carried: PathSet,
    acked: bool,
    /// The paths that have lost it and may carry it again, as under Multipath QUIC.
    lost_by: PathSet,
}

impl Segment {
    /// Returns true if `path` may carry a copy; `due`: it is lost, and to be sent again.
    fn may_copy(&self, path: PathId, due: bool) -> bool {
        !self.acked && (!self.carried.contains(path) || self.lost_by.contains(path) && !due)
    }
}

/// A connection on a table. Its fields may be set between questions; [`Bench::refresh`] then makes
/// holds and the packet at hand agree with them.
#[derive(Clone)]
pub struct Bench {
    /// The time.
    pub now: Instant,
    /// The usable paths, in the order of their numbers.
    pub paths: Vec<Path>,
    /// The data. At first 1 GB is unsent and the peer's window takes all of it.
    pub flow: Flow,
    /// The packet at hand.
    pub packet: Option<Packet>,
    /// True if data that are handed back avoid the paths that have carried them, as under MPTCP. At first they do.
    pub masks: bool,
    segments: BTreeMap<Offset, Segment>,
    /// Segments that are lost, and to be sent again.
    due: BTreeSet<Offset>,
    flights: BTreeMap<PathId, VecDeque<Receipt>>,
    serial: u64,
}

impl Bench {
    /// A connection over `paths` that has sent nothing.
    pub fn new(paths: Vec<Path>) -> Self {
        let end = Offset::new(1_000_000_000);
        let unsent = end.since(Offset::ZERO);
        let flow = Flow { end, edge: end, unsent, message_end: end, ..Flow::default() };
        let mut bench = Self {
            now: Instant::ZERO,
            paths,
            flow,
            packet: None,
            masks: true,
            segments: BTreeMap::new(),
            due: BTreeSet::new(),
            flights: BTreeMap::new(),
            serial: 0,
        };
        bench.refresh();
        bench
    }

    /// The question as it stands.
    pub fn context(&self) -> Context<'_> {
        Context::new(self.now, &self.paths, self.packet.as_ref(), Some(&self.flow))
    }

    /// Makes holds and the packet at hand agree with the fields.
    pub fn refresh(&mut self) {
        self.paths.iter_mut().for_each(refresh);
        self.packet = match self.due.first() {
            Some(&offset) => {
                let carried = self.segments[&offset].carried;
                let avoid = if self.masks { carried } else { PathSet::EMPTY };
                Some(Packet { offset, bytes: MSS, reinjection: true, carried, avoid })
            }
            None if self.flow.unsent == Bytes::ZERO || self.flow.next >= self.flow.edge => None,
            None => {
                let (carried, avoid) = (PathSet::EMPTY, PathSet::EMPTY);
                Some(Packet { offset: self.flow.next, bytes: MSS, reinjection: false, carried, avoid })
            }
        };
    }

    /// Hands packet number `n` back to be sent again, as if `carried` had lost it.
    pub fn reinject(&mut self, n: u64, carried: PathSet) {
        let offset = Offset::ZERO + packets(n);
        self.segments.insert(offset, Segment { carried, ..Segment::default() });
        self.due.insert(offset);
        self.flow.next = self.flow.next.max(offset + MSS);
        self.refresh();
    }

    /// Carries `decision` out, unless it is a recall. None: there was nothing to do.
    pub fn carry(&mut self, decision: Decision) -> Option<Event> {
        let (path, offset, kind) = match decision {
            Decision::Send(path) => self.packet.map(|packet| {
                (path, packet.offset, if packet.reinjection { SendKind::Reinjection } else { SendKind::Fresh })
            }),
            Decision::Ahead(path, at) => self.unsent_from(at).map(|offset| (path, offset, SendKind::Ahead)),
            Decision::Repeat(path, at) => self.unacked_from(at, path).map(|offset| (path, offset, SendKind::Duplicate)),
            Decision::Recall(_) | Decision::Wait => None,
        }?;
        let receipt = Receipt { path, offset, bytes: MSS, serial: self.serial };
        self.serial += 1;
        self.put_on_path(receipt, kind);
        Some(Event::Sent(receipt, kind))
    }

    fn unsent_from(&self, at: Offset) -> Option<Offset> {
        let first = at.max(self.flow.next).get().next_multiple_of(MSS.get());
        let mut offsets = (0..).map(|n| Offset::new(first) + packets(n));
        offsets
            .find(|offset| !self.segments.contains_key(offset))
            .filter(|offset| *offset < self.flow.edge.min(self.flow.end))
    }

    fn unacked_from(&self, at: Offset, path: PathId) -> Option<Offset> {
        self.segments
            .range(at..)
            .find(|(offset, segment)| segment.may_copy(path, self.due.contains(*offset)))
            .map(|(offset, _)| *offset)
    }

    fn put_on_path(&mut self, receipt: Receipt, kind: SendKind) {
        let segment = self.segments.entry(receipt.offset).or_default();
        segment.carried = segment.carried.with(receipt.path);
        segment.lost_by = segment.lost_by.without(receipt.path);
        self.due.remove(&receipt.offset);
        if matches!(kind, SendKind::Fresh | SendKind::Ahead) {
            self.flow.unsent = self.flow.unsent.saturating_sub(MSS);
        }
        while self.segments.contains_key(&self.flow.next) {
            self.flow.next += MSS;
        }
        self.flights.entry(receipt.path).or_default().push_back(receipt);
        if let Some(path) = self.paths.iter_mut().find(|path| path.id == receipt.path) {
            path.queued += MSS;
            if path.is_open() {
                path.queued -= MSS;
                path.bytes_in_flight += MSS;
            }
            path.next = path.next.max(receipt.offset + MSS);
            path.sent.add(MSS);
            if kind == SendKind::Reinjection {
                path.retransmitted.add(MSS);
            }
        }
        self.refresh();
    }

    /// Takes back what waits in `path`'s queue.
    pub fn recall(&mut self, path: PathId) -> Vec<Event> {
        let Some(at) = self.paths.iter().position(|known| known.id == path) else { return Vec::new() };
        let waiting = self.paths[at].queued.get().div_ceil(MSS.get()) as usize;
        let flight = self.flights.entry(path).or_default();
        let taken = flight.split_off(flight.len().saturating_sub(waiting));
        self.paths[at].queued = Bytes::ZERO;
        if let Some(first) = taken.front() {
            self.paths[at].next = self.paths[at].next.min(first.offset);
        }
        for receipt in &taken {
            self.paths[at].sent.bytes = self.paths[at].sent.bytes.saturating_sub(receipt.bytes);
            self.paths[at].sent.packets = self.paths[at].sent.packets.saturating_sub(1);
            self.take_back(*receipt);
        }
        self.refresh();
        taken.into_iter().map(Event::Recalled).collect()
    }

    /// Takes `receipt` back: data that no path has carried are unsent again, data that no path carries now are sent
    /// again.
    fn take_back(&mut self, receipt: Receipt) {
        let Some(segment) = self.segments.get_mut(&receipt.offset) else { return };
        segment.carried = segment.carried.without(receipt.path);
        if segment.carried.is_empty() && !segment.acked && !self.due.contains(&receipt.offset) {
            self.segments.remove(&receipt.offset);
            self.flow.unsent += MSS;
            self.flow.next = self.flow.next.min(receipt.offset);
        } else if !self.paths.iter().any(|path| self.in_flight(path.id).any(|sent| sent.offset == receipt.offset)) {
            self.hand_back(receipt);
        }
    }

    /// The packets that `path` carries, oldest first.
    pub fn in_flight(&self, path: PathId) -> impl Iterator<Item = Receipt> {
        self.flights.get(&path).into_iter().flatten().copied()
    }

    /// Acknowledges the packet at `offset` on `path`, or the oldest. None: nothing is in flight.
    pub fn ack(&mut self, path: PathId, offset: Option<Offset>) -> Option<Event> {
        let receipt = self.land(path, offset)?;
        if let Some(path) = self.paths.iter_mut().find(|path| path.id == receipt.path) {
            path.acked.add(receipt.bytes);
        }
        self.segments.entry(receipt.offset).or_default().acked = true;
        self.due.remove(&receipt.offset);
        while self.segments.get(&self.flow.una).is_some_and(|segment| segment.acked) {
            self.segments.remove(&self.flow.una);
            self.flow.una += MSS;
        }
        self.flow.next = self.flow.next.max(self.flow.una);
        self.refresh();
        Some(Event::Acked(receipt))
    }

    /// Declares the packet at `offset` on `path`, or the oldest, lost, and hands it back.
    pub fn lose(&mut self, path: PathId, offset: Option<Offset>) -> Option<Event> {
        let receipt = self.land(path, offset)?;
        if let Some(path) = self.paths.iter_mut().find(|path| path.id == receipt.path) {
            path.lost.add(receipt.bytes);
        }
        self.hand_back(receipt);
        if let Some(segment) = self.segments.get_mut(&receipt.offset).filter(|_| !self.masks) {
            segment.lost_by = segment.lost_by.with(path);
        }
        self.refresh();
        Some(Event::Lost(receipt))
    }

    fn hand_back(&mut self, receipt: Receipt) {
        if self.segments.get(&receipt.offset).is_some_and(|segment| !segment.acked) {
            self.due.insert(receipt.offset);
        }
    }

    /// Takes a packet out of flight.
    fn land(&mut self, path: PathId, offset: Option<Offset>) -> Option<Receipt> {
        let flight = self.flights.entry(path).or_default();
        let at = offset.map_or(Some(0), |offset| flight.iter().position(|sent| sent.offset == offset))?;
        let receipt = flight.remove(at)?;
        if let Some(path) = self.paths.iter_mut().find(|path| path.id == receipt.path) {
            path.bytes_in_flight = path.bytes_in_flight.saturating_sub(receipt.bytes);
        }
        Some(receipt)
    }

    /// Takes a path away; what it carried is sent again.
    pub fn remove(&mut self, path: PathId) -> Option<Event> {
        let at = self.paths.iter().position(|known| known.id == path)?;
        self.paths.remove(at);
        for receipt in self.flights.remove(&path).unwrap_or_default() {
            self.hand_back(receipt);
        }
        self.refresh();
        Some(Event::PathDown(path))
    }

    /// Adds a path, unless its number is taken.
    pub fn add(&mut self, path: Path) -> Option<Event> {
        let id = path.id;
        let at = self.paths.partition_point(|known| known.id < id);
        if self.paths.get(at).is_some_and(|known| known.id == id) {
            return None;
        }
        self.paths.insert(at, path);
        self.refresh();
        Some(Event::PathUp(id))
    }
}
