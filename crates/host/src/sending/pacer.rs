//! Pacing: how soon the next packet may leave.

use weftway_path::{BitRate, Bytes, Instant, Path, Span};

/// A credit that grows at the pacing rate up to [`Pace::credit`]; sending takes from it, and may overdraw it by one
/// packet. When the credit is used up the next send waits until a whole quantum is due, as Linux releases one burst at
/// a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    last: Paced,
    /// Time at which the credit was zero, or will be.
    empty_at: Instant,
    /// Time at which the next packet may leave.
    release: Instant,
    burst: Burst,
    /// The pacer alone holds packets back.
    is_awaited: bool,
    /// The last time at which packets left that had been held back, and how late that was.
    late: (Instant, Span),
}

/// Packets that left at one instant, where the pacer is Linux's.
#[derive(Clone, Copy, Debug)]
struct Burst {
    at: Instant,
    bytes: Bytes,
    /// Time by which it left late.
    late: Span,
}

impl Default for Burst {
    fn default() -> Self {
        Self { at: Instant::NEVER, bytes: Bytes::ZERO, late: Span::ZERO }
    }
}

/// Speed at which packets may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// In the long run.
    pub rate: BitRate,
    /// Bytes that are due when a wait ends.
    pub quantum: Bytes,
    /// A full packet. A wait ends when all of a quantum but this is due: the last packet of a quantum overdraws the
    /// credit.
    pub packet: Bytes,
    /// Bytes that may leave at once after a pause: a quantum, or more.
    pub credit: Bytes,
}

impl Pace {
    /// No more than a quantum leaves at once, in packets of at most `packet`.
    #[inline]
    pub fn even(rate: BitRate, quantum: Bytes, packet: Bytes) -> Self {
        Self { rate, quantum, packet, credit: quantum }
    }
}

/// Cost of one packet: most are of one size, and the rate changes seldom.
#[derive(Clone, Copy, Debug, Default)]
struct Paced {
    bytes: Bytes,
    pace: Pace,
    /// Time that the packet takes at that rate, and what a quantum but for a full packet takes, and the credit but for
    /// one.
    time: Span,
    rest: Span,
    credit: Span,
}

impl Paced {
    fn new(bytes: Bytes, pace: Pace) -> Self {
        let Pace { rate, quantum, packet, credit } = pace;
        let (time, rest) = (rate.transmission_time(bytes), rate.transmission_time(quantum.saturating_sub(packet)));
        // In whole packets: the times of so many, each rounded up, must not exceed it.
        let packets = credit.get() / bytes.get().max(1);
        let credit = if credit == quantum { rest } else { time * packets.saturating_sub(1) };
        Self { bytes, pace, time, rest, credit }
    }
}

impl Pacer {
    /// Time at which the next packet may leave, unless it leaves with those that leave now ([`Pacer::lets_go`]).
    #[inline]
    pub fn release(&self) -> Instant {
        self.release
    }

    /// Returns true if a packet may leave `now`.
    #[inline]
    pub fn lets_go(&self, now: Instant) -> bool {
        self.release <= now || self.burst.at == now
    }

    /// Returns true if the last packet took `bytes` at this rate.
    #[inline]
    pub fn is_set_for(&self, bytes: Bytes, rate: BitRate) -> bool {
        (bytes, rate) == (self.last.bytes, self.last.pace.rate)
    }

    /// A packet of `bytes` left. Where bytes, rate and quantum are those of the packet before, so is the credit: it is
    /// not looked at.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, bytes: Bytes, pace: Pace) {
        let last = &self.last;
        if (bytes, pace.rate, pace.quantum) != (last.bytes, last.pace.rate, last.pace.quantum) {
            self.last = Paced::new(bytes, pace);
        }
        self.on_sent_alike(now);
    }

    /// A packet of `bytes` left, as Linux counts it: what leaves at one instant is one burst, up to a quantum, and the
    /// next leaves when all of this one is due. A burst that left late makes up for it, by half of its own time at most
    /// (`tcp_update_skb_after_send`). So what a window cuts short leaves no credit.
    #[inline]
    pub fn on_sent_in_burst(&mut self, now: Instant, bytes: Bytes, rate: BitRate, quantum: Bytes) {
        if self.burst.at != now {
            self.burst = Burst { at: now, bytes: Bytes::ZERO, late: now.since(self.release) };
        }
        let burst = &mut self.burst;
        burst.bytes += bytes;
        let time = rate.transmission_time(burst.bytes);
        self.release = now + time - burst.late.min(time / 2);
        if burst.bytes.plus(bytes) > quantum {
            burst.at = Instant::NEVER;
        }
    }

    /// A packet left that is not paced.
    #[inline]
    pub fn on_sent_unpaced(&mut self, now: Instant) {
        self.release = now;
    }

    /// Notes whether packets wait for nothing but the pacer. What becomes due while the sender's process is late is
    /// then no credit that may be lost: it leaves at once.
    #[inline]
    pub fn await_release(&mut self, is_awaited: bool) {
        self.is_awaited = is_awaited;
    }

    /// A packet left that took what the last one did.
    #[inline]
    pub fn on_sent_alike(&mut self, now: Instant) {
        let Paced { time, rest, credit, .. } = self.last;
        if std::mem::take(&mut self.is_awaited) {
            self.late = (now, now.since(self.release));
        }
        let late = if self.late.0 == now { self.late.1 } else { Span::ZERO };
        // Credit beyond its limit is lost.
        self.empty_at = self.empty_at.max(now - credit - late) + time;
        self.release = if self.empty_at > now { self.empty_at + rest } else { now };
    }
}

