//! Streams that outlive the connection which carries them. Everything between proxy and relay goes through a router
//! that can lose it all, and a connection counts as lost after three seconds instead of thirty.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use weftway_path::Span;
use weftway_transfer::wire::{Message, ReceivedRecords, Role, SessionState, TransferId, VERSION};
use weftway_udp::tls::{Identity, Pairing};

use crate::ends::forwarder::Forwarder;
use crate::ends::peer::Peer;
use crate::ends::programs::{bytes, connect, echo, start_proxy_with, start_relay, start_relay_again, there_and_back};
use crate::ends::running::Running;

const BYTES: usize = 3_000_000;

fn again(identity: &Identity) -> Identity {
    Identity::load(&identity.store()).unwrap()
}

fn start_proxy(identity: &Identity, address: SocketAddr) -> (Running, SocketAddr) {
    start_proxy_with(identity.pairing(), address, |options| options.times.lost_after = Span::from_secs(3))
}

/// Sends the first half through, and gets it back.
fn half_way(mut stream: &TcpStream, sent: &[u8]) -> Vec<u8> {
    let mut got = vec![0; sent.len() / 2];
    thread::scope(|scope| {
        scope.spawn(|| (&*stream).write_all(&sent[..sent.len() / 2]).unwrap());
        stream.read_exact(&mut got).unwrap();
    });
    got
}

/// A connection of a program is half done when everything is lost that `lost` says. It goes on when the proxy has
/// connected again, and what was written meanwhile arrives.
fn goes_on_after(lost: [bool; 2]) {
    let identity = Identity::generate().unwrap();
    let (relay, address) = start_relay(again(&identity));
    let forwarder = Forwarder::to(address);
    let (proxy, port) = start_proxy(&identity, forwarder.address);
    let (stream, sent) = (connect(port, echo()).unwrap(), bytes(BYTES, 5));
    let mut got = half_way(&stream, &sent);
    forwarder.lose(lost[0], lost[1]);
    thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent[BYTES / 2..]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        proxy.until_told("the connection was lost");
        if lost[0] {
            relay.until_told("is gone");
        }
        forwarder.lose(false, false);
        relay.until_told("is here again; what was open goes on");
        (&stream).read_to_end(&mut got).unwrap();
    });
    assert!(got == sent, "{} of {BYTES} bytes", got.len());
    there_and_back(port, echo(), 100_000, 2);
}

#[test]
fn streams_go_on_when_another_connection_follows_one_that_was_lost() {
    goes_on_after([true, true]);
}

/// The relay hears its client all the time: the client knows alone that the connection is lost.
#[test]
fn a_client_that_comes_again_takes_its_place_while_the_relay_believes_it_to_be_there() {
    goes_on_after([false, true]);
}

#[test]
fn a_relay_that_knows_nothing_of_the_streams_lets_them_end_and_takes_new_ones() {
    let identity = Identity::generate().unwrap();
    let (mut relay, address) = start_relay(again(&identity));
    let forwarder = Forwarder::to(address);
    let (proxy, port) = start_proxy(&identity, forwarder.address);
    let (mut stream, sent) = (connect(port, echo()).unwrap(), bytes(BYTES, 5));
    half_way(&stream, &sent);
    forwarder.lose(true, true);
    let _ = relay.end();
    let _relay = start_relay_again(again(&identity), address.port());
    proxy.until_told("the connection was lost");
    forwarder.lose(false, false);
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).is_err() || rest.is_empty(), "it is reset");
    there_and_back(port, echo(), 100_000, 2);
}

/// Greets as the client of `pairing` that goes on with `session`: the session that it is in then.
fn greet(address: SocketAddr, pairing: &Pairing, session: Option<SessionState>) -> (Peer, SessionState) {
    let mut peer = Peer::connected(address, pairing);
    let transfer = TransferId { task: "a test".to_owned(), run: "once".to_owned() };
    let (version, token) = (VERSION, pairing.token.text());
    peer.say(&Message::Hello { version, token, role: Role::Proxy, transfer, policy: false, session });
    let Message::Welcome { session: Some(session), .. } = peer.hear() else { panic!("no session") };
    (peer, session)
}

fn wanted(id: &str, arrived: u64) -> Option<SessionState> {
    let received = ReceivedRecords { connection: 0, arrived, held: Vec::new() };
    Some(SessionState { id: id.to_owned(), received: Some(received) })
}

#[test]
fn a_session_is_of_use_with_its_own_token_alone() {
    let mut identity = Identity::generate().unwrap();
    identity.add("laptop").unwrap();
    let laptop = identity.pairing_of("laptop").unwrap();
    let (_relay, address) = start_relay(again(&identity));
    let (_first, begun) = greet(address, &laptop, None);
    assert_eq!(begun.received, None, "it begins");
    // Who has another token gets another session, and so does one that guesses.
    for (pairing, id) in [(&identity.pairing(), begun.id.as_str()), (&laptop, "AAAAAAAAAAAAAAAAAAAAAA")] {
        let (_other, session) = greet(address, pairing, wanted(id, 0));
        assert!(session.id != begun.id && session.received.is_none(), "{session:?}");
    }
    let (_again, session) = greet(address, &laptop, wanted(&begun.id, 0));
    assert!(session.id == begun.id && session.received.is_some(), "{session:?}");
}

#[test]
fn a_client_that_says_to_have_what_was_never_sent_loses_its_session() {
    let identity = Identity::generate().unwrap();
    let (relay, address) = start_relay(again(&identity));
    let (_first, begun) = greet(address, &identity.pairing(), None);
    let mut peer = Peer::connected(address, &identity.pairing());
    let transfer = TransferId { task: "a test".to_owned(), run: "once".to_owned() };
    let (version, token) = (VERSION, identity.pairing().token.text());
    let session = wanted(&begun.id, 1 << 40);
    peer.say(&Message::Hello { version, token, role: Role::Proxy, transfer, policy: false, session });
    peer.wait_for_the_end();
    relay.until_told("has failed");
}
