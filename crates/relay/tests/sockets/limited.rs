//! What a client may have at most: connections, and rate.

use std::time::Instant as StdInstant;

use weftway_path::BitRate;
use weftway_relay::{ClientId, ClientLimits, Refusal};

use crate::associated::{Program, associate, udp_echo};
use crate::programs::{bytes, exchange, http, socks, through};
use crate::servers::echo;
use crate::world::{CLIENT, Running, Setting};

/// A world whose client may have so much.
fn limited(limits: ClientLimits) -> Running {
    let world = Running::new(Setting::default());
    world.with(|world| world.relay.limit(CLIENT, limits));
    world
}

fn refusals(world: &Running) -> Vec<(Refusal, u64)> {
    world.with(|world| world.relay.refusals(CLIENT).collect())
}

#[test]
fn one_connection_too_many_is_refused_and_there_is_room_again_when_one_ends() {
    let (server, world) = (echo(), limited(ClientLimits { connections: 2, ..ClientLimits::default() }));
    let open = [through(world.address, server), through(world.address, server)];
    assert_eq!(socks(world.address, "127.0.0.1", server.port()).0, 1);
    let (head, _socket) = http(world.address, &server.to_string(), &[]);
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert_eq!(associate(world.address).0, 1, "datagrams count, too");
    assert_eq!(refusals(&world), [(Refusal::TooMany, 3)]);
    let sent = bytes(100_000, 1);
    for socket in open {
        assert!(exchange(&socket, &sent) == sent, "those that are open stay");
    }
    world.until("they have ended", |world| world.relay.streams(CLIENT) == 0);
    assert!(exchange(&through(world.address, server), &sent) == sent);
}

#[test]
fn clients_that_share_have_their_connections_together() {
    let (server, world) = (echo(), limited(ClientLimits { connections: 2, ..ClientLimits::default() }));
    let other = ClientId(8);
    world.with(|world| world.relay.share(other, CLIENT));
    let kept = through(world.address, server);
    // The connection of this client is lost while it has one of two; the next client has it in its place.
    world.with(|world| world.relay.share(ClientId(9), other));
    let second = through(world.address, server);
    assert_eq!(socks(world.address, "127.0.0.1", server.port()).0, 1, "two are open");
    drop((kept, second));
    world.until_nothing_is_left();
    // A share lives as long as a client has it.
    world.with(|world| [other, ClientId(9)].into_iter().for_each(|client| world.relay.gone(client)));
    let _both = [through(world.address, server), through(world.address, server)];
    assert_eq!(socks(world.address, "127.0.0.1", server.port()).0, 1);
}

#[test]
fn what_is_refused_for_another_reason_is_counted_by_that() {
    let world = Running::new(Setting::default());
    assert_eq!(socks(world.address, "10.0.0.1", 80).0, 2);
    assert_eq!(socks(world.address, "10.0.0.1", 80).0, 2);
    assert_eq!(refusals(&world), [(Refusal::NotAllowed, 2)]);
}

#[test]
fn a_client_is_no_faster_than_it_may_be_and_loses_nothing() {
    let server = echo();
    // 2 MB/s each way; a bucket holds 100 kB, and one read may take 64 KiB too much.
    let world = limited(ClientLimits { rate: Some(BitRate::from_mbps(16)), ..ClientLimits::default() });
    let sent = bytes(1_000_000, 2);
    let began = StdInstant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let socket = through(world.address, server);
                assert!(exchange(&socket, &sent) == sent);
            });
        }
    });
    // However slow the machine is, it takes no less.
    assert!(began.elapsed().as_secs_f64() >= (2_000_000 - 100_000 - 2 * 65_536) as f64 / 2e6, "{:?}", began.elapsed());
    world.until_nothing_is_left();
}

#[test]
fn datagrams_go_on_beside_connections_that_use_the_rate_up() {
    let (server, datagrams) = (echo(), udp_echo("127.0.0.1:0"));
    let world = limited(ClientLimits { rate: Some(BitRate::from_mbps(8)), ..ClientLimits::default() });
    let sent = bytes(700_000, 3);
    std::thread::scope(|scope| {
        let bulk = scope.spawn(|| exchange(&through(world.address, server), &sent) == sent);
        let program = Program::new(world.address);
        while !bulk.is_finished() {
            program.exchange("127.0.0.1", datagrams, b"voice");
        }
        assert!(bulk.join().unwrap());
    });
}
