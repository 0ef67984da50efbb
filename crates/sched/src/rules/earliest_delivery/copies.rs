//! Copies: of data that block the message at hand, are overdue or lost, come sooner by another path, or may be lost
//! where nothing else is to be sent.

use weftway_path::{Context, Flow, Offset, Path, PathId, PathSet, Span};

use super::estimate::loss_chance;
use super::in_flight::InFlightPacket;
use super::insurance::Insurance;
use super::{EarliestDelivery, Predicted, sooner};

/// A copy that should come sooner by an airtime and this part of a round trip is sure to: predictions are not better
/// than that.
const SURE: u64 = 4;
/// Number of open paths of which one carries a copy, and of those where copies are free.
const CARRIERS: usize = 2;
const MOST_CARRIERS: usize = 4;

/// An open path, and another of whose packets it may carry copies.
type Pair<'a, 'b> = (Predicted<'a, 'b>, Predicted<'a, 'b>);

/// A copy that may go.
pub(super) struct Copy {
    pub path: PathId,
    pub serial: u64,
    pub offset: Offset,
    gain: Span,
    pub cost: Cost,
}

/// Cost of a copy.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Cost {
    /// It is sure to gain more than it costs, or asks about a path.
    Due,
    /// It costs other data something, and may not be needed.
    Paid,
    /// It costs nothing, so that other paths may carry one too.
    Free,
}

impl EarliestDelivery {
    /// A copy of data that keep the message at hand from being delivered, on the open path that delivers first.
    #[inline(always)]
    pub(super) fn urgent(&self, cx: &Context<'_>, flow: &Flow, (path, s): Predicted<'_, '_>) -> Option<Copy> {
        if !self.options.copies {
            return None;
        }
        let rest = s.rate().transmission_time(flow.message_end.min(flow.end).since(flow.next));
        // Mostly less than what is left of the message takes is left of any packet in flight.
        let longest = self.outlook.longest_left.max(self.flights.latest().since(cx.now));
        if self.outlook.silent.without(path.id).is_empty()
            && longest.saturating_sub(s.expected) <= s.copy_airtime().max(rest)
        {
            return None;
        }
        self.urgent_of_any(cx, flow, (path, s), rest)
    }

    /// An urgent copy of a packet of any path, where the rest of the message takes the time `rest`.
    #[inline(never)]
    fn urgent_of_any(&self, cx: &Context<'_>, flow: &Flow, (path, s): Predicted<'_, '_>, rest: Span) -> Option<Copy> {
        for (other, q) in self.predictions(cx).filter(|(other, _)| other.id != path.id) {
            if !q.is_silent() {
                // No packet gains more than this.
                let Some((eta, front)) = self.flights.last_of_all(other.id) else { continue };
                let most = q.left(cx.now, other, eta, front).saturating_sub(s.expected);
                if most <= s.copy_airtime().max(rest) {
                    continue;
                }
            }
            if let Some(copy) = self.urgent_of(cx, flow, ((path, s), (other, q)), rest) {
                return Some(copy);
            }
        }
        None
    }

    /// An urgent copy for one pair of paths, where the rest of the message takes the time `rest`.
    #[inline(never)]
    fn urgent_of(&self, cx: &Context<'_>, flow: &Flow, pair: Pair<'_, '_>, rest: Span) -> Option<Copy> {
        let ((path, s), (other, q)) = pair;
        let airtime = s.copy_airtime();
        let (oldest, gain, count) = if q.is_silent() {
            let oldest = self.flights.first_single(other.id, flow.una);
            (oldest, q.overdue_gain(s), self.flights.singles(other.id))
        } else {
            let beaten = cx.now + s.expected + airtime;
            let (_, last) = self.flights.last_single(other.id, flow.una)?;
            let gain = self.left_of(cx, (other, q), last).saturating_sub(s.expected);
            if gain <= airtime {
                return None;
            }
            let oldest = self.flights.first_after(other.id, flow.una, beaten);
            (oldest, gain, self.flights.count_after(other.id, beaten))
        };
        let blocks = |packet: &InFlightPacket| !packet.carried.contains(path.id) && packet.offset <= flow.next;
        let (serial, packet) = oldest.filter(|(_, packet)| blocks(packet))?;
        let busy = (airtime * count).mul_div(1000, 1000 - self.load_permille(cx));
        (gain > busy + rest).then_some(Copy { path: path.id, serial, offset: packet.offset, gain, cost: Cost::Due })
    }

