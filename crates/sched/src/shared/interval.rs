//! Intervals with one choice each: a rule is asked every 50 or 100 ms instead of for every packet, as the
//! learned schedulers are.

use weftway_path::{
    BlockedReason, Bytes, Context, Decision, Event, Instant, Packet, Path, PathId, PathSet, SendKind, Span,
};

use crate::shared::choose;
use crate::{Needs, Report, Scheduler};

/// Behaviour of the other paths during an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Silence: only the chosen path sends.
    #[default]
    Exclusive,
    /// They send, lowest srtt first, while the chosen path cannot.
    Preferred,
}

/// Counts what is acknowledged on paths while they are the chosen one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChosenBytes {
    /// The path that was chosen last, and what had been acknowledged on it by then.
    since: Option<(PathId, Bytes)>,
    bytes: Bytes,
}

impl ChosenBytes {
    /// Makes `chosen` the chosen path from now on.
    pub(crate) fn turn(&mut self, cx: &Context<'_>, chosen: Option<PathId>) {
        let acked = |path| cx.path(path).map(|path: &Path| path.acked.bytes);
        if let Some((path, before)) = self.since {
            // A path that came anew counts from zero.
            self.bytes += acked(path).map_or(Bytes::ZERO, |bytes| bytes.saturating_sub(before));
        }
        self.since = chosen.and_then(|path| Some((path, acked(path)?)));
    }

    /// An interval ends; the chosen path remains until another is.
    pub(crate) fn settle(&mut self, cx: &Context<'_>) {
        self.turn(cx, self.since.map(|(path, _)| path));
    }

    /// All of it, up to the last turn.
    pub(crate) fn total(&self) -> Bytes {
        self.bytes
    }
}

/// Asks `inner` once per epoch, as if every path were open, and keeps to its answer.
///
/// The first choice takes effect at once; later ones after a decision delay, for as long as a
/// real policy takes to compute. A chosen path that leaves is replaced at once. `inner` observes
/// every event but one: that a path which only stood in sent new data, for that was not its choice, and a rule that
/// takes turns would count a turn. Needs wake-ups and events, beyond what `inner` needs.
#[derive(Clone)]
pub struct Interval {
    inner: Box<dyn Scheduler>,
    epoch: Span,
    mode: Mode,
    decision_delay: Span,
    chosen: Option<PathId>,
    pending: Option<(PathId, Instant)>,
    /// Time at which the next question is due; none before the first.
    epoch_end: Option<Instant>,
    carried: ChosenBytes,
    /// The paths as `inner` sees them; kept to reuse its memory.
    open: Vec<Path>,
}

impl Interval {
    /// `inner`, asked every `epoch`, which is not zero.
    pub fn new(inner: Box<dyn Scheduler>, epoch: Span, mode: Mode) -> Self {
        assert!(!epoch.is_zero(), "an epoch takes time");
        Self {
            inner,
            epoch,
            mode,
            decision_delay: Span::ZERO,
            chosen: None,
            pending: None,
            epoch_end: None,
            carried: ChosenBytes::default(),
            open: Vec::new(),
        }
    }

    /// Lets each choice take effect only `delay` after the epoch's end.
    pub fn with_decision_delay(mut self, delay: Span) -> Self {
        self.decision_delay = delay;
        self
    }

    /// The path that the present choice names.
    pub fn chosen(&self) -> Option<PathId> {
        self.chosen
    }

    /// Asks `inner` about a fresh packet as if every established path were open.
    fn ask(&mut self, cx: &Context<'_>) -> Option<PathId> {
        self.open.clear();
        self.open.extend(cx.paths.iter().filter(|path| path.blocked != BlockedReason::Validation).cloned());
        for path in &mut self.open {
            path.blocked = BlockedReason::None;
        }
        let offset = cx.flow.map(|flow| flow.next).or(cx.packet.map(|packet| packet.offset));
        let packet = Packet {
            offset: offset.unwrap_or_default(),
            bytes: self.open.first()?.mss,
            reinjection: false,
            carried: PathSet::EMPTY,
            avoid: PathSet::EMPTY,
        };
        match self.inner.select(&Context::new(cx.now, &self.open, Some(&packet), cx.flow)) {
            Decision::Send(path) | Decision::Ahead(path, _) | Decision::Repeat(path, _) => Some(path),
            Decision::Recall(_) | Decision::Wait => None,
        }
    }

    /// Ends the epoch if it is over, and lets a pending choice take effect if it is due.
    fn advance(&mut self, cx: &Context<'_>) {
        if self.epoch_end.is_some_and(|end| cx.now >= end) {
            self.epoch_end = Some(cx.now + self.epoch);
            self.pending = self.ask(cx).map(|path| (path, cx.now + self.decision_delay)).or(self.pending);
            self.carried.turn(cx, self.chosen);
        }
        if let Some((path, _)) = self.pending.filter(|(_, due)| cx.now >= *due) {
            self.chosen = Some(path);
            self.pending = None;
            self.carried.turn(cx, self.chosen);
        }
    }

