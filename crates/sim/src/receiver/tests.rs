use super::*;

const MSS: u64 = 1428;

/// A receiver of today's MPTCP with a buffer that was asked for, on two paths.
fn receiver(buffer: u64) -> Receiver {
    let transport = Transport { receive_buffer: Buffer::Fixed(Bytes::new(buffer)), ..Transport::mptcp_linux_v1() };
    Receiver::new(&transport, 2)
}

fn data(index: u64, packet: u64) -> Data {
    let offset = Offset::new(packet * MSS);
    Data { index, settled: 0, offset, bytes: MSS as u32, sent_at: Instant::ZERO }
}

impl Receiver {
    /// Packet `index` of path `path`, with the data of the connection's packet `packet`, and the edge that the
    /// acknowledgement after it announces.
    fn feed(&mut self, path: u8, index: u64, packet: u64) -> (Arrival, u64, u64) {
        let (now, id, data) = (Instant::ZERO, PathId::new(path), data(index, packet));
        self.paths[id.index()].arrive(now, &data, false, &Transport::mptcp_linux_v1());
        let (arrival, released) = self.take(now, id, &data);
        let edge = self.announce(id).get();
        self.paths[id.index()].report(now);
        (arrival, released.dropped, edge)
    }
}

/// 40 000 B asked for are 80 000 B of memory, of which 158/256 become window: 49 375 B. Three packets held out of order
/// take 8/9 of 4284 B of it; the missing one gives all of that back.
#[test]
fn data_held_out_of_order_take_room() {
    let mut receiver = receiver(40_000);
    assert_eq!(receiver.data.edge().get(), 49_375);
    for (n, packet) in [1, 2, 3].into_iter().enumerate() {
        // The edge does not go back.
        assert_eq!(receiver.feed(1, n as u64, packet), (Arrival::Held, 0, 49_375));
    }
    assert_eq!(receiver.data.held().get(), 3 * MSS);
    // The next in order on the other path: four packets are read, nothing is held.
    let (arrival, _, edge) = receiver.feed(0, 0, 0);
    assert_eq!((arrival, edge), (Arrival::InOrder(Bytes::new(4 * MSS)), 4 * MSS + 49_375));
    // One packet missing, one held, one read: the edge moves by what is read less what is held.
    receiver.feed(1, 3, 5);
    let (_, _, edge) = receiver.feed(0, 1, 4);
    assert_eq!(edge, 6 * MSS + 49_375);
    receiver.feed(1, 4, 7);
    receiver.feed(1, 5, 8);
    assert_eq!(receiver.data.edge().get(), 6 * MSS + 49_375);
}

/// 65 535 B in the handshake, and two segments of 1460 B more with each packet that arrives, up to the buffer: 4 MiB
/// asked for.
#[test]
fn the_window_grows_by_two_segments_with_each_packet() {
    let mut receiver = receiver(4 << 20);
    for n in 0..10 {
        let (_, _, edge) = receiver.feed(0, n, n);
        assert_eq!(edge, (n + 1) * MSS + 65_535 + (n + 1) * 2920);
    }
}

/// Beyond the edge what comes out of order is dropped, and what is next in order is taken.
#[test]
fn what_lies_beyond_the_edge_is_dropped_unless_it_is_next() {
    let mut receiver = receiver(40_000);
    // Packet 34 ends at 49 980, beyond 49 375; packet 33 at 48 552.
    assert_eq!(receiver.feed(1, 0, 34), (Arrival::Dropped, 0, 49_375));
    assert_eq!(receiver.feed(1, 1, 33), (Arrival::Held, 0, 49_375));
    assert!(!receiver.data.has(Offset::new(34 * MSS)) && receiver.data.has(Offset::new(33 * MSS)));
    assert_eq!(receiver.feed(0, 0, 0).0, Arrival::InOrder(Bytes::new(MSS)));
}

/// What waits above a hole of its path is not the connection's yet: it takes no room, and is judged against the edge
/// when the hole is filled.
#[test]
fn a_path_hands_over_in_its_own_order() {
    let mut receiver = receiver(40_000);
    assert_eq!(receiver.feed(1, 1, 34).0, Arrival::Aside);
    assert_eq!((receiver.data.held().get(), receiver.data.free()), (MSS, 49_375));
    // Two packets on the other path move the edge to 2 · 1428 + 49 375 before the hole is filled.
    receiver.feed(0, 0, 0);
    receiver.feed(0, 1, 1);
    let (arrival, dropped, _) = receiver.feed(1, 0, 3);
    assert_eq!((arrival, dropped), (Arrival::Held, 0));
    assert_eq!(receiver.data.held().get(), 2 * MSS);
}
