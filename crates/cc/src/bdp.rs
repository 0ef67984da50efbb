//! BDP: the window is what the bottleneck brings in a round trip, and a little more; nothing is paced.
//!
//! ```text
//! rate      of the bottleneck, by packets that waited for one another (`bdp/rate.rs`), of acknowledgements that the
//!           receiver did not keep (`bdp/acks.rs`)
//! plain     the longest round trip that shows no queue (`bdp/base.rs`);  queue = rtt − plain
//! aim       queue of 15 ms + 15 % of the smallest round trip
//! growth    while the window is the limit: acked · (aim − queue) / aim, so that it doubles where there is no queue
//!           without a queue: towards 9/10 · rate · plain, by 16 · acked at most
//! queue     ≥ aim: cwnd ≤ rate · (plain + aim)
//! a loss    ignored, unless the queue was at 3/4 of its longest or more, or more than 10 % are lost. Where the longest
//!           is less than four times what round trips vary by, jitter may make it: the queue is aim / 4, too, then.
//!           Else as CUBIC has it, whose window is then the most until the rate leaves it far above
//! probe     after eight round trips with a queue > aim / 2, or one > 3/2 · aim: two round trips at 3/4 · rate · plain
//! crowd     a probe that leaves a queue > aim / 2, while the rate did not fall by half: others fill it. The window is
//!           CUBIC's, until eight round trips show no more than aim / 4. In the first eight it doubles each round trip
//!           up to half of what the highest rate of late brings in this one: who came may have the other half
//! coupled   LIA's in place of CUBIC's, where a subflow is known to share the bottleneck; or, if nothing is known, while
//!           one is crowded, or lost packets to a queue that is full now. A cap then grows no faster than LIA's window
//! ```
//!
//! What is known already: rates of trains (Dovrolis, Ramanathan and Moore, "Packet-dispersion techniques and a
//! capacity-estimation methodology", IEEE/ACM ToN 12(6), 2004); a window of rate × round trip after losses (Mascolo et
//! al., TCP Westwood, MobiCom 2001); a queue of a few ms as the aim, and CUBIC's behaviour where others never let it
//! drain (Arun and Balakrishnan, Copa, NSDI 2018; Goyal et al., Nimbus, SIGCOMM 2022); losses above a rate (BBRv2,
//! draft-ietf-ccwg-bbr §5.5.10); subflows coupled (RFC 6356), by queues that fill together (RFC 8382). Put together
//! here; no other stack has this rule.
//! State: the window, the sums of rate and round trip, the controller of losses and crowds.
//! Departures: its recovery is RFC 9002's under MPTCP, too: no proportional rate reduction, windows in bytes.

mod acks;
mod base;
mod rate;
#[cfg(test)]
mod tests;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BitRate, Bytes, Instant, Recovery, Span};

use self::acks::Acks;
use self::base::Base;
use self::rate::{Conditions, Rate};
use crate::bbr::Round;
use crate::loss_rate::LossRate;
use crate::registry::{self, Entry};
use crate::window::{LARGEST, Window, is_timeout};
use crate::{Acked, Congestion, Controller, Flavour, Sent, Setup, Share, Siblings, Signal};

pub(crate) const ENTRY: Entry = Entry {
    name: "bdp",
    aliases: &["bandwidth-delay"],
    version: 1,
    summary: "keeps the bottleneck's rate times the round trip in flight, and ignores losses that come without a queue",
    reference: "this project; docs/explanation/bdp.md",
    coupled: true,
    paced: false,
    params: &[
        whole("queue_ms", "15", "the queue that it aims at"),
        whole("queue_percent", "15", "and so many percent of the round trip more"),
        whole("memory_ms", "100", "time of packets that waited, over which the bottleneck's rate is taken"),
        whole("random_loss", "10", "up to this loss rate, in percent, losses without a queue are the path's own"),
        whole("patience", "8", "round trips with a queue before it probes whether the queue is its own"),
        Param {
            name: "crowd",
            default: "auto",
            values: "auto | cubic | lia",
            doc: "the rule on a crowded path; auto: lia where a subflow seems to share the bottleneck, else cubic",
        },
    ],
    build: |params, setup| Ok(Box::new(Bdp::new(params, setup)?)),
};

const fn whole(name: &'static str, default: &'static str, doc: &'static str) -> Param {
    Param { name, default, values: "whole number, 1 to 1000", doc }
}

