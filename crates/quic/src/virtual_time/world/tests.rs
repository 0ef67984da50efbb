use weftway_link::LinkConfig;
use weftway_path::{BitRate, Bytes, Instant, Span};
use weftway_scenario::config::{MessageSize, PathConfig, Transport, Workload};

use super::*;

/// Two messages of 400 packets, a second apart, into a window of a thousand: the second leaves in three turns, each due at
/// once, and then nothing is due.
#[test]
fn a_wide_window_leaves_in_several_turns() {
    let transport =
        Transport { initial_window: 1000, pace_window: false, direction: Direction::Upload, ..Transport::mpquic() };
    let link =
        LinkConfig { rate: BitRate::from_mbps(100).into(), delay: Span::from_millis(10), ..LinkConfig::default() };
    let (role, acks) = (Role::Active, link.clone());
    let path = PathConfig { name: "only".into(), role, data: link, acks, via: None, presence: Vec::new() };
    let sizes = vec![MessageSize::of(transport.mss.mul_div(400, 1))];
    let mut config = SimConfig::new(transport, vec![path], Bytes::ZERO);
    config.workload = Workload::Messages { sizes, period: Span::from_secs(1), count: 2, deadline: None };
    config.time_limit = Span::from_millis(900);
    let mut world = World::new(&config, "newreno", 1, Host::of("min-rtt").unwrap()).unwrap();
    let mut scheduler = weftway_sched::build("min-rtt").unwrap();
    assert_eq!(world.run(scheduler.as_mut()).unwrap().verdict, Verdict::TimeLimit);
    let sender = world.sending.sender.as_mut().unwrap();
    // The application started with the connection, 20 ms late.
    let now = Instant::from_millis(1_100);
    sender.source.app.run(now);
    sender.wake();
    let mut turns = Vec::new();
    loop {
        sender.turn(now, scheduler.as_mut());
        turns.push(sender.connection.outgoing.drain(..).filter(|datagram| datagram.payload > 0).count());
        if sender.next_event() > now {
            break;
        }
    }
    assert_eq!(turns, [192, 192, 16]);
}

/// Two paths in turn, and twenty messages of two packets, a second apart. The sender is busy once: when it reads the
/// acknowledgement of all that the second path has in flight, that path's probe timer is due. The timer finds
/// nothing to probe for, and the path goes on being used.
#[test]
fn a_path_that_answered_before_its_probe_timer_is_looked_at_is_not_silent() {
    let transport = Transport { direction: Direction::Upload, reinject_at_pto: true, ..Transport::mpquic() };
    let path = |name: &str, delay| {
        let link = LinkConfig { rate: BitRate::from_mbps(100).into(), delay, ..LinkConfig::default() };
        let (role, acks) = (Role::Active, link.clone());
        PathConfig { name: name.into(), role, data: link, acks, via: None, presence: Vec::new() }
    };
    let paths = vec![path("first", Span::from_millis(10)), path("second", Span::from_millis(30))];
    let sizes = vec![MessageSize::of(transport.mss.mul_div(2, 1))];
    let mut config = SimConfig::new(transport, paths, Bytes::ZERO);
    config.workload = Workload::Messages { sizes, period: Span::from_secs(1), count: 20, deadline: None };
    let mut world = World::new(&config, "newreno", 1, Host::of("round-robin").unwrap()).unwrap();
    let mut scheduler = weftway_sched::build("round-robin").unwrap();
    let (second, answers) = (PathId::new(1), world.network.routes[1].acks);
    let mut was_busy = false;
    world.turn(scheduler.as_mut());
    while !world.is_done() {
        let (at, event) = world.next_event();
        world.now = world.now.max(at);
        assert!(at < Instant::from_millis(60_000), "nothing arrives any more");
        let in_flight = |world: &World| {
            world.sending.sender.as_ref().map_or(Bytes::ZERO, |sender| sender.view(second).bytes_in_flight)
        };
        let is_answer = matches!(event, Happening::Link(link) if link == answers) && in_flight(&world) > Bytes::ZERO;
        if was_busy || !is_answer || world.now < Instant::from_millis(5000) {
            world.dispatch(event, scheduler.as_mut());
            continue;
        }
        was_busy = true;
        let sent = world.network.links[answers].pop(world.now).unwrap();
        let Datagram { bytes, .. } = world.network.deliver(world.now, answers, sent.item).unwrap();
        world.now += Span::from_millis(500);
        let (now, route) = (world.now, setup::route(Side::Client, 1));
        let noq_now = world.clock.theirs(now);
        let heard = world.sending.endpoint.handle(noq_now, route, None, bytes, &mut world.buffer);
        let Some(DatagramEvent::ConnectionEvent(whose, event)) = heard else { panic!("an acknowledgement") };
        world.hear(whose, event, route, false);
        assert_eq!(in_flight(&world), Bytes::ZERO);
        let SendingEnd { sender, endpoint, .. } = &mut world.sending;
        sender.as_mut().unwrap().on_timer(now, endpoint);
        world.turn(scheduler.as_mut());
    }
    // The first message left before there was a second path.
    let tally = world.sender().unwrap().tally(second);
    assert!(was_busy && tally.packets >= 19 && tally.timeouts == 0, "{tally:?}");
}
