use super::*;
use weftway_path::PathSet;

const MTU: u16 = 1200;
const RTT: Duration = Duration::from_millis(20);

/// The next path of `controllers`.
fn adapter(controllers: &Arc<Controllers>, now: Clock) -> Box<Adapter> {
    Arc::clone(controllers).build(now, MTU).into_any().downcast().expect("an adapter")
}

fn cubic() -> Arc<Controllers> {
    Arc::new(Controllers::new("cubic").unwrap())
}

fn send(adapter: &mut Adapter, now: Clock, packets: std::ops::Range<u64>) {
    for pn in packets {
        adapter.on_packet_sent(now, MTU, pn);
    }
}

/// Acknowledges packets that were sent at `sent`, in one acknowledgement.
fn ack(adapter: &mut Adapter, now: Clock, sent: Clock, packets: std::ops::Range<u64>, in_flight: u64) {
    for pn in packets {
        adapter.acknowledge(now, sent, u64::from(MTU), pn, false, (RTT, RTT));
    }
    adapter.on_end_acks(now, in_flight, false, None);
}

#[test]
fn a_window_grows_by_what_is_acknowledged_only_if_it_was_used() {
    let t0 = Clock::now();
    let mut full = adapter(&cubic(), t0);
    assert_eq!(full.window(), 12_000, "ten packets of 1200 bytes (RFC 9002 §7.2)");
    send(&mut full, t0, 0..10);
    assert_eq!(full.path().bytes_in_flight.get(), 12_000);
    ack(&mut full, t0 + RTT, t0, 0..10, 0);
    assert_eq!((full.window(), full.path().bytes_in_flight.get()), (24_000, 0));
    assert_eq!(full.path().srtt, Span::from_millis(20));
    // 12 kB in 20 ms.
    assert_eq!(full.path().delivery_rate.as_bps(), 4_800_000);

    // Two of ten packets: slow start may grow only to twice what was used.
    let mut idle = adapter(&cubic(), t0);
    send(&mut idle, t0, 0..2);
    ack(&mut idle, t0 + RTT, t0, 0..2, 0);
    assert_eq!(idle.window(), 12_000);
}

#[test]
fn a_window_that_a_hook_keeps_shut_does_not_count_as_full() {
    // noq calls a shut window full, and reads 0: the window must neither grow by that nor be reported.
    let doors = Arc::new(Doors::default());
    let controllers = Arc::new(Controllers::new("cubic").unwrap().with_hook(doors.clone()));
    let t0 = Clock::now();
    let mut shut = adapter(&controllers, t0);
    send(&mut shut, t0, 0..2);
    doors.open(PathSet::EMPTY);
    assert_eq!((shut.window(), shut.metrics().congestion_window), (0, 12_000));
    shut.on_cwnd_limited();
    assert_eq!(shut.path().bytes_in_flight.get(), 2400);
    ack(&mut shut, t0 + RTT, t0, 0..2, 0);
    doors.open_all();
    assert_eq!(shut.window(), 12_000);
}

#[test]
fn samples_are_marked_where_the_path_might_have_sent_and_was_kept_from_it() {
    let doors = Arc::new(Doors::default());
    let controllers = Arc::new(Controllers::new("bbr3").unwrap().with_hook(doors.clone()));
    let t0 = Clock::now();
    let mut path = adapter(&controllers, t0);
    send(&mut path, t0, 0..2);
    doors.open(PathSet::EMPTY);
    assert_eq!(path.window(), 0);
    // noq says that the application is not at fault: it saw a full window.
    ack(&mut path, t0 + RTT, t0, 0..1, 1200);
    assert!(path.sampler.is_app_limited());
}

#[test]
fn a_loss_is_counted_once_and_reduces_once_a_round_trip() {
    let t0 = Clock::now();
    let mut path = adapter(&cubic(), t0);
    send(&mut path, t0, 0..10);
    ack(&mut path, t0 + RTT, t0, 5..10, 5 * 1200);
    let before = path.window();
    for pn in 0..2 {
        path.on_packet_lost(MTU, pn, t0 + RTT);
    }
    path.on_congestion_event(t0 + RTT, t0, false, false, 2400, 1);
    let after = path.window();
    // CUBIC: β = 0.7 (RFC 9438 §4.6).
    assert!(after >= before * 7 / 10 - 1 && after <= before * 7 / 10 + 1, "{before} {after}");
    assert_eq!((path.path().lost.packets, path.path().bytes_in_flight.get()), (2, 3 * 1200));
    path.on_packet_lost(MTU, 2, t0 + RTT + RTT);
    path.on_congestion_event(t0 + RTT + RTT, t0, false, false, 1200, 2);
    assert_eq!(path.window(), after, "the same episode");
    path.on_spurious_congestion_event();
    assert_eq!(path.window(), before, "it was none");
}

