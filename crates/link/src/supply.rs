//! Supply of a link in one run: its rates, failures and delays as they are drawn from the seed, without the
//! packets that use them.
//!
//! No packet of a run leaves or arrives sooner than this says. What is left out can only make packets later, or is not
//! known without the packets: the queue, what else uses the link, and random losses. A loss that is drawn for a
//! packet's number costs what the packet takes on the wire, which is nearly nothing for a small one; so only times at
//! which everything is lost count.
//!
//! Jitter takes off the delay what a draw takes with given odds, see [`SURE`].

use weftway_path::{BitRate, Instant, Span};

use crate::capacity::{Segment, WORK_PER_BYTE, Work};
use crate::timetable::Timetable;
use crate::{Distribution, Jitter, LinkConfig, Loss, OPPORTUNITY, Rate, Seeds, Set};

/// The odds of a draw that no run meets. A normal variable is six standard deviations below its mean with them.
pub const SURE: f64 = 1e-9;

/// A link that changes more often counts as an ideal wire from then on, which only loosens the bound.
const MOST_PIECES: usize = 200_000;

/// Largest amount that a link carries in one run.
#[derive(Debug)]
pub struct Supply {
    pieces: Vec<Piece>,
    /// Most that jitter takes off the delay.
    jitter: Span,
}

/// A stretch of time with one rate and one delay.
#[derive(Debug)]
struct Piece {
    segment: Segment,
    delay: Span,
    /// Work that can have been done before it.
    before: Work,
}

/// State of a link at one time.
struct State {
    rate: Rate,
    delay: Span,
    is_up: bool,
}

impl Supply {
    /// The link with these seeds, until a time that is late enough. Jitter takes off no more than a draw does with these
    /// odds.
    pub fn new(config: &LinkConfig, seeds: Seeds, until: Instant, odds: f64) -> Self {
        let mut supply = Self { pieces: Vec::new(), jitter: taken(config.jitter, odds) };
        let mut state = State { rate: config.rate.clone(), delay: config.delay, is_up: true };
        let mut start = Instant::ZERO;
        let mut timetable = Timetable::new(config, seeds);
        while timetable.next() <= until {
            let at = timetable.next();
            if supply.pieces.len() >= MOST_PIECES {
                state = State { rate: Rate::UNLIMITED, delay: Span::ZERO, is_up: true };
                break;
            }
            for set in timetable.take() {
                // Losses change nothing here.
                if !matches!(set, Set::Loss(_)) {
                    supply.close(start, at, &state);
                    start = at;
                    state.apply(set);
                }
            }
        }
        supply.close(start, Instant::NEVER, &state);
        supply.lose(config);
        let mut before = 0;
        for piece in &mut supply.pieces {
            piece.before = before;
            let end = piece.segment.end;
            before += if end.is_never() { 0 } else { piece.segment.work(end) };
        }
        supply
    }

    fn close(&mut self, start: Instant, end: Instant, state: &State) {
        // A trace that is replaced at the instant at which it came has its opportunity of that instant.
        if end > start || end == start && state.is_up && matches!(state.rate, Rate::Trace(_)) {
            let rate = if state.is_up { state.rate.clone() } else { Rate::Constant(BitRate::ZERO) };
            let segment = Segment { start, end, rate };
            self.pieces.push(Piece { segment, delay: state.delay, before: 0 });
        }
    }

    /// Takes out the times at which everything that departs is lost. Losses are drawn when a packet is put in the
    /// queue, so that a link whose rate changes may lose a packet at another time than that at which it departs.
    fn lose(&mut self, config: &LinkConfig) {
        let is_steady =
            config.changes.is_empty() && config.redraw.is_none() && config.fade.is_none() && config.arq.is_none();
        let windows = match &config.loss {
            Loss::Windows(windows) if is_steady => windows.clone(),
            Loss::Bernoulli(p) if is_steady && *p >= 1.0 => vec![(Instant::ZERO, Instant::NEVER)],
            _ => return,
        };
        for (from, to) in windows.into_iter().filter(|(from, to)| to > from) {
            let pieces = std::mem::take(&mut self.pieces);
            self.pieces = pieces.into_iter().flat_map(|piece| piece.without(from, to)).collect();
        }
    }

