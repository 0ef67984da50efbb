//! wVegas, weighted Vegas: keeps a few packets queued at each path's bottleneck, more on faster paths.
//!
//! ```text
//! once a round, with more than two samples, of which rtt is the mean and base the smallest ever:
//!     diff = w · (rtt − base) / rtt                    the packets that it keeps queued
//! slow start           diff > γ: w = min(w, w · base/rtt + 1), and slow start ends
//! congestion avoidance diff ≥ α: rate = w/rtt; α = max(2, total_α · rate / Σ rates)
//!                      diff > α: w −= 1;   diff < α: w += 1
//!                      q = rtt − base ≥ 2 · the smallest q since the last time: w = w · base / (2 · rtt)
//! ```
//!
//! The last line drains a queue that has doubled, so that the base shows again; the threshold stays,
//! so that slow start brings the window back. Outside the open state, and in rounds with fewer
//! samples, it grows as NewReno; its reaction to loss is NewReno's. A path that comes back to the
//! open state begins with the first α again.
//!
//! Reference: Cao, Xu, Fu, "Delay-based Congestion Control for Multipath TCP" (IEEE ICNP 2012);
//! `net/mptcp/mptcp_wvegas.c` of MPTCP v0.9x.
//! State: the shared window, the base, the sums of a round, α, the rate, the smallest queueing delay.
//! Switches: `initial_alpha`, `total_alpha`, `gamma`, in packets. `queued`: the kernel cuts diff and
//! α to whole packets (`whole`), which leaves a range of a packet in which the window rests; `exact`
//! does not. `drain`: the kernel compares the queues of all rounds (`kernel`). A queue of a packet is
//! soon twice one of half a packet, and none is twice none, so that a window that has yet to fill its
//! path is halved time and again: one path stays half empty. `full` counts only rounds whose queue
//! has reached α.
//! Departures: a window at its threshold is past slow start. An unused window does not grow. The
//! base is forgotten after a second without sending, where the kernel waits for its retransmission
//! timeout. A sibling's rate counts from when it has one, whether or not it has samples this round.

mod switches;

use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

use self::switches::Switches;

use crate::bbr::Round;
use crate::registry::Entry;
use crate::window::{Window, is_timeout, window_methods};
use crate::{Acked, Congestion, Controller, Sent, Setup, Share, Siblings};

pub(crate) const ENTRY: Entry = Entry {
    name: "wvegas",
    aliases: &["weighted-vegas", "w-vegas"],
    version: 1,
    summary: "keeps ten packets queued over all paths, shared out by their rates, and so reacts before a loss",
    reference: "Cao, Xu, Fu, IEEE ICNP 2012; MPTCP v0.9x net/mptcp/mptcp_wvegas.c",
    coupled: true,
    paced: false,
    params: switches::PARAMS,
    build: |params, setup| Ok(Box::new(WVegas::new(Switches::new(params)?, setup))),
};

/// No path aims for fewer packets in the queue.
const LEAST_ALPHA: u64 = 2;
/// With no more samples than these a round says nothing.
const FEW: u64 = 2;
/// The window is not reduced below this many packets.
const LEAST_PACKETS: u64 = 2;
/// After so long without sending, the path may be another one.
const FORGET: Span = Span::from_secs(1);

#[derive(Clone, Debug)]
struct WVegas {
    path: PathId,
    rule: Switches,
    window: Window,
    base: Option<Span>,
    round: Round,
    /// The samples of this round.
    samples: u64,
    sum: Span,
    /// Bytes to keep queued.
    alpha: u64,
    /// At which the queue was last found long enough; zero before.
    rate: BitRate,
    /// The smallest queueing delay since the last drain.
    least_queue: Option<Span>,
    is_open: bool,
    last_sent: Option<Instant>,
}

impl WVegas {
    fn new(rule: Switches, setup: &Setup) -> Self {
        let window = Window::new(setup);
        Self {
            path: setup.path,
            rule,
            alpha: rule.initial_alpha * window.mss(),
            window,
            base: None,
            round: Round::default(),
            samples: 0,
            sum: Span::ZERO,
            rate: BitRate::ZERO,
            least_queue: None,
            is_open: true,
            last_sent: None,
        }
    }

    fn sample(&mut self, acked: &Acked) {
        let Some(rtt) = acked.rtt else { return };
        let rtt = rtt.max(Span::from_micros(1));
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.samples += 1;
        self.sum += rtt;
    }

    /// Back in the open state: nothing is known of the rates (`wvegas_enable`).
    fn restart(&mut self, acked: &Acked) {
        self.alpha = self.rule.initial_alpha * self.window.mss();
        self.rate = BitRate::ZERO;
        self.least_queue = None;
        (self.samples, self.sum) = (0, Span::ZERO);
        self.round.began = acked.delivered;
    }

    fn grow_as_reno(&mut self, acked: &Acked) {
        let left = self.window.grow(acked);
        if left > 0 {
            self.window.increase(left, self.window.cwnd());
        }
    }

