//! UDP, echo requests, and questions to servers of names.

use std::net::SocketAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, UdpPacket, UdpRepr,
};
use weftway_path::Span;
use weftway_relay::{Drops, Front};
use weftway_tunnel::Names;

use crate::world::{Answer, OWN, World};

/// A packet with `payload`.
pub fn packet(to: &str, protocol: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let caps = ChecksumCapabilities::default();
    let (next_header, payload_len, hop_limit) = (protocol, payload.len(), 64);
    let mut bytes = if to.contains(':') {
        let (src_addr, dst_addr) = (OWN[1].parse().unwrap(), to.parse().unwrap());
        let repr = Ipv6Repr { src_addr, dst_addr, next_header, payload_len, hop_limit };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut Ipv6Packet::new_unchecked(&mut bytes));
        bytes
    } else {
        let (src_addr, dst_addr) = (OWN[0].parse().unwrap(), to.parse().unwrap());
        let repr = Ipv4Repr { src_addr, dst_addr, next_header, payload_len, hop_limit };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut Ipv4Packet::new_unchecked(&mut bytes), &caps);
        bytes
    };
    bytes.extend(payload);
    bytes
}

/// A datagram from a port of the machine.
pub fn datagram(from: u16, to: &str, data: &[u8]) -> Vec<u8> {
    let to: SocketAddr = to.parse().unwrap();
    let repr = UdpRepr { src_port: from, dst_port: to.port() };
    let mut bytes = vec![0; repr.header_len() + data.len()];
    let own = OWN[usize::from(to.is_ipv6())].parse().unwrap();
    let caps = ChecksumCapabilities::default();
    repr.emit(
        &mut UdpPacket::new_unchecked(&mut bytes[..]),
        &own,
        &to.ip().into(),
        data.len(),
        |payload| payload.copy_from_slice(data),
        &caps,
    );
    packet(&to.ip().to_string(), IpProtocol::Udp, &bytes)
}

/// What a datagram for a program says: where it comes from, to which port, and its data. Its checksums hold.
pub fn told(bytes: &[u8]) -> (SocketAddr, u16, Vec<u8>) {
    let (from, to, at) = if bytes[0] >> 4 == 4 {
        let ip = Ipv4Packet::new_checked(bytes).unwrap();
        assert!(ip.verify_checksum());
        (ip.src_addr().into(), ip.dst_addr().into(), 20)
    } else {
        let ip = Ipv6Packet::new_checked(bytes).unwrap();
        (ip.src_addr().into(), ip.dst_addr().into(), 40)
    };
    let udp = UdpPacket::new_checked(&bytes[at..]).unwrap();
    let ends: (std::net::IpAddr, std::net::IpAddr) = (from, to);
    assert!(udp.verify_checksum(&ends.0.into(), &ends.1.into()));
    (SocketAddr::new(ends.0, udp.src_port()), udp.dst_port(), udp.payload().to_vec())
}

/// What the streams are for that somebody uses, and what all are.
fn targets(world: &World) -> Vec<String> {
    world.tunnel.flows().map(|flow| flow.purpose.to_string()).collect()
}

#[test]
fn a_datagram_comes_back_from_where_it_was_sent_to() {
    for (server, head) in [("203.0.113.9:7000", 7), ("[2001:db8::9]:7000", 19)] {
        // What one record holds, and what needs two.
        for length in [0, 5, 1000, 1452] {
            let mut world = World::new(Names::Relay);
            let data = vec![3; length];
            world.send(datagram(5000, server, &data));
            world.settle();
            assert_eq!(targets(&world), ["udp:"]);
            let came: usize = world.datagrams.iter().map(Vec::len).sum();
            let pieces = world.datagrams.len();
            assert_eq!((pieces, came), if length < 1100 { (1, head + length) } else { (2, head + length + 8) });
            let others: Vec<_> = world.others.iter().map(|packet| told(packet)).collect();
            assert_eq!(others, [(server.parse().unwrap(), 5000, data)]);
        }
    }
}

#[test]
fn a_port_has_one_stream_and_each_port_its_own() {
    let mut world = World::new(Names::Relay);
    for (from, to) in [(5000, "203.0.113.9:1"), (5000, "203.0.113.10:2"), (5001, "203.0.113.9:1")] {
        world.send(datagram(from, to, b"hello"));
    }
    assert_eq!(targets(&world), ["udp:", "udp:"]);
    assert_eq!(world.others.len(), 3);
}

