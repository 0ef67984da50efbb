//! The packets of a connection that are under way, kept once: by the number of their decision, and per path in the order
//! in which they left. Every operation takes constant time, over a run.

use std::collections::VecDeque;

use weftway_path::{Instant, Offset, PathId, PathSet, Receipt, SendKind};

use crate::per_path::PerPath;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flown {
    path: PathId,
    pub offset: Offset,
    pub end: Offset,
    /// The paths that have carried its data.
    pub carried: PathSet,
    /// When it left.
    pub sent: Instant,
    /// When it should arrive, as foretold when it left.
    pub eta: Instant,
    /// When its acknowledgement is overdue.
    pub due: Instant,
    /// The other packet with the same data.
    twin: Option<u64>,
    /// Declared lost.
    pub lost: bool,
    /// Acknowledged or given up on its path.
    settled: bool,
    /// Nothing is gained by another copy: the data have arrived, were handed back, or are copied already.
    closed: bool,
}

/// What is under way on one path.
#[derive(Clone, Default)]
struct Lane {
    /// Sent after the newest packet that is acknowledged, oldest first.
    unheard: VecDeque<u64>,
    /// Not known to have arrived, in one copy so far, oldest first.
    single: VecDeque<u64>,
    /// When something of it was last acknowledged.
    heard: Instant,
}

/// All of them.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    base: u64,
    ring: VecDeque<Option<Flown>>,
    lanes: PerPath<Lane>,
}

/// What was foretold of a packet when it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub eta: Instant,
    pub due: Instant,
}

impl InFlight {
    fn get(&self, serial: u64) -> Option<&Flown> {
        self.ring.get(serial.checked_sub(self.base)? as usize)?.as_ref()
    }

    fn get_mut(&mut self, serial: u64) -> Option<&mut Flown> {
        self.ring.get_mut(serial.checked_sub(self.base)? as usize)?.as_mut()
    }

    /// Whether a copy of the packet may be of use.
    fn is_single(&self, serial: u64, una: Offset) -> bool {
        self.get(serial).is_some_and(|flown| !flown.closed && flown.end > una)
    }

    /// When the next sign of life of `path` is overdue, if anything waits for one: the oldest packet of those that left
    /// after the newest acknowledged one has its time from when it left, or from when the path was last heard of.
    #[inline]
    pub(crate) fn due(&self, path: PathId) -> Option<Instant> {
        let lane = self.lanes.get(path)?;
        let oldest = self.get(*lane.unheard.front()?)?;
        Some(oldest.due.max(lane.heard + oldest.due.since(oldest.sent)))
    }