/// Packets that may leave for each acknowledged one on the way to 9/10 of the product.
const JUMP: u64 = 16;
/// A queue shorter than this is none, nor is one of two packets: ends take as long to wake up.
const NO_QUEUE: Span = Span::from_millis(1);
/// Packets over which the loss rate is taken, at least; twice as many at most. At 5 % it is above 10 % once in a
/// thousand times.
const COUNTED: u64 = 200;
/// A cap grows by a packet for so many acknowledged without a queue, if the other controller's does not grow faster and
/// no subflow shares the bottleneck.
const CAP_GROWTH: u64 = 16;
/// Round trips in a row without a queue that end a crowd: PROBE_RTT of BBR lasts for 200 ms.
const QUIET: u32 = 8;
/// Round trips of a probe: what was in flight before it is acknowledged in the first.
const PROBE: u32 = 2;
/// In a crowd, probes are so many times as rare: others take what a probe leaves.
const CROWDED: u32 = 32;
/// Round trips of a crowd in which the window may double.
const CLIMB: u32 = 8;
/// Round trips that one with a queue of more than 3/2 of the aim counts for.
const LONG: u32 = 8;

#[derive(Clone, Copy, Debug)]
struct Switches {
    queue: Span,
    queue_percent: u64,
    /// Highest rate of the path's own losses, in parts per million.
    random_loss: u64,
    patience: u32,
    /// The rule on a crowded path, if it is always the same.
    crowd: Option<&'static str>,
}

impl Switches {
    /// Queue to aim at where the smallest round trip is `base`.
    fn aim(&self, base: Option<Span>) -> Span {
        self.queue + base.unwrap_or(Span::ZERO).mul_div(self.queue_percent, 100)
    }
}

/// Bound of the window beside rate and queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Mode {
    Free,
    /// The other controller's window is the most.
    Capped,
    /// The other controller's window is the window.
    Crowded,
}

/// Round trips that show whether others fill the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    /// Rounds in a row with a queue.
    queued: u32,
    /// Rounds in a row without one.
    quiet: u32,
    /// Rounds left of a probe; 0 without one.
    probe: u32,
    /// Window and rate when it began.
    window: u64,
    rate: BitRate,
}

#[derive(Clone)]
struct Bdp {
    rule: Switches,
    setup: Setup,
    window: Window,
    base: Base,
    /// Queue to aim at.
    aim: Span,
    rate: Rate,
    round: Round,
    /// The longest of the last few samples above the base.
    recent: Span,
    losses: LossRate,
    acks: Acks,
    mode: Mode,
    rounds: Rounds,
    /// Controller after losses with a queue, and on a crowded path.
    other: Box<dyn Controller>,
    /// It is coupled to the subflows that share the bottleneck.
    is_coupled: bool,
    /// Window up to which it doubles in the first round trips of a crowd; 0 after them.
    half: u64,
    /// Window and mode before the last reduction, and the cause of it.
    prior: Option<(u64, Mode, Signal)>,
}

impl Bdp {
    fn new(params: &Params, setup: &Setup) -> Result<Self, SpecError> {
        let rule = Switches {
            queue: Span::from_millis(params.within("queue_ms", 1..=1000)?),
            queue_percent: params.within("queue_percent", 1..=1000)?,
            random_loss: params.within("random_loss", 1..=1000)? * 10_000,
            patience: params.within("patience", 1..=1000)?,
            crowd: params.choice("crowd", &[("auto", None), ("cubic", Some("cubic")), ("lia", Some("lia"))])?,
        };
        let memory = Span::from_millis(params.within("memory_ms", 1..=1000)?);
        let setup = Setup { flavour: Flavour::Quic, ..*setup };
        let window = Window::new(&setup);
        Ok(Self {
            rule,
            setup,
            rate: Rate::new(window.mss(), memory),
            losses: LossRate::new(COUNTED, window.mss()),
            acks: Acks::new(window.mss()),
            window,
            base: Base::new(setup.now, setup.rtt),
            aim: rule.aim(setup.rtt),
            round: Round::default(),
            recent: Span::ZERO,
            mode: Mode::Free,
            rounds: Rounds::default(),
            other: registry::build("cubic", &setup)?,
            is_coupled: false,
            half: 0,
            prior: None,
        })
    }

    /// Longest queue that counts as none.
    fn no_queue(&self) -> Span {
        NO_QUEUE + self.rate.pair
    }

    /// Returns true if the queue was near its longest a moment ago.
    fn was_longest(&self) -> bool {
        let is_long = self.recent > self.no_queue() && self.recent >= self.base.longest().mul_div(3, 4);
        is_long && self.base.tells_queues(self.aim / 4)
    }

    /// Returns true if these losses are those of a full queue, or too many.
    fn overflowed(&self, congestion: &Congestion) -> bool {
        congestion.signal != Signal::Loss
            || self.base.get().is_none()
            || self.was_longest()
            || self.losses.exceeds(congestion, self.rule.random_loss)
    }

