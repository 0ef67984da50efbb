//! TCP connections of programs.

use smoltcp::socket::tcp::State;
use weftway_mux::{Limits, Mux, Side};
use weftway_path::Span;
use weftway_relay::Front;
use weftway_tunnel::Names;

use crate::world::{Answer, World};

/// Where programs want to.
const SERVERS: [&str; 2] = ["203.0.113.9:80", "[2001:db8::9]:80"];

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn bytes_and_ends_come_through_both_ways() {
    for server in SERVERS {
        let mut world = World::new(Names::AsTheyAre);
        let program = world.connect(server, 5000);
        let (sent, mut came) = (bytes(1_000_000), Vec::new());
        let mut left = &sent[..];
        for round in 0..20_000 {
            let socket = world.socket(program);
            if socket.may_send() {
                left = &left[socket.send_slice(left).unwrap()..];
                if left.is_empty() {
                    socket.close();
                }
            }
            if socket.can_recv() {
                socket.recv(|bytes| (bytes.len(), came.extend_from_slice(bytes))).unwrap();
            }
            world.step();
            if round % 50 == 0 {
                world.now += Span::from_millis(1);
            }
            let socket = world.socket(program);
            if matches!(socket.state(), State::TimeWait | State::Closed) && !socket.can_recv() {
                break;
            }
        }
        let state = world.socket(program).state();
        assert!(came == sent, "{server}: {} of {} bytes, {state}", came.len(), sent.len());
        world.pass(Span::from_millis(20));
        assert_eq!(world.tunnel.flows().count(), 0, "{server}: nothing is left");
        // Beside a long connection two streams are open for datagrams that may come.
        let targets: Vec<_> = world.streams.values().map(|stream| stream.target.as_str()).collect();
        assert_eq!(targets, [server, "udp:", "udp:"]);
        world.pass(Span::from_secs(121));
        assert!(world.tunnel.is_empty(), "{server}");
    }
}

#[test]
fn a_program_is_answered_when_the_relay_is_connected_and_not_before() {
    let mut world = World::new(Names::AsTheyAre);
    world.answer = Answer::Silence;
    let program = world.connect(SERVERS[0], 5000);
    world.settle();
    assert_eq!((world.segments, world.streams.len()), (0, 1));
    // It repeats its first segment; that is the same connection.
    world.pass(Span::from_secs(3));
    assert_eq!((world.segments, world.streams.len()), (0, 1));
    let (&id, now) = (world.streams.keys().next().unwrap(), world.now);
    world.muxes[1].write(now, id, bytes::Bytes::from_static(&[0])).unwrap();
    world.settle();
    assert_eq!(world.socket(program).state(), State::Established);
}

#[test]
fn a_refusal_is_a_reset_or_told_by_icmp() {
    // Refused; not allowed; no route to the network; to the host. What ICMP says of them (RFC 792, RFC 1812; RFC 4443).
    for (code, [v4, v6]) in [
        (5, [None; 2]),
        (2, [Some([3, 13]), Some([1, 1])]),
        (3, [Some([3, 0]), Some([1, 0])]),
        (4, [Some([3, 1]), Some([1, 3])]),
    ] {
        for (server, told, at) in [(SERVERS[0], v4, 20), (SERVERS[1], v6, 40)] {
            let mut world = World::new(Names::AsTheyAre);
            world.answer = Answer::Refuse(code);
            let program = world.connect(server, 5000);
            world.settle();
            let others: Vec<_> = world.others.iter().map(|packet| [packet[at], packet[at + 1]]).collect();
            assert_eq!(others, Vec::from_iter(told), "{server} {code}");
            if told.is_none() {
                assert_eq!(world.socket(program).state(), State::Closed);
            } else {
                // It quotes what it is about: the first segment, to port 80.
                let quoted = &world.others[0][at + 8..];
                assert_eq!(quoted[at + 2..at + 4], [0, 80]);
            }
            assert_eq!(world.tunnel.refusals().values().sum::<u64>(), 1);
            assert!(world.tunnel.is_empty());
        }
    }
}

#[test]
fn a_connection_that_its_server_ends_first_is_over_at_once() {
    let mut world = World::new(Names::AsTheyAre);
    world.answer = Answer::End;
    let program = world.connect(SERVERS[0], 5000);
    world.settle();
    assert_eq!(world.socket(program).state(), State::CloseWait);
    world.socket(program).close();
    world.settle();
    // TCP's wait of some minutes is for packets that go astray: none does here.
    assert!(world.tunnel.is_empty());
}

