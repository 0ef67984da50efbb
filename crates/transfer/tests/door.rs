//! Who has no token does not keep out who has one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ends::peer::Peer;
use crate::ends::{BOTH, assert_same, connect, listening, refusing, tree};
use weftway_path::Span;
use weftway_transfer::{Failure, Progress, send};
use weftway_udp::tls::Identity;

#[test]
fn handshakes_that_nobody_goes_on_with_keep_nobody_out() {
    let (_keep, root) = tree(100_000);
    let (target, pairing, receiver) = listening();
    // More than there are places, each from a port of its own. Who sends them does not listen.
    let stranger = Identity::generate().unwrap().pairing();
    let mut strangers = Vec::new();
    for _ in 0..60 {
        let mut peer = Peer::at("127.0.0.3", receiver.address);
        peer.begin(receiver.address, &stranger);
        strangers.push(peer);
    }
    send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| true).unwrap();
    receiver.end().unwrap();
    assert_same(&root, target.path());
}

#[test]
fn handshakes_without_a_token_keep_nobody_out() {
    let (_keep, root) = tree(100_000);
    let (target, pairing, receiver) = listening();
    // Who shakes hands knows the certificate: it travels in each handshake.
    let stop = Arc::new(AtomicBool::new(false));
    let (told, shaken) = std::sync::mpsc::channel();
    let strangers = std::thread::spawn({
        let (stop, pairing, address) = (stop.clone(), pairing.clone(), receiver.address);
        move || {
            // From several networks, so that no share of one of them is the end of it.
            let mut peers: Vec<Peer> = (0..5).map(|net| Peer::at(&format!("127.0.{net}.9"), address)).collect();
            let (mut most, mut rounds) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                for peer in &mut peers {
                    peer.connections.retain(|connection| !connection.is_closed());
                    if peer.connections.len() < 10 {
                        peer.begin(address, &pairing);
                    }
                    peer.step();
                }
                most = most.max(peers.iter().map(Peer::established).sum());
                rounds += 1;
                if rounds == 40 {
                    told.send(most).unwrap();
                }
            }
        }
    });
    let most = shaken.recv().unwrap();
    assert!(most >= 8, "{most} handshakes at a time");
    let sent = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| true);
    stop.store(true, Ordering::Relaxed);
    strangers.join().unwrap();
    sent.unwrap();
    receiver.end().unwrap();
    assert_same(&root, target.path());
}

#[test]
fn a_network_has_a_share_of_the_places() {
    let (_target, pairing, receiver) = listening();
    let mut peer = Peer::at("127.0.0.9", receiver.address);
    // There are 32 places.
    for number in 1..=44 {
        peer.begin(receiver.address, &pairing);
        peer.step_until("a handshake", |peer| peer.connections[number - 1].is_established());
    }
    // One that is over because its time was up was told something else.
    let had_to_go = |peer: &Peer, at: usize| peer.connections[at].close_reason().is_some_and(|close| close.code == 8);
    peer.step_until("too many", |peer| (0..44).filter(|&at| had_to_go(peer, at)).count() >= 12);
    let open: Vec<usize> = (0..44).filter(|&at| !had_to_go(&peer, at)).collect();
    assert_eq!(open, (12..44).collect::<Vec<_>>(), "the oldest ones had to go");
    receiver.stop.store(true, Ordering::Relaxed);
    assert!(matches!(receiver.end(), Err(Failure::Interrupted)));
}

#[test]
fn an_end_without_room_is_asked_again() {
    let (_keep, root) = tree(1000);
    let pairing = Identity::generate().unwrap().pairing();
    // An end that refuses every connection, as one does that has no room.
    let refusing = refusing();
    let mut notes = Vec::new();
    let mut options = connect(refusing.address, &pairing, &["127.0.0.1"]);
    options.times.give_up_after = Span::from_millis(2500);
    let failure = send(&root, options, &mut |progress: &Progress| {
        notes.extend(progress.note.clone());
        true
    });
    assert!(matches!(failure, Err(Failure::Full)), "{failure:?}");
    assert!(notes.len() == 1 && notes[0].contains("no room"), "{notes:?}");
    assert!(refusing.end() >= 2, "it was asked more than once");
}

#[test]
fn wrong_tokens_are_counted_and_told() {
    let (_keep, root) = tree(1000);
    let (_target, pairing, receiver) = listening();
    let mut wrong = pairing.clone();
    wrong.token = Identity::generate().unwrap().pairing().token;
    let notes = receiver.notes.clone();
    for _ in 0..3 {
        let refused = send(&root, connect(receiver.address, &wrong, &[]), &mut |_| true);
        assert!(matches!(refused, Err(Failure::Refused(_))), "{refused:?}");
        // The first is told at the receiver's next turn, the others a while later and in one.
        let start = Instant::now();
        while notes.lock().unwrap().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(10), "the first wrong token was told");
            thread::sleep(Duration::from_millis(5));
        }
    }
    send(&root, connect(receiver.address, &pairing, &[]), &mut |_| true).unwrap();
    receiver.end().unwrap();
    let notes = notes.lock().unwrap().clone();
    assert_eq!(notes, ["a wrong token was shown once, and refused", "a wrong token was shown 3 times, and refused"]);
}