    /// Bytes sent lately, of those that all paths could have brought, in thousandths.
    fn load_permille(&self, cx: &Context<'_>) -> u64 {
        self.load.permille(cx.now, self.predictions(cx).map(|(_, forecast)| forecast))
    }

    /// Time that a packet in flight on the path with this forecast still takes.
    fn left_of(&self, cx: &Context<'_>, (other, q): Predicted<'_, '_>, packet: &InFlightPacket) -> Span {
        q.left(cx.now, other, packet.eta, self.flights.front(packet))
    }

    /// The copy that pays most where nothing fresh goes.
    #[inline(never)]
    pub(super) fn copy(&self, cx: &Context<'_>, flow: &Flow) -> Option<Copy> {
        if !self.options.copies {
            return None;
        }
        let load = self.load_permille(cx);
        let is_free = self.options.insurance.is_some_and(|insurance| insurance.is_free(load));
        let carriers = self.carriers(cx, if is_free { MOST_CARRIERS } else { CARRIERS })?;
        let price = |carrier: &Predicted<'_, '_>| match self.insures(carrier, load)? {
            (_, true) => Some(Span::ZERO),
            (insurance, false) => Some(carrier.1.expected + insurance.price(carrier.1.copy_airtime(), load)),
        };
        let least_price = carriers.iter().flatten().filter_map(price).min();
        let sure = |(_, s): &Predicted<'_, '_>| s.expected + s.copy_airtime() + s.rtt / SURE;
        let least_sure = carriers.iter().flatten().map(sure).min()?;
        let mut best: Option<Copy> = None;
        for other in self.predictions(cx).filter(|(other, _)| self.flights.may_be_copied(other.id)) {
            if !self.may_be_worth(cx, flow, other, least_sure, least_price) {
                continue;
            }
            let mut pairs = carriers.iter().flatten().filter(|carrier| carrier.0.id != other.0.id);
            let copy = pairs.find_map(|&carrier| self.copy_for_pair(cx, flow, (carrier, other), load));
            if let Some(copy) = copy.filter(|copy| best.as_ref().is_none_or(|best| copy.gain > best.gain)) {
                best = Some(copy);
            }
        }
        best.or_else(|| self.probe(cx, flow))
    }

    /// Tells whether a packet on `other` is overdue or lost, or should arrive later than in `sure`, or might arrive
    /// later than in `insured` if it is lost.
    fn may_be_worth(
        &self,
        cx: &Context<'_>,
        flow: &Flow,
        (other, q): Predicted<'_, '_>,
        sure: Span,
        insured: Option<Span>,
    ) -> bool {
        if !q.overdue.is_zero() {
            return true;
        }
        let last = self.flights.last_of_all(other.id);
        let left = last.map_or(Span::ZERO, |(eta, front)| q.left(cx.now, other, eta, front));
        left > sure
            || insured.is_some_and(|insured| left + q.rtt * 5 / 2 > insured)
            || self.flights.first_single(other.id, flow.una).is_some_and(|(_, first)| first.lost)
    }

    /// Limits of an insurance by this path at a load in thousandths, if there may be one, and whether it is free.
    fn insures(&self, (path, s): &Predicted<'_, '_>, load: u64) -> Option<(Insurance, bool)> {
        let insurance = self.options.insurance?;
        // Where data wait for each other, as after slow start, nothing may have been sent lately.
        if insurance.is_free(load) && s.rtt < path.min_rtt * 2 {
            return Some((insurance, true));
        }
        let is_idle = path.unacked() < s.rate().bytes_in(path.min_rtt);
        (is_idle && self.load.has_credit()).then_some((insurance, false))
    }

