//! Copies: of data that block the message at hand, are overdue or lost, come sooner by another path, or may be lost
//! where nothing else is to be sent.

use weftway_path::{Context, Flow, Offset, Path, PathId, Span};

use super::estimate::loss_chance;
use super::in_flight::InFlightPacket;
use super::{EarliestDelivery, Forecast, Predicted, sooner};

/// A copy that should come sooner by an airtime and this part of a round trip is sure to: predictions are not better
/// than that.
const SURE: u64 = 4;

/// An open path, and another of whose packets it may carry copies.
type Pair<'a, 'b> = (Predicted<'a, 'b>, Predicted<'a, 'b>);

/// A copy that may go.
pub(super) struct Copy {
    pub path: PathId,
    pub serial: u64,
    pub offset: Offset,
    gain: Span,
    /// It goes although it costs other data something, and may not be needed.
    pub is_paid: bool,
}

impl EarliestDelivery {
    /// A copy of data that keep the message at hand from being delivered, on the open path that delivers first.
    #[inline(always)]
    pub(super) fn urgent(&self, cx: &Context<'_>, flow: &Flow, (path, s): Predicted<'_, '_>) -> Option<Copy> {
        if !self.options.copies {
            return None;
        }
        let rest = s.rate().transmission_time(flow.message_end.min(flow.end).since(flow.next));
        for (other, q) in self.predictions(cx).filter(|(other, _)| other.id != path.id) {
            if !self.is_silent(q) {
                // No packet gains more than this; mostly that is less than what is left of the message takes.
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
        let (oldest, gain, count) = if self.is_silent(q) {
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
        (gain > busy + rest).then_some(Copy { path: path.id, serial, offset: packet.offset, gain, is_paid: false })
    }

    /// Tells whether an acknowledgement from the path with this forecast has been overdue for more than a round trip.
    fn is_silent(&self, q: &Forecast) -> bool {
        q.overdue > q.rtt
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
        let carriers = self.carriers(cx)?;
        let load = self.load_permille(cx);
        let mut best: Option<Copy> = None;
        for other in self.predictions(cx).filter(|(other, _)| self.flights.may_be_copied(other.id)) {
            let mut pairs = carriers.iter().flatten().filter(|carrier| carrier.0.id != other.0.id);
            let copy = pairs.find_map(|&carrier| self.copy_for_pair(cx, flow, (carrier, other), load));
            if let Some(copy) = copy.filter(|copy| best.as_ref().is_none_or(|best| copy.gain > best.gain)) {
                best = Some(copy);
            }
        }
        best.or_else(|| self.probe(cx, flow))
    }

    /// The open path that delivers first, and the next: one of them carries the copy, whichever path delays a packet.
    fn carriers<'a>(&self, cx: &Context<'a>) -> Option<[Option<Predicted<'a, '_>>; 2]> {
        let first = self.first_open(cx)?;
        let others = self.serving_paths(cx).filter(|(path, _)| path.is_open() && path.id != first.0.id);
        Some([Some(first), others.reduce(sooner)])
    }

    /// A copy of the newest packet of another path, to ask a path that is not used what a round trip takes now.
    fn probe(&self, cx: &Context<'_>, flow: &Flow) -> Option<Copy> {
        let wants = |path: &Path| self.estimates.get(path.id).is_some_and(|known| known.wants_probe(cx.now, path));
        let path = self.serving_paths(cx).map(|(path, _)| path).find(|path| path.is_open() && wants(path))?;
        let others = cx.paths.iter().filter(|other| other.id != path.id);
        let (serial, packet) = others.filter_map(|other| self.flights.last_single(other.id, flow.una)).next()?;
        let (path, offset) = (path.id, packet.offset);
        (!packet.carried.contains(path)).then_some(Copy { path, serial, offset, gain: Span::ZERO, is_paid: false })
    }

    /// The copy for one pair of paths, if it pays.
    fn copy_for_pair(&self, cx: &Context<'_>, flow: &Flow, pair: Pair<'_, '_>, load: u64) -> Option<Copy> {
        let ((path, s), (other, q)) = pair;
        let airtime = s.copy_airtime();
        let late = !q.overdue.is_zero();
        let first = self.flights.first_single(other.id, flow.una);
        // Nothing new can be sent though the peer has room: the send buffer is full of what is not acknowledged.
        let is_full = || cx.packet.is_none() && flow.unsent < path.mss && flow.credit() >= path.mss;
        let arrived = || self.flights.first_arrived(other.id, flow.buffered_from());
        let first = first.or_else(|| (late && is_full()).then(arrived).flatten())?;
        // QUIC has handed lost data back: they come as the packet at hand.
        let lost = first.1.lost && cx.packet.is_none_or(|packet| !packet.reinjection);
        let newest = || self.flights.last_single(other.id, flow.una);
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
        let copy = Copy { path: path.id, serial, offset: packet.offset, gain, is_paid: false };
        if late || eta.saturating_sub(s.expected) > airtime + s.rtt / SURE {
            return (gain > airtime).then_some(copy);
        }
        let insurance = self.options.insurance?;
        // Where data wait for each other, as after slow start, nothing may have been sent lately.
        if insurance.is_free(load) && s.rtt < path.min_rtt * 2 {
            return (gain > Span::ZERO).then_some(copy);
        }
        let is_idle = path.unacked() < s.rate().bytes_in(path.min_rtt);
        let pays = is_idle && self.load.has_credit() && gain > insurance.price(airtime, load);
        pays.then_some(Copy { is_paid: true, ..copy })
    }
}
