//! State of a link now, known to anybody or not: for oracles, and for checks.

use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::link::Room;
use crate::loss::Losses;
use crate::{Delivery, Limit, Link, Loss, Rate, Set, Verdict};

/// Rate, delay and loss of a link at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Rate at which the queue empties. Of a trace, the mean of the next 100 ms; zero while the link is down.
    pub rate: BitRate,
    /// Propagation delay, one way, after serialisation, jitter apart.
    pub delay: Span,
    /// The probability that the next packet is lost, and not repaired by the link.
    pub loss: f64,
}

impl<T: Copy> Link<T> {
    /// State at `now`, with all changes up to then, those included that the link, being idle, has
    /// not come to yet. `now` is not before the last event.
    pub fn outlook(&self, now: Instant) -> Outlook {
        let mut rate = self.wire.rate(now);
        let (mut delay, mut up, mut losses) = (self.delay, self.up, None::<Losses>);
        let mut timetable = self.timetable.clone();
        timetable.skip(now);
        while timetable.next() <= now && !timetable.next().is_never() {
            for set in timetable.take() {
                match set {
                    Set::Rate(next) => rate = next.at(now),
                    Set::Delay(next) => delay = next,
                    Set::Loss(next) => losses.get_or_insert_with(|| self.noise.losses.clone()).set(&next),
                    Set::Down => up = false,
                    Set::Up => up = true,
                }
            }
        }
        let loss = losses.as_ref().unwrap_or(&self.noise.losses).probability(self.serial, now);
        let kept = self.noise.repairs.as_ref().map_or(1.0, |repairs| 1.0 - repairs.hides());
        Outlook { rate: if up { rate } else { BitRate::ZERO }, delay, loss: loss * kept }
    }

    /// Arrival of a packet of `bytes` that is pushed at `now` and meets neither a full queue nor a loss: a trace's
    /// whole future counts, other changes to come do not. [`Instant::NEVER`] while the link is down.
    pub fn arrival_of(&self, now: Instant, bytes: Bytes) -> Instant {
        if !self.is_up() {
            return Instant::NEVER;
        }
        let mut wire = self.wire.clone();
        let mut free = self.free_at;
        for held in self.codel.iter().flat_map(|codel| codel.queue()) {
            free = wire.depart(free.max(self.dequeue_at), Bytes::new(held.bytes.into()));
        }
        self.arrival(wire.depart(free.max(now), bytes), 0)
    }

    /// Arrival of a packet of `bytes` that is pushed at `now`, meets neither a full queue nor a loss, and is not
    /// delayed by noise: all changes to come count. `item` is what `is_it` finds again among what is under way.
    /// [`Instant::NEVER`] if the link is down, or goes down before. Takes a copy of the link, and time for all that
    /// waits before the packet.
    pub fn future_arrival_of(&self, now: Instant, bytes: Bytes, item: T, is_it: impl Fn(&T) -> bool) -> Instant {
        let mut link = self.clone();
        link.limit = Room::new(Limit::Unlimited);
        link.noise.losses = Losses::new(&Loss::None, 0);
        (link.noise.jitters, link.noise.host_jitter, link.noise.repairs) = (None, None, None);
        if link.push(now, bytes, item) != Verdict::Queued {
            return Instant::NEVER;
        }
        loop {
            let at = link.next_event();
            if at.is_never() {
                return at;
            }
            while let Some(Delivery { item, .. }) = link.pop(at) {
                if is_it(&item) {
                    return at;
                }
            }
        }
    }

    /// Arrivals to come, as far as they are known now, in order. Packets that CoDel keeps
    /// back are not among them.
    pub fn arrivals(&self) -> impl Iterator<Item = (Instant, &T)> {
        let plain = self.plain.arrivals(self.delay);
        self.flight.iter().map(|flight| (flight.arrival, self.item(flight))).chain(plain)
    }
}

