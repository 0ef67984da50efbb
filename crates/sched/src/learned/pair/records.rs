//! Decisions whose outcome is not known yet.
//!
//! A decision to send is bound to its packet when that is sent; a decision to wait for F is bound
//! to the next packet on F. Either clock starts with the decision, so that waiting is charged. A
//! record closes when its packet is acknowledged or declared lost, or when
//! `T_ref = max(2·srtt_F, srtt_S)` has passed since the decision. Records close in any order.
//! Reference: the public re-implementation of Peekaboo (record, learn, deploy, monitor).

use weftway_path::{Bytes, Instant, Path, PathId, Receipt, Span};

/// Action for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Keep it for F: wait, or send it there if F has room.
    Fast,
    /// Send it on S now.
    Slow,
}

/// Number of the connection's newest packets that can have open records; older ones are forgotten.
/// More than are in flight at 1 Gbit/s and 40 ms. A power of two.
const PACKETS: usize = 4096;

/// For how many there is room at first. A power of two.
const FIRST_PACKETS: usize = 64;

/// Outcome of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Its packet arrived.
    Acked,
    /// Its packet was declared lost.
    Lost,
    /// Its packet was sent and not heard of within T_ref.
    Late,
    /// It waited for F, and nothing was sent there within T_ref.
    Unsent,
}

/// A decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<X> {
    pub(crate) action: Action,
    pub(crate) fast: PathId,
    pub(crate) slow: PathId,
    pub(crate) at: Instant,
    pub(crate) deadline: Instant,
    /// Observation of the policy.
    pub(crate) observation: X,
}

impl<X> Choice<X> {
    /// A choice between `fast` and `slow` at `now`.
    pub(crate) fn new(now: Instant, fast: &Path, slow: &Path, (action, observation): (Action, X)) -> Self {
        let deadline = now + (fast.srtt * 2).max(slow.srtt);
        Self { action, fast: fast.id, slow: slow.id, at: now, deadline, observation }
    }

    /// The path that its packet goes on.
    pub(crate) fn path(&self) -> PathId {
        match self.action {
            Action::Fast => self.fast,
            Action::Slow => self.slow,
        }
    }

    /// Outcome without a packet.
    pub(crate) fn unsent(self) -> Outcome<X> {
        let after = self.deadline.since(self.at);
        Outcome { choice: self, serial: None, bytes: Bytes::ZERO, fate: Fate::Unsent, after }
    }
}

/// A decision and what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome<X> {
    pub(crate) choice: Choice<X>,
    /// Its packet, if one was sent.
    pub(crate) serial: Option<u64>,
    pub(crate) bytes: Bytes,
    pub(crate) fate: Fate,
    /// Time from the decision to the outcome; T_ref for late ones.
    pub(crate) after: Span,
}

#[derive(Clone, Copy)]
struct Record<X> {
    choice: Choice<X>,
    serial: u64,
    bytes: Bytes,
    /// Known before it may close.
    fate: Option<(Fate, Span)>,
}

/// The open records, by their packets' serials.
#[derive(Clone)]
pub(crate) struct OpenRecords<X> {
    /// The record of packet n is at n modulo the length, a power of two. It grows to what is open at once: hundreds of
    /// environments side by side would fill the caches with empty places.
    records: Vec<Option<Record<X>>>,
    /// No record before it is open.
    oldest: u64,
    /// None from it on.
    end: u64,
    /// Time before which no record expires, unless the oldest record changes.
    next_expiry: Instant,
}