    /// Returns true if a subflow shares the bottleneck, as is known or as its queue tells: the increases are coupled.
    fn must_couple(&self, siblings: Siblings<'_>) -> bool {
        let own = siblings.iter().find(|share| share.path == self.setup.path).and_then(|share| share.bottleneck);
        let is_shared = |share: &Share| own.zip(share.bottleneck).map_or(share.contended, |(own, other)| own == other);
        let is_other = |share: &Share| share.usable && share.path != self.setup.path;
        self.rule.crowd.is_none() && siblings.iter().any(|share| is_other(share) && is_shared(share))
    }

    /// Makes the controller for losses and crowds, in congestion avoidance at `window`.
    fn renew_other(&mut self, window: u64, siblings: Siblings<'_>) {
        (self.is_coupled, self.half) = (self.must_couple(siblings), 0);
        let name = self.rule.crowd.unwrap_or(if self.is_coupled { "lia" } else { "cubic" });
        if let Ok(other) = registry::build(name, &self.setup) {
            self.other = other;
        }
        self.other.set_cwnd(Bytes::new(window));
        self.other.leave_slow_start();
    }

    /// Judges, at the end of a round trip with a least queue of `queue`, whether others fill it.
    fn judge_crowd(&mut self, queue: Span, is_full: bool, siblings: Siblings<'_>) {
        let (aim, rate, is_crowded) = (self.aim, self.rate.get(), self.mode == Mode::Crowded);
        let Rounds { queued, quiet, probe, window, rate: rate_before } = self.rounds;
        self.rounds.quiet = if queue <= aim / 4 { quiet + 1 } else { 0 };
        if is_crowded && self.rounds.quiet >= QUIET {
            (self.mode, self.rounds) = (Mode::Capped, Rounds::default());
        } else if probe > 1 {
            self.rounds.probe = probe - 1;
        } else if probe == 1 {
            self.rounds = Rounds::default();
            let has_faded = rate < rate_before.mul_div(45, 100);
            if queue <= aim / 2 {
                self.mode = if is_crowded { Mode::Free } else { self.mode };
            } else if !is_crowded && !has_faded {
                let half = self.rate.highest.bytes_in(self.base.plain() + queue).get().min(LARGEST) / 2;
                self.renew_other(window.max(half.min(2 * window)), siblings);
                self.half = half / (1 + u64::from(self.is_coupled));
                self.mode = Mode::Crowded;
            }
        } else if is_crowded || is_full && rate > BitRate::ZERO && queue > aim / 2 {
            self.rounds.queued = queued + if !is_crowded && queue > aim.mul_div(3, 2) { LONG } else { 1 };
            self.half *= u64::from(self.rounds.queued < CLIMB);
            if self.rounds.queued >= self.rule.patience * if is_crowded { CROWDED } else { 1 } {
                self.rounds = Rounds { probe: PROBE, rate, window: self.window.cwnd(), ..self.rounds };
            }
        } else {
            self.rounds.queued = 0;
        }
    }

    /// Follows rate and queue.
    fn follow(&mut self, acked: &Acked) {
        let (aim, plain, cwnd) = (self.aim, self.base.plain(), self.window.cwnd());
        let (queue, bytes) = (self.base.queue(), acked.bytes.get().min(LARGEST));
        if queue >= aim {
            let most = self.rate.product(plain + aim).unwrap_or(cwnd);
            self.window.set(cwnd.min(most));
        } else if acked.cwnd_limited {
            let grown = Bytes::new(bytes).mul_div((aim - queue).as_nanos(), aim.as_nanos().max(1)).get();
            let is_open = queue <= self.no_queue() && self.rate.is_fresh;
            let product = if is_open { self.rate.product(plain).unwrap_or(0) * 9 / 10 } else { 0 };
            self.window.set((cwnd + grown).max(product.min(cwnd + JUMP * bytes)));
        }
    }

    /// Keeps the window at or below the other controller's.
    fn keep_cap(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        self.other.on_acked(acked, siblings);
        if acked.cwnd_limited && !self.is_coupled && self.base.above_base() <= self.no_queue() {
            let more = acked.bytes.get().min(LARGEST) / CAP_GROWTH;
            self.other.set_cwnd(self.other.cwnd() + Bytes::new(more));
        }
        let cap = self.other.cwnd().get();
        if self.rate.product(self.base.plain() + self.aim).is_some_and(|product| cap > 2 * product) {
            self.mode = Mode::Free;
        }
        self.window.set(self.window.cwnd().min(cap));
    }

    /// Reduces as the other controller does.
    fn reduce(&mut self, congestion: &Congestion, siblings: Siblings<'_>) {
        let cwnd = self.window.cwnd();
        self.prior = Some((cwnd, self.mode, congestion.signal));
        if self.mode == Mode::Free || self.is_coupled != self.must_couple(siblings) {
            self.renew_other(cwnd, siblings);
        } else if cwnd < self.other.cwnd().get() {
            self.other.set_cwnd(Bytes::new(cwnd));
        }
        self.mode = self.mode.max(Mode::Capped);
        self.other.on_congestion(congestion, siblings);
        self.window.set(self.other.cwnd().get().min(cwnd));
    }

