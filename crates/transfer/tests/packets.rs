//! How long the packets of a transfer are, and how many leave at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weftway_path::PathId;
use weftway_transfer::send;
use weftway_transfer::wire::Role;

use crate::ends::peer::Peer;
use crate::ends::{BOTH, assert_same, connect, listening, relay, tree};

/// The payload of QUIC's least packet.
const LEAST: u64 = 1200;

#[test]
fn records_are_as_long_as_both_paths_carry() {
    let (_keep, root) = tree(20_000_000);
    let (target, pairing, receiver) = listening();
    let sent = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| true).unwrap();
    receiver.end().unwrap();
    assert_same(&root, target.path());
    // Loopback interfaces carry more than a jumbo frame.
    for path in sent.paths {
        assert!(path.bytes > 2 * LEAST * path.packets, "{} bytes in {} packets", path.bytes, path.packets);
    }
}

#[test]
fn a_path_that_carries_no_long_packets_gets_short_ones() {
    // noq takes a probe of the path's MTU for lost after four round trips, and looks for it by halves.
    let (_keep, root) = tree(24_000_000);
    let (target, pairing, receiver) = listening();
    let longest = Arc::new(AtomicU64::new(0));
    let met = longest.clone();
    let (address, stop, thread) = relay(receiver.address, move |_, datagram| {
        let fits = datagram.len() <= 1300;
        if fits {
            met.fetch_max(datagram.len() as u64, Ordering::Relaxed);
        }
        fits
    });
    let sent = send(&root, connect(address, &pairing, &["127.0.0.1"]), &mut |_| true).unwrap();
    receiver.end().unwrap();
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    assert_same(&root, target.path());
    assert!(longest.load(Ordering::Relaxed) > LEAST, "no packet was longer than the least");
    assert_eq!(sent.paths[0].given_up, 0);
}

/// What was cut for long packets is under way when the path begins to lose them.
#[test]
fn a_path_that_carries_less_from_some_time_on_goes_on() {
    let (_keep, root) = tree(12_000_000);
    let (target, pairing, receiver) = listening();
    let (mut carried, lost) = (0, Arc::new(AtomicU64::new(0)));
    let missed = lost.clone();
    let (address, stop, thread) = relay(receiver.address, move |_, datagram| {
        let fits = carried < 4_000_000 || datagram.len() as u64 <= LEAST;
        carried += if fits { datagram.len() } else { 0 };
        missed.fetch_add(u64::from(!fits), Ordering::Relaxed);
        fits
    });
    let mut notes = Vec::new();
    let sent = send(&root, connect(address, &pairing, &["127.0.0.1"]), &mut |progress| {
        notes.extend(progress.note.clone());
        true
    });
    sent.unwrap();
    receiver.end().unwrap();
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    assert_same(&root, target.path());
    assert!(notes.is_empty(), "it did not take another connection: {notes:?}");
    assert!(lost.load(Ordering::Relaxed) > 10, "long packets were under way");
}

/// The other end has acknowledged next to nothing: only an initial window may leave (RFC 9002 §7.2), here ten packets.
#[test]
fn what_is_said_beside_the_data_has_a_window() {
    let (_target, pairing, receiver) = listening();
    let mut peer = Peer::greeting(receiver.address, &pairing, Role::Send);
    let now = peer.now();
    let connection = &mut peer.connections[0];
    assert!(connection.write_control(&[0; 200_000]).unwrap() > 100_000, "it is not the stream that holds it back");
    connection.flush(now);
    let on_path = connection.outgoing.iter().filter(|out| out.path == Some(PathId::new(0))).count();
    assert!((1..=20).contains(&on_path), "{on_path} packets leave at once");
    // Nobody waits for the rest: it makes no sense.
    drop(peer);
    receiver.stop.store(true, Ordering::Relaxed);
    receiver.end().unwrap_err();
}
