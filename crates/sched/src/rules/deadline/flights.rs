//! Packets in flight on a path, and those of them that may need a copy.

use std::collections::VecDeque;

use weftway_path::{Bytes, Instant, Offset, PathSet, Span};

use crate::shared::recent_rate::Oldest;

/// Packets that may need a copy are looked at so far from the oldest on: others wait until these are settled.
const LOOKED_AT: usize = 8;

/// A packet in flight.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    pub(super) serial: u64,
    pub(super) sent: Instant,
    pub(super) bytes: Bytes,
    /// Bytes that its path had been given when it left, itself included.
    given: Bytes,
    /// Time by which it should arrive, if that was likely when it left.
    pub(super) hoped: Option<Instant>,
    is_gone: bool,
}

/// A datagram that may need a copy.
#[derive(Clone, Copy)]
pub(super) struct Watched {
    pub(super) serial: u64,
    pub(super) offset: Offset,
    pub(super) bytes: Bytes,
    /// Bytes that its path had been given when it left, itself included.
    pub(super) given: Bytes,
    pub(super) sent: Instant,
    pub(super) deadline: Instant,
    /// Time from which on a copy may be needed.
    pub(super) due: Instant,
    /// Chance that it does not come in time, as of when it was sent.
    pub(super) fails: u64,
    /// Paths that have carried it.
    pub(super) carried: PathSet,
}

/// Packets in flight on a path, oldest first.
#[derive(Clone, Default)]
pub(super) struct Flights {
    all: VecDeque<Flight>,
    watched: VecDeque<Watched>,
    /// Bytes that the path has been given, and those up to the last packet that is acknowledged.
    given: Bytes,
    passed: Bytes,
}

impl Flights {
    /// The oldest, whose acknowledgement is overdue after `expected`.
    pub(super) fn oldest(&self, expected: Span) -> Option<Oldest> {
        let (flight, alone) = (self.all.front()?, self.all.len() == 1);
        Some(Oldest { sent: flight.sent, bytes: flight.bytes, alone, due: flight.sent + expected })
    }

    /// Bytes up to `datagram`, itself included, behind the last packet that is acknowledged.
    pub(super) fn up_to(&self, datagram: &Watched) -> Bytes {
        datagram.given.saturating_sub(self.passed)
    }

    /// A packet leaves. Returns the bytes that the path has been given.
    pub(super) fn push(&mut self, serial: u64, bytes: Bytes, sent: Instant, hoped: Option<Instant>) -> Bytes {
        if self.all.back().is_none_or(|newest| newest.serial < serial) {
            self.given += bytes;
            self.all.push_back(Flight { serial, sent, bytes, given: self.given, hoped, is_gone: false });
        }
        self.given
    }

    /// A datagram may need a copy.
    pub(super) fn watch(&mut self, datagram: Watched) {
        if self.watched.back().is_none_or(|newest| newest.serial < datagram.serial) {
            self.watched.push_back(datagram);
        }
    }

    /// Packet `serial` is acknowledged. Returns it, and true if others are in flight.
    pub(super) fn acked(&mut self, serial: u64) -> Option<(Flight, bool)> {
        let flight = self.take(serial)?;
        self.passed = self.passed.max(flight.given);
        Some((flight, !self.all.is_empty()))
    }

    /// Packet `serial` is not in flight any more.
    pub(super) fn take(&mut self, serial: u64) -> Option<Flight> {
        self.forget(serial);
        let at = self.all.binary_search_by_key(&serial, |flight| flight.serial).ok()?;
        self.all[at].is_gone = true;
        let flight = self.all[at];
        while self.all.front().is_some_and(|flight| flight.is_gone) {
            self.all.pop_front();
        }
        Some(flight)
    }

    /// No copy of packet `serial` is needed any more.
    pub(super) fn forget(&mut self, serial: u64) {
        if let Ok(at) = self.watched.binary_search_by_key(&serial, |watched| watched.serial) {
            self.watched.remove(at);
        }
    }

    /// Packet `serial`, if it is watched.
    pub(super) fn watched_mut(&mut self, serial: u64) -> Option<&mut Watched> {
        let at = self.watched.binary_search_by_key(&serial, |watched| watched.serial).ok()?;
        self.watched.get_mut(at)
    }

    /// Drops those that are too late for any copy.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.watched.front().is_some_and(|watched| watched.deadline <= now) {
            self.watched.pop_front();
        }
    }

    /// Those that left within `span` and may need a copy, from the oldest on; if all left before, the newest.
    pub(super) fn watched_within(&self, now: Instant, span: Span) -> impl Iterator<Item = &Watched> {
        let before = self.watched.partition_point(|watched| now.since(watched.sent) > span);
        self.watched.range(before.min(self.watched.len().saturating_sub(1))..).take(LOOKED_AT)
    }

    /// The oldest that may need a copy, due or not.
    pub(super) fn watched(&self) -> impl Iterator<Item = &Watched> {
        self.watched.iter().take(LOOKED_AT)
    }

    /// The oldest that may need a copy from the first one on of which `comes` is false, as of all behind it. Where these
    /// have other deadlines, another one may be found.
    pub(super) fn watched_from(&self, comes: impl Fn(&Watched) -> bool) -> impl Iterator<Item = &Watched> {
        let before = self.watched.partition_point(comes);
        self.watched.range(before..).take(LOOKED_AT)
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::PathId;

    use super::*;

    fn datagram(serial: u64) -> Watched {
        let at = Instant::from_millis(serial);
        let (offset, bytes, carried) = (Offset::ZERO, Bytes::new(1000), PathSet::of(PathId::new(0)));
        Watched { serial, offset, bytes, given: bytes, sent: at, deadline: at, due: at, fails: 0, carried }
    }

    /// A packet that keeps its number when it is sent again is not watched twice, nor out of order.
    #[test]
    fn packets_and_datagrams_are_in_the_order_of_their_numbers() {
        let mut flights = Flights::default();
        for serial in [3, 5, 4, 5, 7] {
            flights.push(serial, Bytes::new(1000), Instant::from_millis(serial), None);
            flights.watch(datagram(serial));
        }
        assert_eq!(flights.watched().map(|datagram| datagram.serial).collect::<Vec<_>>(), [3, 5, 7]);
        assert!(flights.take(4).is_none() && flights.take(5).is_some());
        assert_eq!(flights.watched().map(|datagram| datagram.serial).collect::<Vec<_>>(), [3, 7]);
    }
}