    /// The mean of the round's samples and the smallest sample ever, if the round had enough.
    fn take_round(&mut self) -> Option<(Span, Span)> {
        let samples = core::mem::take(&mut self.samples);
        let sum = core::mem::take(&mut self.sum);
        let base = self.base?;
        (samples > FEW).then(|| (sum.mul_div(1, samples).max(base), base))
    }

    fn whole(&self, bytes: u64) -> u64 {
        if self.rule.is_whole { bytes / self.window.mss() * self.window.mss() } else { bytes }
    }

    /// `cwnd` · `num` / `den` of two times.
    fn scaled(&self, num: Span, den: Span) -> u64 {
        Bytes::new(self.window.cwnd()).mul_div(num.as_nanos(), den.as_nanos().max(1)).get()
    }

    fn judge(&mut self, acked: &Acked, (rtt, base): (Span, Span), siblings: Siblings<'_>) {
        let queue = rtt.saturating_sub(base);
        let queued = self.whole(self.scaled(queue, rtt));
        let mss = self.window.mss();
        if !self.window.in_slow_start() {
            self.steer(acked, queued, rtt, siblings);
            if queued >= self.alpha || self.rule.drains_any {
                self.drain(queue, rtt, base);
            }
        } else if queued > self.rule.gamma * mss {
            let target = self.floor(self.scaled(base, rtt)) + mss;
            self.window.set(target.min(self.window.cwnd()));
            self.window.pass_slow_start();
        } else {
            self.window.grow(acked);
        }
        self.window.set(self.window.cwnd().max(LEAST_PACKETS * mss));
        self.window.raise_threshold();
    }

    fn steer(&mut self, acked: &Acked, queued: u64, rtt: Span, siblings: Siblings<'_>) {
        let packet = (self.window.mss() / self.window.grain()) as i64;
        if queued >= self.alpha {
            self.rate = BitRate::of(Bytes::new(self.window.cwnd()), rtt);
            self.alpha = self.share_of_queue(siblings);
        }
        if queued > self.alpha {
            self.window.shift(-packet);
            self.window.pass_slow_start();
        } else if queued < self.alpha && self.window.grow(acked) > 0 {
            self.window.shift(packet);
        }
    }

    /// The part of `total_alpha` that its rate has of all rates, in bytes.
    fn share_of_queue(&self, siblings: Siblings<'_>) -> u64 {
        let others = siblings.iter().filter(|share| share.usable && share.path != self.path);
        let own = u128::from(self.rate.as_bps());
        let sum = own + others.map(|share| u128::from(share.bandwidth.as_bps())).sum::<u128>();
        let mss = self.window.mss();
        let share = u128::from(self.rule.total_alpha * mss) * own / sum.max(1);
        self.whole(share as u64).max(LEAST_ALPHA * mss)
    }

    /// Halves the window, and takes the queue's part away, once the queue has doubled.
    fn drain(&mut self, queue: Span, rtt: Span, base: Span) {
        let least = self.least_queue.map_or(queue, |least| least.min(queue));
        self.least_queue = Some(least);
        if queue >= least * 2 {
            self.window.set(self.floor(self.scaled(base, rtt * 2)));
            self.least_queue = None;
        }
    }

    /// Rounded down to what the window counts in.
    fn floor(&self, bytes: u64) -> u64 {
        bytes / self.window.grain() * self.window.grain()
    }
}

impl Controller for WVegas {
    fn on_sent(&mut self, sent: &Sent) {
        let last = self.last_sent.replace(sent.now);
        if sent.after_idle && last.is_some_and(|last| sent.now.since(last) > FORGET) {
            self.base = None;
            self.least_queue = None;
            (self.samples, self.sum) = (0, Span::ZERO);
        }
    }

    fn on_acked(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        self.sample(acked);
        let was_open = core::mem::replace(&mut self.is_open, acked.recovery == Recovery::Open);
        if !self.is_open {
            return self.grow_as_reno(acked);
        }
        if !was_open {
            self.restart(acked);
        }
        if self.round.advance(acked) {
            match self.take_round() {
                Some(times) if !acked.reducing => self.judge(acked, times, siblings),
                _ => self.grow_as_reno(acked),
            }
        } else if self.window.in_slow_start() {
            self.window.grow(acked);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, _: Siblings<'_>) {
        if self.window.is_new(congestion) {
            self.window.reduce(congestion, self.window.cwnd() / 2);
        }
        if is_timeout(congestion.signal) {
            self.rate = BitRate::ZERO;
        }
        self.window.collapse(congestion.signal);
    }

    fn on_spurious(&mut self, _: Instant) {
        self.window.undo();
    }

    window_methods!();

    fn share(&self) -> Share {
        Share { bandwidth: self.rate, ..self.window.share() }
    }

    fn snapshot(&self) -> String {
        format!(
            "cwnd {} ssthresh {} base {:?} alpha {} rate {}",
            self.window.cwnd(),
            self.window.ssthresh(),
            self.base,
            self.alpha,
            self.rate
        )
    }
}
