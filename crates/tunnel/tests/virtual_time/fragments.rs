//! Packets that are too long for the device, and come and go in fragments.

use weftway_path::Span;
use weftway_relay::{Drops, Front};
use weftway_tunnel::{Names, PacketCounts};

use crate::datagrams::{datagram, told};
use crate::world::World;

const SERVERS: [&str; 2] = ["203.0.113.9:7000", "[2001:db8::9]:7000"];

/// The part `from..to` of what a packet carries, as a fragment. `more` says that others follow.
pub fn fragment(packet: &[u8], (from, to): (usize, usize), more: bool, number: u8) -> Vec<u8> {
    let length = (to - from) as u16;
    if packet[0] >> 4 == 4 {
        let mut bytes = [&packet[..20], &packet[20 + from..20 + to]].concat();
        bytes[2..4].copy_from_slice(&(20 + length).to_be_bytes());
        bytes[5] = number;
        // In units of eight bytes, behind three flags of which the last is set.
        bytes[6..8].copy_from_slice(&((from / 8) as u16 + if more { 0x2000 } else { 0 }).to_be_bytes());
        return bytes;
    }
    // In units of eight bytes, before three flags of which the last is set.
    let [high, low] = ((from / 8 * 8) as u16 + u16::from(more)).to_be_bytes();
    let mut bytes = [&packet[..40], &[packet[6], 0, high, low, 0, 0, 0, number], &packet[40 + from..40 + to]].concat();
    bytes[4..6].copy_from_slice(&(8 + length).to_be_bytes());
    bytes[6] = 44;
    bytes
}

/// A datagram of `length` bytes from port 5000, in fragments as the kernel cuts it for 1500 bytes: of 1480 or 1448
/// bytes.
fn fragments(server: &str, length: usize, number: u8) -> Vec<Vec<u8>> {
    let packet = datagram(5000, server, &data(length));
    let (room, whole) = if server.starts_with('[') { (1448, packet.len() - 40) } else { (1480, packet.len() - 20) };
    let places = (0..whole).step_by(room).map(|from| (from, whole.min(from + room)));
    places.map(|place| fragment(&packet, place, place.1 < whole, number)).collect()
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * at % 251) as u8).collect()
}

/// A packet of these fragments. Each is as long as the device takes, their offsets are without gaps, and all have one
/// number.
fn joined(fragments: &[Vec<u8>]) -> Vec<u8> {
    let is_v4 = fragments[0][0] >> 4 == 4;
    let mut whole = fragments[0][..if is_v4 { 20 } else { 40 }].to_vec();
    let head = whole.len();
    for (at, bytes) in fragments.iter().enumerate() {
        let is_last = at + 1 == fragments.len();
        let (place, number, begin) =
            if is_v4 { (&bytes[6..8], &bytes[4..6], 20) } else { (&bytes[42..44], &bytes[44..48], 48) };
        let place = usize::from(u16::from_be_bytes([place[0], place[1]]));
        let (offset, more) =
            if is_v4 { (place % 0x2000 * 8, place & 0x2000 != 0) } else { (place / 8 * 8, place & 1 != 0) };
        assert_eq!((offset, more), (whole.len() - head, !is_last));
        assert_eq!(number, if is_v4 { &fragments[0][4..6] } else { &fragments[0][44..48] });
        assert!(bytes.len() <= 1500 && (is_last || bytes.len() > 1490));
        whole.extend(&bytes[begin..]);
    }
    let length = whole.len() as u16;
    if is_v4 {
        whole[2..4].copy_from_slice(&length.to_be_bytes());
        whole[6..8].fill(0);
        let mut ip = smoltcp::wire::Ipv4Packet::new_unchecked(&mut whole[..]);
        ip.fill_checksum();
    } else {
        whole[4..6].copy_from_slice(&(length - 40).to_be_bytes());
        whole[6] = fragments[0][40];
    }
    whole
}

/// Other packets do not count: the played machine answers fragments of IPv6 by ICMP, which is not carried.
fn is_nothing_lost(world: &World) -> bool {
    let PacketCounts { malformed, fragments, .. } = world.tunnel.counts();
    (malformed, fragments) == (0, 0)
}

/// 2008 bytes of UDP are two fragments, 4408 are three in IPv4 and four in IPv6 (3 × 1448 = 4344).
#[test]
fn a_datagram_in_fragments_is_carried_and_comes_back_in_fragments() {
    for (server, length, count) in
        [(SERVERS[0], 2000, 2), (SERVERS[1], 2000, 2), (SERVERS[0], 4400, 3), (SERVERS[1], 4400, 4)]
    {
        for backwards in [false, true] {
            let mut world = World::new(Names::Relay);
            let mut sent = fragments(server, length, 7);
            if backwards {
                sent.reverse();
            }
            assert_eq!(sent.len(), count);
            sent.into_iter().for_each(|fragment| world.send(fragment));
            world.settle();
            assert_eq!(world.others.len(), count, "{server} {length}");
            assert_eq!(told(&joined(&world.others)), (server.parse().unwrap(), 5000, data(length)));
            assert!(is_nothing_lost(&world));
        }
    }
}

