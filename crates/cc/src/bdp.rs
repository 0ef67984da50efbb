//! BDP: the window is what the bottleneck brings in a round trip, and a little more; nothing is paced.
//!
//! ```text
//! rate      of the bottleneck, by packets that waited for one another (`bdp/rate.rs`)
//! plain     the longest round trip that shows no queue (`bdp/base.rs`);  queue = rtt − plain
//! aim       queue of 15 ms + 15 % of the round trip
//! growth    while the window is the limit: acked · (aim − queue) / aim, so that it doubles where there is no queue
//!           without a queue: at once to 9/10 · rate · plain, 8 · acked at most
//! queue     ≥ aim: cwnd ≤ rate · (plain + aim)
//! a loss    ignored, unless the queue was near its longest, or more than 10 % are lost;
//!           else as CUBIC has it, whose window is then the most until the rate leaves it far above
//! crowd     queue > 3/2 · aim through six round trips, though the window keeps to the line above, and was halved if
//!           the rate did not fall by more: others fill it. Then the window is CUBIC's, or LIA's where a subflow shares
//!           the bottleneck, until a round trip shows no more than 3/4 · aim
//! ```
//!
//! What is known already: rates of trains (Dovrolis, Ramanathan and Moore, "Packet-dispersion techniques and a
//! capacity-estimation methodology", IEEE/ACM ToN 12(6), 2004); a window of rate × round trip after losses (Mascolo et
//! al., TCP Westwood, MobiCom 2001); a queue of a few ms as the aim, and CUBIC's behaviour where others never let it
//! drain (Arun and Balakrishnan, Copa, NSDI 2018; Goyal et al., Nimbus, SIGCOMM 2022); losses above a rate (BBRv2,
//! draft-ietf-ccwg-bbr §5.5.10). Put together here; no other stack has this rule.
//! State: the window, the sums of rate and round trip, the controller of losses and crowds.
//! Departures: its recovery is RFC 9002's under MPTCP, too: no proportional rate reduction, windows in bytes.

mod base;
mod rate;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BitRate, Bytes, Instant, Recovery, Span};

use self::base::Base;
use self::rate::{Rate, Seen};
use crate::bbr::Round;
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
        Param { name: "queue_ms", default: "15", values: "whole number, 1 to 1000", doc: "the queue that it aims at" },
        Param {
            name: "queue_percent",
            default: "15",
            values: "whole number, 0 to 400",
            doc: "and so many percent of the round trip more",
        },
        Param {
            name: "memory_ms",
            default: "100",
            values: "whole number, 1 to 10000",
            doc: "time of waiting packets over which the bottleneck's rate is taken",
        },
        Param {
            name: "random_loss",
            default: "10",
            values: "whole number, 0 to 100",
            doc: "up to this loss rate, in percent, losses without a queue are the path's own",
        },
        Param {
            name: "patience",
            default: "16",
            values: "whole number, 1 to 1000",
            doc: "round trips with a queue that its window does not account for, until it takes the path for crowded",
        },
        Param {
            name: "crowd",
            default: "auto",
            values: "auto | cubic | lia",
            doc: "the rule on a crowded path; auto: lia where a subflow is known to share the bottleneck, else cubic",
        },
    ],
    build: |params, setup| Ok(Box::new(Bdp::new(params, setup)?)),
};

/// The largest step to 9/10 of the product, in acknowledged bytes: a burst of so many packets for each.
const JUMP: u64 = 8;
/// A queue shorter than this is none, nor is one of two packets: ends take as long to wake up.
const NO_QUEUE: Span = Span::from_millis(1);
/// Packets over which the loss rate is taken, at least; twice as many at most. At 5 % it is above 10 % once in a
/// thousand times.
const COUNTED: u64 = 200;
/// A cap grows by a packet for so many acknowledged without a queue, if CUBIC's does not grow faster.
const CAP_GROWTH: u64 = 16;

#[derive(Clone, Copy, Debug)]
struct Switches {
    queue: Span,
    queue_percent: u64,
    random_loss: u64,
    patience: u32,
    /// The rule on a crowded path, if it is always the same.
    crowd: Option<&'static str>,
}

