//! Which part of the peer's sequence has arrived: tells a record that came before from one that is new, and how far
//! everything is here.

use weftway_host::sending::RangeSet;
use weftway_path::{Bytes, Offset};

use crate::error::ProtocolError;
use crate::id::MAX;
use crate::limits::MOST_FRAMES;

/// Bytes of a sequence that have arrived.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    next: u64,
    held: RangeSet,
}

impl Arrived {
    /// Everything before it has arrived, or will never.
    pub fn next(&self) -> Offset {
        Offset::new(self.next)
    }

    /// Bytes that have arrived beyond that: the first runs of them, `most` at most.
    pub fn held(&self, most: usize) -> Vec<(Offset, Offset)> {
        self.held.iter().take(most).map(|(from, to)| (Offset::new(from), Offset::new(to))).collect()
    }

    /// A record of so many bytes arrives: whether it is new.
    pub fn note(&mut self, place: Offset, bytes: usize) -> Result<bool, ProtocolError> {
        let (from, count) = (place.get(), bytes as u64);
        let to = from.checked_add(count).filter(|&to| to <= MAX).ok_or(ProtocolError::Place(place))?;
        let mut fresh = 0;
        self.held.insert(from.max(self.next), to, |from, to| fresh += to - from);
        if fresh != 0 && fresh != count {
            return Err(ProtocolError::Overlap { place, bytes: Bytes::new(count) });
        }
        self.advance()?;
        Ok(fresh != 0)
    }

    /// Takes bytes before `to` that are missing as arrived: they do not come.
    pub fn skip(&mut self, to: u64) -> Result<(), ProtocolError> {
        self.held.remove_below(to);
        self.next = self.next.max(to);
        self.advance()
    }

    fn advance(&mut self) -> Result<(), ProtocolError> {
        if let Some((_, end)) = self.held.take_from(self.next) {
            self.next = self.next.max(end);
        }
        if self.held.iter().len() > MOST_FRAMES { Err(ProtocolError::Gaps) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_once_and_comes_whole() {
        let mut arrived = Arrived::default();
        let mut note = |place: u64, bytes| arrived.note(Offset::new(place), bytes);
        assert_eq!([note(10, 5), note(10, 5), note(0, 10), note(0, 10)], [true, false, true, false].map(Ok));
        for (place, bytes) in [(14, 5), (8, 9)] {
            let error = ProtocolError::Overlap { place: Offset::new(place), bytes: Bytes::new(bytes as u64) };
            assert_eq!(arrived.clone().note(Offset::new(place), bytes), Err(error));
        }
        for place in [MAX, u64::MAX] {
            assert_eq!(arrived.note(Offset::new(place), 1), Err(ProtocolError::Place(Offset::new(place))));
        }
    }

    #[test]
    fn what_is_skipped_counts_as_arrived() {
        let mut arrived = Arrived::default();
        arrived.note(Offset::new(10), 5).unwrap();
        arrived.skip(10).unwrap();
        assert_eq!(arrived.next(), Offset::new(15));
        assert_eq!(arrived.note(Offset::new(3), 7), Ok(false), "what comes after all is not wanted");
        arrived.skip(4).unwrap();
        assert_eq!(arrived.next(), Offset::new(15));
    }

    #[test]
    fn gaps_have_an_end() {
        let mut arrived = Arrived::default();
        for number in 1..=MOST_FRAMES as u64 {
            assert_eq!(arrived.note(Offset::new(2 * number), 1), Ok(true));
        }
        assert_eq!(arrived.note(Offset::new(MAX - 9), 1), Err(ProtocolError::Gaps));
    }
}