/// Source of a path's pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacedBy {
    /// Not paced.
    Nothing,
    /// The rate that its controller names.
    Controller,
    /// Its window: RFC 9002 §7.7.
    Window,
}

impl PacedBy {
    /// Source of the pace of a path whose controller names a rate, or not, over a transport that paces windows, or not.
    pub fn new(names_rate: bool, pace_window: bool) -> Self {
        match (names_rate, pace_window) {
            (true, _) => Self::Controller,
            (false, true) => Self::Window,
            (false, false) => Self::Nothing,
        }
    }

    /// Returns true if a pacer that has not let go blocks the path. Where the window paces, packets wait in the path's
    /// queue, up to an initial window: the choice between paths stays that of the windows, and little is bound to a
    /// path before it leaves.
    #[inline]
    pub fn blocks(self, path: &Path, initial_window: Bytes) -> bool {
        match self {
            Self::Nothing => false,
            Self::Controller => true,
            Self::Window => path.queued >= initial_window,
        }
    }

    /// Bytes of its window that a path uses. What only the pacer holds back counts: a window that would be full without
    /// it is no reason not to grow (RFC 9002 §7.8).
    #[inline]
    pub fn used(self, path: &Path) -> Bytes {
        if self == Self::Window { path.unacked() } else { path.bytes_in_flight }
    }

    /// Pace by the window of a path: at its rate, in quanta as `quantum` has them for controllers that name one. The
    /// initial window may leave at once (RFC 9002 §7.7). None before the first round trip.
    #[inline]
    pub fn window_pace(path: &Path, quantum: impl Fn(BitRate) -> Bytes, initial_window: Bytes) -> Option<Pace> {
        let rate = path.pacing_rate;
        let quantum = quantum(rate);
        let (packet, credit) = (path.mss, initial_window.max(quantum));
        (rate > BitRate::ZERO).then_some(Pace { rate, quantum, packet, credit })
    }

    /// The rate of a path whose controller names none.
    #[inline]
    pub fn rate(self, path: &Path) -> BitRate {
        if self == Self::Window { window_rate(path) } else { implied_rate(path) }
    }
}

/// A quarter more than a window per round trip, and in slow start, in which the window doubles, two windows (RFC 9002
/// §7.7).
#[inline(never)]
fn window_rate(path: &Path) -> BitRate {
    if path.srtt.is_zero() {
        return BitRate::ZERO;
    }
    let percent = if path.cwnd < path.ssthresh { 200 } else { 125 };
    BitRate::of(path.cwnd.mul_div(percent, 100), path.srtt)
}

