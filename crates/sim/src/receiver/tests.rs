use weftway_path::{Bytes, Span};
use weftway_scenario::config::Buffer;

use super::inbound::ReceiverRtt;
use super::*;

const MSS: u64 = 1428;

/// A receiver of today's MPTCP with a buffer that was asked for, on two paths.
fn receiver(buffer: u64) -> Receiver {
    let transport =
        TransportConfig { receive_buffer: Buffer::Fixed(Bytes::new(buffer)), ..TransportConfig::mptcp_linux_v1() };
    Receiver::new(&transport, 2)
}

/// A receiver whose windows have grown to all of its buffer.
fn grown(buffer: u64) -> Receiver {
    let mut receiver = receiver(buffer);
    receiver.data.edge = receiver.data.window;
    receiver.paths.iter_mut().for_each(|path| path.threshold = receiver.data.window);
    receiver
}

fn data(index: u64, packet: u64) -> Data {
    let offset = Offset::new(packet * MSS);
    Data { index, settled: 0, offset, bytes: MSS as u32, echo: 0, sent_at: Instant::ZERO }
}

impl Receiver {
    /// Packet `index` of path `path`, with the data of the connection's packet `packet`, and the edge that the
    /// acknowledgement after it announces.
    fn feed(&mut self, path: u8, index: u64, packet: u64) -> (Arrival, u64, u64) {
        let (now, id, data) = (Instant::ZERO, PathId::new(path), data(index, packet));
        self.paths[id.index()].arrive(now, &data, false, &TransportConfig::mptcp_linux_v1());
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
    let mut receiver = grown(40_000);
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

/// 80 000 B of memory, 49 375 B of window. Ten packets that came out of order are in order with the eleventh: until the
/// application has read them they take room, all of their size.
#[test]
fn what_is_not_read_yet_takes_room() {
    let mut receiver = grown(40_000);
    (1..11).for_each(|n| _ = receiver.feed(1, n - 1, n));
    let data = data(0, 0);
    receiver.paths[0].arrive(Instant::ZERO, &data, false, &TransportConfig::mptcp_linux_v1());
    assert_eq!(receiver.take(Instant::ZERO, PathId::new(0), &data).0, Arrival::InOrder(Bytes::new(11 * MSS)));
    receiver.data.set_unread(Bytes::new(11 * MSS));
    // 49 375 less 15 708: no more than what was announced before.
    assert_eq!(receiver.announce(PathId::new(0)).get(), 49_375);
    receiver.data.set_unread(Bytes::ZERO);
    assert_eq!(receiver.announce(PathId::new(0)).get(), 11 * MSS + 49_375);
}

/// One full packet waits for a delayed acknowledgement, and reading does not change that. One that is not full is
/// acknowledged when the application has read it, with nothing held (`ICSK_ACK_PUSHED`).
#[test]
fn reading_acknowledges_a_small_packet() {
    let transport = TransportConfig::mptcp_linux_v1();
    let after = |bytes: u32, held: bool| {
        let mut receiver = grown(40_000);
        // The packets after a start are acknowledged one by one.
        (0..16).for_each(|n| _ = receiver.feed(0, n, n));
        let arrived = Data { bytes, ..data(16, 16) };
        assert!(!receiver.paths[0].arrive(Instant::ZERO, &arrived, false, &transport), "not acknowledged at once");
        receiver.take(Instant::ZERO, PathId::new(0), &arrived);
        if held {
            assert_eq!(receiver.feed(1, 0, 30).0, Arrival::Held);
        }
        let opened = receiver.has_opened();
        [0, 1].map(|path| receiver.tells_of_reading(PathId::new(path), opened))
    };
    assert_eq!(after(MSS as u32, false), [false, false]);
    assert_eq!(after(500, false), [true, false]);
    assert_eq!(after(500, true), [false, false]);
}

/// The acknowledgement of the packet that filled the hole announced what was left beside 30 packets not read; with them
/// read the window is more than twice that. The other path has announced the whole window before and keeps silent.
#[test]
fn reading_tells_of_a_window_twice_as_wide() {
    let mut receiver = grown(40_000);
    receiver.feed(0, 0, 0);
    (1..31).for_each(|n| _ = receiver.feed(1, n - 1, n + 1));
    let filler = data(1, 1);
    receiver.paths[0].arrive(Instant::ZERO, &filler, false, &TransportConfig::mptcp_linux_v1());
    receiver.take(Instant::ZERO, PathId::new(0), &filler);
    receiver.data.set_unread(Bytes::new(31 * MSS));
    let edge = receiver.announce(PathId::new(0)).get();
    // The edge of before, 1428 + 49 375: 5107 B are left of it, and 49 375 - 31 · 1428 of the memory.
    assert_eq!(edge, 32 * MSS + 5_107);
    receiver.paths[0].report(Instant::ZERO);
    receiver.data.set_unread(Bytes::ZERO);
    let opened = receiver.has_opened();
    assert!(opened);
    assert_eq!([0, 1].map(|path| receiver.tells_of_reading(PathId::new(path), opened)), [true, false]);
}

/// Measured on Linux 6.18: `SO_RCVBUF` of 127 KiB announces 65 535 · 2 B at most, of 129 KiB all of its window. The
/// receiver takes what lies between what it announced and what it has.
#[test]
fn a_header_tells_sixteen_bits_of_the_window() {
    let announced = |kib: u64| {
        let mut receiver = receiver(kib << 10);
        // As wide as it gets: two segments more with each packet.
        let edge = (0..80).map(|n| receiver.feed(0, n, n).2).last().unwrap();
        (edge - 80 * MSS, receiver.data.edge().get() - 80 * MSS)
    };
    assert_eq!(announced(127), (131_070, 160_528));
    assert_eq!(announced(129), (163_056, 163_056));
    assert_eq!(announced(210), (262_140, 265_440));
}

/// The first window is 65 160 of the 131 072 B with which Linux begins. Each packet that arrives adds two segments of
/// 1448 B, as `tcp_probe` shows on Linux 6.18.
#[test]
fn the_window_grows_by_two_segments_with_each_packet() {
    let mut receiver = Receiver::new(&TransportConfig::mptcp_linux_v1(), 2);
    receiver.data.scale = None;
    let windows: Vec<u64> = (0..4).map(|n| receiver.feed(0, n, n).2 - (n + 1) * MSS).collect();
    assert_eq!(windows, [68_056, 70_952, 73_848, 76_744]);
}

/// Packets above a hole add two segments each as well, a second time nothing: `tcp_probe` shows 2896 more with each on
/// Linux 6.18.
#[test]
fn the_window_grows_above_a_hole() {
    let mut receiver = Receiver::new(&TransportConfig::mptcp_linux_v1(), 2);
    receiver.data.scale = None;
    // Packet 1 is missing: what is announced counts from there.
    assert_eq!(receiver.feed(0, 0, 0).2 - MSS, 68_056);
    assert_eq!([2, 3, 4, 4].map(|n| receiver.feed(0, n, n).2 - MSS), [70_952, 73_848, 76_744, 76_744]);
    // The window goes on from there.
    assert_eq!(receiver.feed(0, 1, 1).2 - 5 * MSS, 79_640);
}

/// 40 000 B asked for have a window of 49 375 B, of which a packet above the hole takes 8/9 of 1428 B: one leaves 48
/// 106, two 46 837, three 45 568. The first window is 39 096; the packets before and above the hole add two segments of
/// 1448 B each, up to what is left.
#[test]
fn above_a_hole_the_window_grows_while_there_is_room() {
    let receive_buffer = Buffer::Fixed(Bytes::new(40_000));
    for transport in [TransportConfig::mptcp_linux_v1(), TransportConfig::tcp()] {
        let mut receiver = Receiver::new(&TransportConfig { receive_buffer, ..transport }, 2);
        assert_eq!(receiver.feed(0, 0, 0).2 - MSS, 41_992);
        assert_eq!([2, 3, 4].map(|n| receiver.feed(0, n, n).2 - MSS), [44_888, 46_837, 46_837]);
        // The packet that fills the hole gives all of it back.
        assert_eq!(receiver.feed(0, 1, 1).2 - 5 * MSS, 49_375);
    }
}

/// Beyond the edge what comes out of order is dropped, and what is next in order is taken.
#[test]
fn what_lies_beyond_the_edge_is_dropped_unless_it_is_next() {
    let mut receiver = grown(40_000);
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
    let mut receiver = grown(40_000);
    assert_eq!(receiver.feed(1, 1, 34).0, Arrival::Aside);
    assert_eq!((receiver.data.held().get(), receiver.data.free()), (MSS, 49_375));
    // Two packets on the other path move the edge to 2 · 1428 + 49 375 before the hole is filled.
    receiver.feed(0, 0, 0);
    receiver.feed(0, 1, 1);
    let (arrival, dropped, _) = receiver.feed(1, 0, 3);
    assert_eq!((arrival, dropped), (Arrival::Held, 0));
    assert_eq!(receiver.data.held().get(), 2 * MSS);
}

/// A packet comes 10 ms before the one that was missing: of its two packets' bytes, half waited 10 ms. Over 20 ms, 1428
/// B were held half of the time.
#[test]
fn bytes_held_are_counted_by_how_long() {
    let mut receiver = grown(40_000);
    let (from, to, end) = (Instant::ZERO, Instant::from_millis(10), Instant::from_millis(20));
    assert_eq!((receiver.data.mean_wait(), receiver.data.held_mean(from, Span::ZERO)), (0.0, 0.0));
    assert_eq!(receiver.data.arrive(from, Offset::new(MSS), MSS as u32), Arrival::Held);
    assert_eq!(receiver.data.held_mean(to, Span::from_millis(10)), MSS as f64);
    assert_eq!(receiver.data.arrive(to, Offset::ZERO, MSS as u32), Arrival::InOrder(Bytes::new(2 * MSS)));
    assert_eq!(receiver.data.mean_wait(), 5.0);
    assert_eq!(receiver.data.held_mean(end, Span::from_millis(20)), MSS as f64 / 2.0);
}

/// Of seven packets the second and the fourth never come: what is skipped is not delivered, and what was held is.
#[test]
fn what_is_skipped_is_not_delivered() {
    let mut data = grown(40_000).data;
    let at = |packet: u64| Offset::new(packet * MSS);
    for packet in [0, 2, 4, 6] {
        data.arrive(Instant::ZERO, at(packet), MSS as u32);
    }
    assert_eq!((data.next(), data.delivered().get()), (at(1), MSS));
    assert!(data.skip(Instant::ZERO, at(4)));
    assert_eq!((data.next(), data.delivered().get()), (at(5), 3 * MSS));
    assert!(!data.skip(Instant::ZERO, at(5)));
    // A part of what is held lies before the place.
    assert!(data.skip(Instant::ZERO, Offset::new(6 * MSS + 10)));
    assert_eq!((data.next(), data.delivered().get()), (at(7), 4 * MSS));
    // It comes all the same: nobody waits for it.
    assert_eq!(data.arrive(Instant::ZERO, at(1), MSS as u32), Arrival::Duplicate);
    assert_eq!(data.delivered().get(), 4 * MSS);
}

/// Packets that come up to five places late, a tenth of them not at all: whenever the number of an acknowledgement's
/// gaps is that of the one before, so are its blocks, but for the end of the highest one and for the lowest that are
/// settled.
#[test]
fn blocks_with_the_same_number_of_gaps_are_the_same() {
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut order: Vec<(u64, u64)> = (0..3_000).map(|n| (n + draw(6), n)).collect();
    order.retain(|_| draw(10) > 0);
    order.sort_unstable();
    let (mut path, mut before, mut repeats) = (Inbound::default(), (0, Vec::<(u64, u64)>::new()), 0);
    for (_, index) in order {
        let data = Data { settled: index.saturating_sub(100), ..data(index, index) };
        path.arrive(Instant::ZERO, &data, false, &TransportConfig::mpquic());
        let mut blocks = [(0, 0); MAX_BLOCKS];
        let count = path.blocks(true, &mut blocks);
        let now = (path.gaps, blocks[..count].to_vec());
        if now.0 == before.0 && count > 0 {
            assert!(count <= before.1.len() && now.1[0].0 == before.1[0].0 && now.1[0].1 >= before.1[0].1, "{now:?}");
            assert_eq!(now.1[1..], before.1[1..count]);
            repeats += 1;
        }
        before = now;
    }
    assert!(repeats > 300, "{repeats}");
}

/// Packets 0 to 5 came at 1 ms and were acknowledged. What comes again of them below the last is answered at once and
/// looked at no further, with the timestamp that was echoed before (`tcp_validate_incoming`); the last one itself
/// brings a new one.
#[test]
fn an_old_packet_does_not_bring_its_timestamp() {
    let transport = TransportConfig::mptcp_linux_v1();
    let mut receiver = receiver(400_000);
    let sent = |index, ms| Data { sent_at: Instant::from_millis(ms), ..data(index, index) };
    for index in 0..6 {
        receiver.paths[0].arrive(Instant::from_millis(2), &sent(index, 1), false, &transport);
        receiver.paths[0].report(Instant::from_millis(2));
    }
    let mut echo = |index| {
        let at_once = receiver.paths[0].arrive(Instant::from_millis(901), &sent(index, 900), false, &transport);
        (at_once, receiver.paths[0].report(Instant::from_millis(901)).echo)
    };
    assert_eq!(echo(0), (true, Instant::from_millis(1)));
    assert_eq!(echo(5), (true, Instant::from_millis(900)));
}

/// Packets echo timestamps that are 60, 21 and 29 ms old. The shorter is taken at once, and of the longer an eighth: 21
/// − 21/8 + 29/8 = 22 ms. A timestamp counts once, and a packet that is not full, which may have waited for data, not
/// at all.
#[test]
fn a_receiver_knows_the_round_trip_by_its_own_timestamps() {
    let mut rtt = ReceiverRtt::default();
    let mut sample = |now: u64, ago: u64, full: bool| {
        rtt.sample(Instant::from_millis(now), (now - ago) as u32, full);
        rtt.get()
    };
    let ms = Span::from_millis;
    assert_eq!([sample(100, 60, true), sample(110, 21, true), sample(120, 29, true)], [ms(60), ms(21), ms(22)]);
    assert_eq!([sample(125, 34, true), sample(130, 10, false), sample(140, 0, true)], [ms(22); 3]);
}

/// 256 KiB asked for are 524 288 bytes: half of them, in whole segments of 1448, are the 262 088 with which a subflow
/// begins; the handshake tells 65 535. Each packet adds 2896, and a subflow that joins begins with what was announced
/// before it. `tcp_probe` shows 264 984 after the first packet on Linux 6.18, 276 568 after the fifth, and 279 464
/// after the first on the second subflow.
#[test]
fn a_window_begins_with_half_of_the_buffer() {
    let mut receiver = receiver(256 << 10);
    assert_eq!(receiver.data.edge().get(), 65_535);
    let window = |edge: u64, packets: u64| edge - packets * MSS;
    assert_eq!(window(receiver.feed(0, 0, 0).2, 1), 264_984);
    (1..4).for_each(|n| _ = receiver.feed(0, n, n));
    assert_eq!(window(receiver.feed(0, 4, 4).2, 5), 276_568);
    assert_eq!(window(receiver.feed(1, 0, 6).2, 5), 279_464);
}