    /// The next time after `now` at which a sign of life is overdue.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let dues = (0..self.lanes.len()).filter_map(|n| self.due(PathId::new(n as u8)));
        dues.filter(|due| *due > now).min()
    }

    /// The oldest packet on `path` that may be worth a copy.
    pub(crate) fn first_single(&self, path: PathId, una: Offset) -> Option<(u64, &Flown)> {
        let lane = self.lanes.get(path)?;
        let serial = *lane.single.iter().find(|serial| self.is_single(**serial, una))?;
        Some((serial, self.get(serial)?))
    }

    /// How many packets of `path` may be worth a copy and should arrive after `at`.
    pub(crate) fn count_after(&self, path: PathId, at: Instant) -> u64 {
        let Some(lane) = self.lanes.get(path) else { return 0 };
        let start = lane.single.partition_point(|serial| self.get(*serial).is_none_or(|flown| flown.eta <= at));
        (lane.single.len() - start) as u64
    }

    /// The oldest packet on `path` that may be worth a copy and should arrive after `at`.
    pub(crate) fn first_after(&self, path: PathId, una: Offset, at: Instant) -> Option<(u64, &Flown)> {
        let lane = self.lanes.get(path)?;
        let start = lane.single.partition_point(|serial| self.get(*serial).is_none_or(|flown| flown.eta <= at));
        let serial = *lane.single.range(start..).find(|serial| self.is_single(**serial, una))?;
        Some((serial, self.get(serial)?))
    }

    /// The newest packet on `path` that may be worth a copy.
    pub(crate) fn last_single(&self, path: PathId, una: Offset) -> Option<(u64, &Flown)> {
        let lane = self.lanes.get(path)?;
        let serial = *lane.single.iter().rev().find(|serial| self.is_single(**serial, una))?;
        Some((serial, self.get(serial)?))
    }

    /// A packet left.
    pub(crate) fn sent(&mut self, now: Instant, sent: &Receipt, kind: SendKind, promise: Promise, una: Offset) {
        let mut flown = Flown {
            path: sent.path,
            offset: sent.offset,
            end: sent.offset + sent.bytes,
            carried: PathSet::of(sent.path),
            sent: now,
            eta: promise.eta,
            due: promise.due,
            twin: None,
            lost: false,
            settled: false,
            closed: false,
        };
        let mut from = None;
        if matches!(kind, SendKind::Duplicate | SendKind::Reinjection) {
            let copies = kind == SendKind::Duplicate;
            let found = self.ring.iter_mut().enumerate().rev();
            let mut found = found.filter_map(|(at, other)| Some((at, other.as_mut()?)));
            if let Some((at, other)) = found.find(|(_, other)| other.offset == sent.offset) {
                flown.carried = other.carried.with(sent.path);
                other.carried = flown.carried;
                other.closed = true;
                flown.closed = copies;
                flown.twin = Some(self.base + at as u64);
                other.twin = Some(sent.serial);
                from = Some(other.path);
            }
        }
        if let Some(from) = from {
            self.tidy(from, una);
        }
        let lane = self.lanes.at(sent.path);
        lane.unheard.push_back(sent.serial);
        if !flown.closed {
            lane.single.push_back(sent.serial);
        }
        if self.ring.is_empty() {
            self.base = sent.serial;
        }
        // Probes have numbers too and are not told of.
        while self.base + (self.ring.len() as u64) < sent.serial {
            self.ring.push_back(None);
        }
        self.ring.push_back(Some(flown));
    }

    /// The packet was acknowledged on its path.
    pub(crate) fn acked(&mut self, now: Instant, acked: &Receipt, una: Offset) {
        if let Some(flown) = self.get_mut(acked.serial) {
            (flown.settled, flown.closed) = (true, true);
            let twin = flown.twin;
            if let Some(twin) = twin.and_then(|twin| self.get_mut(twin)) {
                twin.closed = true;
            }
        }
        let lane = self.lanes.at(acked.path);
        lane.heard = now;
        while lane.unheard.front().is_some_and(|serial| *serial <= acked.serial) {
            lane.unheard.pop_front();
        }
        self.tidy(acked.path, una);
    }

    /// The packet was declared lost on its path, which repairs it (TCP) or has handed it back (QUIC). If that was said by a
    /// timer, nothing has been heard of the path since.
    pub(crate) fn lost(&mut self, lost: &Receipt, una: Offset) {
        if let Some(flown) = self.get_mut(lost.serial) {
            flown.lost = true;
        }
        self.tidy(lost.path, una);
    }

    /// How many packets of `path` may be worth a copy.
    pub(crate) fn singles(&self, path: PathId) -> u64 {
        self.lanes.get(path).map_or(0, |lane| lane.single.len() as u64)
    }

    /// Forgets what is over at the ends of the lists.
    fn tidy(&mut self, path: PathId, una: Offset) {
        let mut single = core::mem::take(&mut self.lanes.at(path).single);
        while single.front().is_some_and(|serial| !self.is_single(*serial, una)) {
            single.pop_front();
        }
        while single.back().is_some_and(|serial| !self.is_single(*serial, una)) {
            single.pop_back();
        }
        self.lanes.at(path).single = single;
        let is_over = |flown: &Option<Flown>| flown.as_ref().is_none_or(|flown| flown.settled);
        while self.ring.front().is_some_and(is_over) {
            self.ring.pop_front();
            self.base += 1;
        }
    }

    /// Nothing comes of a copy of this packet.
    pub(crate) fn close(&mut self, serial: u64) {
        if let Some(flown) = self.get_mut(serial) {
            flown.closed = true;
        }
    }

    /// The path is gone, or comes up anew.
    pub(crate) fn forget(&mut self, path: PathId) {
        let lane = core::mem::take(self.lanes.at(path));
        for serial in lane.unheard.iter().chain(&lane.single) {
            if let Some(flown) = self.get_mut(*serial) {
                (flown.settled, flown.closed) = (true, true);
            }
        }
    }
}
