//! Tests of classes: an urgent one goes first, and starves no other.

use bytes::Bytes as Payload;
use weftway_mux::{Limits, Mux, Read, Ready, Side, StreamId};
use weftway_path::{Bytes, Instant, Offset, Span};

use crate::network::{Network, PathSpec};

const PATH: PathSpec = PathSpec { mbps: 50, delay: Span::from_millis(10), loss: 0.0, jitter: Span::ZERO, mtu: 1200 };
/// Time that a full record takes on the link, with the head of a packet.
const RECORD: Span = Span::from_nanos((1200 + 60) * 8 * 1000 / 50);
/// Bytes that wait at most for a program that sends datagrams as fast as it can.
const MOST_UNSENT: Bytes = Bytes::new(1 << 20);

/// A sender of datagrams beside a stream whose writer always has more.
struct Beside {
    network: Network,
    bulk: StreamId,
    flow: StreamId,
    /// Bytes that arrived.
    read: u64,
    datagrams: u64,
}

impl Beside {
    fn new(bulk_class: u8) -> Self {
        let mut network = Network::new(&[PATH], Limits::default(), 11);
        let mux = &mut network.ends[0].mux;
        let bulk = mux.open(network.now, bulk_class, b"", None).unwrap();
        let flow = mux.open(network.now, 0, b"udp:", None).unwrap();
        Self { network, bulk, flow, read: 0, datagrams: 0 }
    }

    fn mux(&mut self) -> &mut Mux {
        &mut self.network.ends[0].mux
    }

    fn send(&mut self, bytes: usize) {
        let (now, flow) = (self.network.now, self.flow);
        if self.mux().unsent_datagrams() < MOST_UNSENT {
            let deadline = Some(Span::from_millis(500));
            self.mux().send_datagram(now, flow, 0, deadline, vec![0; bytes].into()).unwrap();
        }
    }

    /// Runs to the next event, at `until` at the latest.
    fn step(&mut self, until: Instant) {
        let (now, bulk) = (self.network.now, self.bulk);
        while self.mux().write(now, bulk, Payload::from_static(&[3; 10_000])) == Ok(10_000) {}
        let there = &mut self.network.ends[1].mux;
        while there.accept().is_some() {}
        while let Some((_, bytes)) = there.next_datagram() {
            self.datagrams += bytes.len() as u64;
        }
        while let Ok(Read::Bytes(bytes)) = there.read(bulk) {
            let count = bytes.len();
            there.took(now, bulk, count).unwrap();
            self.read += count as u64;
        }
        while !matches!(there.poll_ready(), None | Some(Ready::Accept)) {}
        self.network.flush();
        self.network.step(until);
    }
}

#[test]
fn a_flood_of_datagrams_leaves_half_to_a_stream() {
    for class in [1, 2] {
        let mut beside = Beside::new(class);
        let end = Instant::ZERO + Span::from_secs(5);
        // 100 Mbit/s over a path of 50.
        let period = Span::from_nanos(1100 * 8 * 10);
        let mut next = Instant::ZERO;
        while beside.network.now < end {
            while next <= beside.network.now {
                beside.send(1100);
                next += period;
            }
            beside.step(next);
        }
        let (read, datagrams) = (beside.read, beside.datagrams);
        assert!(read * 100 >= datagrams * 95, "{read} bytes of the stream, {datagrams} of datagrams");
        assert!(datagrams * 100 >= read * 75, "the flood is not stopped: {datagrams}, {read}");
        assert!((read + datagrams) * 8 >= 5 * 40_000_000, "the path is used: {read}, {datagrams}");
    }
}

#[test]
fn voice_waits_for_one_record_of_bulk_at_most() {
    let mut beside = Beside::new(2);
    let period = Span::from_millis(20);
    let (mut next, mut sent, mut longest) = (Instant::ZERO + Span::from_millis(500), None, Span::ZERO);
    for _ in 0..500 {
        while beside.network.now < next {
            beside.step(next);
            if beside.mux().unsent_datagrams() == Bytes::ZERO
                && let Some(at) = sent.take()
            {
                longest = longest.max(beside.network.now.since(at));
            }
        }
        assert_eq!(sent, None, "it has left before the next one comes");
        beside.send(200);
        (sent, next) = (Some(beside.network.now), next + period);
    }
    // It is in the next record. For that the window has room again when one more has arrived, or two after a short one.
    assert!(longest <= RECORD * 2, "{longest}");
    assert!(beside.read > 40_000_000, "the path is full: {}", beside.read);
}

