//! Datagrams through a pipe over two paths: 127.0.0.1 and 127.0.0.2.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use weftway_path::Span;
use weftway_relay::{Order, Pipe, PipeLeave, PipeTarget};
use weftway_transfer::{Connect, Failure, Links, ProxyOptions, pipe};
use weftway_udp::Local;
use weftway_udp::tls::Identity;

use crate::ends::programs::{local, start_relay_that};
use crate::ends::running::{PATIENCE, Running};

/// A server that sends back what it gets.
fn echo() -> SocketAddr {
    let socket = UdpSocket::bind((local(1), 0)).unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((count, source)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..count], source);
        }
    });
    address
}

fn to(target: SocketAddr) -> Pipe {
    let target = PipeTarget {
        latency: Span::from_secs(5),
        order: Order::default(),
        target: target.to_string().parse().unwrap(),
    };
    Pipe { name: None, listen: SocketAddr::new(local(1), 0), target, pieces: false }
}

/// An end with these pipes, by the scheduler of this name.
fn start(identity: &Identity, relay: SocketAddr, pipes: Vec<Pipe>, scheduler: &str) -> Running {
    let links = Links::plain(vec![Local::Address(local(1)), Local::Address(local(2))]);
    let mut options = ProxyOptions { links, ..ProxyOptions::new(Connect::to(vec![relay], identity.pairing())) };
    options.times.tell_every = Span::from_millis(20);
    options.scheduling.scheduler = scheduler.to_owned();
    Running::start(move |watch| pipe(pipes, options, watch))
}

fn place(progress: &weftway_transfer::Progress, number: usize) -> SocketAddr {
    progress.ports[number].strip_prefix("udp://").unwrap().parse().unwrap()
}

/// Every datagram goes over both links, and comes once. Of 1316 bytes it is one packet, once packets are found to hold it.
#[test]
fn datagrams_go_over_both_paths_and_come_back_once() {
    let identity = Identity::generate().unwrap();
    let (server, other) = (echo(), echo());
    let leave = PipeLeave::parse(&[server.to_string(), other.to_string()]).unwrap();
    let (mut relay, address) =
        start_relay_that(Identity::load(&identity.store()).unwrap(), |options| options.pipes = leave);
    let mut ends = start(&identity, address, vec![to(server), to(other)], "redundant");
    let open = ends.until("both pipes and both paths", |progress| {
        let paths = progress.paths.iter().filter(|path| path.up).count();
        progress.pipes.len() == 2 && progress.pipes.iter().all(|pipe| pipe.open) && paths == 2
    });
    for number in 0..2 {
        let source = UdpSocket::bind((local(1), 0)).unwrap();
        source.set_read_timeout(Some(PATIENCE)).unwrap();
        for round in 0..200u8 {
            source.send_to(&[round; 1316], place(&open, number)).unwrap();
            let mut buffer = [0; 2000];
            let (count, from) = source.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..count], from), (&[round; 1316][..], place(&open, number)));
        }
        source.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(source.recv_from(&mut [0; 2000]).is_err(), "each comes once");
    }
    let told = ends.until("all are told of", |progress| {
        progress.pipes.iter().all(|pipe| (pipe.up.total.delivered, pipe.down.total.delivered) == (200, 200))
    });
    for one in &told.pipes {
        assert_eq!((one.up.total.lost, one.up.total.late, one.sources), (0, 0, 1), "{one:?}");
        assert!(one.drops.is_empty());
    }
    assert!(told.paths.iter().all(|path| path.bytes > 2 * 200 * 1316), "{:?}", told.paths);
    assert!(matches!(ends.end(), Err(Failure::Interrupted)));
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
}

/// The scheduler of pipes takes over at the relay, and counts for what it sends alone.
#[test]
fn answers_go_by_the_scheduler_of_pipes() {
    let identity = Identity::generate().unwrap();
    let server = echo();
    let leave = PipeLeave::parse(&[server.to_string()]).unwrap();
    let (mut relay, address) = start_relay_that(Identity::load(&identity.store()).unwrap(), |options| {
        options.scheduling.scheduler = "min-rtt".to_owned();
        (options.pipes, options.pipe_scheduler) = (leave, Some("redundant".to_owned()));
    });
    let mut ends = start(&identity, address, vec![to(server)], "min-rtt");
    let open = ends.until("the pipe and both paths", |progress| {
        progress.paths.iter().filter(|path| path.up).count() == 2 && progress.pipes.iter().any(|pipe| pipe.open)
    });
    let source = UdpSocket::bind((local(1), 0)).unwrap();
    source.set_read_timeout(Some(PATIENCE)).unwrap();
    for round in 0..200u8 {
        source.send_to(&[round; 1000], place(&open, 0)).unwrap();
        source.recv_from(&mut [0; 2000]).unwrap();
    }
    let both = |progress: &weftway_transfer::Progress| {
        let clients = &progress.connections.by_client;
        let paths = clients.iter().flat_map(|client| &client.paths);
        paths.filter(|path| path.bytes > 190 * 1000).count() == 2
    };
    relay.until("answers on both paths", both);
    let told = ends.until("all are told of", |progress| progress.pipes[0].down.total.delivered == 200);
    assert!(told.paths.iter().map(|path| path.bytes).sum::<u64>() < 300 * 1000, "{:?}", told.paths);
    assert!(matches!(ends.end(), Err(Failure::Interrupted)));
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
}

#[test]
fn a_relay_that_allows_no_pipe_says_so() {
    let identity = Identity::generate().unwrap();
    let (mut relay, address) = start_relay_that(Identity::load(&identity.store()).unwrap(), |_| ());
    let mut ends = start(&identity, address, vec![to("127.0.0.1:9".parse().unwrap())], "min-rtt");
    let told = ends.ended().unwrap_err().to_string();
    assert!(told.starts_with("the relay refuses a pipe to 127.0.0.1:9: it allows no pipe there"), "{told}");
    relay.until("it is counted", |progress| progress.connections.refusals.get("not_allowed") == Some(&1));
    assert!(matches!(relay.end(), Err(Failure::Interrupted)));
}
