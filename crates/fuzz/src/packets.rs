//! IP packets of programs, as `weft tunnel` reads them from its device.

use std::collections::VecDeque;
use std::io::{Stdin, stdin};
use std::os::fd::{AsFd, BorrowedFd};

use weftway_mux::{Limits, Mux, Side};
use weftway_path::Instant;
use weftway_relay::{Classes, Front, ProxyLimits};
use weftway_tunnel::{Device, Names, Tunnel};

/// A device that has packets, and drops what it is given.
struct Shown<'a> {
    packets: VecDeque<&'a [u8]>,
    /// Any descriptor: nobody waits for it.
    nothing: Stdin,
}

impl Device for Shown<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.nothing.as_fd()
    }

    fn receive(&mut self, packet: &mut [u8]) -> Option<usize> {
        let next = self.packets.pop_front()?;
        packet[..next.len()].copy_from_slice(next);
        Some(next.len())
    }

    fn failure(&self) -> Option<&str> {
        None
    }

    fn send(&mut self, _: &[u8], _: Option<u16>) {}
}

/// A tunnel whose programs have sent these packets, each behind its length.
fn tunnel(bytes: &[u8]) -> Tunnel<Shown<'_>> {
    let mut packets = VecDeque::new();
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let (packet, behind) = behind.split_at(usize::from(u16::from_be_bytes(*length)).min(behind.len()));
        packets.push_back(packet);
        rest = behind;
    }
    let device = Shown { packets, nothing: stdin() };
    Tunnel::new(device, 1500, Names::Relay, ProxyLimits::default(), Classes::default(), 1)
}

/// Lets a tunnel read them, and do what it has to do for three seconds.
pub fn run(bytes: &[u8]) {
    let mut tunnel = tunnel(bytes);
    let limits = Limits::default();
    let Ok(mut mux) = Mux::new(Side::Connecting, limits, limits) else { return };
    for second in 0..3 {
        tunnel.turn(Instant::from_millis(1000 * second), Some(&mut mux));
    }
}

/// From 10.7.0.2, or fd00::2, to 192.0.2.7, or 2001:db8::7.
fn packet(protocol: u8, payload: &[u8], is_v6: bool) -> Vec<u8> {
    let own = |last: u8| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let theirs = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let length = payload.len() as u8;
    let head = if is_v6 {
        [&[0x60, 0, 0, 0, 0, length, protocol, 64][..], &own(2), &theirs].concat()
    } else {
        vec![0x45, 0, 0, 20 + length, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 7, 0, 2, 192, 0, 2, 7]
    };
    let bytes = [head.as_slice(), payload].concat();
    [&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat()
}

/// A packet in two fragments: one of the first eight bytes of `payload`, and one of the rest.
fn fragments(protocol: u8, payload: &[u8], is_v6: bool) -> Vec<u8> {
    let part = |data: &[u8], offset: u8, more: bool| {
        if is_v6 {
            let head = [protocol, 0, 0, offset | u8::from(more), 0, 0, 0, 5];
            return packet(44, &[&head[..], data].concat(), true);
        }
        let mut bytes = packet(protocol, data, false);
        // Behind the length of two bytes.
        bytes[2 + 6] = if more { 0x20 } else { 0 };
        bytes[2 + 7] = offset / 8;
        bytes
    };
    let (first, rest) = payload.split_at(8);
    [part(first, 0, true), part(rest, 8, false)].concat()
}

/// Packets as programs send them: a connection that begins and is reset, a question for a name, whole and in fragments,
/// a ping; by IPv4 and by IPv6.
pub fn accepted() -> Vec<Vec<u8>> {
    let tcp =
        |flags: u8| [0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, flags, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4];
    let udp = [0x9c, 0x41, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
    let of = |is_v6: bool| {
        let ping = [if is_v6 { 128 } else { 8 }, 0, 0, 0, 0, 9, 0, 1, 7, 7];
        let connection = [packet(6, &tcp(2), is_v6), packet(6, &tcp(4), is_v6)].concat();
        let (question, cut) = (packet(17, &udp, is_v6), fragments(17, &udp, is_v6));
        [connection, question, cut, packet(if is_v6 { 58 } else { 1 }, &ping, is_v6)]
    };
    [of(false), of(true)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_programs_are_carried() {
        for packets in accepted() {
            let mut tunnel = tunnel(&packets);
            tunnel.turn(Instant::ZERO, None);
            let counts = tunnel.counts();
            assert_eq!((counts.malformed, counts.fragments, counts.others), (0, 0, 0), "{packets:x?}");
        }
    }
}
