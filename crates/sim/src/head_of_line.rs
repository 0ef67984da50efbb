//! Relief for data at the head that hold up the window: opportunistic retransmission and penalisation (Raiciu et al.,
//! NSDI 2012, section 4.2; multipath-tcp/mptcp `mptcp_rcv_buf_optimization`).
//!
//! Rule: where the window is shut, or the send buffer keeps the application waiting and all it holds is sent, the
//! fastest path that is open sends the first unacknowledged packet once more, and the slower paths that hold it halve
//! their windows, at most once a round trip. Of a send buffer only one that is full penalises
//! (`sk_stream_memory_free`).
//! State: [`crate::ends::HeadOfLine`].

use weftway_host::sending::assign;
use weftway_path::{Instant, PathId, PathSet, Recovery, SendKind};

use crate::connection::Connection;
use crate::net::Net;
use crate::port::Port;

impl Connection {
    /// Rules for the head of the line: whether its data are repeated, and whether others are penalised.
    #[inline]
    fn head_of_line_rules(&self) -> (bool, bool) {
        let rules = self.dispatch.host.rules;
        let applies = self.transport.rules.relieves_window;
        (
            applies && self.transport.opportunistic.unwrap_or(rules.opportunistic),
            applies && self.transport.penalise.unwrap_or(rules.penalise),
        )
    }

    /// Data are held up, `by_window` or by the send buffer.
    #[inline]
    pub(crate) fn free_head(&mut self, net: &mut Net, now: Instant, by_window: bool) {
        let rules = self.head_of_line_rules();
        if rules.0 || rules.1 {
            self.free_head_by(rules, net, now, by_window);
        }
    }

    /// Frees the head by these rules.
    #[inline(never)]
    fn free_head_by(&mut self, (opportunistic, penalise): (bool, bool), net: &mut Net, now: Instant, by_window: bool) {
        let full = self.send.writer.is_full(self.dispatch.outbox.una());
        let Some((number, head)) = self.dispatch.outbox.chunks().next().map(|(number, chunk)| (number, *chunk)) else {
            return;
        };
        let Some(fastest) = self.send.head_of_line.fastest_open(&self.dispatch) else { return };
        let holders = head.carried.and(self.dispatch.views.set());
        let srtt = self.dispatch.views.get(fastest).srtt;
        let since = now.since(self.send.head_of_line.penalised[fastest.index()]);
        if penalise && (by_window || full) && since >= srtt {
            self.penalise(net, now, fastest, holders);
        }
        if !opportunistic || head.carried.contains(fastest) || !head.sent {
            return;
        }
        let mut worth = false;
        for id in holders.iter() {
            let holder = self.dispatch.views.get(id);
            if holder.cwnd.get() <= 4 * holder.mss.get() {
                worth = true;
                break;
            }
            worth = srtt * 4 < holder.srtt;
            if !worth {
                break;
            }
        }
        if worth {
            assign(&mut Port { conn: self, net, now }, fastest, number, SendKind::Duplicate);
        }
    }

    /// The paths of `holders` that are slower than path `fastest` halve their windows.
    pub(crate) fn penalise(&mut self, net: &mut Net, now: Instant, fastest: PathId, holders: PathSet) {
        let srtt = self.dispatch.views.get(fastest).srtt;
        for id in holders.without(fastest).iter() {
            let holder = self.dispatch.views.get(id);
            if srtt < holder.srtt && holder.recovery == Recovery::Open {
                let (sender, mut ctx) = self.send_context(net, now, id);
                sender.cc.on_penalty();
                sender.publish(&mut ctx);
                self.refresh(net, now, id);
                self.send.head_of_line.penalised[fastest.index()] = now;
                if self.transport.penalise_first_only {
                    return;
                }
            }
        }
    }
}
