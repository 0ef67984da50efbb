//! What is carried: bytes both ways, ends of one direction, many streams, and no more memory than there is to be.

use std::io::{Read, Write};

use weftway_mux::Limits;
use weftway_path::{Bytes, Span};
use weftway_relay::Class;

use crate::programs::{bytes, exchange, http, through};
use crate::servers::{count, echo, silent, source};
use crate::wire::Faults;
use crate::world::{Running, Setting};

fn faults(ms: u64, one_in: u32, seed: u64) -> Faults {
    Faults { late: Span::from_millis(ms), one_in, seed }
}

#[test]
fn bytes_arrive_as_they_were_sent_whatever_becomes_of_records() {
    let server = echo();
    let lossy = [1, 2, 3].map(|seed| faults(3, 20, seed));
    for faults in [Faults::NONE, faults(5, 0, 0)].into_iter().chain(lossy) {
        let world = Running::new(Setting { faults, ..Setting::default() });
        let sent = bytes(1_500_000, faults.seed);
        let socket = through(world.address, server);
        assert!(exchange(&socket, &sent) == sent, "{faults:?}");
        drop(socket);
        world.until_nothing_is_left();
    }
}

#[test]
fn an_end_of_one_direction_leaves_the_other_open() {
    let (server, world) = (count(), Running::new(Setting::default()));
    for size in [0, 1, 100_000] {
        let answer = exchange(&through(world.address, server), &bytes(size, 0));
        assert_eq!(answer, size.to_string().as_bytes());
    }
    world.until_nothing_is_left();
}

#[test]
fn what_a_program_sends_behind_its_request_is_kept() {
    let (server, world) = (echo(), Running::new(Setting::default()));
    let early = bytes(50_000, 3);
    let (head, socket) = http(world.address, &server.to_string(), &early);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let late = bytes(1000, 4);
    assert!(exchange(&socket, &late) == [early, late].concat());
}

#[test]
fn two_hundred_streams_at_once() {
    let server = echo();
    let world = Running::new(Setting { faults: faults(2, 50, 9), ..Setting::default() });
    std::thread::scope(|scope| {
        for number in 0..200 {
            let address = world.address;
            scope.spawn(move || {
                let sent = bytes(20_000, number);
                assert!(exchange(&through(address, server), &sent) == sent);
            });
        }
    });
    world.until_nothing_is_left();
}

#[test]
fn more_streams_than_the_relay_allows_wait_for_one() {
    let server = echo();
    let limits = Limits { streams: 3, ..Limits::default() };
    let world = Running::new(Setting { limits, ..Setting::default() });
    std::thread::scope(|scope| {
        for number in 0..20 {
            let address = world.address;
            scope.spawn(move || {
                let sent = bytes(5000, number);
                assert!(exchange(&through(address, server), &sent) == sent);
            });
        }
    });
    world.until_nothing_is_left();
}

#[test]
fn a_reader_that_stops_holds_up_nobody_and_takes_no_more_memory() {
    let (endless, server) = (source(), echo());
    let limits = Limits { receive: Bytes::new(4 << 20), send: Bytes::new(4 << 20), streams: 32, ..Limits::default() };
    let world = Running::new(Setting { limits, ..Setting::default() });
    let mut stopped: Vec<_> = (0..10).map(|_| through(world.address, endless)).collect();
    for number in 0..5 {
        let sent = bytes(1_000_000, number);
        assert!(exchange(&through(world.address, server), &sent) == sent);
    }
    // Both may have received what they may, and sent what they may, and the heads of frames beside.
    assert!(world.with(|world| world.most_memory) <= 17 << 20);
    // It goes on where it stopped.
    let mut read = vec![0; 3_000_000];
    stopped[0].read_exact(&mut read).unwrap();
    assert!(read.iter().all(|&byte| byte == 7));
    drop(stopped);
    world.until_nothing_is_left();
}

#[test]
fn a_server_that_reads_nothing_holds_up_its_writer_only() {
    let (server, mute) = (echo(), silent());
    let world = Running::new(Setting::default());
    let mut socket = through(world.address, mute);
    world.fill(&mut socket);
    let sent = bytes(1_000_000, 1);
    assert!(exchange(&through(world.address, server), &sent) == sent);
    drop(socket);
}

#[test]
fn flows_tell_what_was_carried() {
    let (server, world) = (echo(), Running::new(Setting::default()));
    let mut socket = through(world.address, server);
    socket.write_all(&[1; 1000]).unwrap();
    socket.read_exact(&mut [0; 1000]).unwrap();
    let flows = world.with(|world| {
        let flows = world.proxy.flows();
        flows.map(|flow| (flow.purpose.to_string(), flow.class, flow.up, flow.down)).collect::<Vec<_>>()
    });
    assert_eq!(flows, [(server.to_string(), Class::Bulk, 1000, 1000)]);
}