impl Rate {
    /// Rate at `now`.
    pub(crate) fn at(&self, now: Instant) -> BitRate {
        match self {
            Self::Constant(rate) => *rate,
            Self::Trace(trace) => trace.rate_soon(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, LinkConfig, Trace};

    /// 10 Mbit/s, 5 ms, no loss; at 20 ms twice the rate, 10 ms and 3 % loss; down from 30 to 40 ms.
    #[test]
    fn an_idle_link_keeps_up_with_its_timetable() {
        let at = Instant::from_millis;
        let changes = [
            (20, Set::Rate(BitRate::from_mbps(20).into())),
            (20, Set::Delay(Span::from_millis(10))),
            (20, Set::Loss(Loss::Bernoulli(0.25))),
            (30, Set::Down),
            (40, Set::Up),
        ];
        let changes = changes.into_iter().map(|(ms, set)| Change { at: at(ms), set }).collect();
        let rate = BitRate::from_mbps(10).into();
        let config = LinkConfig { rate, delay: Span::from_millis(5), changes, ..LinkConfig::default() };
        let link: Link<u8> = Link::new(&config, 1);
        let of = |ms| {
            let outlook = link.outlook(at(ms));
            (outlook.rate.as_bps() / 1_000_000, outlook.delay.as_millis(), outlook.loss)
        };
        assert_eq!([of(19), of(20), of(30), of(41)], [(10, 5, 0.0), (20, 10, 0.25), (0, 10, 0.25), (20, 10, 0.25)]);
    }

    /// 1 Mbit/s, 5 ms: a packet of 1250 bytes takes 10 ms, so that the second one leaves at 20 ms. From 15 ms on the
    /// rate is ten times as much: half of it is left then, which takes 0.5 ms. A third one takes a millisecond.
    #[test]
    fn what_comes_counts_in_a_future_arrival() {
        let at = Instant::from_millis;
        let packet = Bytes::new(1250);
        let change = Change { at: at(15), set: Set::Rate(BitRate::from_mbps(10).into()) };
        let queue = crate::Queue { limit: crate::Limit::Packets(2), ..crate::Queue::default() };
        let (rate, delay) = (BitRate::from_mbps(1).into(), Span::from_millis(5));
        let config = LinkConfig { rate, delay, changes: vec![change], queue, ..LinkConfig::default() };
        let mut link: Link<u8> = Link::new(&config, 1);
        let _ = link.push(at(0), packet, 1);
        assert_eq!(link.arrival_of(at(0), packet), at(25));
        let future = |link: &Link<u8>| link.future_arrival_of(at(0), packet, 9, |item| *item == 9);
        assert_eq!(future(&link), at(20) + Span::from_micros(500));
        assert_eq!((link.pending(), future(&link)), (1, at(20) + Span::from_micros(500)), "it was a copy");
        let _ = link.push(at(0), packet, 2);
        assert_eq!(future(&link), at(21) + Span::from_micros(500), "beyond the end of the queue, a millisecond later");
        link.fail(at(1));
        assert!(link.future_arrival_of(at(1), packet, 9, |item| *item == 9).is_never());
    }

    /// Opportunities at 50, 100, 150, … ms: of 100 ms from 60 ms on, those at 100 and 150: 3000 B, 240 kbit/s.
    #[test]
    fn a_trace_has_the_rate_of_the_next_tenth_of_a_second() {
        let trace = std::sync::Arc::new(Trace::new(vec![50]).expect("a trace"));
        let link: Link<u8> = Link::new(&LinkConfig { rate: Rate::Trace(trace), ..LinkConfig::default() }, 1);
        assert_eq!(link.outlook(Instant::from_millis(60)).rate, BitRate::from_bps(240_000));
    }

    /// A good state that turns bad with 0.1 and then loses half: 0.1 · 0.5 for the first packet.
    #[test]
    fn bursts_show_the_chance_of_the_next_packet() {
        let loss = Loss::GilbertElliott { to_bad: 0.1, to_good: 0.2, loss_good: 0.0, loss_bad: 0.5 };
        let link: Link<u8> = Link::new(&LinkConfig { loss, ..LinkConfig::default() }, 1);
        assert!((link.outlook(Instant::ZERO).loss - 0.05).abs() < 1e-9);
    }
}
