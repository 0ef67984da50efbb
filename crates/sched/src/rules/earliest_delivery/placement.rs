//! Paths of fresh data and of lost data.

use weftway_path::{Bytes, Context, Decision, Flow};

use super::{EarliestDelivery, Predicted, sooner};

impl EarliestDelivery {
    /// Sends fresh data on the open path that delivers first, or waits. With lost data at hand, they go `ahead` of
    /// these.
    #[inline(always)]
    pub(super) fn place_fresh(
        &self,
        cx: &Context<'_>,
        flow: &Flow,
        (path, s): Predicted<'_, '_>,
        ahead: bool,
    ) -> Option<Decision> {
        if cx.packet.is_some_and(|packet| !packet.reinjection && packet.offset.plus(packet.bytes) > flow.edge) {
            return None;
        }
        let send = if ahead { Decision::Ahead(path.id, flow.next) } else { Decision::Send(path.id) };
        let before = self.delivered_before(cx, s);
        if before < path.mss {
            return Some(send);
        }
        if before >= flow.unsent {
            return (!self.options.waiting).then_some(send);
        }
        if !self.options.ahead {
            return Some(send);
        }
        let unsent = self.ahead.unsent(flow);
        let last = unsent.credit().min(flow.unsent).saturating_sub(path.mss);
        let position = before.min(last);
        if before.saturating_sub(position) + path.unacked() > flow.window() {
            return None;
        }
        match unsent.past(position) {
            at if at.plus(path.mss) > flow.edge => None,
            at if at <= flow.next => Some(send),
            at => Some(Decision::Ahead(path.id, at)),
        }
    }

    /// Sends lost data: the transport may want them off the paths that have carried them.
    #[inline(never)]
    pub(super) fn place_lost(&self, cx: &Context<'_>, flow: &Flow) -> Option<Decision> {
        let avoid = cx.packet?.avoid;
        let (first, _) = self.first_usable(cx, avoid)?;
        if first.is_open() {
            return Some(Decision::Send(first.id));
        }
        let open = self.serving_paths(cx).filter(|(path, _)| path.is_open() && !avoid.contains(path.id)).reduce(sooner);
        if let Some((path, s)) = open
            && self.delivered_before(cx, s) < self.flights.lost_bytes().max(path.mss)
        {
            return Some(Decision::Send(path.id));
        }
        let may = flow.unsent > Bytes::ZERO && flow.credit() >= first.mss;
        self.first_open(cx).filter(|_| may).and_then(|open| self.place_fresh(cx, flow, open, true))
    }
}
