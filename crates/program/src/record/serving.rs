//! The end that listens, over its socket.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

use super::listening::{Host, Out};
use super::places::{self, Back};
use super::waiting;
use super::wire::{Ns, SECOND_NS};

/// An interrupt is seen after this time.
const LOOK_NS: Ns = SECOND_NS / 4;

/// Answers one recording after another until `stop` says so.
pub fn serve(opened: &UdpSocket, cap: u64, secret: &[u8], tell: impl FnMut(&str), stop: impl Fn() -> bool) {
    places::hurry();
    let mut host = Host::new(cap, secret, tell);
    let mut backs: BTreeMap<SocketAddr, Back> = BTreeMap::new();
    let mut waiting_out = Out::new();
    while !stop() {
        let now_ns = places::now_ns();
        let out = if waiting_out.is_empty() { host.due(now_ns) } else { std::mem::take(&mut waiting_out) };
        waiting_out = send(opened, out, &backs);
        if host.session.is_none() {
            backs.clear();
        }
        let is_full = !waiting_out.is_empty();
        let wait_ns = if is_full { SECOND_NS } else { host.wake_ns(now_ns) - places::now_ns() };
        waiting::wait(&[(opened, is_full)], wait_ns.min(LOOK_NS));
        for one in places::received(opened) {
            let answers = host.receive(places::now_ns(), one.arrived_ns, &one.data, one.address);
            if !answers.is_empty() && host.is_peer(one.address) {
                backs.insert(one.address, one.back);
            }
            for (data, address) in answers {
                places::send(opened, &data, address, &one.back);
            }
        }
    }
}

/// Sends; returns what the socket does not take.
fn send(opened: &UdpSocket, mut out: Out, backs: &BTreeMap<SocketAddr, Back>) -> Out {
    let back_to = |address| backs.get(address).copied().unwrap_or_default();
    let taken =
        out.iter().take_while(|(data, address)| places::send(opened, data, *address, &back_to(address))).count();
    out.split_off(taken)
}
