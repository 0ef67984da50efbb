//! The packets of a connection that are under way, kept once: by the number of their decision, and per path in the order
//! in which they left. Packets come and go in constant time, over a run. A copy is the exception: its original is looked for
//! from the newest packet backwards.

use std::collections::VecDeque;

use weftway_path::{Bytes, Instant, Offset, Packet, PathId, PathSet, Receipt, SendKind, Span};

use crate::shared::per_path::PerPath;
use crate::shared::present::Oldest;

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlightPacket {
    path: PathId,
    pub offset: Offset,
    pub end: Offset,
    /// What its path had been given when it left, itself included.
    given: Bytes,
    /// The paths that have carried its data, and may not again.
    pub carried: PathSet,
    /// When it left.
    pub sent: Instant,
    /// When it should arrive, as predicted when it left.
    pub eta: Instant,
    /// When its acknowledgement is overdue.
    pub due: Instant,
    /// The other packet with the same data.
    same_data: Option<u64>,
    /// Declared lost.
    pub lost: bool,
    /// Acknowledged or given up on its path.
    settled: bool,
    /// Nothing is gained by another copy: the data have arrived, were handed back, or are copied already.
    closed: bool,
}

/// What is under way on one path.
#[derive(Clone, Default)]
struct PathFlight {
    /// Sent after the newest packet that is acknowledged, oldest first.
    unheard: VecDeque<u64>,
    /// Not known to have arrived, in one copy so far, oldest first.
    single: VecDeque<u64>,
    /// Known to have arrived, in one copy, and not acknowledged: QUIC's send buffer keeps them.
    arrived: VecDeque<u64>,
    /// When something of it was last acknowledged.
    heard: Instant,
    /// The bytes that it was ever given.
    given: Bytes,
    /// The same up to the newest packet that is acknowledged.
    settled: Bytes,
    /// Packets that were acknowledged after they were overdue.
    late: u64,
}

/// All of them.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    base: u64,
    ring: VecDeque<Option<InFlightPacket>>,
    paths: PerPath<PathFlight>,
    /// Declared lost, and not sent again.
    lost_bytes: Bytes,
    /// Whether a path may carry again what it has lost, as under Multipath QUIC.
    repeats_anywhere: bool,
}

/// What was predicted for a packet when it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prediction {
    pub eta: Instant,
    pub due: Instant,
}

impl InFlight {
    fn get(&self, serial: u64) -> Option<&InFlightPacket> {
        self.ring.get(serial.checked_sub(self.base)? as usize)?.as_ref()
    }

    fn get_mut(&mut self, serial: u64) -> Option<&mut InFlightPacket> {
        self.ring.get_mut(serial.checked_sub(self.base)? as usize)?.as_mut()
    }

    /// Whether a copy of the packet may be of use.
    fn is_single(&self, serial: u64, una: Offset) -> bool {
        self.get(serial).is_some_and(|packet| !packet.closed && packet.end > una)
    }

    /// When the next sign of life of `path` is overdue, if anything waits for one: the oldest packet of those that left
    /// after the newest acknowledged one has its time from when it left, or from when the path was last heard of.
    #[inline]
    pub(crate) fn due(&self, path: PathId) -> Option<Instant> {
        let flight = self.paths.get(path)?;
        let oldest = self.get(*flight.unheard.front()?)?;
        Some(oldest.due.max(flight.heard + oldest.due.since(oldest.sent)))
    }

    /// The oldest packet of `path` that nothing has been heard of since it left.
    pub(crate) fn oldest(&self, path: PathId) -> Option<Oldest> {
        let flight = self.paths.get(path)?;
        let packet = self.get(*flight.unheard.front()?)?;
        Some(Oldest { sent: packet.sent, bytes: packet.end.since(packet.offset), alone: flight.unheard.len() == 1 })
    }

    /// When the packet with this number left, and when it was to arrive.
    pub(crate) fn times(&self, serial: u64) -> Option<(Instant, Instant)> {
        let packet = self.get(serial)?;
        Some((packet.sent, packet.eta))
    }