/// XX
const QUIET: u32 = 8;

fn knob(n: usize, default: u64) -> u64 {
    std::env::var("K").ok().and_then(|k| k.split(',').nth(n).and_then(|k| k.parse().ok())).unwrap_or(default)
}

/// What bounds the window beside rate and queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Free,
    /// The other controller's window is the most.
    Capped,
    /// The other controller's window is the window.
    Crowded,
}

/// Round trips with a queue that others may have made, and what was when they began.
#[derive(Clone, Copy, Debug, Default)]
struct Suspicion {
    rounds: u32,
    /// Round trips until a probe is judged.
    probe: u32,
    /// When the probe began.
    window: u64,
    rate: BitRate,
    /// Round trips without a queue.
    quiet: u32,
}

#[derive(Clone)]
struct Bdp {
    rule: Switches,
    knobs: [u64; 8],
    setup: Setup,
    window: Window,
    base: Base,
    rate: Rate,
    round: Round,
    /// Of the newest sample.
    queue: Span,
    /// The longest of the last few samples.
    recent: Span,
    /// Bytes acknowledged and lost, of which the older ones count less.
    acked: u64,
    lost: u64,
    mode: Mode,
    suspicion: Suspicion,
    /// Who decides after losses with a queue, and on a crowded path.
    other: Box<dyn Controller>,
    /// Before the last reduction.
    prior: Option<(u64, Mode)>,
}

impl Bdp {
    fn new(params: &Params, setup: &Setup) -> Result<Self, SpecError> {
        let rule = Switches {
            queue: Span::from_millis(params.within("queue_ms", 1..=1000)?),
            queue_percent: params.within("queue_percent", 0..=400)?,
            random_loss: params.within("random_loss", 0..=100)?,
            patience: params.within("patience", 1..=1000)?,
            crowd: params.choice("crowd", &[("auto", None), ("cubic", Some("cubic")), ("lia", Some("lia"))])?,
        };
        let memory = Span::from_millis(params.within("memory_ms", 1..=10_000)?);
        let setup = Setup { flavour: Flavour::Quic, ..*setup };
        let window = Window::new(&setup);
        Ok(Self {
            rule,
            knobs: [knob(0, 2), knob(1, 8), knob(2, 8), knob(3, 90), knob(4, 16), knob(5, 0), 0, 0],
            setup,
            rate: Rate::new(window.mss(), memory, knob(2, 8)),
            window,
            base: Base::new(setup.now, setup.rtt),
            round: Round::default(),
            queue: Span::ZERO,
            recent: Span::ZERO,
            acked: 0,
            lost: 0,
            mode: Mode::Free,
            suspicion: Suspicion::default(),
            other: registry::build("cubic", &setup)?,
            prior: None,
        })
    }

    /// The queue to aim at.
    fn aim(&self) -> Span {
        self.rule.queue + self.base.get().unwrap_or(Span::ZERO).mul_div(self.rule.queue_percent, 100)
    }

    /// A queue that is as short shows nothing.
    fn no_queue(&self) -> Span {
        NO_QUEUE + self.rate.pair()
    }

    fn count_losses(&mut self, acked: &Acked) {
        self.acked += acked.bytes.get().min(LARGEST);
        self.lost += acked.lost.get().min(LARGEST);
        if self.acked + self.lost >= 2 * COUNTED * self.window.mss() {
            (self.acked, self.lost) = (self.acked / 2, self.lost / 2);
        }
    }

    /// Returns true if these losses are those of a full queue, or too many.
    fn overflowed(&self, congestion: &Congestion) -> bool {
        let full = self.recent > self.no_queue() && self.recent >= self.base.longest().mul_div(3, 4);
        let lost = self.lost + congestion.lost.get().min(LARGEST);
        let all = (self.acked + lost).max(COUNTED * self.window.mss());
        congestion.signal != Signal::Loss
            || self.base.get().is_none()
            || self.mode == Mode::Crowded
            || full
            || lost.saturating_mul(100) > all.saturating_mul(self.rule.random_loss)
    }