    /// The path was silent: what was known of it may be so no more.
    fn start_anew(&mut self) {
        self.window.set(0);
        self.rate.doubt();
        self.base.pause();
        (self.mode, self.rounds, self.recent) = (Mode::Free, Rounds::default(), Span::ZERO);
    }
}

impl Controller for Bdp {
    fn on_sent(&mut self, sent: &Sent) {
        self.acks.on_sent(sent.now);
        if self.mode != Mode::Free {
            self.other.on_sent(sent);
        }
    }

    fn on_acked(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        let mss = self.window.mss();
        self.losses.on_acked(acked);
        self.rate.raise(acked);
        let may_be_kept = self.acks.on_acked(acked) && acked.recovery == Recovery::Open;
        let is_full = acked.prior_in_flight.get().saturating_add(3 * mss) >= self.window.cwnd();
        if may_be_kept && acked.rtt.is_some_and(|rtt| rtt > self.base.plain()) {
            self.rate.pause();
        } else {
            if let Some(rtt) = acked.rtt {
                let before = self.base.get();
                self.base.on_sample(acked.now, rtt, self.rate.spread);
                if self.base.get() != before {
                    self.aim = self.rule.aim(self.base.get());
                }
                self.recent = self.base.above_base().max(self.recent.mul_div(7, 8));
            }
            self.rate.on_acked(acked, Conditions { has_queue: self.base.queue() > self.no_queue(), is_full });
        }
        if self.round.advance(acked) {
            self.rate.end_round();
            self.acks.end_round();
            if let Some(queue) = self.base.end_round() {
                self.judge_crowd(queue, is_full, siblings);
            }
            if self.mode == Mode::Crowded && !self.is_coupled && self.must_couple(siblings) {
                self.renew_other(self.other.cwnd().get(), siblings);
            }
        }
        if self.mode == Mode::Crowded {
            self.other.on_acked(acked, siblings);
            if acked.cwnd_limited && self.other.cwnd().get() < self.half {
                self.other.set_cwnd(self.other.cwnd() + Bytes::new(acked.bytes.get().min(LARGEST)));
            }
            self.window.set(self.other.cwnd().get());
        }
        if self.rounds.probe > 0 {
            let product = self.rounds.rate.bytes_in(self.base.plain()).get().min(LARGEST);
            self.window.set(self.window.cwnd().min(product / 4 * 3));
        } else if self.mode != Mode::Crowded {
            self.follow(acked);
            if self.mode == Mode::Capped {
                self.keep_cap(acked, siblings);
            }
        }
    }

    fn ignores(&self, congestion: &Congestion) -> bool {
        !self.overflowed(congestion)
    }

    fn on_congestion(&mut self, congestion: &Congestion, siblings: Siblings<'_>) {
        if is_timeout(congestion.signal) {
            self.prior = Some((self.window.cwnd(), self.mode, congestion.signal));
            self.start_anew();
        } else if self.overflowed(congestion) {
            self.reduce(congestion, siblings);
        }
    }

    fn on_spurious(&mut self, now: Instant) {
        if let Some((cwnd, mode, signal)) = self.prior.take() {
            // The other controller is not told of a timeout: it is as before.
            if !is_timeout(signal) {
                self.other.on_spurious(now);
            }
            self.window.set(self.window.cwnd().max(cwnd));
            self.mode = mode;
        }
    }

    fn on_penalty(&mut self) {
        self.window.penalise();
    }

    fn cwnd(&self) -> Bytes {
        Bytes::new(self.window.cwnd())
    }

    fn set_cwnd(&mut self, cwnd: Bytes) {
        self.window.set(cwnd.get());
    }

    /// Infinite while nothing but rate and queue bounds the window, which may double.
    fn ssthresh(&self) -> Bytes {
        if self.mode == Mode::Free { Bytes::MAX } else { self.other.ssthresh() }
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn share(&self) -> Share {
        let contended = self.mode == Mode::Crowded || self.mode == Mode::Capped && self.was_longest();
        let rate = self.rate.get();
        Share { bandwidth: rate, link_rate: rate, steady: self.rate.is_fresh, contended, ..self.window.share() }
    }

    fn snapshot(&self) -> String {
        let (cwnd, plain, queue) = (self.window.cwnd(), self.base.plain(), self.base.queue());
        format!("cwnd {cwnd} rate {} plain {plain} queue {queue} {:?}", self.rate.get(), self.mode)
    }
}
