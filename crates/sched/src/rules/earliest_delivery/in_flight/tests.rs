//! Tests of the packets in flight, as their users ask.

use super::*;
use weftway_path::Bytes;

const F: PathId = PathId::new(0);
const S: PathId = PathId::new(1);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn receipt(path: PathId, serial: u64, offset: u64) -> Receipt {
    Receipt { path, offset: Offset::new(offset), bytes: Bytes::new(100), serial }
}

/// 100 bytes at `offset` leave at `ms`, to arrive 10 ms later; overdue after 30.
fn send(flights: &mut InFlight, path: PathId, serial: u64, offset: u64, ms: u64, kind: SendKind) {
    let predicted = Prediction { eta: at(ms + 10), due: at(ms + 30) };
    flights.sent(at(ms), &receipt(path, serial, offset), kind, predicted, Offset::ZERO, PathSet::EMPTY);
}

fn due(flights: &InFlight, path: PathId) -> Option<Instant> {
    flights.oldest(path).map(|oldest| oldest.due)
}

fn first(flights: &InFlight, path: PathId) -> Option<u64> {
    flights.first_single(path, Offset::ZERO).map(|(serial, _)| serial)
}

#[test]
fn silence_counts_from_the_last_sign_of_life() {
    let mut flights = InFlight::default();
    send(&mut flights, F, 0, 0, 0, SendKind::Fresh);
    send(&mut flights, F, 1, 100, 2, SendKind::Fresh);
    assert_eq!((due(&flights, F), due(&flights, S), flights.next_due(at(31))), (Some(at(30)), None, None));
    // At 25 ms the path was heard: the second has its 30 ms from then, not from when it left.
    flights.acked(at(25), &receipt(F, 0, 0), Offset::ZERO);
    assert_eq!(due(&flights, F), Some(at(55)));
    // A later packet is acknowledged: the one before it is lost or late, but the path speaks.
    send(&mut flights, F, 2, 200, 26, SendKind::Fresh);
    flights.acked(at(50), &receipt(F, 2, 200), Offset::ZERO);
    assert_eq!((due(&flights, F), first(&flights, F)), (None, Some(1)));
}

#[test]
fn a_copy_closes_what_it_copies_and_its_loss_leaves_it_closed() {
    let mut flights = InFlight::default();
    (0..3).for_each(|n| send(&mut flights, S, n, n * 100, n, SendKind::Fresh));
    send(&mut flights, F, 3, 0, 5, SendKind::Duplicate);
    assert_eq!((first(&flights, S), first(&flights, F), flights.singles(S)), (Some(1), None, 2));
    // 1 should arrive at 11 ms, 2 at 12.
    assert_eq!([10, 11, 12].map(|ms| flights.count_after(S, at(ms))), [2, 1, 0]);
    let after = |ms| flights.first_after(S, Offset::ZERO, at(ms)).map(|(serial, _)| serial);
    assert_eq!([10, 11, 12].map(after), [Some(1), Some(2), None]);
    // Below what has arrived in order nothing is worth a copy.
    assert_eq!(flights.first_single(S, Offset::new(200)).map(|(serial, _)| serial), Some(2));
}

/// Of three paths the third may copy what the second has copied; after that nobody may.
#[test]
fn a_free_copy_may_be_copied_until_each_path_has_carried_it() {
    let (mut flights, third) = (InFlight::default(), PathId::new(2));
    let all = PathSet::of(F).with(S).with(third);
    send(&mut flights, F, 0, 0, 0, SendKind::Fresh);
    let copy = |flights: &mut InFlight, path, serial| {
        let predicted = Prediction { eta: at(15), due: at(35) };
        flights.sent(at(5), &receipt(path, serial, 0), SendKind::Duplicate, predicted, Offset::ZERO, all);
    };
    let for_path = |flights: &InFlight, path, by| flights.singles_for(path, by, Offset::ZERO).next().map(|(n, _)| n);
    copy(&mut flights, S, 1);
    assert_eq!((first(&flights, F), for_path(&flights, S, F), for_path(&flights, S, third)), (None, None, Some(1)));
    let mut lost = flights.clone();
    lost.lost(&receipt(S, 1, 0), Some(Offset::ZERO));
    assert_eq!(lost.lost_bytes(), Bytes::ZERO, "the first packet may still bring it");
    let mut acked = flights.clone();
    acked.acked(at(20), &receipt(F, 0, 0), Offset::ZERO);
    assert_eq!(for_path(&acked, S, third), None);
    copy(&mut flights, third, 2);
    assert_eq!([F, S, third].map(|path| flights.singles(path)), [0; 3]);
}

