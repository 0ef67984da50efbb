//! The packets of a connection that are under way, kept once: by the number of their decision, by their data, and per
//! path in the order in which they left. Packets come and go in constant time, over a run.

use core::cell::Cell;

use weftway_path::{Bytes, Instant, Offset, Packet, PathId, PathSet, Receipt, SendKind, Span};

use crate::shared::per_path::PerPath;
use crate::shared::recent_rate::Oldest;

mod on_path;
mod packets;
#[cfg(test)]
mod tests;

use on_path::{Listed, PathFlight};
use packets::Packets;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlightPacket {
    path: PathId,
    pub offset: Offset,
    pub end: Offset,
    /// Bytes that its path had been given when it left, itself included.
    given: Bytes,
    /// The paths that have carried its data, and may not again.
    pub carried: PathSet,
    /// Time at which it left.
    pub sent: Instant,
    /// Time at which it should arrive, as predicted when it left.
    pub eta: Instant,
    /// Time from which its acknowledgement is overdue.
    pub due: Instant,
    /// Another packet with the same data: the next one that was sent, or for the last one that before it.
    same_data: Option<u64>,
    /// Declared lost.
    pub lost: bool,
    /// Acknowledged or given up on its path.
    settled: bool,
    /// Another copy is of no use: the data have arrived, were handed back, or are copied already.
    closed: bool,
    /// A packet with the same data may be under way: its loss loses nothing.
    is_copy: bool,
}

/// Packets in flight.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    packets: Packets,
    paths: PerPath<PathFlight>,
    /// Time from which the next sign of life of each path is overdue; zero if none is awaited.
    dues: PerPath<Instant>,
    /// The first of them that is still to come, if that is known.
    next_due: Cell<Option<Instant>>,
    /// Latest time at which a packet should arrive that any path was given.
    latest: Instant,
    /// Paths whose oldest packet is another, or is told anew, since somebody asked.
    renewed: PathSet,
    /// Bytes that were declared lost, and not sent again.
    lost_bytes: Bytes,
    /// A path may carry again the data that it has lost, as under Multipath QUIC.
    repeats_anywhere: bool,
    /// The send buffer keeps data that have arrived and are not acknowledged, as under QUIC.
    pub keeps_arrived: bool,
}

/// Prediction for a packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prediction {
    pub eta: Instant,
    pub due: Instant,
}

impl InFlightPacket {
    /// Tells whether a copy of it may be of use.
    fn is_single(&self, una: Offset) -> bool {
        !self.closed && self.end > una
    }
}

impl InFlight {
    /// The packet in a list, if a copy of it may be of use.
    fn single(&self, serial: u64, una: Offset) -> Option<(u64, &InFlightPacket)> {
        Some((serial, self.packets.get(serial).filter(|packet| packet.is_single(una))?))
    }

    /// The oldest packet of `path` that nothing has been heard of since it left.
    #[inline]
    pub(crate) fn oldest(&self, path: PathId) -> Option<&Oldest> {
        self.paths.get(path)?.oldest.as_ref()
    }

    /// The paths whose oldest packet ([`InFlight::oldest`]) is another since the last call, or is told anew.
    #[inline]
    pub(crate) fn take_renewed(&mut self) -> PathSet {
        core::mem::take(&mut self.renewed)
    }

    /// Number of packets of `path` that were acknowledged after they were overdue.
    pub(crate) fn late(&self, path: PathId) -> u64 {
        self.paths.get(path).map_or(0, |flight| flight.late)
    }

    /// Time at which the newest packet on `path` should arrive, if its acknowledgement is still to come, and the
    /// unacknowledged bytes that should have arrived a time of `back` before `at`: none if the acknowledgement of the
    /// newest of these should have come before `since`.
    #[inline]
    pub(crate) fn arriving(&self, path: PathId, since: Instant, at: Instant, back: Span) -> Option<(Instant, Bytes)> {
        let (flight, first) = (self.paths.get(path)?, self.packets.first());
        let unheard = flight.unheard.packets();
        let newest = unheard.back().filter(|newest| newest.serial >= first)?;
        let end = flight.unheard.first_not(|packet| packet.serial < first || packet.eta + back <= at);
        let is_counted = |last: &&Listed| last.serial >= first && last.eta + back >= since;
        let last = unheard.get(end.wrapping_sub(1)).filter(is_counted);
        Some((newest.eta, last.map_or(Bytes::ZERO, |last| last.given.saturating_sub(flight.settled))))
    }