/// Cuts everything that waits: of each stream, how many bytes the other end has when the last one of `first` arrives.
fn read_when(here: &mut Mux, first: StreamId, all: &[StreamId], bytes: usize) -> Vec<usize> {
    let mut there = Mux::new(Side::Listening, Limits::default(), Limits::default()).unwrap();
    let mut read = vec![0; all.len()];
    while let Some(record) = here.cut(Instant::ZERO, 1000) {
        there.receive(Instant::ZERO, record.place, &record.payload).unwrap();
        while let Some(accepted) = there.accept() {
            assert_eq!(accepted.class, 2, "as both ends know it");
        }
        for (number, &id) in all.iter().enumerate() {
            while let Ok(Read::Bytes(bytes)) = there.read(id) {
                let count = bytes.len();
                there.took(Instant::ZERO, id, count).unwrap();
                read[number] += count;
            }
        }
        if read[all.iter().position(|&id| id == first).unwrap()] >= bytes {
            return read;
        }
    }
    panic!("they do not arrive: {read:?}");
}

#[test]
fn the_first_bytes_of_a_stream_may_be_more_urgent_than_the_rest() {
    let mut here = Mux::new(Side::Connecting, Limits::default(), Limits::default()).unwrap();
    let [old, new] = [0; 2].map(|_| here.open(Instant::ZERO, 2, b"", None).unwrap());
    for id in [old, new] {
        assert_eq!(here.write(Instant::ZERO, id, Payload::from_static(&[1; 10_000])), Ok(10_000));
    }
    here.begin_as(new, 1, 5000).unwrap();
    let mut twin = here.clone();
    let read = read_when(&mut here, new, &[old, new], 5000);
    assert!(read[0] < 1000, "its first bytes come before the other's: {read:?}");
    let read = read_when(&mut twin, new, &[old, new], 10_000);
    assert!(read[0] > 3000, "then they take turns: {read:?}");
}

#[test]
fn a_stream_that_has_sent_as_much_already_is_of_its_own_class() {
    let mut here = Mux::new(Side::Connecting, Limits::default(), Limits::default()).unwrap();
    let [old, new] = [0; 2].map(|_| here.open(Instant::ZERO, 2, b"", None).unwrap());
    for id in [old, new] {
        assert_eq!(here.write(Instant::ZERO, id, Payload::from_static(&[1; 10_000])), Ok(10_000));
    }
    // None, and a class that does not exist.
    here.begin_as(new, 1, 0).unwrap();
    here.begin_as(old, 200, 0).unwrap();
    let read = read_when(&mut here, new, &[old, new], 10_000);
    assert!(read[0] > 6000, "they take turns: {read:?}");
}

/// Two datagrams of class 0 wait, one of class 1 and a stream of class 0.
#[test]
fn what_is_urgent_is_cut_without_anything_else() {
    let now = Instant::ZERO;
    let mut mux = Mux::new(Side::Connecting, Limits::default(), Limits::default()).unwrap();
    let id = mux.open(now, 0, b"", None).unwrap();
    mux.write(now, id, vec![1; 500].into()).unwrap();
    for (class, byte) in [(0, 2), (1, 3), (0, 4)] {
        mux.send_datagram(now, id, class, None, vec![byte; 100].into()).unwrap();
    }
    // Kind, stream and length in two bytes, and 100.
    assert_eq!(mux.peek_urgent(now, 207), 104, "whole or not at all");
    assert_eq!(mux.peek_urgent(now, 1200), 208);
    let record = mux.cut_urgent(now, 1200).unwrap();
    assert_eq!((record.place, record.payload.len()), (Offset::ZERO, 208));
    assert_eq!((record.payload[50], record.payload[207]), (2, 4));
    assert_eq!((mux.peek_urgent(now, 1200), mux.cut_urgent(now, 1200)), (0, None));
    assert_eq!(mux.unsent_datagrams(), Bytes::new(100), "that of class 1");
}

/// 32 KiB go before bulk, and then bulk is first for as much.
#[test]
fn a_flood_is_urgent_no_longer_than_its_class_is_first() {
    let now = Instant::ZERO;
    let mut mux = Mux::new(Side::Connecting, Limits::default(), Limits::default()).unwrap();
    let id = mux.open(now, 2, b"", None).unwrap();
    mux.write(now, id, vec![1; 12 << 10].into()).unwrap();
    for _ in 0..100 {
        mux.send_datagram(now, id, 0, None, vec![2; 1000].into()).unwrap();
    }
    let cut = std::iter::from_fn(|| mux.cut_urgent(now, 1200)).count();
    // Each has 1004 bytes: 33 of them are more than 32 768.
    assert_eq!(cut, 33);
    assert!(mux.cut(now, 1200).is_some() && mux.peek_urgent(now, 1200) == 1004, "bulk has caught up by a record");
}