impl<X: Copy> OpenRecords<X> {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self { records: vec![None; FIRST_PACKETS], oldest: 0, end: 0, next_expiry: Instant::ZERO }
    }

    fn slot(&self, serial: u64) -> usize {
        serial as usize & (self.records.len() - 1)
    }

    /// Makes room for the records from the oldest to the end, at most [`PACKETS`].
    #[cold]
    fn grow(&mut self) {
        let room = ((self.end - self.oldest) as usize).next_power_of_two();
        let old = core::mem::replace(&mut self.records, vec![None; room]);
        for record in old.into_iter().flatten() {
            let slot = self.slot(record.serial);
            self.records[slot] = Some(record);
        }
    }

    /// `choice` was carried out by `receipt`'s packet.
    #[inline]
    pub(crate) fn open(&mut self, choice: &Choice<X>, receipt: &Receipt) {
        let serial = receipt.serial;
        let follows = self.oldest < self.end && serial >= self.end;
        if follows && serial - self.oldest < self.records.len() as u64 {
            self.end = serial + 1;
            return self.put(choice, receipt);
        }
        self.make_room(serial);
        if serial >= self.oldest {
            self.put(choice, receipt);
        }
    }

    #[inline(always)]
    fn put(&mut self, choice: &Choice<X>, receipt: &Receipt) {
        let (serial, bytes) = (receipt.serial, receipt.bytes);
        let slot = self.slot(serial);
        self.records[slot] = Some(Record { choice: *choice, serial, bytes, fate: None });
    }

    /// Makes room for the record of `serial`, which does not simply follow the others.
    #[inline(never)]
    fn make_room(&mut self, serial: u64) {
        if self.oldest == self.end || serial <= self.oldest {
            self.next_expiry = Instant::ZERO;
        }
        // A paced subflow may send what was decided earlier after what was decided later.
        self.oldest = if self.oldest == self.end { serial } else { self.oldest.min(serial) };
        self.end = self.end.max(serial + 1);
        let lowest = self.end.saturating_sub(PACKETS as u64);
        if self.oldest < lowest {
            (self.oldest, self.next_expiry) = (lowest, Instant::ZERO);
        }
        if self.end - self.oldest > self.records.len() as u64 {
            self.grow();
        }
    }

    /// The fate of `receipt`'s packet is known at `now`. Its record closes, or with `keep` only
    /// remembers it until T_ref.
    #[inline]
    pub(crate) fn settle(&mut self, receipt: &Receipt, fate: Fate, now: Instant, keep: bool) -> Option<Outcome<X>> {
        let slot = self.slot(receipt.serial);
        let place = &mut self.records[slot];
        let record = place.as_mut().filter(|record| record.serial == receipt.serial)?;
        let (fate, after) = record.fate.unwrap_or((fate, now.since(record.choice.at)));
        if keep {
            record.fate = Some((fate, after));
            return None;
        }
        let Record { choice, serial, bytes, .. } = *record;
        *place = None;
        if serial == self.oldest {
            self.pass_closed();
        }
        Some(Outcome { choice, serial: Some(serial), bytes, fate, after })
    }

    /// The oldest record is closed: the next one that is open is the oldest.
    #[inline]
    fn pass_closed(&mut self) {
        self.next_expiry = Instant::NEVER;
        while self.oldest < self.end {
            let place = &self.records[self.slot(self.oldest)];
            if let Some(record) = place.as_ref().filter(|record| record.serial == self.oldest) {
                self.next_expiry = record.choice.deadline;
                return;
            }
            self.oldest += 1;
        }
    }

    /// Returns true if a record's time may be up at `now`.
    #[inline]
    pub(crate) fn may_expire(&self, now: Instant) -> bool {
        now >= self.next_expiry
    }

    /// The next record whose time is up at `now`.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Outcome<X>> {
        if !self.may_expire(now) {
            return None;
        }
        while self.oldest < self.end {
            let slot = self.slot(self.oldest);
            let place = &mut self.records[slot];
            let here = place.as_ref().filter(|record| record.serial == self.oldest);
            if let Some(record) = here.filter(|record| record.choice.deadline > now) {
                self.next_expiry = record.choice.deadline;
                return None;
            }
            let found = if here.is_some() { place.take() } else { None };
            self.oldest += 1;
            if found.is_some() {
                return found.map(Record::close);
            }
        }
        // None is open: the next to be opened is looked at.
        self.next_expiry = Instant::NEVER;
        None
    }
}