#[test]
fn only_the_first_port_waits_for_the_relays_word() {
    for (server, target) in [("203.0.113.9:7000", "udp:"), ("192.168.1.1:53", "dns:")] {
        let mut world = World::new(Names::Relay);
        world.send(datagram(5000, server, b"one"));
        world.settle();
        // From now on the relay says nothing of further streams. Two are open already.
        world.answer = Answer::Silence;
        for port in 5001..5004 {
            world.send(datagram(port, server, b"next"));
        }
        world.settle();
        assert_eq!(world.datagrams.len(), 3);
        assert_eq!(targets(&world), [target; 3]);
    }
}

/// A connection whose bytes come back. 40 000 each way are more than what is interactive of it, 20 000 are not.
#[test]
fn beside_a_long_connection_the_first_datagram_does_not_wait_for_the_relays_word() {
    for (count, came) in [(20_000, 0), (40_000, 1)] {
        let mut world = World::new(Names::AsTheyAre);
        let program = world.connect("203.0.113.9:80", 5000);
        world.settle();
        assert_eq!(world.socket(program).send_slice(&vec![7; count]), Ok(count));
        for _ in 0..20 {
            world.pass(Span::from_millis(1));
            let socket = world.socket(program);
            if socket.can_recv() {
                socket.recv(|bytes| (bytes.len(), ())).unwrap();
            }
        }
        // Its streams are there as long as the connection is.
        for _ in 0..10 {
            world.pass(Span::from_secs(60));
        }
        world.answer = Answer::Silence;
        world.send(datagram(5000, "203.0.113.9:7000", b"hello"));
        assert_eq!(world.datagrams.len(), came, "{count} bytes");
    }
}

#[test]
fn a_stream_that_is_open_already_is_for_what_it_was_opened_for() {
    let mut world = World::new(Names::Relay);
    for (port, to, target) in
        [(5000, "203.0.113.9:1", "udp:"), (5001, "192.168.1.1:53", "dns:"), (5002, "203.0.113.9:1", "udp:")]
    {
        world.send(datagram(port, to, b"hello"));
        world.settle();
        assert!(targets(&world).contains(&target.to_owned()), "{target}");
    }
    let mut all = targets(&world);
    all.sort();
    assert_eq!(all, ["dns:", "udp:", "udp:"]);
}

#[test]
fn a_datagram_that_has_waited_too_long_for_the_relay_is_dropped() {
    let mut world = World::new(Names::Relay);
    world.is_connected = false;
    for _ in 0..16 {
        world.send(datagram(5000, "203.0.113.9:7000", b"old"));
    }
    world.pass(Span::from_secs(1));
    world.send(datagram(5000, "203.0.113.9:7000", b"new"));
    world.pass(Span::from_millis(100));
    world.is_connected = true;
    world.settle();
    let datas: Vec<_> = world.others.iter().map(|packet| told(packet).2).collect();
    assert_eq!(datas, [b"new".to_vec()]);
    let drops = world.tunnel.drops();
    assert_eq!((drops.get("late"), drops.get("no_room")), (Some(&16), None));
}

/// Sixteen wait for the relay's word. What was dropped stays counted when the port's stream is over.
#[test]
fn datagrams_that_find_no_room_are_counted() {
    let mut world = World::new(Names::Relay);
    world.answer = Answer::Silence;
    for _ in 0..19 {
        world.send(datagram(5000, "203.0.113.9:1", b"hello"));
    }
    assert_eq!(world.tunnel.drops(), Drops::from([("no_room", 3)]));
    world.pass(Span::from_secs(40));
    assert!(world.tunnel.is_empty());
    assert_eq!(world.tunnel.drops(), Drops::from([("no_room", 3)]));
}

#[test]
fn streams_that_nobody_uses_end() {
    let mut world = World::new(Names::Relay);
    world.send(datagram(5000, "203.0.113.9:1", b"hello"));
    world.pass(Span::from_secs(100));
    // What comes back counts, too.
    let (&id, now) = (world.streams.keys().next().unwrap(), world.now);
    let late = [&[1, 203, 0, 113, 9, 0, 1][..], b"late"].concat();
    world.muxes[1].send_datagram(now, id, 0, Some(Span::from_secs(1)), late.into()).unwrap();
    world.settle();
    assert_eq!(world.others.len(), 2);
    world.pass(Span::from_secs(119));
    assert_eq!(world.tunnel.flows().count(), 1);
    world.pass(Span::from_secs(2));
    assert!(world.tunnel.is_empty() && world.streams.values().all(|stream| stream.is_reset));
}

