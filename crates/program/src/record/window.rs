//! Load under way: so much that the link always has something to send, and little more.

use std::collections::VecDeque;

use super::wire::{Feedback, Ns};

/// Time that the load may wait in front of the link: some round trips, and less than what most links hold.
const QUEUE_NS: f64 = 150e6;
/// Least such time, however little the link holds: what is lost then is the price of a link that is never idle.
const LEAST_QUEUE_NS: f64 = 40e6;
/// If less than this waits, the link may carry more than arrives.
const EMPTY_NS: Ns = 10_000_000;
/// Factor by which the load under way grows with each answer as long as the link may carry more: twofold in some 100
/// ms.
const GROWTH: f64 = 1.15;
/// Packets under way where nothing is known: the first window of RFC 6928.
const LEAST_PACKETS: i64 = 10;
/// No more are under way than packets have numbers, whatever the peer says.
const MOST_PACKETS: i64 = u32::MAX as i64;
/// A rate is that of this time.
const RATE_NS: Ns = 100_000_000;
/// The highest rate of this time counts: what arrives is less for a moment if this machine was late to send.
const BEST_NS: Ns = 500_000_000;
/// If more is lost, the link holds less than is under way.
const TOO_MUCH_LOSS: f64 = 0.05;
/// Part of what was under way of late that stays so through an outage. A link that is back is full again at once.
const PEAK_SHARE: f64 = 0.25;
/// The memory of that halves in this time.
const PEAK_NS: f64 = 5e9;
/// Answers come 20 ms apart: more of them than `BEST_NS` holds, and no peer makes it more.
const MOST_KEPT: usize = 100;
/// If nothing is known to arrive, one packet leaves so often.
pub const KNOCK_NS: Ns = 50_000_000;

/// As many packets as arrive in a round trip without our own queue, and the wanted queue on top.
pub struct Window {
    /// Packets that may be under way.
    pub limit: i64,
    queue_ns: f64,
    heeded_ns: Ns,
    peak: f64,
    rates: VecDeque<(Ns, f64)>,
    told: VecDeque<Feedback>,
    expected: u32,
}

impl Default for Window {
    fn default() -> Self {
        let (rates, told) = (VecDeque::new(), VecDeque::new());
        Self { limit: LEAST_PACKETS, queue_ns: QUEUE_NS, heeded_ns: 0, peak: 0.0, rates, told, expected: 0 }
    }
}

impl Window {
    /// Packets under way of `sent`: those after the newest that arrived. Links keep the order nearly always.
    pub fn in_flight(&self, sent: u32) -> i64 {
        i64::from(sent) - i64::from(self.expected)
    }

    /// Takes in what the other end has got; `sent` packets have left by now.
    pub fn on_feedback(&mut self, now_ns: Ns, told: Feedback, sent: u32) {
        let before = self.told.back().copied();
        if before.is_some_and(|before| told.now_ns <= before.now_ns || told.expected < before.expected) {
            return;
        }
        push(&mut self.told, told);
        self.expected = told.expected;
        let Some(before) = before else { return };
        while self.told.len() > 2 && told.now_ns - self.told[1].now_ns >= RATE_NS {
            self.told.pop_front();
        }
        let first = self.told[0];
        let is_lossy = self.heed_losses(&told, &first);
        let per_ns = self.best_rate(&told, &first);
        let round_trip_ns = (now_ns - told.sent_ns - told.queue_ns).max(0) as f64;
        let mut wanted = per_ns * (round_trip_ns + self.queue_ns);
        let since_ns = (told.now_ns - before.now_ns) as f64;
        self.peak = (self.peak * 0.5f64.powf(since_ns / PEAK_NS)).max(wanted);
        if told.queue_ns < EMPTY_NS && !is_lossy && told.expected > before.expected {
            let limit = self.limit as f64;
            let is_used = self.in_flight(sent) as f64 > limit / 2.0;
            wanted = wanted.max(if is_used { limit * GROWTH } else { limit });
        }
        let limit = wanted.max(self.peak * PEAK_SHARE).round_ties_even() as i64;
        self.limit = limit.clamp(LEAST_PACKETS, MOST_PACKETS);
    }

