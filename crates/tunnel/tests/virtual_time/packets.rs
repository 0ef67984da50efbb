//! Packets that make no sense, and all others.

use std::net::SocketAddr;

use proptest::prelude::*;
use smoltcp::wire::IpProtocol;
use weftway_path::Span;
use weftway_relay::{Class, Drops, Front};
use weftway_tunnel::{Names, PacketCounts};

use crate::datagrams::{datagram, packet};
use crate::fragments::fragment;
use crate::world::{Answer, World};

fn segment(flags: u8) -> Vec<u8> {
    let mut bytes = vec![0x13, 0x88, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, flags, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 180];
    bytes.extend([7; 30]);
    bytes
}

fn samples() -> Vec<Vec<u8>> {
    let mut all = vec![datagram(5000, "203.0.113.9:53", b"hello"), datagram(5000, "[2001:db8::9]:53", b"hello")];
    for (to, protocol) in [("203.0.113.9", IpProtocol::Icmp), ("2001:db8::9", IpProtocol::Icmpv6)] {
        let kind = if protocol == IpProtocol::Icmp { 8 } else { 128 };
        all.push(packet(to, protocol, &[kind, 0, 0, 0, 1, 2, 0, 1, 9]));
        // 21 bytes in two fragments.
        let server = SocketAddr::new(to.parse().unwrap(), 53).to_string();
        let whole = datagram(5000, &server, b"hello, hello!");
        all.extend([((0, 16), true), ((16, 21), false)].map(|(place, more)| fragment(&whole, place, more, 1)));
        // SYN, ACK, FIN, RST, and all of them.
        all.extend([0x02, 0x10, 0x11, 0x04, 0x3f].map(|flags| packet(to, IpProtocol::Tcp, &segment(flags))));
    }
    all
}

#[test]
fn what_is_not_carried_is_counted() {
    let mut world = World::new(Names::Relay);
    let first = |data: &[u8; 8]| {
        let mut bytes = datagram(5000, "203.0.113.9:53", data);
        bytes[6] = 0x20;
        bytes
    };
    // At the same place, and not the same.
    let (one, other) = (first(b"fragment"), first(b"together"));
    let mut truncated = datagram(5000, "203.0.113.9:53", b"hello");
    truncated.pop();
    let to_many = datagram(5000, "224.0.0.251:5353", b"hello");
    let nobody = datagram(5000, "[fe80::1]:53", b"hello");
    for bytes in
        [one, other, truncated, vec![], vec![0x50; 40], to_many, nobody, packet("203.0.113.9", IpProtocol::Igmp, b"")]
    {
        world.send(bytes);
    }
    assert_eq!(world.tunnel.counts(), PacketCounts { malformed: 3, fragments: 2, others: 3 });
    assert_eq!(world.tunnel.drops(), Drops::from([("malformed", 3), ("fragment", 2), ("not_carried", 3)]));
    assert!(world.tunnel.is_empty());
}

/// `ssh` marks what a shell sends as AF21, and `scp` as CS1. Port 22 is interactive without a mark.
#[test]
fn a_connection_is_of_the_class_that_its_first_packet_says() {
    for (mark, class) in [(0, Class::Interactive), (18, Class::Interactive), (8, Class::Bulk)] {
        let mut world = World::new(Names::Relay);
        let mut first = segment(0x02);
        first[2..4].copy_from_slice(&22u16.to_be_bytes());
        let mut bytes = packet("203.0.113.9", IpProtocol::Tcp, &first);
        bytes[1] = mark << 2;
        world.send(bytes);
        world.settle();
        let classes: Vec<_> = world.tunnel.flows().map(|flow| flow.class).collect();
        assert_eq!(classes, [class], "{mark}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_comes_nothing_breaks(
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0usize..90), 1..60
        ),
        noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..20),
        answer in prop_oneof![Just(Answer::Echo), Just(Answer::Refuse(5)), Just(Answer::Silence)]
    ) {
        let mut world = World::new(Names::Relay);
        world.answer = answer;
        let samples = samples();
        for (which, at, byte, end) in changes {
            let mut bytes = which.get(&samples).clone();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(end.max(1));
            world.packets.borrow_mut().to_tunnel.push_back(bytes);
            world.packets.borrow_mut().to_tunnel.push_back(which.get(&samples).clone());
            world.step();
        }
        for mut bytes in noise {
            if let Some(first) = bytes.first_mut() {
                *first = if *first & 1 == 0 { 0x45 } else { 0x60 };
            }
            world.packets.borrow_mut().to_tunnel.push_back(bytes);
        }
        world.settle();
        for _ in 0..40 {
            world.pass(Span::from_secs(10));
        }
    }
}