    /// Work that packets which come from `from` on can have had when they have departed by `to`, in bits times 10⁹.
    pub fn work(&self, from: Instant, to: Instant) -> u128 {
        if to < from {
            return 0;
        }
        // What departs at the very instant `to` has departed.
        self.until(to + Span::from_nanos(1)).saturating_sub(self.until(from))
    }

    fn until(&self, at: Instant) -> Work {
        let number = self.pieces.partition_point(|piece| piece.segment.start < at);
        number.checked_sub(1).map_or(0, |last| self.pieces[last].before + self.pieces[last].segment.work(at))
    }

    /// Latest departure of a packet that has arrived by `by`; none if none can have.
    pub fn last_departure(&self, by: Instant) -> Option<Instant> {
        let number = self.pieces.partition_point(|piece| piece.segment.start <= by);
        let departure = |piece: &Piece| {
            let delay = self.delay(piece);
            let at = by.as_nanos().checked_sub(delay.as_nanos()).map(Instant::from_nanos)?;
            (at >= piece.segment.start).then_some(at.min(piece.segment.end))
        };
        self.pieces[..number].iter().rev().find_map(departure)
    }

    fn delay(&self, piece: &Piece) -> Span {
        piece.delay.saturating_sub(self.jitter)
    }

    /// The least delay that a packet has.
    pub fn least_delay(&self) -> Span {
        self.pieces.iter().map(|piece| self.delay(piece)).min().unwrap_or_default()
    }

    /// Most work within any stretch of time so long, in bits times 10⁹.
    pub fn most_within(&self, span: Span) -> u128 {
        let rates = self.pieces.iter().filter_map(|piece| match &piece.segment.rate {
            Rate::Constant(rate) => Some(rate.as_bps()),
            Rate::Trace(_) => None,
        });
        let steady = Work::from(rates.max().unwrap_or(0)) * Work::from(span.as_nanos());
        let traces = self.pieces.iter().filter_map(|piece| match &piece.segment.rate {
            Rate::Trace(trace) => Some(trace),
            Rate::Constant(_) => None,
        });
        let mut traces: Vec<_> = traces.collect();
        traces.dedup_by(|one, other| std::sync::Arc::ptr_eq(one, other));
        let most = traces.iter().map(|trace| Work::from(trace.most_within(span)));
        steady + most.sum::<Work>() * Work::from(OPPORTUNITY.get()) * WORK_PER_BYTE
    }
}

impl State {
    fn apply(&mut self, set: Set) {
        match set {
            Set::Rate(rate) => self.rate = rate,
            Set::Delay(delay) => self.delay = delay,
            Set::Down => self.is_up = false,
            Set::Up => self.is_up = true,
            Set::Loss(_) => {}
        }
    }
}

impl Piece {
    /// Supply that is left when nothing departs from `from` until before `to`.
    fn without(self, from: Instant, to: Instant) -> Vec<Self> {
        let Segment { start, end, rate } = self.segment;
        let nothing = Rate::Constant(BitRate::ZERO);
        let parts =
            [(start, from.min(end), &rate), (from.max(start), to.min(end), &nothing), (to.max(start), end, &rate)];
        let piece = |(start, end, rate): (Instant, Instant, &Rate)| Self {
            segment: Segment { start, end, rate: rate.clone() },
            delay: self.delay,
            before: 0,
        };
        parts.into_iter().filter(|(start, end, _)| end > start).map(piece).collect()
    }
}

