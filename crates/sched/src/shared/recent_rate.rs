//! Rate of a path's bottleneck over the last busy time, and the queue that is left there.
//!
//! A packet that left well before the one in front of it had passed the bottleneck waited there, so that the time
//! between the two acknowledgements is what the bottleneck took for it. The bytes and times of such packets over the
//! last 100 ms make the rate. An acknowledgement that should have come by now tells that the rate has fallen: the time
//! without it counts. A rate that nothing has confirmed for a second is forgotten: where acknowledgements queue on
//! their way back, packets seem to have waited that did not, and a path that is left alone for its rate must be tried
//! again.
//!
//! Ancestor: the censored observations of Sprout (Winstein et al., NSDI 2013), which infers a link's rate from what
//! arrives in ticks of 20 ms; here at the sender, without a model of how rates change.

use weftway_path::{BitRate, Bytes, Instant, Path, Span};

/// Parts in which the busy time is kept.
const PARTS: usize = 8;
/// Time by which an acknowledgement may be late beside half of `rttvar`, without a sign that the rate has fallen.
const GRACE: Span = Span::from_millis(4);

/// A receiver keeps the acknowledgement of a lone packet for 25 ms (RFC 9000 §18.2) or 40 (Linux), so that one that
/// comes alone after so long may have been kept.
const DELAY: Span = Span::from_millis(20);

/// Time without an acknowledgement after which the rate is forgotten.
const HOLDS: Span = Span::from_secs(1);

/// Bytes, and the time that the bottleneck took for them.
#[derive(Clone, Copy, Default)]
struct Busy {
    bytes: Bytes,
    time: Span,
}

/// Packets of one acknowledgement.
#[derive(Clone, Copy, Default)]
struct Train {
    at: Instant,
    bytes: Bytes,
    /// Time of the acknowledgement before, unless it may have been kept for a while.
    before: Option<Instant>,
    /// All of its packets waited for those of the acknowledgement before.
    waited: bool,
    /// The acknowledgement was sent at once.
    prompt: bool,
}

/// Rate of one path over the last `MS` milliseconds of busy time, by its acknowledgements.
#[derive(Clone, Copy, Default)]
pub(crate) struct RecentRate<const MS: u64 = 100> {
    parts: [Busy; PARTS],
    at: usize,
    sum: Busy,
    train: Option<Train>,
    /// Sum of the parts and the last train, with its rate, if the path was ever busy ([`RecentRate::add_up`]).
    total: Option<(Busy, BitRate)>,
}

/// The oldest packet that nothing has been heard of.
#[derive(Clone, Copy)]
pub(crate) struct Oldest {
    pub sent: Instant,
    pub bytes: Bytes,
    /// It is the only one: then its acknowledgement may be delayed.
    pub alone: bool,
    /// Time from which its acknowledgement is overdue, counted from when it left, or from when the path was last heard
    /// of.
    pub due: Instant,
}

/// Queue that a new packet would wait in.
#[derive(Clone, Copy)]
pub(crate) struct Queue<'a> {
    /// Bytes that the path holds, with the packet itself.
    pub bytes: Bytes,
    pub oldest: Option<&'a Oldest>,
    pub min_rtt: Span,
    pub rttvar: Span,
}

impl<const MS: u64> RecentRate<MS> {
    const PART: Span = Span::from_nanos(MS * 1_000_000 / PARTS as u64);

    /// A packet that left at `sent` was acknowledged. `more`: others are under way behind it.
    pub(crate) fn acked(&mut self, now: Instant, sent: Instant, bytes: Bytes, more: bool, path: &Path) {
        if self.is_forgotten(sent) {
            *self = Self::default();
        }
        // As the packet in front left the bottleneck: its acknowledgement took the rest of the round trip.
        let waited = |before: Option<Instant>| before.is_some_and(|before| sent + path.min_rtt + path.rttvar <= before);
        if let Some(train) = self.train.as_mut().filter(|train| train.at == now) {
            let all = train.waited && waited(train.before);
            (train.bytes, train.waited, train.prompt) = (train.bytes.plus(bytes), all, true);
            return self.add_up();
        }
        let ended = self.train.take().unwrap_or_default();
        if let Some(busy) = ended.busy() {
            self.add(busy);
        }
        let before = ended.prompt.then_some(ended.at);
        let prompt = more || before.is_some_and(|before| now.since(before) < DELAY);
        self.train = Some(Train { at: now, bytes, before, waited: waited(before), prompt });
        self.add_up();
    }