    /// The next time after `now` at which a sign of life is overdue.
    #[inline]
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let next = self.next_due.get().filter(|next| *next > now).unwrap_or_else(|| self.find_next_due(now));
        (!next.is_never()).then_some(next)
    }

    #[inline(never)]
    fn find_next_due(&self, now: Instant) -> Instant {
        let mut next = Instant::NEVER;
        for &due in self.dues.iter() {
            if due > now && due < next {
                next = due;
            }
        }
        self.next_due.set(Some(next));
        next
    }

    /// Latest time at which a packet should arrive that any path was given.
    #[inline]
    pub(crate) fn latest(&self) -> Instant {
        self.latest
    }

    /// Bytes in flight on `path`, up to the end of the newest packet.
    #[inline]
    pub(crate) fn held(&self, path: PathId) -> Bytes {
        self.paths.get(path).map_or(Bytes::ZERO, |flight| flight.given.saturating_sub(flight.settled))
    }

    /// The oldest packet on `path` that may be worth a copy.
    pub(crate) fn first_single(&self, path: PathId, una: Offset) -> Option<(u64, &InFlightPacket)> {
        self.paths.get(path)?.single.packets().iter().find_map(|packet| self.single(packet.serial, una))
    }

    /// The number of the oldest packet of a path that may be worth a copy and should arrive after `at`.
    fn after(&self, flight: &PathFlight, at: Instant) -> u64 {
        let first = self.packets.first();
        flight.single.first_not(|packet| packet.serial < first || packet.eta <= at)
    }

    /// Number of packets of `path` that may be worth a copy, from the oldest on that should arrive after `at`.
    pub(crate) fn count_after(&self, path: PathId, at: Instant) -> u64 {
        let Some(flight) = self.paths.get(path) else { return 0 };
        flight.single.packets().end() - self.after(flight, at)
    }

    /// The oldest packet on `path` that may be worth a copy and should arrive after `at`.
    pub(crate) fn first_after(&self, path: PathId, una: Offset, at: Instant) -> Option<(u64, &InFlightPacket)> {
        let flight = self.paths.get(path)?;
        let singles = flight.single.packets();
        (self.after(flight, at)..singles.end()).find_map(|number| self.single(singles[number].serial, una))
    }

    /// Tells whether `path` holds a packet that may be worth a copy, or one that has arrived and is not acknowledged.
    pub(crate) fn may_be_copied(&self, path: PathId) -> bool {
        let holds = |flight: &PathFlight| !flight.single.packets().is_empty() || !flight.arrived.is_empty();
        self.paths.get(path).is_some_and(holds)
    }

    /// The packets on `path` that may be worth a copy on path `by`, oldest first.
    pub(crate) fn singles_for(
        &self,
        path: PathId,
        by: PathId,
        una: Offset,
    ) -> impl DoubleEndedIterator<Item = (u64, &InFlightPacket)> {
        let listed = self.paths.get(path).into_iter().flat_map(|flight| flight.single.packets().iter());
        let singles = listed.filter_map(move |packet| self.single(packet.serial, una));
        singles.filter(move |(_, packet)| !packet.carried.contains(by))
    }

    /// The newest packet on `path` that may be worth a copy.
    pub(crate) fn last_single(&self, path: PathId, una: Offset) -> Option<(u64, &InFlightPacket)> {
        self.paths.get(path)?.single.packets().iter().rev().find_map(|packet| self.single(packet.serial, una))
    }

    /// The latest time at which a packet on `path` that may be worth a copy should arrive, and the bytes in flight up
    /// to the end of the newest: no such packet is beyond either. None if there is no such packet.
    pub(crate) fn last_of_all(&self, path: PathId) -> Option<(Instant, Bytes)> {
        let flight = self.paths.get(path).filter(|flight| !flight.single.packets().is_empty())?;
        Some((flight.latest, flight.given.saturating_sub(flight.settled)))
    }

    /// The oldest packet on `path` that has arrived and is in the send buffer, which begins at `buffered`, for want of
    /// an acknowledgement.
    pub(crate) fn first_arrived(&self, path: PathId, buffered: Offset) -> Option<(u64, &InFlightPacket)> {
        let flight = self.paths.get(path)?;
        let mut oldest_first =
            flight.arrived.iter().copied().chain(flight.single.packets().iter().map(|packet| packet.serial));
        oldest_first.find_map(|serial| self.single(serial, buffered))
    }

    /// The paths on which the data at `offset` are under way.
    fn under_way(&self, offset: Offset) -> PathSet {
        let same = self.packets.with_data(offset).filter(|(_, packet)| !packet.lost && !packet.settled);
        same.fold(PathSet::EMPTY, |set, (_, packet)| set.with(packet.path))
    }

    /// A packet left; if it is a copy, further ones may go to the paths `others`.
    #[inline]
    pub(crate) fn sent(
        &mut self,
        now: Instant,
        sent: &Receipt,
        kind: SendKind,
        prediction: Prediction,
        una: Offset,
        others: PathSet,
    ) {
        let mut packet = InFlightPacket {
            path: sent.path,
            given: Bytes::ZERO,
            offset: sent.offset,
            end: sent.offset.plus(sent.bytes),
            carried: PathSet::of(sent.path),
            sent: now,
            eta: prediction.eta,
            due: prediction.due,
            same_data: None,
            lost: false,
            settled: false,
            closed: false,
            is_copy: false,
        };
        if matches!(kind, SendKind::Duplicate | SendKind::Reinjection) {
            self.carried_again(&mut packet, sent, kind, una);
            packet.closed = packet.is_copy && others.minus(packet.carried).is_empty();
        }
        let flight = self.paths.at(sent.path);
        flight.given = flight.given.plus(sent.bytes);
        packet.given = flight.given;
        self.latest = self.latest.max(packet.eta);
        if !self.packets.push(sent.serial, packet) {
            return;
        }
        flight.push(Listed { serial: sent.serial, eta: packet.eta, given: packet.given }, !packet.closed);
        if flight.unheard.packets().len() <= 2 {
            self.note_oldest(sent.path);
        }
    }

    /// The data of `packet` were sent before: that packet and the newest one before it know of each other.
    #[inline(never)]
    fn carried_again(&mut self, packet: &mut InFlightPacket, sent: &Receipt, kind: SendKind, una: Offset) {
        let copies = kind == SendKind::Duplicate;
        if !copies {
            self.lost_bytes = self.lost_bytes.saturating_sub(sent.bytes);
        }
        let still = (!copies && self.repeats_anywhere).then(|| self.under_way(sent.offset));
        let Some(serial) = self.packets.with_data(sent.offset).next().map(|(serial, _)| serial) else { return };
        let Some(other) = self.packets.get_mut(serial) else { return };
        packet.carried = still.unwrap_or(other.carried).with(sent.path);
        other.carried = packet.carried;
        other.closed = true;
        packet.is_copy = copies;
        packet.same_data = Some(serial);
        other.same_data = Some(sent.serial);
        let from = other.path;
        self.tidy(from, una);
    }

    /// The packet was acknowledged on its path: when it had left, and when it was to arrive.
    #[inline]
    pub(crate) fn acked(&mut self, now: Instant, acked: &Receipt, una: Offset) -> Option<(Instant, Instant)> {
        let Self { packets, paths, .. } = self;
        let flight = paths.at(acked.path);
        flight.heard = now;
        let mut left = None;
        if let Some(packet) = packets.get_mut(acked.serial) {
            (packet.settled, packet.closed) = (true, true);
            left = Some((packet.sent, packet.eta));
            flight.late += u64::from(now > packet.due);
            flight.settled = flight.settled.max(packet.given);
            // With those that were sent after it.
            let mut next = packet.same_data;
            while let Some(serial) = next
                && let Some(other) = packets.get_mut(serial)
            {
                other.closed = true;
                next = other.same_data.filter(|newer| *newer > serial);
            }
        }
        flight.heard_of(acked.serial);
        // Mostly it is the oldest.
        if flight.single.packets().front().is_some_and(|first| first.serial == acked.serial) {
            flight.single.pop();
        }
        self.tidy(acked.path, una);
        self.note_oldest(acked.path);
        left
    }

    /// The packet was declared lost on its path, which repairs it (TCP) or has handed it back (QUIC). If that was said
    /// by a timer, nothing has been heard of the path since. Without a view of the data, `una` among them, nothing
    /// tells when they have arrived after all: then the packet is over.
    pub(crate) fn lost(&mut self, lost: &Receipt, una: Option<Offset>) {
        if let Some(packet) = self.packets.get_mut(lost.serial) {
            let is_news = !packet.lost && !packet.closed && !packet.is_copy;
            packet.lost = true;
            if is_news {
                self.lost_bytes += lost.bytes;
            }
            if una.is_none() {
                (packet.settled, packet.closed) = (true, true);
                self.paths.at(lost.path).heard_of(lost.serial);
                self.note_oldest(lost.path);
            }
        }
        self.tidy(lost.path, una.unwrap_or_default());
    }

    /// The bytes in flight on the packet's path up to its end.
    pub(crate) fn front(&self, packet: &InFlightPacket) -> Bytes {
        let settled = self.paths.get(packet.path).map_or(Bytes::ZERO, |flight| flight.settled);
        packet.given.saturating_sub(settled)
    }

    /// Bytes that were declared lost and were not sent again.
    pub(crate) fn lost_bytes(&self) -> Bytes {
        self.lost_bytes
    }

    /// The packet at hand was handed back, if `packet` was; what the transport would have it avoid tells whether a path
    /// may carry again what it has lost. If it was not, nothing that was handed back waits to be sent again.
    pub(crate) fn at_hand(&mut self, packet: Option<&Packet>) {
        match packet.filter(|packet| packet.reinjection) {
            Some(packet) => self.repeats_anywhere = packet.avoid.is_empty(),
            None => self.lost_bytes = Bytes::ZERO,
        }
    }

    /// Number of packets of `path` that may be worth a copy.
    pub(crate) fn singles(&self, path: PathId) -> u64 {
        self.paths.get(path).map_or(0, |flight| flight.single.packets().len() as u64)
    }

    /// Forgets what is over at the ends of the lists.
    #[inline(always)]
    fn tidy(&mut self, path: PathId, una: Offset) {
        let Self { packets, paths, repeats_anywhere, keeps_arrived, .. } = self;
        let PathFlight { single, arrived, .. } = paths.at(path);
        // Whether a packet leaves the list: if its data have arrived in one copy, it is kept in the other.
        let mut leaves = |listed: &Listed| match packets.get(listed.serial).filter(|packet| !packet.closed) {
            Some(packet) if packet.end > una => false,
            Some(_) => {
                if *keeps_arrived {
                    arrived.push(listed.serial);
                }
                true
            }
            None => true,
        };
        while single.packets().front().is_some_and(&mut leaves) {
            single.pop();
        }
        while single.packets().back().is_some_and(&mut leaves) {
            single.pop_back();
        }
        let is_open = |serial| packets.get(serial).is_some_and(|packet| !packet.closed);
        while arrived.front().is_some_and(|serial| !is_open(*serial)) {
            arrived.pop();
        }
        // What was lost and may go anywhere has come on another path, or again.
        let lost = |packet: &InFlightPacket| *repeats_anywhere && packet.lost && packet.end <= una;
        let mut unsettled = PathSet::EMPTY;
        let left = |packet: &InFlightPacket| {
            if !packet.settled {
                unsettled = unsettled.with(packet.path);
            }
        };
        packets.forget(|packet| packet.settled || lost(packet), left);
        unsettled.iter().for_each(|path| self.note_oldest(path));
    }

    /// Notes which packet of `path` is the oldest that nothing has been heard of since it left. To be called wherever
    /// that changes.
    #[inline(always)]
    fn note_oldest(&mut self, path: PathId) {
        let flight = self.paths.at(path);
        let packet = flight.unheard.packets().front().and_then(|first| self.packets.get(first.serial));
        flight.oldest = packet.map(|packet| {
            let bytes = packet.end.since(packet.offset);
            let due = packet.due.max(flight.heard + packet.due.since(packet.sent));
            Oldest { sent: packet.sent, bytes, alone: flight.unheard.packets().len() == 1, due }
        });
        self.renewed = self.renewed.with(path);
        let due = flight.oldest.as_ref().map_or(Instant::ZERO, |oldest| oldest.due);
        self.set_due(path, due);
    }

    #[inline(always)]
    fn set_due(&mut self, path: PathId, due: Instant) {
        let before = core::mem::replace(self.dues.at(path), due);
        let next = self.next_due.get_mut();
        // Another is the first now if this one was, and an earlier one is.
        if due != before && next.is_some_and(|next| before == next || due < next && due > Instant::ZERO) {
            *next = None;
        }
    }

    /// Marks a packet of which a copy is of no use.
    pub(crate) fn close(&mut self, serial: u64) {
        if let Some(packet) = self.packets.get_mut(serial) {
            packet.closed = true;
        }
    }

    /// The path is gone, or comes up anew.
    pub(crate) fn forget(&mut self, path: PathId) {
        let flight = core::mem::take(self.paths.at(path));
        let PathFlight { given, late, .. } = flight;
        *self.paths.at(path) = PathFlight { given, settled: given, late, ..PathFlight::default() };
        self.renewed = self.renewed.with(path);
        self.set_due(path, Instant::ZERO);
        for listed in flight.unheard.packets().iter().chain(flight.single.packets().iter()) {
            if let Some(packet) = self.packets.get_mut(listed.serial) {
                (packet.settled, packet.closed) = (true, true);
            }
        }
    }
}