    /// Makes the controller for losses and crowds, in congestion avoidance at `window`.
    fn renew_other(&mut self, window: u64, siblings: Siblings<'_>) {
        let own = siblings.iter().find(|share| share.path == self.setup.path).and_then(|share| share.bottleneck);
        let is_shared = own.is_some()
            && siblings
                .iter()
                .any(|share| share.usable && share.path != self.setup.path && share.bottleneck == own);
        let name = self.rule.crowd.unwrap_or(if is_shared { "lia" } else { "cubic" });
        if let Ok(other) = registry::build(name, &self.setup) {
            self.other = other;
        }
        self.other.set_cwnd(Bytes::new(window));
        self.other.leave_slow_start();
    }

    /// A round trip ended in which the queue was at least `queue`: whether others fill it.
    fn judge_crowd(&mut self, queue: Span, is_limited: bool, siblings: Siblings<'_>) {
        let (aim, rate) = (self.aim(), self.rate.get());
        let Suspicion { rounds, probe, window, .. } = self.suspicion;
        let quiet = if queue <= aim / 4 { self.suspicion.quiet + 1 } else { 0 };
        self.suspicion.quiet = quiet;
        if self.mode == Mode::Crowded && quiet >= QUIET {
            self.mode = Mode::Capped;
            self.suspicion = Suspicion::default();
            return;
        }
        if probe > 1 {
            self.suspicion.probe = probe - 1;
        } else if probe == 1 {
            let is_empty = queue <= aim / 2;
            let has_faded = rate < self.suspicion.rate.mul_div(45, 100);
            self.suspicion = Suspicion::default();
            if !is_empty && !has_faded && self.mode != Mode::Crowded {
                let rtt = self.base.plain() + queue;
                let half = self.rate.open().bytes_in(rtt).get() / 2;
                self.renew_other(window.max(half.min(window * self.knobs[0])), siblings);
                self.mode = Mode::Crowded;
            } else if is_empty && self.mode == Mode::Crowded {
                self.mode = Mode::Free;
            }
        } else if self.mode == Mode::Crowded || is_limited && rate > BitRate::ZERO && queue > aim / 2 {
            self.suspicion.rounds = rounds + if self.mode != Mode::Crowded && queue > aim.mul_div(3, 2) { 8 } else { 1 };
            let patience = if self.mode == Mode::Crowded { 4 * self.rule.patience } else { self.rule.patience };
            if self.suspicion.rounds >= patience {
                self.suspicion = Suspicion { probe: 2, rate, window: self.window.cwnd(), ..self.suspicion };
            }
        } else {
            self.suspicion = Suspicion { rounds: 0, ..self.suspicion };
        }
    }

    /// The window of a probe: 3/4 of the product.
    fn probe_window(&self, plain: Span) -> Option<u64> {
        let product = self.suspicion.rate.bytes_in(plain).get().min(LARGEST);
        (self.suspicion.probe > 0).then_some(product / 4 * 3)
    }

    /// Follows rate and queue.
    fn follow(&mut self, acked: &Acked, plain: Span) {
        let (aim, cwnd) = (self.aim(), self.window.cwnd());
        if self.queue >= aim {
            let Some(product) = self.rate.product(plain + aim) else { return };
            if product < cwnd {
                self.window.set(product);
            }
        } else if acked.cwnd_limited {
            let acked = acked.bytes.get().min(LARGEST);
            let room = aim - self.queue;
            let mut target = cwnd + Bytes::new(acked).mul_div(room.as_nanos(), aim.as_nanos().max(1)).get();
            if self.queue <= self.no_queue() && self.rate.is_fresh() {
                let product = self.rate.product(plain).unwrap_or(0) * self.knobs[3] / 100;
                target = target.max(product.min(cwnd + self.knobs[1] * acked));
            }
            self.window.set(target);
        }
    }

    /// Keeps the window at or below the other controller's.
    fn keep_cap(&mut self, acked: &Acked, plain: Span, siblings: Siblings<'_>) {
        self.other.on_acked(acked, siblings);
        let cap = self.other.cwnd().get();
        if self.base.is_empty(self.no_queue()) && acked.cwnd_limited {
            self.other.set_cwnd(Bytes::new(cap + acked.bytes.get().min(LARGEST) / self.knobs[4]));
        }
        if self.rate.product(plain + self.aim()).is_some_and(|product| cap > 2 * product) {
            self.mode = Mode::Free;
        }
    }