    /// Tells whether the rate counts no more for a packet that left at `sent`.
    fn is_forgotten(&self, sent: Instant) -> bool {
        self.train.is_some_and(|train| sent.since(train.at) > HOLDS)
    }

    /// Adds up the parts and the last train, which change nowhere but where an acknowledgement comes.
    fn add_up(&mut self) {
        let last = self.train.and_then(|train| train.busy()).unwrap_or_default();
        let total = Busy { bytes: self.sum.bytes + last.bytes, time: self.sum.time + last.time };
        let is_known = total.bytes > Bytes::ZERO && !total.time.is_zero();
        self.total = is_known.then(|| (total, BitRate::of(total.bytes, total.time)));
    }

    fn add(&mut self, new: Busy) {
        if self.parts[self.at].time >= Self::PART {
            self.at = (self.at + 1) % PARTS;
            let old = core::mem::take(&mut self.parts[self.at]);
            self.sum.bytes = self.sum.bytes.saturating_sub(old.bytes);
            self.sum.time = self.sum.time.saturating_sub(old.time);
        }
        let part = &mut self.parts[self.at];
        (part.bytes, part.time) = (part.bytes + new.bytes, part.time + new.time);
        (self.sum.bytes, self.sum.time) = (self.sum.bytes + new.bytes, self.sum.time + new.time);
    }

    /// The rate now, if the path was ever busy, and the time at which it ends while nothing is heard.
    #[inline]
    pub(crate) fn rate(&self, now: Instant, queue: &Queue<'_>) -> Option<(BitRate, Instant)> {
        let (Some(train), Some((total, rate))) = (&self.train, &self.total) else { return None };
        let rate = *rate;
        if self.is_forgotten(queue.oldest.map_or(now, |oldest| oldest.sent)) {
            return None;
        }
        let Some(oldest) = queue.oldest else { return Some((rate, train.at + HOLDS + Span::from_nanos(1))) };
        let begun = train.at.max(oldest.sent + queue.min_rtt);
        let grace = if oldest.alone { DELAY * 2 } else { GRACE };
        let late = begun + rate.transmission_time(oldest.bytes) + grace + queue.rttvar / 2;
        if now <= late {
            return Some((rate, late + Span::from_nanos(1)));
        }
        Some((BitRate::of(total.bytes, total.time + now.since(begun)), now + Span::from_nanos(1)))
    }

    /// Until the acknowledgement of a packet that is given to the path now, if a queue stands in front of it, and the
    /// time at which that ends while nothing changes. Of the oldest packet the bottleneck has passed a half, on
    /// average.
    #[inline]
    pub(crate) fn round_trip(&self, now: Instant, queue: &Queue<'_>) -> (Option<Span>, Instant) {
        let Some((rate, until)) = self.rate(now, queue) else { return (None, Instant::NEVER) };
        let passed = queue.oldest.map_or(Bytes::ZERO, |oldest| Bytes::new(oldest.bytes.get() / 2));
        let rtt = rate.transmission_time(queue.bytes.saturating_sub(passed));
        ((rtt > queue.min_rtt).then_some(rtt), until)
    }
}