/// Linux keeps a rate for every connection, paced or not: twice the window per round trip in slow start, 1.2 times it
/// after (`tcp_update_pacing_rate`).
#[inline]
fn implied_rate(path: &Path) -> BitRate {
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

    /// 30 kB in 100 ms are 2.4 Mbit/s: twice that in slow start, a quarter more after.
    #[test]
    fn a_window_is_paced_over_its_round_trip() {
        let mut path = Path::new(weftway_path::PathId::new(0), Bytes::new(1200), Bytes::new(30_000));
        let paced = PacedBy::new(false, true);
        assert_eq!(paced.rate(&path), BitRate::ZERO, "no round trip is known");
        path.srtt = Span::from_millis(100);
        assert_eq!(paced.rate(&path), BitRate::from_bps(4_800_000));
        path.ssthresh = path.cwnd;
        assert_eq!(paced.rate(&path), BitRate::from_bps(3_000_000));
        // As Linux keeps it, whatever is paced.
        assert_eq!(PacedBy::new(false, false).rate(&path), BitRate::from_bps(2_880_000));
    }

    #[test]
    fn a_quantum_leaves_at_once_and_the_rate_holds_after() {
        let (rate, packet) = (BitRate::from_mbps(12), Bytes::new(1500)); // 1 ms a packet
        let mut pacer = Pacer::default();
        let now = Instant::from_millis(100);
        for _ in 0..2 {
            assert!(pacer.release() <= now);
            pacer.on_sent(now, packet, Pace::even(rate, packet + packet, packet));
        }
        // The next quantum of two packets leaves two packets' time after this one.
        assert_eq!(pacer.release(), now + Span::from_millis(2));
    }

    /// Messages of three full packets and a short one: each byte takes its time at the rate, whatever size its packet
    /// has (draft-ietf-ccwg-bbr: the next departure is a packet's size over the rate later).
    #[test]
    fn the_rate_holds_for_packets_of_any_sizes() {
        let (rate, full, short) = (BitRate::from_mbps(12), Bytes::new(1500), Bytes::new(375));
        let mut pacer = Pacer::default();
        let mut now = Instant::from_millis(100);
        for _ in 0..100 {
            for bytes in [full, full, full, short] {
                now = now.max(pacer.release());
                pacer.on_sent(now, bytes, Pace::even(rate, full + full, full));
            }
        }
        // 325 packets' worth; two of them may leave at the start.
        let took = now.since(Instant::from_millis(100));
        assert!((323..=325).contains(&took.as_millis()), "{took}");
    }

    /// 1 ms a packet. Each figure is by hand from `tcp_update_skb_after_send`.
    #[test]
    fn a_burst_of_linux_takes_all_its_time_and_makes_up_for_half_of_it() {
        let (rate, packet) = (BitRate::from_mbps(12), Bytes::new(1500));
        let at = |micros: u64| Instant::ZERO + Span::from_micros(micros);
        let mut pacer = Pacer::default();
        let send = |pacer: &mut Pacer, now, packets| {
            for _ in 0..packets {
                assert!(pacer.lets_go(now));
                pacer.on_sent_in_burst(now, packet, rate, packet.mul_div(4, 1));
            }
        };
        pacer.on_sent_unpaced(at(0));
        // A full burst of four: the fifth packet has to wait.
        send(&mut pacer, at(0), 4);
        assert!(!pacer.lets_go(at(0)));
        assert_eq!(pacer.release(), at(4000));
        // The window lets one packet go, and one more at the same time. What they leave of the quantum is no credit.
        send(&mut pacer, at(4000), 2);
        assert!(pacer.lets_go(at(4000)) && !pacer.lets_go(at(4001)));
        assert_eq!(pacer.release(), at(6000));
        // Half a millisecond late: made up for. Three milliseconds late: by half of the time of the burst.
        send(&mut pacer, at(6500), 4);
        assert_eq!(pacer.release(), at(10_000));
        send(&mut pacer, at(13_000), 4);
        assert_eq!(pacer.release(), at(15_000));
    }

    /// 1 ms a packet, in quanta of two. The process comes 10 ms after the release that packets waited for: what was due
    /// since then, ten packets, leaves with the quantum. Where nothing waited it is a quantum.
    #[test]
    fn what_was_due_while_the_sender_was_late_leaves_at_once() {
        let (rate, packet) = (BitRate::from_mbps(12), Bytes::new(1500));
        for (is_awaited, leaves) in [(true, 12), (false, 2)] {
            let mut pacer = Pacer::default();
            let mut send = |now, is_awaited| {
                let mut count = 0;
                while pacer.lets_go(now) {
                    pacer.on_sent(now, packet, Pace::even(rate, packet + packet, packet));
                    count += 1;
                }
                pacer.await_release(is_awaited);
                (count, pacer.release())
            };
            let (first, release) = send(Instant::from_millis(100), is_awaited);
            assert_eq!((first, release), (2, Instant::from_millis(102)));
            let late = Instant::from_millis(112);
            assert_eq!(send(late, is_awaited), (leaves, Instant::from_millis(114)));
            // Everything is made up for.
            assert_eq!(send(Instant::from_millis(114), false).0, 2);
        }
    }

    #[test]
    fn a_credit_leaves_at_once_and_quanta_after() {
        // 1 ms a packet, and a fraction of a nanosecond more, which is rounded up.
        let (rate, packet) = (BitRate::from_bps(11_999_999), Bytes::new(1500));
        let pace = Pace { rate, quantum: packet + packet, packet, credit: packet.mul_div(10, 1) };
        let (mut pacer, now) = (Pacer::default(), Instant::from_millis(100));
        for _ in 0..10 {
            assert!(pacer.release() <= now);
            pacer.on_sent(now, packet, pace);
        }
        for (wait, packets) in [(2, 2), (4, 2)] {
            let release = pacer.release();
            assert_eq!(release.since(now).as_micros(), 1000 * wait);
            (0..packets).for_each(|_| pacer.on_sent(release, packet, pace));
        }
    }
}