#[test]
fn the_port_that_was_used_longest_ago_makes_room() {
    let mut world = World::new(Names::Relay);
    for port in 0..300 {
        world.now += Span::from_millis(1);
        world.send(datagram(5000 + port, "203.0.113.9:1", b"hello"));
        if port == 200 {
            world.send(datagram(5000, "203.0.113.9:1", b"hello"));
        }
    }
    world.settle();
    assert_eq!(world.tunnel.len(), 240);
    let reset: Vec<_> = world.streams.values().map(|stream| stream.is_reset).collect();
    // Of 300 streams 60 have ended; the first was used again.
    assert_eq!(reset.iter().filter(|&&is_reset| is_reset).count(), 60);
    assert!(!reset[0] && reset[1] && reset[60] && !reset[61]);
}

#[test]
fn questions_to_private_servers_are_answered_in_their_place() {
    for (names, target, to) in [
        (Names::Relay, "dns:", [192, 168, 1, 1]),
        (Names::Server("203.0.113.53:53".parse().unwrap()), "udp:", [203, 0, 113, 53]),
        (Names::AsTheyAre, "udp:", [192, 168, 1, 1]),
    ] {
        let mut world = World::new(names);
        world.send(datagram(5000, "192.168.1.1:53", b"question"));
        world.settle();
        assert_eq!(targets(&world), [target]);
        // An address of IPv4 of class 1 (interactive), and port 53.
        assert_eq!(world.datagrams, [[&[0x11][..], &to, &[0, 53], b"question"].concat()]);
        let (from, port, data) = told(&world.others[0]);
        assert_eq!((from.to_string().as_str(), port, &data[..]), ("192.168.1.1:53", 5000, &b"question"[..]));
    }
}

#[test]
fn questions_to_public_servers_and_other_datagrams_to_private_ones_go_where_they_say() {
    let mut world = World::new(Names::Relay);
    world.send(datagram(5000, "9.9.9.9:53", b"question"));
    world.send(datagram(5001, "192.168.1.1:54", b"question"));
    assert_eq!(targets(&world), ["udp:", "udp:"]);
}

#[test]
fn an_echo_request_is_answered() {
    let mut world = World::new(Names::Relay);
    let request = Icmpv4Repr::EchoRequest { ident: 0x1234, seq_no: 0, data: b"payload" };
    let mut bytes = vec![0; request.buffer_len()];
    request.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes[..]), &ChecksumCapabilities::default());
    world.send(packet("203.0.113.9", IpProtocol::Icmp, &bytes));
    world.settle();
    assert_eq!(targets(&world), ["echo:"]);
    assert_eq!(world.datagrams, [[&[1, 203, 0, 113, 9, 0, 7, 0, 0][..], b"payload"].concat()]);
    let reply = Icmpv4Packet::new_checked(&world.others[0][20..]).unwrap();
    assert!(reply.verify_checksum());
    let reply = Icmpv4Repr::parse(&reply, &ChecksumCapabilities::default()).unwrap();
    assert_eq!(reply, Icmpv4Repr::EchoReply { ident: 0x1234, seq_no: 0, data: b"payload" });
}

#[test]
fn a_relay_that_may_not_ping_says_so() {
    let mut world = World::new(Names::Relay);
    // No such command.
    world.answer = Answer::Refuse(7);
    world.send(packet("203.0.113.9", IpProtocol::Icmp, &[8, 0, 0, 0, 1, 2, 0, 1, 9]));
    world.settle();
    // Not allowed; behind 8 bytes the request.
    assert_eq!(world.others[0][20..22], [3, 13]);
    assert_eq!(world.others[0][48..], [8, 0, 0, 0, 1, 2, 0, 1, 9]);
    assert!(world.tunnel.is_empty());
}

/// The first byte of what the tunnel sends has the class in its upper half.
#[test]
fn a_datagram_is_of_the_class_that_its_mark_says() {
    for (mark, class) in [(0, 0), (46, 0), (8, 2), (1, 2)] {
        let mut world = World::new(Names::AsTheyAre);
        let mut bytes = datagram(5000, "203.0.113.9:7000", b"hello");
        bytes[1] = mark << 2;
        world.send(bytes);
        world.settle();
        assert_eq!(world.datagrams.last().map(|bytes| bytes[0] >> 4), Some(class), "{mark}");
    }
}
