//! Ends that are no orderly ones: resets at either end, and a connection that is lost.

use std::io::{Read, Write};
use std::sync::mpsc::channel;

use weftway_path::Span;
use weftway_relay::NameConfig;

use crate::name_server::{NameServer, Say};
use crate::programs::{bytes, exchange, is_reset, socks, through};
use crate::servers::{echo, reset, resetting, serve, silent};
use crate::world::{PATIENCE, Running, Setting};

/// Reads until there is an end or an error.
fn read_on(socket: &mut impl Read) -> std::io::Result<()> {
    while socket.read(&mut [0; 1000])? > 0 {}
    Ok(())
}

#[test]
fn a_reset_by_the_server_reaches_the_program() {
    let (server, world) = (resetting(), Running::new(Setting::default()));
    let mut socket = through(world.address, server);
    socket.write_all(&[1]).unwrap();
    assert!(is_reset(&read_on(&mut socket).unwrap_err()));
    world.until_nothing_is_left();
}

#[test]
fn a_reset_by_the_program_reaches_the_server() {
    let (tell, told) = channel();
    let server = serve(move |mut socket| tell.send(read_on(&mut socket)).unwrap());
    let world = Running::new(Setting::default());
    let mut socket = through(world.address, server);
    socket.write_all(&[1]).unwrap();
    reset(socket);
    assert!(is_reset(&told.recv_timeout(PATIENCE).unwrap().unwrap_err()));
    world.until_nothing_is_left();
}

#[test]
fn a_program_that_is_reset_while_nothing_is_taken_from_it_is_gone() {
    let (mute, world) = (silent(), Running::new(Setting::default()));
    let mut socket = through(world.address, mute);
    world.fill(&mut socket);
    reset(socket);
    world.until_nothing_is_left();
}

#[test]
fn a_connection_that_is_lost_resets_what_is_open_and_refuses_what_is_opening() {
    let (server, world) = (echo(), Running::new(Setting::default()));
    let mut open = through(world.address, server);
    open.write_all(&[1; 100]).unwrap();
    open.read_exact(&mut [0; 100]).unwrap();
    world.with(|world| world.lose());
    assert!(is_reset(&read_on(&mut open).unwrap_err()));
    // Nothing is left of the old connection when there is another one, whose streams have the same numbers.
    world.with(|world| world.connect());
    let sent = bytes(100_000, 1);
    assert!(exchange(&through(world.address, server), &sent) == sent);
    world.until_nothing_is_left();
}

#[test]
fn a_program_that_waits_for_the_relays_word_is_told_that_the_connection_is_lost() {
    let silent = NameServer::new(|_, _| Say::Nothing);
    let names = Some(NameConfig::of_servers([silent.address]));
    let world = Running::new(Setting { names, ..Setting::default() });
    std::thread::scope(|scope| {
        let program = scope.spawn(|| socks(world.address, "held.example", 80).0);
        world.until("the relay has the stream", |world| world.streams()[2] == 1);
        world.with(|world| world.lose());
        assert_eq!(program.join().unwrap(), 1);
    });
    world.until("nothing is left", |world| world.proxy.connections() == 0);
}

#[test]
fn programs_wait_for_a_connection() {
    let (server, world) = (echo(), Running::new(Setting::default()));
    world.with(|world| world.lose());
    std::thread::scope(|scope| {
        let program = scope.spawn(|| exchange(&through(world.address, server), b"hello"));
        world.until("the program is there", |world| world.proxy.connections() == 1);
        world.with(|world| {
            world.skip(Span::from_secs(9));
            world.connect();
        });
        assert_eq!(program.join().unwrap(), b"hello");
    });
}