impl Train {
    /// Work of the bottleneck since the acknowledgement before, if it was busy all the time.
    fn busy(&self) -> Option<Busy> {
        let before = self.before.filter(|_| self.waited && self.prompt)?;
        Some(Busy { bytes: self.bytes, time: self.at.since(before) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::path;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A path with a least round trip of 20 ms and no variation.
    fn steady() -> Path {
        Path { rttvar: Span::ZERO, ..path(0, 20, 100, 0) }
    }

    /// Two packets of 1000 bytes that left at `sent` are acknowledged at `ms`.
    fn pair(present: &mut RecentRate<100>, ms: u64, sent: u64, path: &Path) {
        (0..2).for_each(|_| present.acked(at(ms), at(sent), Bytes::new(1000), true, path));
    }

    fn queue<'a>(path: &Path, oldest: Option<&'a Oldest>) -> Queue<'a> {
        Queue { bytes: path.unacked() + path.mss, oldest, min_rtt: path.min_rtt, rttvar: path.rttvar }
    }

    fn rate(present: &RecentRate<100>, ms: u64, path: &Path) -> Option<u64> {
        present.rate(at(ms), &queue(path, None)).map(|(rate, _)| rate.as_bps())
    }

    #[test]
    fn only_what_waited_behind_the_packet_before_tells_the_rate() {
        let (mut present, path) = (RecentRate::<100>::default(), steady());
        pair(&mut present, 20, 0, &path);
        assert_eq!(rate(&present, 20, &path), None, "nothing was in front of the first");
        // All left at 0, before what was acknowledged at 20 ms had passed: 2000 bytes in 4 ms.
        pair(&mut present, 24, 0, &path);
        assert_eq!(rate(&present, 24, &path), Some(4_000_000));
        // These left at 10 ms, after the bottleneck had been idle since 24 - 20 = 4 ms.
        pair(&mut present, 40, 10, &path);
        assert_eq!(rate(&present, 40, &path), Some(4_000_000));
        // Of an acknowledgement one packet waited and the other did not: it may tell of idle time.
        present.acked(at(50), at(11), Bytes::new(1000), true, &path);
        present.acked(at(50), at(21), Bytes::new(1000), true, &path);
        assert_eq!(rate(&present, 50, &path), Some(4_000_000));
    }

    #[test]
    fn variation_of_the_round_trip_is_no_queue() {
        // The round trip varies by 6 ms: a packet that left 3 ms before the one in front was gone need not have waited.
        let (mut present, path) = (RecentRate::<100>::default(), Path { rttvar: Span::from_millis(6), ..steady() });
        pair(&mut present, 30, 0, &path);
        pair(&mut present, 34, 7, &path);
        assert_eq!(rate(&present, 34, &path), None);
        pair(&mut present, 38, 7, &path);
        assert_eq!(rate(&present, 38, &path), Some(4_000_000), "7 + 20 + 6 ms are before 34");
    }

    #[test]
    fn an_acknowledgement_that_may_have_been_kept_tells_nothing() {
        let (mut present, path) = (RecentRate::<100>::default(), steady());
        pair(&mut present, 20, 0, &path);
        // The last packet of a burst, alone, 25 ms later.
        present.acked(at(45), at(0), Bytes::new(1000), false, &path);
        assert_eq!(rate(&present, 45, &path), None);
        // Nor does it begin anything: nobody knows when that packet arrived.
        pair(&mut present, 49, 10, &path);
        assert_eq!(rate(&present, 49, &path), None);
        pair(&mut present, 53, 10, &path);
        assert_eq!(rate(&present, 53, &path), Some(4_000_000));
    }

    #[test]
    fn what_is_overdue_lowers_the_rate_and_a_lone_packet_has_longer() {
        let (mut present, path) = (RecentRate::<100>::default(), steady());
        pair(&mut present, 20, 0, &path);
        pair(&mut present, 24, 0, &path);
        let next = |alone| Oldest { sent: at(0), bytes: Bytes::new(1000), alone, due: Instant::NEVER };
        let rate = |ms, alone| {
            let rate = present.rate(at(ms), &queue(&path, Some(&next(alone))));
            rate.map(|(rate, until)| (rate.as_bps(), until))
        };
        // A packet takes 2 ms, and 4 are granted: until 30 ms the rate stands.
        let until = at(30) + Span::from_nanos(1);
        assert_eq!([25, 30].map(|ms| rate(ms, false)), [Some((4_000_000, until)); 2]);
        // At 36 ms, 2000 bytes in 4 + 12 ms. An acknowledgement of a lone packet may be kept for 40.
        assert_eq!(rate(36, false), Some((1_000_000, at(36) + Span::from_nanos(1))));
        assert_eq!(rate(36, true), Some((4_000_000, at(66) + Span::from_nanos(1))));
    }

    #[test]
    fn a_tenth_of_a_second_of_busy_time_is_remembered() {
        let (mut present, path) = (RecentRate::<100>::default(), steady());
        pair(&mut present, 20, 0, &path);
        // 4 Mbit/s for 200 ms, then 1 Mbit/s: after a tenth of a second only that is left.
        (1..=50).for_each(|n| pair(&mut present, 20 + 4 * n, 0, &path));
        assert_eq!(rate(&present, 220, &path), Some(4_000_000));
        (1..=10).for_each(|n| pair(&mut present, 220 + 16 * n, 0, &path));
        assert_eq!(rate(&present, 380, &path), Some(1_000_000));
    }

    /// Requests of an application that uploads beside them: their acknowledgements queue on the way back, and look as
    /// if the requests had waited on the way there. A second later nothing of that counts, nor once the path is used
    /// again.
    #[test]
    fn a_rate_that_nothing_confirms_is_forgotten() {
        let (mut present, path) = (RecentRate::<100>::default(), steady());
        let request = |present: &mut RecentRate<100>, ms: u64| {
            present.acked(at(ms), at(ms - 150), Bytes::new(100), true, &path);
        };
        (3..13).for_each(|n| request(&mut present, 50 * n));
        assert_eq!(rate(&present, 600, &path), Some(16_000), "100 bytes in 50 ms");
        assert_eq!(rate(&present, 1600, &path), Some(16_000), "a second later");
        assert_eq!(rate(&present, 1601, &path), None);
        let until = present.rate(at(600), &queue(&path, None)).map(|(_, until)| until);
        assert_eq!(until, Some(at(1600) + Span::from_nanos(1)));
        let oldest = |sent| Oldest { sent: at(sent), bytes: path.mss, alone: false, due: Instant::NEVER };
        let rate = |present: &RecentRate<100>, sent, ms| {
            present.rate(at(ms), &queue(&path, Some(&oldest(sent)))).map(|(rate, _)| rate.as_bps())
        };
        assert_eq!(rate(&present, 1601, 1602), None, "what is sent now changes nothing");
        assert!(rate(&present, 599, 1602).is_some(), "the silence of what was sent before counts");
        pair(&mut present, 1621, 1601, &path);
        assert_eq!(rate(&present, 1605, 1622), None, "an acknowledgement confirms no old rate");
        pair(&mut present, 1625, 1601, &path);
        assert_eq!(rate(&present, 1605, 1626), Some(4_000_000));
    }

    #[test]
    fn a_new_packet_comes_after_what_is_in_flight() {
        let (mut present, mut path) = (RecentRate::<100>::default(), steady());
        pair(&mut present, 20, 0, &path);
        pair(&mut present, 24, 0, &path);
        // 29 ms of data in flight and the packet of 1400 bytes: 4 Mbit/s take 31.8 ms, less half of the oldest one's 2.
        path.bytes_in_flight = Bytes::new(14_500);
        let oldest = Oldest { sent: at(0), bytes: Bytes::new(1000), alone: false, due: Instant::NEVER };
        let next = Some(&oldest);
        assert_eq!(present.round_trip(at(25), &queue(&path, next)).0, Some(Span::from_micros(30_800)));
        // With less than a least round trip in flight no queue stands.
        path.bytes_in_flight = Bytes::new(8_000);
        assert_eq!(present.round_trip(at(25), &queue(&path, next)).0, None);
    }
}