impl<X> Record<X> {
    fn close(self) -> Outcome<X> {
        let late = (Fate::Late, self.choice.deadline.since(self.choice.at));
        let (fate, after) = self.fate.unwrap_or(late);
        Outcome { choice: self.choice, serial: Some(self.serial), bytes: self.bytes, fate, after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{MSS, path};

    fn choice(action: Action, at_ms: u64) -> Choice<u64> {
        Choice::new(Instant::from_millis(at_ms), &path(0, 20, 10, 10), &path(1, 60, 10, 0), (action, at_ms))
    }

    fn receipt(path: u8, serial: u64) -> Receipt {
        Receipt { path: PathId::new(path), offset: Default::default(), bytes: MSS, serial }
    }

    #[test]
    fn records_close_out_of_order_once_and_late_after_t_ref() {
        let mut records = OpenRecords::new();
        records.open(&choice(Action::Slow, 0), &receipt(1, 5));
        records.open(&choice(Action::Fast, 10), &receipt(0, 7));
        let first = records.settle(&receipt(0, 7), Fate::Acked, Instant::from_millis(45), false).unwrap();
        assert_eq!((first.choice.observation, first.after), (10, Span::from_millis(35)));
        assert!(records.settle(&receipt(0, 7), Fate::Lost, Instant::from_millis(46), false).is_none());
        // T_ref = max(2·20, 60) ms after the decision at 0 ms.
        assert!(records.expire(Instant::from_millis(59)).is_none());
        let late = records.expire(Instant::from_millis(80)).unwrap();
        assert_eq!((late.choice.observation, late.fate, late.after), (0, Fate::Late, Span::from_millis(60)));
        assert!(records.expire(Instant::from_millis(500)).is_none());
    }

    #[test]
    fn a_fate_that_is_kept_comes_with_the_deadline() {
        let mut records = OpenRecords::new();
        records.open(&choice(Action::Slow, 0), &receipt(1, 0));
        assert!(records.settle(&receipt(1, 0), Fate::Acked, Instant::from_millis(30), true).is_none());
        let kept = records.expire(Instant::from_millis(60)).unwrap();
        assert_eq!((kept.fate, kept.after), (Fate::Acked, Span::from_millis(30)));
    }

    #[test]
    fn the_room_grows_with_what_is_open() {
        let mut records = OpenRecords::new();
        let room = |records: &OpenRecords<u64>| records.records.len();
        for serial in 0..10_000 {
            records.open(&choice(Action::Slow, serial), &receipt(1, serial));
            let at = Instant::from_millis(serial);
            assert!(serial < 60 || records.settle(&receipt(1, serial - 60), Fate::Acked, at, false).is_some());
            while records.expire(Instant::from_millis(serial)).is_some() {}
        }
        assert_eq!(room(&records), FIRST_PACKETS);
        let open = 10_000..10_000 + 3 * PACKETS as u64;
        open.clone().for_each(|serial| records.open(&choice(Action::Slow, 10_000), &receipt(1, serial)));
        assert_eq!(room(&records), PACKETS);
        let found = open.filter(|&serial| {
            records.settle(&receipt(1, serial), Fate::Lost, Instant::from_millis(10_001), false).is_some()
        });
        assert_eq!(found.count(), PACKETS);
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let mut records = OpenRecords::new();
        for serial in [3, 1, 4096, 4099] {
            records.open(&choice(Action::Slow, 0), &receipt(1, serial));
        }
        let at = Instant::from_millis(1);
        assert!(records.settle(&receipt(1, 3), Fate::Acked, at, false).is_none());
        assert!(records.settle(&receipt(1, 4099), Fate::Acked, at, false).is_some());
        // 1 lies more than 4096 packets back.
        assert_eq!(records.expire(Instant::from_millis(60)).and_then(|outcome| outcome.serial), Some(4096));
    }

    #[test]
    fn a_record_waits_two_round_trips_of_the_fast_path_or_one_of_the_slow() {
        for (fast_ms, slow_ms, wait_ms) in [(20, 60, 60), (50, 60, 100)] {
            let choice = Choice::new(
                Instant::from_millis(5),
                &path(0, fast_ms, 10, 10),
                &path(1, slow_ms, 10, 0),
                (Action::Slow, ()),
            );
            assert_eq!(choice.deadline, Instant::from_millis(5 + wait_ms));
        }
    }
}
