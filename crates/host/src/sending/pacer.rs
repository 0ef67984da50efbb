//! Pacing: how soon the next packet may leave.

use weftway_path::{BitRate, Bytes, Instant, Path, Span};

/// A credit that grows at the pacing rate up to one quantum; sending takes from it, and may
/// overdraw it by one packet. When the credit is used up the next send waits until a whole
/// quantum is due, as Linux releases one burst at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    last: Paced,
    /// When the credit was zero, or will be.
    empty_at: Instant,
    /// When the next packet may leave.
    release: Instant,
}

/// What one packet took: most are of one size, and the rate changes seldom.
#[derive(Clone, Copy, Debug, Default)]
struct Paced {
    bytes: Bytes,
    rate: BitRate,
    quantum: Bytes,
    /// What the packet takes at that rate, and what the rest of the quantum takes.
    time: Span,
    rest: Span,
}

impl Paced {
    fn new(bytes: Bytes, rate: BitRate, quantum: Bytes) -> Self {
        let rest = rate.transmission_time(quantum.saturating_sub(bytes));
        Self { bytes, rate, quantum, time: rate.transmission_time(bytes), rest }
    }
}

impl Pacer {
    /// When the next packet may leave.
    #[inline]
    pub fn release(&self) -> Instant {
        self.release
    }

    /// A packet of `bytes` left.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, bytes: Bytes, rate: BitRate, quantum: Bytes) {
        if (bytes, rate, quantum) != (self.last.bytes, self.last.rate, self.last.quantum) {
            self.last = Paced::new(bytes, rate, quantum);
        }
        let Paced { time, rest, .. } = self.last;
        // Credit beyond one quantum is lost.
        self.empty_at = self.empty_at.max(now - rest) + time;
        self.release = if self.empty_at > now { self.empty_at + rest } else { now };
    }
}

/// The pacing rate of a path whose controller names none. Linux keeps one for every connection, paced or not: twice the
/// window per round trip in slow start, 1.2 times it after (`tcp_update_pacing_rate`).
#[inline]
pub fn implied_rate(path: &Path) -> BitRate {
    if path.srtt.is_zero() {
        return BitRate::ZERO;
    }
    let percent = if path.cwnd.get() < path.ssthresh.get() / 2 { 200 } else { 120 };
    // Linux counts all packets that are out, be they reported or lost (`packets_out`).
    let window = path.cwnd.max(path.bytes_in_flight.plus(path.retained));
    BitRate::of(window.mul_div(percent, 100), path.srtt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_leaves_at_once_and_the_rate_holds_after() {
        let (rate, packet) = (BitRate::from_mbps(12), Bytes::new(1500)); // 1 ms a packet
        let mut pacer = Pacer::default();
        let now = Instant::from_millis(100);
        for _ in 0..2 {
            assert!(pacer.release() <= now);
            pacer.on_sent(now, packet, rate, packet + packet);
        }
        // The next quantum of two packets leaves two packets' time after this one.
        assert_eq!(pacer.release(), now + Span::from_millis(2));
    }
}
