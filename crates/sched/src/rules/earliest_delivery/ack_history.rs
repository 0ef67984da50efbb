//! History of a path's acknowledgements: the bytes acknowledged in each part of the last 400 ms, by how much predicted
//! arrivals were missed, and when something was last sent, heard of and lost.

use weftway_path::{Bytes, Instant, Span};

/// Parts of the time that is remembered, and how long one is.
const PARTS: usize = 16;
const PART: Span = Span::from_millis(25);

/// Acknowledgements of one path, of the last 400 ms.
#[derive(Clone, Copy, Default)]
pub(crate) struct AckHistory {
    parts: [Bytes; PARTS],
    /// The number of the newest part since time zero.
    part: u64,
    /// Time at which a packet was last sent.
    pub sent: Instant,
    /// Time at which a packet was last acknowledged.
    pub heard: Instant,
    /// Time at which a packet was last lost.
    pub lost: Option<Instant>,
    /// The binary logarithm of the time that packets took over the time that was predicted: smoothed over four and over
    /// sixteen acknowledgements.
    pub missed: [f32; 2],
    /// Smoothed amount of that logarithm, without its sign, over eight acknowledgements.
    pub spread: f32,
}

impl AckHistory {
    /// A packet was acknowledged that took `took` times what was predicted for it, as a binary logarithm.
    pub(crate) fn acked(&mut self, now: Instant, bytes: Bytes, took: f32) {
        self.turn(now);
        self.parts[self.part as usize % PARTS] += bytes;
        self.heard = now;
        self.missed[0] += (took - self.missed[0]) / 4.0;
        self.missed[1] += (took - self.missed[1]) / 16.0;
        self.spread += (took.abs() - self.spread) / 8.0;
    }

    /// Begins a new part where one is due.
    fn turn(&mut self, now: Instant) {
        let part = now.since(Instant::ZERO).as_nanos() / PART.as_nanos();
        for new in (self.part + 1..=part).take(PARTS) {
            self.parts[new as usize % PARTS] = Bytes::ZERO;
        }
        self.part = part.max(self.part);
    }

    /// The bytes that were acknowledged in the newest part and the `parts` before it, and in how much time.
    pub(crate) fn brought(&self, now: Instant, parts: u64) -> (Bytes, Span) {
        let nanos = now.since(Instant::ZERO).as_nanos();
        let (newest, begun) = (nanos / PART.as_nanos(), Span::from_nanos(nanos % PART.as_nanos()));
        let known = (newest.saturating_sub(parts)..=newest).filter(|part| *part <= self.part);
        let known = known.filter(|part| part + PARTS as u64 > self.part);
        let bytes = known.fold(Bytes::ZERO, |sum, part| sum + self.parts[part as usize % PARTS]);
        (bytes, begun + PART * parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn bytes_count_in_the_part_in_which_they_were_acknowledged_and_are_forgotten() {
        let mut history = AckHistory::default();
        history.acked(at(30), Bytes::new(100), 0.0);
        history.acked(at(49), Bytes::new(10), 0.0);
        history.acked(at(51), Bytes::new(1), 0.0);
        // The part from 50 ms on, and the one from 25: 35 ms at 60 ms.
        assert_eq!(history.brought(at(60), 0), (Bytes::new(1), Span::from_millis(10)));
        assert_eq!(history.brought(at(60), 1), (Bytes::new(111), Span::from_millis(35)));
        // At 110 ms those from 100 and 75 ms are empty, the next two hold it all.
        assert_eq!(history.brought(at(110), 1), (Bytes::ZERO, Span::from_millis(35)));
        assert_eq!(history.brought(at(110), 3), (Bytes::new(111), Span::from_millis(85)));
        // After 400 ms a part holds something else.
        history.acked(at(430), Bytes::new(7), 0.0);
        assert_eq!(history.brought(at(430), 15).0, Bytes::new(8));
        history.acked(at(2000), Bytes::new(5), 0.0);
        assert_eq!(history.brought(at(2000), 15).0, Bytes::new(5));
    }

    #[test]
    fn what_was_missed_is_smoothed() {
        let mut history = AckHistory::default();
        history.acked(at(1), Bytes::new(1), 1.0);
        history.acked(at(2), Bytes::new(1), -1.0);
        // 1/4, and 1/4 + (−1 − 1/4)/4; 1/16, and 1/16 + (−1 − 1/16)/16; 1/8, and 1/8 + (1 − 1/8)/8.
        assert_eq!(history.missed, [-0.0625, 1.0 / 16.0 - 17.0 / 256.0]);
        assert_eq!(history.spread, 15.0 / 64.0);
    }
}
