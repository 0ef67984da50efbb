//! What the owner of a client's end calls, wherever local programs come from.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use weftway_mux::Mux;
use weftway_path::Instant;

use crate::proxy::Proxy;
use crate::view::FlowView;

/// The client's end: takes what local programs send, and has it carried.
pub trait Front {
    /// Where programs connect to, if there is such a place.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// Becomes readable when there is something to do, for [`Front::turn`].
    fn fd(&self) -> BorrowedFd<'_>;

    /// When the next turn is due, whatever programs do: the past, if it is due now.
    fn next_event(&self) -> Instant;

    /// Does what can be done without waiting. It is due when [`Front::fd`] is readable, [`Front::next_event`] has come, or the
    /// mux has taken in anything. Without a mux there is no connection to the relay, and programs wait for one.
    fn turn(&mut self, now: Instant, mux: Option<&mut Mux>);

    /// The connection to the relay is gone, and all streams with it.
    fn lost(&mut self, now: Instant);

    /// The connections that are carried.
    fn flows(&self) -> impl Iterator<Item = FlowView<'_>>;

    /// What programs were refused, by its name, and how often.
    fn refusals(&self) -> &BTreeMap<&'static str, u64>;

    /// Why there will be no more programs, if that is so.
    fn failure(&self) -> Option<&str> {
        None
    }
}

impl Front for Proxy {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses().collect()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }

    fn next_event(&self) -> Instant {
        self.next_event()
    }

    fn turn(&mut self, now: Instant, mux: Option<&mut Mux>) {
        self.turn(now, mux);
    }

    fn lost(&mut self, now: Instant) {
        self.lost(now);
    }

    fn flows(&self) -> impl Iterator<Item = FlowView<'_>> {
        self.flows()
    }

    fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        self.refusals()
    }
}