#[test]
fn data_that_were_handed_back_are_a_new_packet_that_two_paths_have_carried() {
    let mut flights = InFlight::default();
    send(&mut flights, F, 0, 0, 0, SendKind::Fresh);
    flights.lost(&receipt(F, 0, 0), Some(Offset::ZERO));
    assert!(flights.first_single(F, Offset::ZERO).is_some_and(|(_, packet)| packet.lost));
    send(&mut flights, S, 1, 0, 40, SendKind::Reinjection);
    assert_eq!((first(&flights, F), first(&flights, S)), (None, Some(1)));
    let carried = flights.first_single(S, Offset::ZERO).map(|(_, packet)| packet.carried);
    assert_eq!(carried, Some(PathSet::of(F).with(S)));
}

#[test]
fn what_quic_has_handed_back_may_be_copied_where_it_was_lost() {
    let mut flights = InFlight::default();
    send(&mut flights, F, 0, 0, 0, SendKind::Fresh);
    send(&mut flights, S, 1, 0, 5, SendKind::Duplicate);
    flights.lost(&receipt(F, 0, 0), Some(Offset::ZERO));
    let at_hand = |avoid| Packet {
        offset: Offset::ZERO,
        bytes: Bytes::new(100),
        reinjection: true,
        carried: PathSet::of(F),
        avoid,
    };
    flights.at_hand(Some(&at_hand(PathSet::EMPTY)));
    let third = PathId::new(2);
    send(&mut flights, third, 2, 0, 40, SendKind::Reinjection);
    // The copy on S is still under way.
    let carried = flights.first_single(third, Offset::ZERO).map(|(_, packet)| packet.carried);
    assert_eq!(carried, Some(PathSet::of(S).with(third)));
    // What was lost is forgotten when the data have arrived.
    flights.acked(at(60), &receipt(third, 2, 0), Offset::new(100));
    flights.lost(&receipt(S, 1, 0), Some(Offset::new(100)));
    assert!(flights.packets.is_empty());
}

#[test]
fn what_is_in_front_of_a_packet_ends_with_it_and_begins_after_what_is_acknowledged() {
    let mut flights = InFlight::default();
    (0..3).for_each(|n| send(&mut flights, F, n, n * 100, n, SendKind::Fresh));
    send(&mut flights, S, 3, 300, 3, SendKind::Fresh);
    let front = |flights: &InFlight, path| flights.last_single(path, Offset::ZERO).map(|(_, one)| flights.front(one));
    assert_eq!((front(&flights, F), front(&flights, S)), (Some(Bytes::new(300)), Some(Bytes::new(100))));
    // The second arrived: the first is lost or late, and nothing that the third waits for.
    flights.acked(at(12), &receipt(F, 1, 100), Offset::ZERO);
    assert_eq!(front(&flights, F), Some(Bytes::new(100)));
    // The path comes up anew: of what it was given before nothing is in front.
    flights.forget(F);
    send(&mut flights, F, 4, 400, 20, SendKind::Fresh);
    assert_eq!(front(&flights, F), Some(Bytes::new(100)));
}

#[test]
fn acknowledgements_come_half_a_round_trip_after_the_packets_arrive() {
    let mut flights = InFlight::default();
    let arriving = |flights: &InFlight, since, ms| flights.arriving(F, at(since), at(ms), Span::from_millis(6));
    let back = |flights: &InFlight, ms| arriving(flights, 0, ms).map(|(_, bytes)| bytes.get());
    assert_eq!(back(&flights, 100), None);
    // They should arrive at 10, 14 and 18 ms, and be acknowledged 6 ms later.
    (0..3).for_each(|n| send(&mut flights, F, n, n * 100, n * 4, SendKind::Fresh));
    assert_eq!([5, 15, 16, 20, 23, 24].map(|ms| back(&flights, ms)), [0, 0, 100, 200, 200, 300].map(Some));
    assert_eq!(arriving(&flights, 0, 5).map(|(newest, _)| newest), Some(at(18)));
    // What is acknowledged frees nothing more, nor what was sent before it.
    flights.acked(at(20), &receipt(F, 1, 100), Offset::ZERO);
    assert_eq!([23, 24].map(|ms| back(&flights, ms)), [0, 100].map(Some));
    // It should have come by 24 ms: who counts from 25 expects no more of it.
    let since = |ms| arriving(&flights, ms, 100).map(|(_, bytes)| bytes.get());
    assert_eq!([24, 25].map(since), [100, 0].map(Some));
}