    /// When something of `path` was last acknowledged.
    pub(crate) fn heard(&self, path: PathId) -> Instant {
        self.paths.get(path).map(|flight| flight.heard).unwrap_or_default()
    }

    /// How many packets of `path` were acknowledged after they were overdue.
    pub(crate) fn late(&self, path: PathId) -> u64 {
        self.paths.get(path).map_or(0, |flight| flight.late)
    }

    /// When the newest packet on `path` should arrive, if its acknowledgement is still to come.
    pub(crate) fn last_arrival(&self, path: PathId) -> Option<Instant> {
        let newest = *self.paths.get(path)?.unheard.back()?;
        Some(self.get(newest)?.eta)
    }

    /// The bytes on `path` that should have arrived a time of `back` before `at`, of those whose acknowledgement is still to
    /// come; none if that of the newest should have come before `since`.
    pub(crate) fn acked_by(&self, path: PathId, since: Instant, at: Instant, back: Span) -> Bytes {
        let Some(flight) = self.paths.get(path) else { return Bytes::ZERO };
        let is_back = |serial: &u64| self.get(*serial).is_none_or(|packet| packet.eta + back <= at);
        let end = flight.unheard.partition_point(is_back);
        let last = end.checked_sub(1).and_then(|last| self.get(flight.unheard[last]));
        let last = last.filter(|packet| packet.eta + back >= since);
        last.map_or(Bytes::ZERO, |packet| packet.given.saturating_sub(flight.settled))
    }