#[test]
fn a_random_loss_begins_no_episode() {
    let t0 = Clock::now();
    let mut path = adapter(&Arc::new(Controllers::new("cubic:random_loss=2").unwrap()), t0);
    send(&mut path, t0, 0..10);
    ack(&mut path, t0 + RTT, t0, 5..10, 5 * 1200);
    let before = path.window();
    path.on_packet_lost(MTU, 0, t0 + RTT);
    path.on_congestion_event(t0 + RTT, t0, false, false, 1200, 0);
    assert_eq!((path.window(), path.path().recovery), (before, Recovery::Open));
}

#[test]
fn packets_of_the_handshake_may_have_equal_numbers() {
    let t0 = Clock::now();
    let mut path = adapter(&cubic(), t0);
    let t1 = t0 + Duration::from_millis(1);
    send(&mut path, t0, 0..1);
    send(&mut path, t1, 0..1);
    ack(&mut path, t0 + RTT, t1, 0..1, 1200);
    assert_eq!(path.path().latest_rtt, Span::from_millis(19));
    ack(&mut path, t0 + RTT, t0, 0..1, 0);
    assert_eq!(path.path().latest_rtt, Span::from_millis(20));
    assert!(path.flight.is_empty());
}

#[test]
fn what_noq_forgets_in_silence_is_no_longer_in_flight() {
    let t0 = Clock::now();
    let mut path = adapter(&cubic(), t0);
    send(&mut path, t0, 0..4);
    // noq discarded packets 0 and 1 with the keys of their space.
    ack(&mut path, t0 + RTT, t0, 2..3, 1200);
    assert_eq!(path.path().bytes_in_flight.get(), 1200);
    // And counts what is padded and asks for no acknowledgement: a window that noq calls full is full.
    path.on_cwnd_limited();
    assert!(path.path().bytes_in_flight + path.path().mss > path.path().cwnd);
}

#[test]
fn a_copy_starts_with_nothing_in_flight() {
    let t0 = Clock::now();
    let mut path = adapter(&cubic(), t0);
    send(&mut path, t0, 0..4);
    let copy: Box<Adapter> = path.clone_box().into_any().downcast().unwrap();
    assert_eq!((copy.path().bytes_in_flight.get(), copy.window()), (0, 12_000));
}

#[test]
fn coupled_controllers_see_the_connections_other_paths_and_no_others() {
    let t0 = Clock::now();
    for entry in weftway_cc::all().iter().filter(|entry| entry.coupled) {
        let mine = Arc::new(Controllers::new(entry.name).unwrap());
        let (first, second) = (adapter(&mine, t0), adapter(&mine, t0));
        assert_eq!((first.path().id.get(), second.path().id.get()), (0, 1), "{}", entry.name);
        assert_eq!(mine.connection.shares().iter().filter(|share| share.usable).count(), 2);
        let other = adapter(&Arc::new(mine.fresh()), t0);
        assert_eq!((other.path().id.get(), other.connection.shares().len()), (0, 1));
        drop(second);
        assert!(!mine.connection.shares()[1].usable, "{}", entry.name);
    }
}

#[test]
fn lia_grows_slower_beside_another_path() {
    // RFC 6356: two paths with equal windows and round-trip times grow together as one connection.
    let grown = |paths: usize| {
        let t0 = Clock::now();
        let controllers = Arc::new(Controllers::new("lia").unwrap());
        let mut all: Vec<_> = (0..paths).map(|_| adapter(&controllers, t0)).collect();
        let mut now = t0;
        for path in &mut all {
            send(path, now, 0..10);
            path.on_packet_lost(MTU, 0, now + RTT);
            path.on_congestion_event(now + RTT, now, false, false, 1200, 0);
        }
        now += RTT;
        let before = all[0].window();
        let (mut pn, mut flight) = (vec![10; paths], vec![0; paths]);
        for _ in 0..10 {
            for (index, path) in all.iter_mut().enumerate() {
                let packets = path.window() / u64::from(MTU);
                send(path, now, pn[index]..pn[index] + packets);
                flight[index] = packets;
            }
            for (index, path) in all.iter_mut().enumerate() {
                ack(path, now + RTT, now, pn[index]..pn[index] + flight[index], 0);
                pn[index] += flight[index];
            }
            now += RTT;
        }
        all[0].window() - before
    };
    let (alone, beside) = (grown(1), grown(2));
    assert!(beside * 3 < alone * 2, "{alone} {beside}");
}

#[test]
fn a_wrong_name_or_switch_is_said_at_once() {
    assert!(Controllers::new("cubik").unwrap_err().to_string().contains("cubic"));
    assert!(Controllers::new("cubic:slow_start=never").is_err());
}