    /// Reduces as the other controller does.
    fn reduce(&mut self, congestion: &Congestion, siblings: Siblings<'_>) {
        let cwnd = self.window.cwnd();
        self.prior = Some((cwnd, self.mode));
        if self.mode == Mode::Free {
            self.renew_other(cwnd, siblings);
            self.mode = Mode::Capped;
        } else if cwnd < self.other.cwnd().get() {
            self.other.set_cwnd(Bytes::new(cwnd));
        }
        self.other.on_congestion(congestion, siblings);
        self.window.set(self.other.cwnd().get().min(cwnd));
    }

    /// The path was silent: what was known of it may be so no more.
    fn start_anew(&mut self) {
        self.window.set(0);
        self.rate.doubt();
        self.mode = Mode::Free;
        (self.suspicion, self.recent, self.queue) = (Suspicion::default(), Span::ZERO, Span::ZERO);
    }
}

impl Controller for Bdp {
    fn on_sent(&mut self, sent: &Sent) {
        if self.mode != Mode::Free {
            self.other.on_sent(sent);
        }
    }

    fn on_acked(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        let mss = self.window.mss();
        self.count_losses(acked);
        let is_limited = acked.prior_in_flight.get().saturating_add(3 * mss) >= self.window.cwnd();
        let is_lone = acked.bytes.get() < 2 * mss && acked.recovery == Recovery::Open;
        let is_late = is_lone && acked.rtt.is_some_and(|rtt| rtt > self.base.plain());
        if let Some(rtt) = acked.rtt.filter(|_| !is_late) {
            let above = self.base.on_sample(acked.now, rtt, self.rate.spread());
            self.recent = above.max(self.recent.mul_div(7, 8));
            self.queue = self.base.queue();
        }
        let has_queue = self.queue > self.no_queue();
        self.rate.on_acked(acked, Seen { has_queue, is_late, is_limited });
        let is_over = self.round.advance(acked);
        if is_over {
            self.rate.end_round();
        }
        if is_over && let Some(queue) = self.base.end_round()
        {
            self.judge_crowd(queue, is_limited, siblings);
            if std::env::var("BDPLOG").is_ok() { eprintln!("{} {:.3} q {queue} lim {is_limited} rounds {} {} {}", self.setup.path.get(), acked.now.as_secs_f64(), self.suspicion.rounds, self.suspicion.probe, self.snapshot()); }
        }
        let plain = self.base.plain();
        if self.mode == Mode::Crowded {
            self.other.on_acked(acked, siblings);
            let cwnd = self.other.cwnd().get();
            self.window.set(self.probe_window(plain).map_or(cwnd, |probe| probe.min(cwnd)));
            return;
        }
        if let Some(probe) = self.probe_window(plain) {
            self.window.set(probe.min(self.window.cwnd()));
            return;
        }
        self.follow(acked, plain);
        if self.mode == Mode::Capped {
            self.keep_cap(acked, plain, siblings);
            self.window.set(self.window.cwnd().min(self.other.cwnd().get()));
        }
    }

    fn ignores(&self, congestion: &Congestion) -> bool {
        !self.overflowed(congestion)
    }

    fn on_congestion(&mut self, congestion: &Congestion, siblings: Siblings<'_>) {
        if is_timeout(congestion.signal) {
            self.prior = Some((self.window.cwnd(), self.mode));
            self.start_anew();
        } else if self.overflowed(congestion) {
            self.reduce(congestion, siblings);
        }
    }

    fn on_spurious(&mut self, now: Instant) {
        if let Some((cwnd, mode)) = self.prior.take() {
            self.other.on_spurious(now);
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
        Share { bandwidth: self.rate.get(), steady: self.rate.is_fresh(), ..self.window.share() }
    }

    fn snapshot(&self) -> String {
        format!(
            "cwnd {} rate {} plain {:?} queue {} {:?}",
            self.window.cwnd(),
            self.rate.get(),
            self.base.plain(),
            self.queue,
            self.mode
        )
    }
}
