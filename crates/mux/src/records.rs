//! The records that were cut and are outstanding: neither acknowledged nor given up. A record that is lost is sent
//! again with the same frames, so its bytes are kept here until then; the streams keep none of what was cut.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use weftway_host::sending::RangeSet;
use weftway_path::{Instant, Offset};

use crate::id::StreamId;

/// Several frames that travel together, at a place of their own in the sequence of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Place at which it begins in the sequence, which counts the bytes of the payloads of all records.
    pub place: Offset,
    /// Its frames.
    pub payload: Bytes,
    /// Time until which any of its datagrams is of use; zero without datagrams.
    pub datagrams_until: Instant,
}

/// A record that is outstanding.
#[derive(Clone, Debug)]
pub struct Outstanding {
    /// Its frames.
    pub payload: Bytes,
    /// Number of its frames, and of the runs of records that were given up that it tells of.
    pub frames: usize,
    /// Until when the last of its datagrams is of use.
    pub datagrams_until: Instant,
}

/// The records that are outstanding.
#[derive(Clone, Debug, Default)]
pub struct Records {
    by_place: BTreeMap<u64, Outstanding>,
    next: u64,
    bytes: u64,
    frames: usize,
    /// Bytes that were given up and of which the peer has not been told.
    given_up: RangeSet,
    /// The lowest missing piece of each stream of which later ones have arrived.
    holes: BTreeSet<(Offset, StreamId)>,
}

impl Records {
    /// Place at which the next record begins.
    pub fn next(&self) -> Offset {
        Offset::new(self.next)
    }

    /// Place at which the first outstanding record begins; without one, [`Records::next`].
    pub fn una(&self) -> Offset {
        Offset::new(self.by_place.first_key_value().map_or(self.next, |(&place, _)| place))
    }

    /// The bytes of all outstanding records.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of gaps that there may be where the records arrive: no more than frames that are outstanding, and runs of
    /// records that were given up, as long as the peer may not know.
    pub fn gaps(&self) -> usize {
        self.frames + self.given_up.iter().len()
    }

    /// The record that begins at `place`, if it is outstanding.
    pub fn get(&self, place: Offset) -> Option<&Outstanding> {
        self.by_place.get(&place.get())
    }

    /// Adds a record at the end of the sequence.
    pub fn push(&mut self, record: Outstanding) {
        let count = record.payload.len() as u64;
        self.frames += record.frames;
        self.bytes += count;
        self.by_place.insert(self.next, record);
        self.next += count;
    }

    /// The record that begins at `place` is outstanding no more.
    pub fn remove(&mut self, place: Offset) -> Option<Outstanding> {
        let record = self.by_place.remove(&place.get())?;
        self.frames -= record.frames;
        self.bytes -= record.payload.len() as u64;
        Some(record)
    }

    /// Removes the first outstanding record, if it ends at `arrived` or before.
    pub fn remove_first_below(&mut self, arrived: Offset) -> Option<Outstanding> {
        let (&place, record) = self.by_place.first_key_value()?;
        let ends_below = place + record.payload.len() as u64 <= arrived.get();
        if ends_below { self.remove(Offset::new(place)) } else { None }
    }

    /// The places of those that lie between `from` and `to` as a whole.
    pub fn within(&self, from: Offset, to: Offset) -> Vec<Offset> {
        let range = self.by_place.range(from.get()..to.get().max(from.get()));
        let whole = range.filter(|(place, record)| *place + record.payload.len() as u64 <= to.get());
        whole.map(|(&place, _)| Offset::new(place)).collect()
    }

    /// The sequence begins anew. Nothing is outstanding.
    pub fn restart(&mut self) {
        debug_assert!(self.by_place.is_empty() && self.holes.is_empty(), "something is outstanding");
        *self = Self::default();
    }

    /// The record that begins at `place` is not sent again: the peer has to be told that it does not come.
    pub fn give_up(&mut self, place: Offset) -> Option<Outstanding> {
        let record = self.remove(place)?;
        self.given_up.insert(place.get(), place.get() + record.payload.len() as u64, |_, _| ());
        Some(record)
    }

    /// The place before which nothing is outstanding, if the peer has to be told of it.
    pub fn skip(&self) -> Option<Offset> {
        let una = self.una();
        self.given_up.first().filter(|&(_, end)| end <= una.get()).map(|_| una)
    }

    /// The peer is told that what is missing before `to` does not come: how many runs of records those are.
    pub fn skipped(&mut self, to: Offset) -> usize {
        let before = self.given_up.iter().len();
        self.given_up.remove_below(to.get());
        before - self.given_up.iter().len()
    }

    /// The lowest missing piece of stream `id` was at `before`, and is at `now`.
    pub fn move_hole(&mut self, id: StreamId, before: Option<Offset>, now: Option<Offset>) {
        if before != now {
            before.map(|place| self.holes.remove(&(place, id)));
            now.map(|place| self.holes.insert((place, id)));
        }
    }

    /// The lowest place of a piece that a reader waits for, while later ones of its stream have arrived.
    pub fn hole(&self) -> Option<Offset> {
        self.holes.first().map(|&(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(count: u64) -> Records {
        let mut records = Records::default();
        for _ in 0..count {
            records.push(Outstanding {
                payload: Bytes::from_static(&[7; 10]),
                frames: 10,
                datagrams_until: Instant::ZERO,
            });
        }
        records
    }

    #[test]
    fn a_record_that_is_given_up_is_told_once_nothing_before_it_is_outstanding() {
        let mut records = records(4);
        records.give_up(Offset::new(10));
        assert_eq!(records.skip(), None);
        records.remove(Offset::ZERO);
        assert_eq!(records.skip(), Some(Offset::new(20)));
        assert_eq!(records.gaps(), 20 + 1);
        assert_eq!(records.skipped(Offset::new(20)), 1);
        assert_eq!((records.skip(), records.una()), (None, Offset::new(20)));
        assert_eq!((records.bytes(), records.gaps()), (20, 20));
    }

    #[test]
    fn records_that_end_below_what_has_arrived_are_removed() {
        let mut records = records(3);
        let arrived = Offset::new(19);
        assert!(records.remove_first_below(arrived).is_some());
        assert!(records.remove_first_below(arrived).is_none());
        assert_eq!(records.una(), Offset::new(10));
    }
}