    /// The open paths that deliver first, so many of them: one carries the copy, whichever path delays a packet.
    fn carriers<'a>(&self, cx: &Context<'a>, most: usize) -> Option<[Option<Predicted<'a, '_>>; MOST_CARRIERS]> {
        let mut carriers = [None; MOST_CARRIERS];
        let mut taken = PathSet::EMPTY;
        for carrier in &mut carriers[..most] {
            let others = self.serving.and(cx.open).minus(taken);
            *carrier = others.iter().filter_map(|path| self.predicted(cx, path)).reduce(sooner);
            let Some((path, _)) = carrier else { break };
            taken = taken.with(path.id);
        }
        carriers[0].is_some().then_some(carriers)
    }

    /// A copy of the newest packet of another path, to ask a path that is not used what a round trip takes now.
    fn probe(&self, cx: &Context<'_>, flow: &Flow) -> Option<Copy> {
        let wants = |path: &Path| self.estimates.get(path.id).is_some_and(|known| known.wants_probe(cx.now, path));
        let path = self.serving.and(cx.open).iter().filter_map(|path| cx.path(path)).find(|path| wants(path))?;
        let others = cx.paths.iter().filter(|other| other.id != path.id);
        let (serial, packet) = others.filter_map(|other| self.flights.last_single(other.id, flow.una)).next()?;
        let (path, offset) = (path.id, packet.offset);
        (!packet.carried.contains(path)).then_some(Copy { path, serial, offset, gain: Span::ZERO, cost: Cost::Due })
    }

    /// The copy for one pair of paths, if it pays.
    fn copy_for_pair(&self, cx: &Context<'_>, flow: &Flow, pair: Pair<'_, '_>, load: u64) -> Option<Copy> {
        let ((path, s), (other, q)) = pair;
        let airtime = s.copy_airtime();
        let late = !q.overdue.is_zero();
        let first = self.flights.singles_for(other.id, path.id, flow.una).next();
        // Nothing new can be sent though the peer has room: the send buffer is full of what is not acknowledged.
        let is_full = || cx.packet.is_none() && flow.unsent < path.mss && flow.credit() >= path.mss;
        let arrived = || self.flights.first_arrived(other.id, flow.buffered_from());
        let first = first.or_else(|| (late && is_full()).then(arrived).flatten())?;
        // QUIC has handed lost data back: they come as the packet at hand.
        let lost = first.1.lost && cx.packet.is_none_or(|packet| !packet.reinjection);
        let newest = || self.flights.singles_for(other.id, path.id, flow.una).next_back();
        let (serial, packet) = if late || lost {
            first
        } else if flow.una < self.message_start {
            // Several messages are under way: each that arrives earlier is of use at once.
            let beaten = cx.now + s.expected + airtime;
            self.flights.first_after(other.id, flow.una, beaten).or_else(newest)?
        } else {
            newest()?
        };
        if packet.carried.contains(path.id) {
            return None;
        }
        let eta = if lost { q.arrival } else { self.left_of(cx, (other, q), packet) };
        let gain =
            if late { q.overdue_gain(s) } else { q.gain(s, eta, loss_chance(other, self.flights.late(other.id))) };
        let copy = Copy { path: path.id, serial, offset: packet.offset, gain, cost: Cost::Due };
        if late || eta.saturating_sub(s.expected) > airtime + s.rtt / SURE {
            return (gain > airtime).then_some(copy);
        }
        let (insurance, is_free) = self.insures(&(path, s), load)?;
        if is_free {
            return (gain > Span::ZERO).then_some(Copy { cost: Cost::Free, ..copy });
        }
        (gain > insurance.price(airtime, load)).then_some(Copy { cost: Cost::Paid, ..copy })
    }
}
