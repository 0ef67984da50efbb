//! Connections that have not shown the token, at an end that listens.

use noq_proto::{DatagramEvent, Endpoint, EndpointConfig};
use weftway_udp::Local;
use weftway_udp::settings::IDLE;
use weftway_udp::tls::client;

use super::*;
use crate::connection::session::lost;
use crate::failure::Failure;
use crate::wire::encode;

/// A connection to a listening end, both in this thread.
struct Pair {
    identity: Identity,
    here: Net,
    listener: Listener,
    there: Net,
    stranger: QuicConnection,
}

impl Pair {
    fn new() -> Self {
        let mut identity = Identity::generate().unwrap();
        identity.add("laptop").unwrap();
        let (config, _) = client(&identity.pairing(), ObserverState::new(), ETHERNET_PAYLOAD, IDLE).unwrap();
        let listener = Listener::new(&identity, Role::Receive).unwrap();
        let endpoint = |server| Endpoint::new(Arc::new(EndpointConfig::default()), server, true);
        let listening = endpoint(Some(Arc::new(listener.config())));
        let here = Net::server(listening, &[], ([127, 0, 0, 1], 0).into()).unwrap();
        let address = here.sockets()[0].address();
        let mut there = Net::client(endpoint(None), &[Local::parse("127.0.0.1")], &[address]).unwrap();
        let begin = there.clock().theirs(there.now());
        let (handle, inner) = there.endpoint.connect(begin, config, address, "weftway").unwrap();
        let routes = there.routes(address).into_iter().map(|(route, _)| route).collect();
        let (observers, first) = (ObserverState::new(), PathId::new(0));
        let stranger = QuicConnection::new(inner, handle, there.clock(), observers, routes, first);
        Self { identity, here, listener, there, stranger }
    }

    fn step(&mut self) {
        assert!(self.step_beside(None).is_none(), "no token was shown");
    }

    /// The stranger shows the token of a pairing line.
    fn greet(&mut self, token: &Token) {
        while !self.stranger.is_established() {
            self.step();
        }
        let transfer = TransferId { task: "task".to_owned(), run: "second".to_owned() };
        let hello = encode(&Message::hello(token.text(), Role::Send, transfer)).unwrap();
        self.stranger.open_control();
        assert_eq!(self.stranger.write_control(&hello).unwrap(), hello.len());
    }

    /// A step while the transfer `current` is under way.
    fn step_beside(&mut self, current: Option<CurrentTransfer<'_>>) -> Option<Box<AcceptedConnection>> {
        let now = self.there.now();
        self.stranger.flush(now);
        self.there.send(&mut self.stranger);
        self.here.wait(self.here.now() + Span::from_millis(5), None);
        self.here.receive();
        let now = self.here.now();
        while let Some(arrival) = self.here.next_arrival() {
            match self.here.handle(now, arrival) {
                Some(DatagramEvent::NewConnection(incoming)) => self.listener.accept(&mut self.here, now, incoming),
                Some(DatagramEvent::ConnectionEvent(whose, event)) => {
                    self.listener.handle(&mut self.here, now, whose, event);
                }
                _ => {}
            }
        }
        let accepted = self.listener.turn(&mut self.here, now, current);
        self.there.receive();
        let now = self.there.now();
        while let Some(arrival) = self.there.next_arrival() {
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = self.there.handle(now, arrival) {
                self.stranger.handle_event(now, &mut self.there.endpoint, event);
            }
        }
        accepted
    }
}

#[test]
fn records_of_who_has_no_token_are_not_kept() {
    let mut pair = Pair::new();
    while !pair.stranger.is_established() {
        pair.step();
    }
    let mut left = 0;
    for _ in 0..20 {
        let now = pair.there.now();
        let _ = pair.stranger.send(now, PathId::new(0), vec![7; 1000].into(), 1000);
        left += pair.stranger.outgoing.iter().filter(|datagram| datagram.bytes.len() > 1000).count();
        pair.step();
        assert!(pair.listener.pending[0].connection.receive().is_none());
    }
    assert!(left > 10, "{left} records left");
}