    /// The next time after `now` at which a sign of life is overdue.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let dues = (0..self.paths.len()).filter_map(|n| self.due(PathId::new(n as u8)));
        dues.filter(|due| *due > now).min()
    }

    /// The oldest packet on `path` that may be worth a copy.
    pub(crate) fn first_single(&self, path: PathId, una: Offset) -> Option<(u64, &InFlightPacket)> {
        let flight = self.paths.get(path)?;
        let serial = *flight.single.iter().find(|serial| self.is_single(**serial, una))?;
        Some((serial, self.get(serial)?))
    }

    /// How many packets of `path` may be worth a copy and should arrive after `at`.
    pub(crate) fn count_after(&self, path: PathId, at: Instant) -> u64 {
        let Some(flight) = self.paths.get(path) else { return 0 };
        let start = flight.single.partition_point(|serial| self.get(*serial).is_none_or(|packet| packet.eta <= at));
        (flight.single.len() - start) as u64
    }

    /// The oldest packet on `path` that may be worth a copy and should arrive after `at`.
    pub(crate) fn first_after(&self, path: PathId, una: Offset, at: Instant) -> Option<(u64, &InFlightPacket)> {
        let flight = self.paths.get(path)?;
        let start = flight.single.partition_point(|serial| self.get(*serial).is_none_or(|packet| packet.eta <= at));
        let serial = *flight.single.range(start..).find(|serial| self.is_single(**serial, una))?;
        Some((serial, self.get(serial)?))
    }

    /// The newest packet on `path` that may be worth a copy.
    pub(crate) fn last_single(&self, path: PathId, una: Offset) -> Option<(u64, &InFlightPacket)> {
        let flight = self.paths.get(path)?;
        let serial = *flight.single.iter().rev().find(|serial| self.is_single(**serial, una))?;
        Some((serial, self.get(serial)?))
    }

    /// The oldest packet on `path` that has arrived and is in the send buffer, which begins at `buffered`, for want of an
    /// acknowledgement.
    pub(crate) fn first_arrived(&self, path: PathId, buffered: Offset) -> Option<(u64, &InFlightPacket)> {
        let flight = self.paths.get(path)?;
        let mut oldest_first = flight.arrived.iter().chain(&flight.single);
        let serial = *oldest_first.find(|serial| self.is_single(**serial, buffered))?;
        Some((serial, self.get(serial)?))
    }

    /// The paths on which the data at `offset` are under way.
    fn under_way(&self, offset: Offset) -> PathSet {
        let same =
            self.ring.iter().flatten().filter(|packet| packet.offset == offset && !packet.lost && !packet.settled);
        same.fold(PathSet::EMPTY, |set, packet| set.with(packet.path))
    }

    /// A packet left.
    pub(crate) fn sent(&mut self, now: Instant, sent: &Receipt, kind: SendKind, prediction: Prediction, una: Offset) {
        let flight = self.paths.at(sent.path);
        flight.given += sent.bytes;
        let given = flight.given;
        if kind == SendKind::Reinjection {
            self.lost_bytes = self.lost_bytes.saturating_sub(sent.bytes);
        }
        let mut packet = InFlightPacket {
            path: sent.path,
            given,
            offset: sent.offset,
            end: sent.offset + sent.bytes,
            carried: PathSet::of(sent.path),
            sent: now,
            eta: prediction.eta,
            due: prediction.due,
            same_data: None,
            lost: false,
            settled: false,
            closed: false,
        };
        let mut from = None;
        if matches!(kind, SendKind::Duplicate | SendKind::Reinjection) {
            let copies = kind == SendKind::Duplicate;
            let still = (!copies && self.repeats_anywhere).then(|| self.under_way(sent.offset));
            let found = self.ring.iter_mut().enumerate().rev();
            let mut found = found.filter_map(|(at, other)| Some((at, other.as_mut()?)));
            if let Some((at, other)) = found.find(|(_, other)| other.offset == sent.offset) {
                packet.carried = still.unwrap_or(other.carried).with(sent.path);
                other.carried = packet.carried;
                other.closed = true;
                packet.closed = copies;
                packet.same_data = Some(self.base + at as u64);
                other.same_data = Some(sent.serial);
                from = Some(other.path);
            }
        }
        if let Some(from) = from {
            self.tidy(from, una);
        }
        let flight = self.paths.at(sent.path);
        flight.unheard.push_back(sent.serial);
        if !packet.closed {
            flight.single.push_back(sent.serial);
        }
        if self.ring.is_empty() {
            self.base = sent.serial;
        }
        // Probes have numbers too and are not told of.
        while self.base + (self.ring.len() as u64) < sent.serial {
            self.ring.push_back(None);
        }
        self.ring.push_back(Some(packet));
    }

    /// The packet was acknowledged on its path.
    pub(crate) fn acked(&mut self, now: Instant, acked: &Receipt, una: Offset) {
        if let Some(packet) = self.get_mut(acked.serial) {
            (packet.settled, packet.closed) = (true, true);
            let (same_data, given, late) = (packet.same_data, packet.given, now > packet.due);
            let flight = self.paths.at(acked.path);
            flight.late += u64::from(late);
            flight.settled = flight.settled.max(given);
            if let Some(same_data) = same_data.and_then(|same_data| self.get_mut(same_data)) {
                same_data.closed = true;
            }
        }
        let flight = self.paths.at(acked.path);
        flight.heard = now;
        while flight.unheard.front().is_some_and(|serial| *serial <= acked.serial) {
            flight.unheard.pop_front();
        }
        self.tidy(acked.path, una);
    }

    /// The packet was declared lost on its path, which repairs it (TCP) or has handed it back (QUIC). If that was said by a
    /// timer, nothing has been heard of the path since.
    pub(crate) fn lost(&mut self, lost: &Receipt, una: Offset) {
        if let Some(packet) = self.get_mut(lost.serial) {
            let is_news = !packet.lost && !packet.closed;
            packet.lost = true;
            if is_news {
                self.lost_bytes += lost.bytes;
            }
        }
        self.tidy(lost.path, una);
    }

    /// The bytes in flight on the packet's path up to its end.
    pub(crate) fn front(&self, packet: &InFlightPacket) -> Bytes {
        let settled = self.paths.get(packet.path).map_or(Bytes::ZERO, |flight| flight.settled);
        packet.given.saturating_sub(settled)
    }

    /// What was declared lost and was not sent again.
    pub(crate) fn lost_bytes(&self) -> Bytes {
        self.lost_bytes
    }

    /// The packet at hand was handed back, if `packet` was; what the transport would have it avoid tells whether a path may
    /// carry again what it has lost. If it was not, nothing that was handed back waits to be sent again.
    pub(crate) fn at_hand(&mut self, packet: Option<&Packet>) {
        match packet.filter(|packet| packet.reinjection) {
            Some(packet) => self.repeats_anywhere = packet.avoid.is_empty(),
            None => self.lost_bytes = Bytes::ZERO,
        }
    }

    /// How many packets of `path` may be worth a copy.
    pub(crate) fn singles(&self, path: PathId) -> u64 {
        self.paths.get(path).map_or(0, |flight| flight.single.len() as u64)
    }

    /// Forgets what is over at the ends of the lists.
    fn tidy(&mut self, path: PathId, una: Offset) {
        let flight = self.paths.at(path);
        let (mut single, mut arrived) = (core::mem::take(&mut flight.single), core::mem::take(&mut flight.arrived));
        let is_done = |serial: &u64| !self.is_single(*serial, una);
        let is_open = |serial: &u64| self.is_single(*serial, Offset::ZERO);
        while single.front().is_some_and(is_done) {
            arrived.extend(single.pop_front().filter(is_open));
        }
        while single.back().is_some_and(is_done) {
            arrived.extend(single.pop_back().filter(is_open));
        }
        while arrived.front().is_some_and(|serial| !is_open(serial)) {
            arrived.pop_front();
        }
        let flight = self.paths.at(path);
        (flight.single, flight.arrived) = (single, arrived);
        // What was lost and may go anywhere has come on another path, or again.
        let lost = |packet: &InFlightPacket| self.repeats_anywhere && packet.lost && packet.end <= una;
        let is_over =
            |packet: &Option<InFlightPacket>| packet.as_ref().is_none_or(|packet| packet.settled || lost(packet));
        let over = self.ring.iter().take_while(|packet| is_over(packet)).count();
        self.ring.drain(..over);
        self.base += over as u64;
    }

    /// Nothing comes of a copy of this packet.
    pub(crate) fn close(&mut self, serial: u64) {
        if let Some(packet) = self.get_mut(serial) {
            packet.closed = true;
        }
    }

    /// The path is gone, or comes up anew.
    pub(crate) fn forget(&mut self, path: PathId) {
        let flight = core::mem::take(self.paths.at(path));
        *self.paths.at(path) =
            PathFlight { given: flight.given, settled: flight.given, late: flight.late, ..PathFlight::default() };
        for serial in flight.unheard.iter().chain(&flight.single) {
            if let Some(packet) = self.get_mut(*serial) {
                (packet.settled, packet.closed) = (true, true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::Bytes;

    const F: PathId = PathId::new(0);
    const S: PathId = PathId::new(1);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn receipt(path: PathId, serial: u64, offset: u64) -> Receipt {
        Receipt { path, offset: Offset::new(offset), bytes: Bytes::new(100), serial }
    }

    /// 100 bytes at `offset` leave at `ms`, to arrive 10 ms later; overdue after 30.
    fn send(flights: &mut InFlight, path: PathId, serial: u64, offset: u64, ms: u64, kind: SendKind) {
        let predicted = Prediction { eta: at(ms + 10), due: at(ms + 30) };
        flights.sent(at(ms), &receipt(path, serial, offset), kind, predicted, Offset::ZERO);
    }

    fn first(flights: &InFlight, path: PathId) -> Option<u64> {
        flights.first_single(path, Offset::ZERO).map(|(serial, _)| serial)
    }

    #[test]
    fn silence_counts_from_the_last_sign_of_life() {
        let mut flights = InFlight::default();
        send(&mut flights, F, 0, 0, 0, SendKind::Fresh);
        send(&mut flights, F, 1, 100, 2, SendKind::Fresh);
        assert_eq!((flights.due(F), flights.due(S), flights.next_due(at(31))), (Some(at(30)), None, None));
        // At 25 ms the path was heard: the second has its 30 ms from then, not from when it left.
        flights.acked(at(25), &receipt(F, 0, 0), Offset::ZERO);
        assert_eq!(flights.due(F), Some(at(55)));
        // A later packet is acknowledged: the one before it is lost or late, but the path speaks.
        send(&mut flights, F, 2, 200, 26, SendKind::Fresh);
        flights.acked(at(50), &receipt(F, 2, 200), Offset::ZERO);
        assert_eq!((flights.due(F), first(&flights, F)), (None, Some(1)));
    }

    #[test]
    fn a_copy_closes_what_it_copies_and_its_loss_leaves_it_closed() {
        let mut flights = InFlight::default();
        (0..3).for_each(|n| send(&mut flights, S, n, n * 100, n, SendKind::Fresh));
        send(&mut flights, F, 3, 0, 5, SendKind::Duplicate);
        assert_eq!((first(&flights, S), first(&flights, F), flights.singles(S)), (Some(1), None, 2));
        // 1 should arrive at 11 ms, 2 at 12.
        assert_eq!([10, 11, 12].map(|ms| flights.count_after(S, at(ms))), [2, 1, 0]);
        let after = |ms| flights.first_after(S, Offset::ZERO, at(ms)).map(|(serial, _)| serial);
        assert_eq!([10, 11, 12].map(after), [Some(1), Some(2), None]);
        // Below what has arrived in order nothing is worth a copy.
        assert_eq!(flights.first_single(S, Offset::new(200)).map(|(serial, _)| serial), Some(2));
    }

    #[test]
    fn data_that_were_handed_back_are_a_new_packet_that_two_paths_have_carried() {
        let mut flights = InFlight::default();
        send(&mut flights, F, 0, 0, 0, SendKind::Fresh);
        flights.lost(&receipt(F, 0, 0), Offset::ZERO);
        assert!(flights.first_single(F, Offset::ZERO).is_some_and(|(_, packet)| packet.lost));
        send(&mut flights, S, 1, 0, 40, SendKind::Reinjection);
        assert_eq!((first(&flights, F), first(&flights, S)), (None, Some(1)));
        let carried = flights.first_single(S, Offset::ZERO).map(|(_, packet)| packet.carried);
        assert_eq!(carried, Some(PathSet::of(F).with(S)));
    }

    #[test]
    fn what_quic_has_handed_back_may_be_copied_where_it_was_lost() {
        let mut flights = InFlight::default();
        send(&mut flights, F, 0, 0, 0, SendKind::Fresh);
        send(&mut flights, S, 1, 0, 5, SendKind::Duplicate);
        flights.lost(&receipt(F, 0, 0), Offset::ZERO);
        let at_hand = |avoid| Packet {
            offset: Offset::ZERO,
            bytes: Bytes::new(100),
            reinjection: true,
            carried: PathSet::of(F),
            avoid,
        };
        flights.at_hand(Some(&at_hand(PathSet::EMPTY)));
        let third = PathId::new(2);
        send(&mut flights, third, 2, 0, 40, SendKind::Reinjection);
        // The copy on S is still under way.
        let carried = flights.first_single(third, Offset::ZERO).map(|(_, packet)| packet.carried);
        assert_eq!(carried, Some(PathSet::of(S).with(third)));
        // What was lost is forgotten when the data have arrived.
        flights.acked(at(60), &receipt(third, 2, 0), Offset::new(100));
        flights.lost(&receipt(S, 1, 0), Offset::new(100));
        assert!(flights.ring.is_empty());
    }

    #[test]
    fn what_is_in_front_of_a_packet_ends_with_it_and_begins_after_what_is_acknowledged() {
        let mut flights = InFlight::default();
        (0..3).for_each(|n| send(&mut flights, F, n, n * 100, n, SendKind::Fresh));
        send(&mut flights, S, 3, 300, 3, SendKind::Fresh);
        let front =
            |flights: &InFlight, path| flights.last_single(path, Offset::ZERO).map(|(_, one)| flights.front(one));
        assert_eq!((front(&flights, F), front(&flights, S)), (Some(Bytes::new(300)), Some(Bytes::new(100))));
        // The second arrived: the first is lost or late, and nothing that the third waits for.
        flights.acked(at(12), &receipt(F, 1, 100), Offset::ZERO);
        assert_eq!(front(&flights, F), Some(Bytes::new(100)));
        // The path comes up anew: of what it was given before nothing is in front.
        flights.forget(F);
        send(&mut flights, F, 4, 400, 20, SendKind::Fresh);
        assert_eq!(front(&flights, F), Some(Bytes::new(100)));
    }

    #[test]
    fn acknowledgements_come_half_a_round_trip_after_the_packets_arrive() {
        let mut flights = InFlight::default();
        let back = |flights: &InFlight, ms| flights.acked_by(F, at(0), at(ms), Span::from_millis(6)).get();
        assert_eq!((flights.last_arrival(F), back(&flights, 100)), (None, 0));
        // They should arrive at 10, 14 and 18 ms, and be acknowledged 6 ms later.
        (0..3).for_each(|n| send(&mut flights, F, n, n * 100, n * 4, SendKind::Fresh));
        assert_eq!([5, 15, 16, 20, 23, 24].map(|ms| back(&flights, ms)), [0, 0, 100, 200, 200, 300]);
        assert_eq!(flights.last_arrival(F), Some(at(18)));
        // What is acknowledged frees nothing more, nor what was sent before it.
        flights.acked(at(20), &receipt(F, 1, 100), Offset::ZERO);
        assert_eq!([23, 24].map(|ms| back(&flights, ms)), [0, 100]);
        // It should have come by 24 ms: who counts from 25 expects no more of it.
        let since = |ms| flights.acked_by(F, at(ms), at(100), Span::from_millis(6)).get();
        assert_eq!([24, 25].map(since), [100, 0]);
    }

    #[test]
    fn a_packet_is_late_whose_acknowledgement_was_overdue() {
        let mut flights = InFlight::default();
        (0..3).for_each(|n| send(&mut flights, F, n, n * 100, 0, SendKind::Fresh));
        flights.acked(at(30), &receipt(F, 0, 0), Offset::ZERO);
        assert_eq!(flights.late(F), 0);
        flights.acked(at(31), &receipt(F, 1, 100), Offset::ZERO);
        assert_eq!(flights.late(F), 1);
        // It is remembered when the path comes up anew.
        flights.forget(F);
        assert_eq!((flights.late(F), flights.late(S)), (1, 0));
    }

    #[test]
    fn lost_data_wait_until_they_are_sent_again() {
        let mut flights = InFlight::default();
        (0..3).for_each(|n| send(&mut flights, F, n, n * 100, n, SendKind::Fresh));
        // What a copy brings does not wait.
        send(&mut flights, S, 3, 200, 5, SendKind::Duplicate);
        (0..3).for_each(|n| flights.lost(&receipt(F, n, n * 100), Offset::ZERO));
        // A timer says again what was said.
        flights.lost(&receipt(F, 0, 0), Offset::ZERO);
        assert_eq!(flights.lost_bytes(), Bytes::new(200));
        send(&mut flights, S, 4, 0, 40, SendKind::Reinjection);
        assert_eq!(flights.lost_bytes(), Bytes::new(100));
        flights.at_hand(None);
        assert_eq!(flights.lost_bytes(), Bytes::ZERO);
    }

    #[test]
    fn the_table_does_not_grow_with_the_transfer() {
        let mut flights = InFlight::default();
        for n in 0..1000 {
            // Number 10·n belongs to a probe, of which nothing is told but its acknowledgement.
            let serial = n * 10 + 1;
            send(&mut flights, F, serial, n * 100, n, SendKind::Fresh);
            flights.acked(at(n + 1), &receipt(F, serial, n * 100), Offset::new(n * 100));
            assert!(flights.ring.is_empty());
        }
        send(&mut flights, F, 10_001, 0, 1000, SendKind::Fresh);
        flights.forget(F);
        assert_eq!((flights.due(F), first(&flights, F)), (None, None));
    }
}
