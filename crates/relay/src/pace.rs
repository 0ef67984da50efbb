//! Pace of a client (a token bucket): each direction has a rate, and tells when it may go on.
//!
//! A direction may carry while its bucket is not empty, whatever that takes out; what it took too much is waited for.
//! So a read is never cut short. Datagrams do not wait: those for which nothing is left are dropped. They may use half
//! of the rate, so that they leave the other half to connections.

use weftway_path::{BitRate, Instant, Span};

/// Size of a bucket: so much time of its rate, and at least so many bytes.
const DEPTH: Span = Span::from_millis(50);
const LEAST_DEPTH: i64 = 16 << 10;

/// A direction, as a relay sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Direction from the network to the client.
    ToClient = 0,
    /// Direction from the client to the network.
    FromClient = 1,
}

/// Bytes that may be carried, and that become more with time.
#[derive(Clone, Debug)]
struct Bucket {
    rate: BitRate,
    left: i64,
    /// Until when time has been counted.
    at: Instant,
}

impl Bucket {
    fn new(rate: BitRate) -> Self {
        let mut bucket = Self { rate, left: 0, at: Instant::ZERO };
        bucket.left = bucket.depth();
        bucket
    }

    fn depth(&self) -> i64 {
        (self.rate.bytes_in(DEPTH).get() as i64).max(LEAST_DEPTH)
    }

    fn refill(&mut self, now: Instant) {
        let more = self.rate.bytes_in(now.since(self.at));
        let left = self.left.saturating_add_unsigned(more.get());
        if left >= self.depth() {
            (self.left, self.at) = (self.depth(), now);
        } else {
            // What is left of a byte is not lost.
            (self.left, self.at) = (left, (self.at + self.rate.transmission_time(more)).min(now));
        }
    }

    /// Instant at which it is half full.
    fn next(&self) -> Instant {
        let missing = (self.depth() / 2 - self.left).max(0) as u64;
        self.at + self.rate.transmission_time(weftway_path::Bytes::new(missing))
    }
}

/// A direction with a rate.
#[derive(Clone, Debug)]
struct Limited {
    all: Bucket,
    /// Half of the rate.
    datagrams: Bucket,
}

/// Pace of a client; as fast as it can by default.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    ways: [Option<Limited>; 2],
    /// Somebody is to wait.
    has_refused: bool,
}

impl Pace {
    /// With this rate in each direction, if any.
    pub fn new(rate: Option<BitRate>) -> Self {
        let limited = |rate: BitRate| Limited { all: Bucket::new(rate), datagrams: Bucket::new(rate.mul_div(1, 2)) };
        Self { ways: [0; 2].map(|_| rate.map(limited)), has_refused: false }
    }

    /// It is `now`.
    pub fn set_now(&mut self, now: Instant) {
        for limited in self.ways.iter_mut().flatten() {
            limited.all.refill(now);
            limited.datagrams.refill(now);
        }
    }

    /// Returns true if a connection may carry more. If not, it is to be asked again at [`Pace::next`].
    pub fn may(&mut self, way: Way) -> bool {
        let may = self.ways[way as usize].as_ref().is_none_or(|limited| limited.all.left > 0);
        self.has_refused |= !may;
        may
    }

    /// A connection has carried so many bytes.
    pub fn took(&mut self, way: Way, bytes: usize) {
        if let Some(limited) = &mut self.ways[way as usize] {
            limited.all.left -= bytes as i64;
        }
    }

    /// Returns true if a datagram may be carried; then it counts.
    #[must_use]
    pub fn may_send(&mut self, way: Way, bytes: usize) -> bool {
        let Some(limited) = &mut self.ways[way as usize] else { return true };
        let may = limited.datagrams.left > 0;
        if may {
            limited.datagrams.left -= bytes as i64;
            limited.all.left -= bytes as i64;
        }
        may
    }

    /// Returns true if a connection was told to wait since the last time.
    pub fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.has_refused)
    }

    /// Instant at which those that wait may go on.
    pub fn next(&self) -> Instant {
        let empty = self.ways.iter().flatten().filter(|limited| limited.all.left <= 0);
        empty.map(|limited| limited.all.next()).min().unwrap_or(Instant::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BitRate = BitRate::from_mbps(8);

    /// Carries as much as it may for ten seconds, `bytes` at a time, in turns so far apart; how much that was.
    fn carried(bytes: usize, every: Span, datagrams: bool) -> [usize; 2] {
        let (mut pace, mut carried, mut now) = (Pace::new(Some(RATE)), [0; 2], Instant::ZERO);
        while now < Instant::ZERO + Span::from_secs(10) {
            pace.set_now(now);
            while datagrams && pace.may_send(Way::ToClient, 1000) {
                carried[1] += 1000;
            }
            while pace.may(Way::ToClient) {
                pace.took(Way::ToClient, bytes);
                carried[0] += bytes;
            }
            assert!(pace.take_refused() && !pace.take_refused());
            now += every;
        }
        carried
    }

    #[test]
    fn no_more_than_the_rate_is_carried_and_no_less() {
        for (bytes, every) in [(1, 3_000), (64 << 10, 1_000_000), (700, 7_777), (1400, 49_000_000)] {
            let [carried, _] = carried(bytes, Span::from_nanos(every), false);
            let off = carried.abs_diff(10_000_000);
            assert!(off <= 50_000 + bytes + 50_000, "{carried} bytes in steps of {bytes}");
        }
    }

    #[test]
    fn datagrams_have_half_and_leave_half() {
        let [streams, datagrams] = carried(1400, Span::from_millis(1), true);
        assert!(datagrams.abs_diff(5_000_000) <= 60_000, "{datagrams}");
        assert!(streams.abs_diff(5_000_000) <= 120_000, "{streams}");
    }

    #[test]
    fn who_waits_is_told_when_and_may_go_on_then() {
        let mut pace = Pace::new(Some(RATE));
        pace.took(Way::ToClient, 100_000);
        assert!(!pace.may(Way::ToClient) && pace.may(Way::FromClient));
        // 50 kB were there. 8 Mbit/s make up for the other 50 kB in 50 ms, and for half of the depth in 25 more.
        assert_eq!(pace.next(), Instant::from_millis(75));
        pace.set_now(pace.next());
        assert!(pace.may(Way::ToClient));
        let mut free = Pace::default();
        free.took(Way::ToClient, usize::MAX / 4);
        assert!(free.may(Way::ToClient) && free.may_send(Way::FromClient, 1 << 40) && !free.take_refused());
    }
}
