//! Windows that somebody outside of the simulation sets, in place of a controller.

use weftway_cc::{Acked, Congestion, Controller, Share, Siblings};
use weftway_path::{BitRate, Bytes, Instant, PathId, Span};

use crate::Sim;
use crate::connection::Connection;
use crate::net::Net;
use crate::sender::Repair;

/// Controller whose window stays as it was made, whatever is acknowledged or lost.
#[derive(Clone)]
struct Held {
    path: PathId,
    mss: Bytes,
    cwnd: Bytes,
}

impl Controller for Held {
    fn on_acked(&mut self, _: &Acked, _: Siblings<'_>) {}

    fn ignores(&self, _: &Congestion) -> bool {
        true
    }

    fn on_congestion(&mut self, _: &Congestion, _: Siblings<'_>) {}

    fn cwnd(&self) -> Bytes {
        self.cwnd
    }

    /// Neither a recovery nor a timeout sets it.
    fn set_cwnd(&mut self, _: Bytes) {}

    /// The window: it is not in slow start, which would double it.
    fn ssthresh(&self) -> Bytes {
        self.cwnd
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn share(&self) -> Share {
        Share {
            path: self.path,
            cwnd: self.cwnd,
            mss: self.mss,
            srtt: Span::ZERO,
            inter_loss: Bytes::ZERO,
            bandwidth: BitRate::ZERO,
            link_rate: BitRate::ZERO,
            steady: true,
            bottleneck: None,
            contended: false,
            usable: true,
        }
    }
}

impl Sim {
    /// Sets the window of path `id` of the connection under test, in place of its controller. It stays so until it is
    /// set again, or until the path comes up anew.
    pub fn hold_window(&mut self, id: PathId, window: Bytes) {
        let now = self.now();
        let (net, conn, turn) = self.parts();
        if conn.hold_window(net, now, id, window) {
            turn.get_or_insert(0);
        }
    }
}

impl Connection {
    /// Sets the window of path `id`; returns true if that changed it.
    fn hold_window(&mut self, net: &mut Net, now: Instant, id: PathId, cwnd: Bytes) -> bool {
        let mss = self.transport.mss;
        let (sender, mut ctx) = self.send_context(net, now, id);
        if sender.cc.cwnd() == cwnd {
            return false;
        }
        sender.hold(Box::new(Held { path: id, mss, cwnd }), ctx.transport);
        sender.publish(&mut ctx);
        self.serve(net, now, id, Repair::Nothing);
        self.wake();
        true
    }
}