#[test]
fn a_connection_to_a_private_server_of_names_leads_to_another_one() {
    for (names, target) in [
        (Names::Relay, "dns:tcp"),
        (Names::Server("203.0.113.53:53".parse().unwrap()), "203.0.113.53:53"),
        (Names::AsTheyAre, "192.168.1.1:53"),
    ] {
        let mut world = World::new(names);
        let program = world.connect("192.168.1.1:53", 5000);
        world.settle();
        assert_eq!(world.socket(program).state(), State::Established);
        let targets: Vec<_> = world.streams.values().map(|stream| stream.target.as_str()).collect();
        assert_eq!(targets, [target]);
    }
}

#[test]
fn nobody_waits_for_ever() {
    let mut world = World::new(Names::AsTheyAre);
    world.answer = Answer::Silence;
    let program = world.connect(SERVERS[0], 5000);
    world.settle();
    world.forget(program);
    world.pass(Span::from_secs(29));
    assert_eq!(world.tunnel.len(), 1);
    world.pass(Span::from_secs(2));
    assert_eq!((world.tunnel.len(), world.tunnel.refusals().get("no_answer")), (0, Some(&1)));
    // Without a connection to the relay it is ten seconds.
    world.is_connected = false;
    world.connect(SERVERS[0], 5001);
    world.settle();
    world.pass(Span::from_secs(11));
    assert_eq!(world.tunnel.refusals().get("no_connection"), Some(&1));
}

#[test]
fn a_program_that_resets_ends_its_stream() {
    for is_connected in [false, true] {
        let mut world = World::new(Names::AsTheyAre);
        world.answer = if is_connected { Answer::Echo } else { Answer::Silence };
        let program = world.connect(SERVERS[0], 5000);
        world.settle();
        if is_connected {
            world.socket(program).abort();
            world.settle();
        } else {
            // smoltcp says nothing of a connection that it gives up so early; Linux does.
            let mut reset = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 198, 18, 77, 1, 203, 0, 113, 9];
            reset.extend([19, 136, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 4, 0, 0, 0, 0, 0, 0]);
            world.forget(program);
            world.send(reset);
        }
        assert!(world.streams.values().all(|stream| stream.is_reset), "connected: {is_connected}");
        assert!(world.tunnel.is_empty());
    }
}

#[test]
fn a_connection_that_is_lost_resets_those_that_were_carried_and_no_others() {
    let mut world = World::new(Names::AsTheyAre);
    let program = world.connect(SERVERS[0], 5000);
    world.settle();
    assert_eq!(world.socket(program).state(), State::Established);
    world.is_connected = false;
    world.settle();
    assert_eq!((world.socket(program).state(), world.tunnel.len()), (State::Closed, 0));
    // One that comes meanwhile waits.
    let next = world.connect(SERVERS[0], 5001);
    world.settle();
    let mux = |side| Mux::new(side, Limits::default(), Limits::default()).unwrap();
    world.muxes = [mux(Side::Connecting), mux(Side::Listening)];
    (world.is_connected, world.streams) = (true, Default::default());
    world.settle();
    assert_eq!(world.socket(next).state(), State::Established);
}

#[test]
fn a_segment_of_no_connection_is_answered_with_a_reset() {
    let mut world = World::new(Names::AsTheyAre);
    let program = world.connect(SERVERS[0], 5000);
    world.settle();
    world.tunnel.lost(world.now);
    world.packets.borrow_mut().to_programs.clear();
    world.socket(program).send_slice(b"hello").unwrap();
    world.settle();
    assert_eq!(world.socket(program).state(), State::Closed);
}

#[test]
fn nothing_is_left_of_many_connections() {
    let mut world = World::new(Names::AsTheyAre);
    for round in 0..300 {
        let programs: Vec<_> = (0..10).map(|port| world.connect(SERVERS[round % 2], 5000 + port)).collect();
        world.settle();
        for (at, &program) in programs.iter().enumerate() {
            world.socket(program).send_slice(b"hello").unwrap();
            if at % 3 == 0 {
                world.socket(program).abort();
            } else {
                world.socket(program).close();
            }
        }
        world.settle();
        // Programs acknowledge after 10 ms.
        world.pass(Span::from_millis(20));
        programs.into_iter().for_each(|program| world.forget(program));
        world.settle();
        assert_eq!(world.tunnel.len(), 0, "round {round}");
    }
    assert_eq!(world.streams.len(), 3000);
    assert_eq!(world.muxes.iter().map(Mux::open_streams).collect::<Vec<_>>(), [0, 0]);
}
