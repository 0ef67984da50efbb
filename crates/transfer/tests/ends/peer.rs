//! An end of which a test says every word: it may be slow, silent, or mean ill.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noq_proto::{DatagramEvent, Endpoint, EndpointConfig, FourTuple};
use weftway_path::{PathId, Span};
use weftway_quic::driver::connection::QuicConnection;
use weftway_quic::driver::observer::ObserverState;
use weftway_transfer::wire::{MAX_MESSAGE, Message, Role, TransferId, decode, encode};
use weftway_udp::settings::{ETHERNET_PAYLOAD, IDLE};
use weftway_udp::tls::{self, Pairing};
use weftway_udp::{Local, Net};

/// What a test waits for comes by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connections of one such end, over one socket.
pub struct Peer {
    net: Net,
    pub connections: Vec<QuicConnection>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Peer {
    /// An end at `local` that has not begun anything.
    pub fn at(local: &str, address: SocketAddr) -> Self {
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true);
        let net = Net::client(endpoint, &[Local::parse(local)], &[address]).unwrap();
        Self { net, connections: Vec::new(), incoming: Vec::new(), outgoing: Vec::new() }
    }

    /// Begins a handshake; its first datagram leaves.
    pub fn begin(&mut self, address: SocketAddr, pairing: &Pairing) {
        let (now, observers) = (self.net.now(), ObserverState::new());
        let (config, _) = tls::client(pairing, observers.clone(), ETHERNET_PAYLOAD, IDLE).unwrap();
        let at = self.net.clock().theirs(now);
        let (handle, inner) = self.net.endpoint.connect(at, config, address, "weftway").unwrap();
        let routes: Vec<FourTuple> = self.net.routes(address).into_iter().map(|(route, _)| route).collect();
        let first = PathId::new(0);
        let mut connection = QuicConnection::new(inner, handle, self.net.clock(), observers, routes, first);
        connection.flush(now);
        self.net.send(&mut connection);
        self.connections.push(connection);
    }

    /// One round: takes in what came, and sends what is due.
    pub fn step(&mut self) {
        self.net.wait(self.net.now() + Span::from_millis(5), None);
        self.net.receive();
        let now = self.net.now();
        while let Some(arrival) = self.net.next_arrival() {
            let Some(DatagramEvent::ConnectionEvent(whose, event)) = self.net.handle(now, arrival) else { continue };
            // The handle of one that is over may be that of a later one.
            if let Some(connection) = self.connections.iter_mut().rfind(|connection| connection.handle() == whose) {
                connection.handle_event(now, &mut self.net.endpoint, event);
            }
        }
        for (at, connection) in self.connections.iter_mut().enumerate() {
            if connection.timeout() <= now {
                connection.handle_timeout(now, &mut self.net.endpoint);
            }
            if at == 0 && connection.is_established() && !connection.is_closed() {
                let taken = connection.write_control(&self.outgoing).unwrap_or(0);
                self.outgoing.drain(..taken);
                let _ = connection.read_control(&mut self.incoming);
            }
            connection.answer(now, PathId::new(0));
            self.net.send(connection);
        }
    }

    /// Steps until it is so.
    pub fn step_until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < PATIENCE, "{what}");
            self.step();
        }
    }

    pub fn now(&self) -> weftway_path::Instant {
        self.net.now()
    }

    /// How many handshakes are done.
    pub fn established(&self) -> usize {
        self.connections.iter().filter(|connection| connection.is_established()).count()
    }

    /// Connects. Nothing is said yet.
    pub fn connected(address: SocketAddr, pairing: &Pairing) -> Self {
        let mut peer = Self::at("127.0.0.1", address);
        peer.begin(address, pairing);
        peer.step_until("a handshake", |peer| peer.established() == 1);
        peer.connections[0].open_control();
        peer
    }

    /// Connects, shows the token, and waits for the greeting.
    pub fn greeting(address: SocketAddr, pairing: &Pairing, role: Role) -> Self {
        let mut peer = Self::connected(address, pairing);
        let transfer = TransferId { task: "a test".to_owned(), run: "once".to_owned() };
        peer.say(&Message::hello(pairing.token.text(), role, transfer));
        assert_eq!(peer.hear(), Message::welcome());
        peer
    }

    pub fn say(&mut self, message: &Message) {
        self.outgoing.extend(encode(message).unwrap());
    }

    /// The next message.
    pub fn hear(&mut self) -> Message {
        let mut heard = None;
        self.step_until("a message", |peer| {
            heard = decode(&mut peer.incoming, MAX_MESSAGE).unwrap();
            heard.is_some()
        });
        heard.unwrap()
    }

    /// Sends what is to be said, and takes in nothing.
    pub fn flush(&mut self) {
        let taken = self.connections[0].write_control(&self.outgoing).unwrap();
        self.outgoing.drain(..taken);
        let now = self.net.now();
        self.connections[0].flush(now);
        self.net.send(&mut self.connections[0]);
    }

    /// Ends the connection with `code`; the datagram that says so leaves.
    pub fn close(&mut self, code: u32) {
        let now = self.net.now();
        self.connections[0].close(now, &mut self.net.endpoint, code, "");
        self.net.send(&mut self.connections[0]);
    }

    /// Steps until the other end has ended the connection.
    pub fn wait_for_the_end(&mut self) {
        self.step_until("the end", |peer| peer.connections[0].is_closed());
    }

    /// Sends a record on the first connection, as soon as it takes one.
    pub fn send(&mut self, record: &[u8]) {
        let record = bytes::Bytes::copy_from_slice(record);
        let now = self.net.now();
        let _ = self.connections[0].send(now, PathId::new(0), record, 0);
        self.net.send(&mut self.connections[0]);
    }
}
