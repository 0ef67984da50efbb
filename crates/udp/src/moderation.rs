//! The rate at which an end looks at its sockets.
//!
//! A look costs much the same for one datagram and for twenty: calls to the kernel, a turn of paths and streams, a
//! packet with acknowledgements. While much is carried, an end therefore waits a little between looks, and the
//! datagrams of that while are taken together, acknowledged together, and answered by packets that leave together.
//! Drivers of network devices do the same with their interrupts ("interrupt moderation").
//!
//! It is a token bucket, so what comes alone never waits: each look takes a gap from an allowance of 16 ms, which time
//! fills again. Only an end that has looked oftener than once in each gap, for that long, has to wait. Where fewer than
//! three datagrams come in a gap nothing waits at all: a wait would save little, and lengthen the round trip.

use noq_udp::BATCH_SIZE;
use weftway_path::{Instant, Span};

/// The longest gap.
const LONGEST: Span = Span::from_millis(2);
/// It is no larger part of the round trip than this.
const PART_OF_TRIP: u64 = 10;
/// The shortest one: a shorter sleep would take much longer than asked, by Linux's timer slack of 50 µs.
const SHORTEST: Span = Span::from_micros(100);
/// Time by which looks may be sooner than the gaps say, all together.
const ALLOWANCE: Span = Span::from_millis(16);
/// Fewer datagrams in the longest gap are not worth a wait.
const WORTH: u64 = 3;
/// With more datagrams in a look, received or sent, the gap is halved. One call receives this many; buffers of sockets
/// hold several times as many, and more would be a burst.
const MANY: usize = BATCH_SIZE;
/// With fewer it is doubled.
const FEW: usize = MANY / 2;

/// Time at which an end looks at its sockets next.
#[derive(Clone, Copy, Debug)]
pub struct Moderation {
    /// None is longer; zero: an end looks whenever there is something.
    longest: Span,
    gap: Span,
    /// Time at which the allowance is full.
    full_at: Instant,
    /// Begin of the present count of datagrams, and the count.
    counted: (Instant, u64),
    /// A wait is worth it, as the last count says.
    is_worth: bool,
}

impl Default for Moderation {
    fn default() -> Self {
        let counted = (Instant::ZERO, 0);
        Self { longest: Span::ZERO, gap: LONGEST, full_at: Instant::ZERO, counted, is_worth: false }
    }
}

impl Moderation {
    /// Gaps are no longer than 2 ms and a tenth of the round trip `trip`, so that they lengthen it little. There are
    /// none where that is too short.
    pub fn set_trip(&mut self, trip: Span) {
        let longest = trip / PART_OF_TRIP;
        self.longest = if longest < SHORTEST { Span::ZERO } else { longest.min(LONGEST) };
    }

    /// An end has looked `now`; so many datagrams were received then, or were sent since it looked before. If a socket
    /// may have more, the end looks again at once: its buffer would fill.
    pub fn on_look(&mut self, now: Instant, datagrams: usize, has_more: bool) {
        if datagrams > MANY || has_more {
            self.gap = (self.gap / 2).max(SHORTEST);
        } else if datagrams < FEW {
            self.gap = (self.gap * 2).min(LONGEST);
        }
        self.counted.1 += datagrams as u64;
        let past = now.since(self.counted.0);
        if past >= ALLOWANCE {
            self.is_worth = self.longest * self.counted.1 >= past * WORTH;
            self.counted = (now, 0);
        }
        // Timers may have an end look sooner than it would: that is no debt.
        let full_at = self.full_at.clamp(now, now + ALLOWANCE);
        self.full_at = full_at + if has_more { Span::ZERO } else { self.gap.min(self.longest) };
    }