/// Time that jitter takes off the delay with these odds; zero, if it adds to it.
fn taken(jitter: Option<Jitter>, odds: f64) -> Span {
    let odds = odds.clamp(SURE, 0.5);
    let part = |span: Span, share: f64| Span::from_nanos((span.as_nanos() as f64 * share) as u64);
    match jitter.map(|jitter| jitter.distribution) {
        None => Span::ZERO,
        Some(Distribution::Uniform { half_width }) if odds == SURE => half_width,
        Some(Distribution::Uniform { half_width }) => part(half_width, 1.0 - 2.0 * odds),
        Some(Distribution::Normal { sd } | Distribution::Correlated { sd, .. }) => part(sd, deviations(odds)),
    }
}

/// Standard deviations below its mean that a normal variable is with these odds, at most a half: never too few,
/// to a thousandth.
fn deviations(odds: f64) -> f64 {
    let below = |x: f64| libm::erfc(x / core::f64::consts::SQRT_2) / 2.0;
    let (mut low, mut high) = (0.0, 8.0);
    while high - low > 1e-3 {
        let middle = (low + high) / 2.0;
        if below(middle) > odds { low = middle } else { high = middle }
    }
    if odds >= 0.5 { 0.0 } else { high }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weftway_path::Bytes;

    use super::*;
    use crate::{Arq, Change, Redraw, Trace};

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn link(mbps: u64) -> LinkConfig {
        LinkConfig { rate: BitRate::from_mbps(mbps).into(), delay: Span::from_millis(20), ..LinkConfig::default() }
    }

    fn of(config: &LinkConfig) -> Supply {
        Supply::new(config, 7.into(), at(10_000), SURE)
    }

    /// Whole bytes.
    fn bytes(work: u128) -> u128 {
        work / WORK_PER_BYTE
    }

    /// 10 Mbit/s are 1250 B a millisecond, 20 twice that: 1250·2 until 10 ms, 2500·10 until 20, nothing until 30, 2500.
    #[test]
    fn rates_and_failures_count_when_they_hold() {
        let changes = [(10, Set::Rate(BitRate::from_mbps(20).into())), (20, Set::Down), (30, Set::Up)];
        let changes = changes.map(|(ms, set)| Change { at: at(ms), set });
        let supply = of(&LinkConfig { changes: changes.into(), ..link(10) });
        assert_eq!(bytes(supply.work(at(8), at(31))), 2500 + 25_000 + 2500);
        assert_eq!(bytes(supply.work(at(21), at(29))), 0);
        assert_eq!(supply.work(at(8), at(7)), 0);
    }

    /// Until 50 ms 20 ms of delay, then 5. By 54 ms has arrived what left by 34; by 55 what left at 50, since that took
    /// 5.
    #[test]
    fn a_delay_counts_for_what_departs_while_it_holds() {
        let changes = vec![Change { at: at(50), set: Set::Delay(Span::from_millis(5)) }];
        let supply = of(&LinkConfig { changes, ..link(10) });
        let last = |ms| supply.last_departure(at(ms));
        assert_eq!([10, 54, 55, 60].map(last), [None, Some(at(34)), Some(at(50)), Some(at(55))]);
        assert_eq!(supply.least_delay(), Span::from_millis(5));
    }

    /// For sure a uniform jitter of 8 ms takes that much off 20, a normal one of 2 ms 6·2, one of 5 ms all of it. With
    /// odds of a quarter it is half of 8 ms, and 0.6745 deviations; with a half nothing.
    #[test]
    fn jitter_takes_off_what_the_odds_allow() {
        let ms = Span::from_millis;
        let least = |odds, distribution| {
            let jitter = Some(Jitter { distribution, reorder: false });
            let supply = Supply::new(&LinkConfig { jitter, ..link(10) }, 7.into(), at(10_000), odds);
            supply.least_delay().as_millis_f64().round()
        };
        let (uniform, normal) = (Distribution::Uniform { half_width: ms(8) }, Distribution::Normal { sd: ms(2) });
        let correlated = Distribution::Correlated { sd: ms(5), over: ms(100) };
        assert_eq!([uniform, normal, correlated].map(|of| least(SURE, of)), [12.0, 8.0, 0.0]);
        assert_eq!([uniform, normal, correlated].map(|of| least(0.25, of)), [16.0, 19.0, 17.0]);
        assert_eq!([uniform, normal, correlated].map(|of| least(0.5, of)), [20.0; 3]);
    }

    /// The rates are those that a link with this seed draws.
    #[test]
    fn a_redrawn_rate_is_the_drawn_one() {
        let rate = Some((BitRate::from_mbps(8), BitRate::from_mbps(80)));
        let redraw = Some(Redraw { every: Span::from_millis(100), rate, loss: Some((0.0, 0.1)), ..Redraw::default() });
        let config = LinkConfig { redraw, ..link(1) };
        let mut real = crate::Link::<u8>::new(&config, 7);
        for turn in 0..20 {
            let _ = real.push(at(turn * 100), Bytes::new(1), 0);
            let (drawn, from) = (real.outlook(at(turn * 100)).rate, at(turn * 100 + 1));
            let work = of(&config).work(from, at(turn * 100 + 51)) - Work::from(drawn.as_bps());
            assert_eq!(work, Work::from(drawn.as_bps()) * 50_000_000, "{turn}");
        }
    }

    /// Drawn every microsecond, it is known for 0.2 s.
    #[test]
    fn what_changes_too_often_is_no_limit_any_more() {
        let rate = Some((BitRate::from_mbps(8), BitRate::from_mbps(80)));
        let redraw = Some(Redraw { every: Span::from_micros(1), rate, ..Redraw::default() });
        let supply = of(&LinkConfig { redraw, ..link(1) });
        assert!(bytes(supply.work(at(0), at(199))) < 2_000_000);
        assert!(bytes(supply.work(at(201), at(202))) > 1 << 40);
        assert_eq!(supply.last_departure(at(500)), Some(at(500)));
    }

    /// Opportunities at 5, 7, 10, 15, 17, 20 ms, …: from 7 to 17 ms four, both ends counted, and no more within 10 ms:
    /// 5, 7, 10, 15. Within 2 ms two, and within 13 ms, as from 7 to 20, five.
    #[test]
    fn a_trace_counts_opportunities() {
        let trace = Arc::new(Trace::new(vec![5, 7, 10]).unwrap());
        let supply = of(&LinkConfig { rate: Rate::Trace(trace), ..LinkConfig::default() });
        assert_eq!(bytes(supply.work(at(7), at(17))), 4 * 1500);
        assert_eq!(bytes(supply.work(at(8), at(9))), 0);
        let most = |ms| bytes(supply.most_within(Span::from_millis(ms))) / 1500;
        assert_eq!([0, 2, 10, 13].map(most), [1, 2, 4, 5]);
    }

    #[test]
    fn times_at_which_all_is_lost_carry_nothing() {
        let windows = vec![(at(10), at(20)), (at(15), at(30))];
        let lossy = LinkConfig { loss: Loss::Windows(windows), ..link(10) };
        assert_eq!(bytes(of(&lossy).work(at(0), at(40))), 20 * 1250);
        // What the link repairs arrives, and what was put in the queue before a change may depart later.
        let arq = Some(Arq { hides: 1.0, delay: Span::from_millis(1), retry_loss: 0.0 });
        assert_eq!(bytes(of(&LinkConfig { arq, ..lossy.clone() }).work(at(0), at(40))), 40 * 1250);
        let changes = vec![Change { at: at(5), set: Set::Rate(BitRate::from_mbps(10).into()) }];
        assert_eq!(bytes(of(&LinkConfig { changes, ..lossy }).work(at(0), at(40))), 40 * 1250);
        let gone = LinkConfig { loss: Loss::Bernoulli(1.0), ..link(10) };
        assert_eq!(of(&gone).work(at(0), at(9000)), 0);
    }
}