#[test]
fn one_that_is_refused_has_nothing_due_but_what_noq_still_has_to_do() {
    let mut pair = Pair::new();
    while !pair.stranger.is_established() {
        pair.step();
    }
    // Its time is up.
    let now = pair.here.now() + PATIENCE;
    assert!(pair.listener.turn(&mut pair.here, now, None).is_none());
    assert!(pair.listener.pending[0].refused);
    assert!(pair.listener.next_event() > now, "a loop that waits for what is due would not wait");
}

#[test]
fn the_name_of_the_token_that_was_shown_is_known() {
    for name in [None, Some("laptop")] {
        let mut pair = Pair::new();
        let pairing = name.map_or_else(|| Ok(pair.identity.pairing()), |name| pair.identity.pairing_of(name)).unwrap();
        pair.greet(&pairing.token);
        let accepted = loop {
            if let Some(accepted) = pair.step_beside(None) {
                break accepted;
            }
        };
        assert_eq!(accepted.shown.name.as_deref(), name);
        assert!(pair.listener.is_valid(&accepted.shown.token));
    }
}

#[test]
fn a_token_that_is_revoked_before_or_after_it_is_shown_is_refused() {
    for shown_first in [false, true] {
        let mut pair = Pair::new();
        let token = pair.identity.pairing_of("laptop").unwrap().token;
        // It waits until the run before it has been silent for a while.
        let id = TransferId { task: "task".to_owned(), run: "first".to_owned() };
        let current = CurrentTransfer { id: &id, heard: Instant::ZERO };
        if shown_first {
            pair.greet(&token);
            while pair.listener.pending[0].known.is_none() {
                assert!(pair.step_beside(Some(current)).is_none());
            }
        }
        pair.identity.revoke("laptop").unwrap();
        pair.listener.set_identity(&pair.identity).unwrap();
        if !shown_first {
            pair.greet(&token);
        }
        while !pair.stranger.is_closed() {
            assert!(pair.step_beside(Some(current)).is_none());
        }
        assert_eq!(pair.stranger.close_reason().unwrap().reason, WRONG_TOKEN);
        assert_eq!(pair.listener.wrong_tokens(), 1);
    }
}

#[test]
fn a_network_is_what_one_host_may_have() {
    let network = |text: &str| network_of(text.parse().unwrap()).to_string();
    assert_eq!(network("192.0.2.77"), "192.0.2.0");
    assert_eq!(network("::ffff:192.0.2.77"), "192.0.2.0");
    assert_eq!(network("2001:db8:1:2ff:3:4:5:6"), "2001:db8:1:200::");
}

#[test]
fn one_that_loses_its_place_in_the_midst_of_the_handshake_knows_that_there_was_no_room() {
    let mut pair = Pair::new();
    let now = pair.there.now();
    pair.stranger.flush(now);
    pair.there.send(&mut pair.stranger);
    while pair.listener.pending.is_empty() {
        pair.here.wait(pair.here.now() + Span::from_millis(5), None);
        pair.here.receive();
        let now = pair.here.now();
        while let Some(arrival) = pair.here.next_arrival() {
            if let Some(DatagramEvent::NewConnection(incoming)) = pair.here.handle(now, arrival) {
                pair.listener.accept(&mut pair.here, now, incoming);
            }
        }
    }
    // Its address counts as confirmed by a Retry, so that it is told. QUIC carries no reason of an application before
    // the handshake is done.
    pair.listener.pending[0].confirmed = true;
    let now = pair.here.now();
    pair.listener.evict(&mut pair.here, now, 0);
    while !pair.stranger.is_closed() {
        pair.step();
    }
    assert!(!pair.stranger.is_established());
    assert!(matches!(lost(&mut pair.stranger), Failure::Full));
}