#[test]
fn a_packet_is_late_whose_acknowledgement_was_overdue() {
    let mut flights = InFlight::default();
    (0..3).for_each(|n| send(&mut flights, F, n, n * 100, 0, SendKind::Fresh));
    flights.acked(at(30), &receipt(F, 0, 0), Offset::ZERO);
    assert_eq!(flights.late(F), 0);
    flights.acked(at(31), &receipt(F, 1, 100), Offset::ZERO);
    assert_eq!(flights.late(F), 1);
    // It is remembered when the path comes up anew.
    flights.forget(F);
    assert_eq!((flights.late(F), flights.late(S)), (1, 0));
}

#[test]
fn lost_data_wait_until_they_are_sent_again() {
    let mut flights = InFlight::default();
    (0..3).for_each(|n| send(&mut flights, F, n, n * 100, n, SendKind::Fresh));
    // What a copy brings does not wait.
    send(&mut flights, S, 3, 200, 5, SendKind::Duplicate);
    (0..3).for_each(|n| flights.lost(&receipt(F, n, n * 100), Some(Offset::ZERO)));
    // A timer says again what was said.
    flights.lost(&receipt(F, 0, 0), Some(Offset::ZERO));
    assert_eq!(flights.lost_bytes(), Bytes::new(200));
    send(&mut flights, S, 4, 0, 40, SendKind::Reinjection);
    assert_eq!(flights.lost_bytes(), Bytes::new(100));
    flights.at_hand(None);
    assert_eq!(flights.lost_bytes(), Bytes::ZERO);
}

/// Nobody copies them, and nothing tells when they have arrived: else what was lost first would keep all that follows.
#[test]
fn what_is_lost_without_a_view_of_the_data_is_over() {
    let mut flights = InFlight::default();
    (0..3).for_each(|n| send(&mut flights, F, n, n * 100, n, SendKind::Fresh));
    flights.acked(at(20), &receipt(F, 1, 100), Offset::ZERO);
    flights.lost(&receipt(F, 0, 0), None);
    assert_eq!((flights.packets.first(), flights.singles(F)), (2, 1));
    flights.lost(&receipt(F, 2, 200), None);
    assert!(flights.packets.is_empty());
    assert_eq!((due(&flights, F), flights.singles(F)), (None, 0));
}

#[test]
fn the_table_does_not_grow_with_the_transfer() {
    let mut flights = InFlight::default();
    for n in 0..1000 {
        // Number 10·n belongs to a probe, of which nothing is told but its acknowledgement.
        let serial = n * 10 + 1;
        send(&mut flights, F, serial, n * 100, n, SendKind::Fresh);
        flights.acked(at(n + 1), &receipt(F, serial, n * 100), Offset::new(n * 100));
        assert!(flights.packets.is_empty());
    }
    send(&mut flights, F, 10_001, 0, 1000, SendKind::Fresh);
    flights.forget(F);
    assert_eq!((due(&flights, F), first(&flights, F)), (None, None));
}

/// A bisection finds one of several places where packets are expected to overtake each other, and in a `VecDeque` it
/// hangs on how that is stored, which is another way in a copy.
#[test]
fn a_copy_answers_alike_where_packets_overtake_each_other() {
    let (mut flights, mut state) = (InFlight::default(), 11u64);
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for n in 0..3000 {
        let predicted = Prediction { eta: at(n + draw(60)), due: at(5000) };
        flights.sent(at(n), &receipt(F, n, n * 100), SendKind::Fresh, predicted, Offset::ZERO, PathSet::EMPTY);
        if draw(2) == 0 {
            let acked = n.saturating_sub(20 + draw(20));
            flights.acked(at(n), &receipt(F, acked, acked * 100), Offset::new(acked * 100));
        }
        let by = at(n + draw(60));
        let answers =
            |flights: &InFlight| (flights.count_after(F, by), flights.arriving(F, Instant::ZERO, by, Span::ZERO));
        assert_eq!(answers(&flights.clone()), answers(&flights), "{n}");
    }
}