/// The kernel of this machine, too, puts them together by their numbers.
#[test]
fn each_datagram_in_fragments_has_a_number_of_its_own() {
    let mut world = World::new(Names::Relay);
    for number in 0..3 {
        fragments(SERVERS[0], 2000, number).into_iter().for_each(|fragment| world.send(fragment));
    }
    world.settle();
    let mut numbers: Vec<_> = world.others.chunks(2).map(|pair| joined(pair)[4..6].to_vec()).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), 3);
}

#[test]
fn fragments_of_several_datagrams_are_told_apart_and_repeated_ones_ignored() {
    for server in SERVERS {
        let mut world = World::new(Names::Relay);
        let [one, other] = [1, 2].map(|number| fragments(server, 2000, number));
        for packet in [&one[0], &other[1], &one[0], &other[1], &other[0], &one[1]] {
            world.send(packet.clone());
        }
        world.settle();
        assert_eq!(world.others.len(), 4);
        assert!(is_nothing_lost(&world));
    }
}

/// RFC 5722: the datagram is dropped, and so is what comes of it later. The first and the third fragment of each line
/// would be whole.
#[test]
fn a_datagram_with_fragments_that_contradict_each_other_is_dropped() {
    let (whole, end) = ((0, 48, true), (48, 104, false));
    for [first, second, third] in [
        // It overlaps one of the others, or both.
        [whole, (40, 56, true), end],
        [whole, (0, 40, true), end],
        [end, (96, 104, true), whole],
        // Two ends; something behind the end; an end before something.
        [end, (48, 96, false), whole],
        [(48, 96, false), (96, 104, true), whole],
        [(96, 104, true), (48, 96, false), whole],
    ] {
        for server in SERVERS {
            let (mut world, packet) = (World::new(Names::Relay), datagram(5000, server, &data(96)));
            for (from, to, more) in [first, second, third] {
                world.send(fragment(&packet, (from, to), more, 1));
            }
            assert!(world.others.is_empty() && world.tunnel.is_empty(), "{server} {second:?}");
            assert_eq!(world.tunnel.drops(), Drops::from([("fragment", 3)]), "{server} {second:?}");
        }
    }
}

/// Seventeen that miss their ends: the first makes room. After 30 seconds the others are given up, when the next comes.
#[test]
fn what_misses_fragments_is_bounded_in_number_and_time() {
    let mut world = World::new(Names::Relay);
    for number in 0..17 {
        world.send(fragments(SERVERS[0], 2000, number)[0].clone());
    }
    assert_eq!(world.tunnel.drops(), Drops::from([("fragment", 1)]));
    world.pass(Span::from_secs(30));
    world.send(fragments(SERVERS[0], 2000, 16)[1].clone());
    world.settle();
    assert_eq!(world.others.len(), 2);
    world.pass(Span::from_secs(1));
    world.send(fragments(SERVERS[0], 2000, 1)[1].clone());
    assert_eq!(world.tunnel.drops(), Drops::from([("fragment", 16)]));
    assert_eq!(world.others.len(), 2);
}

#[test]
fn fragments_that_make_no_sense_are_malformed() {
    for server in SERVERS {
        let mut world = World::new(Names::Relay);
        let packet = datagram(5000, server, &data(92));
        // Not a multiple of eight bytes before others; none at all; beyond the longest packet.
        world.send(fragment(&packet, (0, 47), true, 1));
        world.send(fragment(&packet, (48, 48), true, 2));
        let mut beyond = fragment(&packet, (48, 100), false, 3);
        let at = if server.starts_with('[') { 42 } else { 6 };
        beyond[at..at + 2].copy_from_slice(&if at == 6 { 0x1fff_u16 } else { 0xfff8 }.to_be_bytes());
        world.send(beyond);
        assert_eq!(world.tunnel.counts(), PacketCounts { malformed: 3, fragments: 0, others: 0 });
    }
    // A fragment of IPv6 in fragments: 32 and 16 bytes.
    let mut world = World::new(Names::Relay);
    let inner = fragment(&datagram(5000, SERVERS[1], &data(32)), (0, 40), true, 9);
    for place in [(0, 32), (32, 48)] {
        world.send(fragment(&inner, place, place.0 == 0, 1));
    }
    assert_eq!(world.tunnel.counts(), PacketCounts { malformed: 1, fragments: 0, others: 0 });
    assert!(world.tunnel.is_empty());
}