    /// Earliest time of the next look.
    pub fn next_look(&self) -> Instant {
        if self.longest.is_zero() || !self.is_worth { Instant::ZERO } else { self.full_at - ALLOWANCE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Span = Span::from_millis(20);

    /// Moderation of an end that has counted fifty datagrams in 16 ms, at 36 ms. The next count ends at 52 ms.
    fn busy(trip: Span) -> Moderation {
        let mut moderation = Moderation::default();
        moderation.set_trip(trip);
        moderation.on_look(Instant::from_millis(20), 1, false);
        moderation.on_look(Instant::from_millis(36), 50, false);
        moderation
    }

    /// Looks at a socket to which a datagram comes each `every`, for a second, as soon as it may. A look takes 10 µs.
    /// Returns the number of looks after a tenth of a second, and the most datagrams that waited for one of these.
    fn looks(moderation: &mut Moderation, every: Span) -> (usize, usize) {
        let (mut now, mut next, mut waiting, mut looks, mut most) = (Instant::ZERO, Instant::ZERO, 0, 0, 0);
        while now < Instant::from_millis(1000) {
            now = moderation.next_look().max(if waiting == 0 { next.max(now) } else { now });
            let came = if now < next { 0 } else { (now.since(next).as_nanos() / every.as_nanos()) as usize + 1 };
            next += every * came as u64;
            waiting += came;
            if now > Instant::from_millis(100) {
                (most, looks) = (most.max(waiting), looks + 1);
            }
            let taken = waiting.min(BATCH_SIZE);
            waiting -= taken;
            moderation.on_look(now, taken, taken == BATCH_SIZE);
            now += Span::from_micros(10);
        }
        (looks, most)
    }

    /// 60 and 16 Mbit/s bring a packet of 1400 bytes each 147 µs: 6 800 a second, which were 6 800 looks. An allowance
    /// of eight, and then one in each two milliseconds.
    #[test]
    fn what_comes_each_tenth_of_a_millisecond_is_looked_at_once_in_two_milliseconds() {
        let mut moderation = Moderation::default();
        moderation.set_trip(TRIP);
        let (looks, most) = self::looks(&mut moderation, Span::from_micros(147));
        assert!((450..=460).contains(&looks), "{looks}");
        assert_eq!(most, 14);
    }

    /// 1 Gbit/s brings 90 packets in a millisecond. A look takes a batch from a socket, whose buffer must hold the
    /// others.
    #[test]
    fn the_faster_datagrams_come_the_shorter_are_the_gaps() {
        let mut moderation = Moderation::default();
        moderation.set_trip(TRIP);
        let (looks, most) = self::looks(&mut moderation, Span::from_micros(11));
        assert!(most <= 4 * MANY && looks < 82_000 / FEW, "{most} in one of {looks}");
    }

    /// The first of them come alone, too: eight at once, and any number with two milliseconds between.
    #[test]
    fn what_comes_alone_is_looked_at_at_once() {
        let mut moderation = busy(TRIP);
        let mut now = Instant::from_millis(51);
        for _ in 0..8 {
            moderation.on_look(now, 1, false);
            assert!(moderation.next_look() <= now);
        }
        moderation.on_look(now, 1, false);
        assert_eq!(moderation.next_look(), now + LONGEST);
        for _ in 0..1000 {
            now += LONGEST;
            assert!(moderation.next_look() <= now);
            moderation.on_look(now, 1, false);
        }
    }

    /// Round trips of 10 and 0.5 ms.
    #[test]
    fn gaps_are_a_tenth_of_the_round_trip() {
        for (trip_us, gap_us) in [(10_000, 1000), (500, 0)] {
            let (mut moderation, now) = (busy(Span::from_micros(trip_us)), Instant::from_millis(51));
            (0..100).for_each(|_| moderation.on_look(now, 1, false));
            assert_eq!(moderation.next_look().since(now), Span::from_micros(gap_us));
        }
    }

    /// 20 Mbit/s bring four packets in two milliseconds, 10 Mbit/s two.
    #[test]
    fn nothing_waits_where_little_comes() {
        for (every_us, most_at_once) in [(560, 4), (1120, 1)] {
            let mut moderation = Moderation::default();
            moderation.set_trip(TRIP);
            assert_eq!(looks(&mut moderation, Span::from_micros(every_us)).1, most_at_once);
        }
    }

    #[test]
    fn looks_that_timers_asked_for_are_no_debt() {
        let (mut moderation, now) = (busy(TRIP), Instant::from_millis(51));
        (0..1000).for_each(|_| moderation.on_look(now, 1, false));
        assert_eq!(moderation.next_look(), now + LONGEST);
        // Realtime data have come.
        moderation.set_trip(Span::ZERO);
        assert!(moderation.next_look() <= now);
    }
}