    /// The chosen path; chosen anew if there is none. A second question finds it chosen.
    fn path<'a>(&mut self, cx: &Context<'a>) -> Option<&'a Path> {
        if let Some(path) = self.chosen.and_then(|path| cx.path(path)) {
            return Some(path);
        }
        self.chosen = self.ask(cx);
        self.pending = None;
        self.epoch_end = Some(cx.now + self.epoch);
        self.carried.turn(cx, self.chosen);
        self.chosen.and_then(|path| cx.path(path))
    }
}

#[deny(clippy::missing_trait_methods)]
impl Scheduler for Interval {
    fn needs(&self) -> Needs {
        self.inner.needs().union(Needs { wake: true, events: true, ..Needs::NONE })
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        if cx.packet.is_none() {
            return Decision::Wait;
        }
        let chosen = self.path(cx).filter(|path| path.is_open());
        match self.mode {
            Mode::Preferred if chosen.is_none() => {
                choose::send_or_wait(cx, choose::least(cx.sendable(), |path| path.srtt))
            }
            _ => chosen.map_or(Decision::Wait, |path| Decision::Send(path.id)),
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        let stood_in = match *event {
            Event::Sent(receipt, SendKind::Fresh) => self.mode == Mode::Preferred && Some(receipt.path) != self.chosen,
            _ => false,
        };
        if !stood_in {
            self.inner.observe(cx, event);
        }
        if let Event::PathDown(path) = *event {
            self.chosen = self.chosen.filter(|chosen| *chosen != path);
            self.pending = self.pending.filter(|(pending, _)| *pending != path);
        }
        self.advance(cx);
    }

    fn wake(&self) -> Option<Instant> {
        let due = self.pending.map(|(_, due)| due);
        [self.epoch_end, due, self.inner.wake()].into_iter().flatten().min()
    }

    fn decided(&mut self, cx: &Context<'_>, decision: Decision) {
        self.inner.decided(cx, decision);
    }

    /// It has no part that only sends: without its wake-ups no interval would end.
    fn report(&self) -> Report {
        Report { chosen_bytes: Some(self.carried.total()), sending_part: None, ..self.inner.report() }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let reason = self.inner.explain(cx).unwrap_or_default();
        Some(format!("{:?} until {:?}; inner: {reason}", self.chosen, self.epoch_end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FallbackTally;
    use weftway_vectors::testing::{Bench, packets, path};

    const A: Decision = Decision::Send(PathId::new(0));
    const B: Decision = Decision::Send(PathId::new(1));

    fn over_min_rtt(mode: Mode) -> (Interval, Bench) {
        let inner = crate::build("min-rtt").unwrap();
        let bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 40, 10, 0)]);
        (Interval::new(inner, Span::from_millis(100), mode), bench)
    }

    #[test]
    fn a_choice_holds_until_the_epoch_ends_and_the_delay_is_over() {
        let (interval, mut bench) = over_min_rtt(Mode::Exclusive);
        let mut interval = interval.with_decision_delay(Span::from_millis(20));
        assert_eq!(interval.wake(), None);
        assert_eq!(interval.select(&bench.context()), A);
        bench.paths[0].srtt = Span::from_millis(60);
        for (ms, answer, wake) in [(50, A, 100), (100, A, 120), (120, B, 200)] {
            bench.now = Instant::from_millis(ms);
            interval.observe(&bench.context(), &Event::Wake);
            assert_eq!(interval.select(&bench.context()), answer, "at {ms} ms");
            assert_eq!(interval.wake(), Some(Instant::from_millis(wake)));
        }
    }

    #[test]
    fn a_full_choice_is_waited_for_or_stood_in_for() {
        for (mode, answer) in [(Mode::Exclusive, Decision::Wait), (Mode::Preferred, B)] {
            let (mut interval, mut bench) = over_min_rtt(mode);
            assert_eq!(interval.select(&bench.context()), A);
            bench.paths[0].bytes_in_flight = packets(10);
            bench.refresh();
            assert_eq!(interval.select(&bench.context()), answer);
        }
    }

    /// Both paths send in every epoch, whichever is chosen; the turns go on all the same.
    #[test]
    fn who_stands_in_takes_no_turn() {
        let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 40, 10, 0)]);
        let mut interval = Interval::new(crate::build("round-robin").unwrap(), Span::from_millis(100), Mode::Preferred);
        let sent = |path| {
            let receipt = weftway_path::Receipt { path, offset: Default::default(), bytes: packets(1), serial: 0 };
            Event::Sent(receipt, SendKind::Fresh)
        };
        let mut turns = Vec::new();
        for epoch in 0..6 {
            bench.now = Instant::from_millis(epoch * 100);
            interval.observe(&bench.context(), &Event::Wake);
            turns.push(interval.select(&bench.context()));
            (0..2).for_each(|path| interval.observe(&bench.context(), &sent(PathId::new(path))));
        }
        assert_eq!(turns, [A, B, A, B, A, B]);
    }

    /// A is chosen for 100 ms, before which it brought 4 packets: of those that follow only its 5 count, then only B's
    /// 6.
    #[test]
    fn only_the_chosen_path_is_counted() {
        let (mut interval, mut bench) = over_min_rtt(Mode::Preferred);
        bench.paths[0].acked.bytes = packets(4);
        let mut carry = |ms, srtt_of_a, [a, b]: [u64; 2]| {
            bench.now = Instant::from_millis(ms);
            bench.paths[0].srtt = Span::from_millis(srtt_of_a);
            bench.paths[0].acked.bytes += packets(a);
            bench.paths[1].acked.bytes += packets(b);
            interval.observe(&bench.context(), &Event::Wake);
            let chosen = interval.select(&bench.context());
            (chosen, interval.report().chosen_bytes)
        };
        assert_eq!(carry(0, 20, [0, 0]), (A, Some(Bytes::ZERO)));
        assert_eq!(carry(50, 90, [2, 3]), (A, Some(Bytes::ZERO)));
        assert_eq!(carry(100, 90, [3, 4]), (B, Some(packets(5))));
        assert_eq!(carry(200, 20, [1, 6]), (A, Some(packets(11))));
    }

    #[test]
    fn a_choice_that_leaves_is_replaced_at_once() {
        let (mut interval, mut bench) = over_min_rtt(Mode::Exclusive);
        assert_eq!(interval.select(&bench.context()), A);
        let down = bench.remove(PathId::new(0)).unwrap();
        interval.observe(&bench.context(), &down);
        assert_eq!(interval.select(&bench.context()), B);
    }

    #[test]
    fn a_path_that_leaves_takes_only_its_own_choice_along() {
        let (interval, mut bench) = over_min_rtt(Mode::Exclusive);
        let mut interval = interval.with_decision_delay(Span::from_millis(20));
        let up = |bench: &mut Bench, n| bench.add(path(n, 90, 10, 0)).unwrap();
        (2..=3).for_each(|n| {
            up(&mut bench, n);
        });
        assert_eq!(interval.select(&bench.context()), A);
        assert_eq!(interval.chosen(), Some(PathId::new(0)));
        // A is slower now, but the epoch lasts until 100 ms, whoever else leaves.
        bench.paths[0].srtt = Span::from_millis(60);
        let down = bench.remove(PathId::new(2)).unwrap();
        interval.observe(&bench.context(), &down);
        assert_eq!(interval.select(&bench.context()), A);
        // B is chosen at 100 ms, for 120 ms on. Another leaves at 110 ms: B all the same.
        bench.now = Instant::from_millis(100);
        interval.observe(&bench.context(), &Event::Wake);
        bench.now = Instant::from_millis(110);
        let mut other = interval.clone();
        let mut without = bench.clone();
        let down = bench.remove(PathId::new(3)).unwrap();
        interval.observe(&bench.context(), &down);
        bench.now = Instant::from_millis(120);
        interval.observe(&bench.context(), &Event::Wake);
        assert_eq!(interval.chosen(), Some(PathId::new(1)));
        // B itself leaves at 110 ms: A stays chosen at 120 ms.
        let down = without.remove(PathId::new(1)).unwrap();
        other.observe(&without.context(), &down);
        without.now = Instant::from_millis(120);
        other.observe(&without.context(), &Event::Wake);
        assert_eq!(other.chosen(), Some(PathId::new(0)));
    }

    #[test]
    fn what_was_decided_goes_to_the_rule_and_its_fallback_and_reason_come_back() {
        /// Counts the decisions that it was told.
        #[derive(Clone)]
        struct Told(u64);
        impl Scheduler for Told {
            fn select(&mut self, _: &Context<'_>) -> Decision {
                A
            }
            fn decided(&mut self, _: &Context<'_>, _: Decision) {
                self.0 += 1;
            }
            fn report(&self) -> Report {
                Report { fallback: Some(FallbackTally { decided: self.0, differs: 0 }), ..Report::default() }
            }
            fn explain(&self, _: &Context<'_>) -> Option<String> {
                Some("as told".to_owned())
            }
        }
        let mut interval = Interval::new(Box::new(Told(0)), Span::from_millis(100), Mode::Exclusive);
        let bench = Bench::new(vec![path(0, 20, 10, 0)]);
        interval.decided(&bench.context(), A);
        assert_eq!(interval.report().fallback, Some(FallbackTally { decided: 1, differs: 0 }));
        assert!(interval.explain(&bench.context()).is_some_and(|reason| reason.contains("as told")));
    }
}