    /// The highest rate of late, in packets a nanosecond.
    fn best_rate(&mut self, told: &Feedback, first: &Feedback) -> f64 {
        let came = f64::from(told.count) - f64::from(first.count);
        push(&mut self.rates, (told.now_ns, came / (told.now_ns - first.now_ns) as f64));
        while self.rates.front().is_some_and(|(at, _)| told.now_ns - at > BEST_NS) {
            self.rates.pop_front();
        }
        self.rates.iter().fold(f64::MIN, |most, (_, rate)| most.max(*rate))
    }

    /// Returns true if much was lost since `first`; then less is to wait.
    fn heed_losses(&mut self, told: &Feedback, first: &Feedback) -> bool {
        let sent = f64::from(told.expected) - f64::from(first.expected);
        let came = f64::from(told.count) - f64::from(first.count);
        let is_lossy = sent > 0.0 && (sent - came) / sent > TOO_MUCH_LOSS;
        // What was lost is among what is told for that long.
        if is_lossy && told.now_ns - self.heeded_ns > RATE_NS {
            self.queue_ns = (self.queue_ns * 0.8).max(LEAST_QUEUE_NS);
            self.heeded_ns = told.now_ns;
        } else if !is_lossy {
            self.queue_ns = (self.queue_ns * 1.05).min(QUEUE_NS);
        }
        is_lossy
    }

    /// Number of packets that may leave now.
    pub fn room(&self, now_ns: Ns, sent: u32, last_sent_ns: Ns) -> i64 {
        match self.limit - self.in_flight(sent) {
            room if room > 0 => room,
            _ => i64::from(now_ns - last_sent_ns >= KNOCK_NS),
        }
    }
}

/// Adds the newest; the oldest goes where there are many.
fn push<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() == MOST_KEPT {
        kept.pop_front();
    }
    kept.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    /// 1000 packets a second, a round trip of 50 ms without the queue of 20 ms, 150 ms to wait: 200 packets.
    #[test]
    fn the_window_is_what_arrives_in_a_round_trip_and_what_is_to_wait() {
        let mut window = Window::default();
        assert_eq!(window.room(0, 0, 0), LEAST_PACKETS);
        for at in (0..201).step_by(20) {
            let (count, at) = (at, Ns::from(at));
            let told = Feedback {
                now_ns: (at + 1) * MS,
                count,
                expected: count,
                sent_ns: at * MS,
                queue_ns: 20 * MS,
                ..Feedback::none(0)
            };
            window.on_feedback((at + 70) * MS, told, count);
        }
        assert_eq!((window.limit, window.room(0, 300, 0)), (200, 100));
        // All of it is under way: one packet each 50 ms.
        assert_eq!((window.room(49 * MS, 400, 0), window.room(50 * MS, 400, 0)), (0, 1));
    }

    #[test]
    fn what_no_honest_peer_says_is_borne() {
        let mut window = Window::default();
        for at in 1..300 {
            let count = if at % 2 == 0 { u32::MAX } else { 0 };
            let told = Feedback { now_ns: at, count, expected: u32::MAX, sent_ns: 1 << 60, ..Feedback::none(0) };
            window.on_feedback(0, Feedback { queue_ns: 1 << 60, ..told }, 0);
        }
        assert!(window.room(0, 0, 0) >= 0);
        // All packets have arrived as soon as one has left, and it took since 1950.
        let mut window = Window::default();
        for at in 1..300 {
            let told = Feedback { now_ns: at, count: if at < 3 { 0 } else { u32::MAX }, ..Feedback::none(0) };
            window.on_feedback(1 << 60, Feedback { expected: u32::MAX, ..told }, 0);
        }
        assert_eq!((window.limit, window.room(0, 0, 0)), (MOST_PACKETS, 2 * MOST_PACKETS));
    }
}
