//! Two noq endpoints in virtual time, joined by links with a rate, a delay and a queue. For tests and measurements.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use noq_proto::rustls::RootCertStore;
use noq_proto::rustls::pki_types::PrivatePkcs8KeyDer;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, Event, FourTuple, PathStatus,
    ServerConfig, TransportConfig,
};

thread_local! {
    static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The clock of the network that was driven last on this thread.
pub fn clock() -> Instant {
    NOW.get().expect("a network is driven")
}

/// One link, both ways alike.
#[derive(Clone, Copy)]
pub struct Link {
    pub mbps: f64,
    pub delay: Duration,
    /// What the queue holds before it drops.
    pub queue: Duration,
}

pub struct Side {
    endpoint: Endpoint,
    pub conn: Option<(ConnectionHandle, Connection)>,
    config: Option<Arc<ServerConfig>>,
    busy: Vec<Instant>,
    /// Datagrams of each handed-out piece, with the link that carried it.
    pub pieces: Vec<(usize, usize)>,
    pub events: Vec<Event>,
}

type Arrival = Reverse<(Instant, u64, bool, usize, Vec<u8>)>;

pub struct Net {
    pub now: Instant,
    pub client: Side,
    pub server: Side,
    pub links: Vec<Link>,
    /// Links on which everything is lost now.
    pub dead: Vec<bool>,
    /// How much of what each link carries is lost, in both directions.
    pub loss: Vec<f64>,
    /// What decides which datagrams these are.
    draw: u64,
    air: BinaryHeap<Arrival>,
    serial: u64,
}

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 9, 9)), 443);

fn client_address(link: usize) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(10, 0, link as u8, 1).into(), 5000)
}

fn endpoint(seed: u8) -> Endpoint {
    let mut config = EndpointConfig::default();
    config.rng_seed(Some([seed; 32]));
    Endpoint::new(Arc::new(config), None, false)
}

impl Side {
    fn new(seed: u8, links: usize, now: Instant) -> Self {
        let endpoint = endpoint(seed);
        Self { endpoint, conn: None, config: None, busy: vec![now; links], pieces: Vec::new(), events: Vec::new() }
    }

    pub fn conn(&mut self) -> &mut Connection {
        &mut self.conn.as_mut().expect("a connection").1
    }
}

impl Net {
    /// A connection over all links, with a path on each.
    pub fn new(links: &[Link], client: Arc<TransportConfig>, server: Arc<TransportConfig>) -> Self {
        let now = Instant::now();
        NOW.set(Some(now));
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("a root");
        let mut server_config =
            ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into()).expect("a server");
        server_config.transport_config(server);
        let mut client_config = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a client");
        client_config.transport_config(client);
        let mut net = Self {
            now,
            client: Side::new(1, links.len(), now),
            server: Side::new(2, links.len(), now),
            links: links.to_vec(),
            dead: vec![false; links.len()],
            loss: vec![0.0; links.len()],
            draw: 1,
            air: BinaryHeap::new(),
            serial: 0,
        };
        let server_config = Arc::new(server_config);
        net.server.endpoint.set_server_config(Some(Arc::clone(&server_config)));
        net.server.config = Some(server_config);
        net.client.conn = Some(net.client.endpoint.connect(now, client_config, SERVER, "localhost").expect("connects"));
        net.run_for(Duration::from_secs(1));
        assert!(net.server.conn.is_some() && !net.client.conn().is_handshaking(), "the handshake ends");
        for link in 1..links.len() {
            let tuple = FourTuple::new(SERVER, Some(client_address(link).ip()));
            let now = net.now;
            net.client.conn().open_path(tuple, PathStatus::Available, now).expect("a path");
            net.run_for(Duration::from_millis(500));
        }
        net
    }

    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        self.run_until(end, |_| false);
    }

    /// Goes on until `end`, or until `done` says so after a step. True if it did.
    pub fn run_until(&mut self, end: Instant, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        loop {
            self.transmit(false);
            self.transmit(true);
            if done(self) {
                return true;
            }
            self.transmit(false);
            self.transmit(true);
            let mut next = self.air.peek().map_or(end, |Reverse(arrival)| arrival.0);
            for side in [&self.client, &self.server] {
                if let Some(at) = side.conn.as_ref().and_then(|(_, conn)| conn.poll_timeout()) {
                    next = next.min(at);
                }
            }
            if next >= end {
                self.now = end;
                NOW.set(Some(end));
                return false;
            }
            self.now = self.now.max(next);
            NOW.set(Some(self.now));
            for side in [&mut self.client, &mut self.server] {
                if let Some((_, conn)) = &mut side.conn
                    && conn.poll_timeout().is_some_and(|at| at <= self.now)
                {
                    conn.handle_timeout(self.now);
                }
            }
            while self.air.peek().is_some_and(|Reverse(arrival)| arrival.0 <= self.now) {
                let Some(Reverse((_, _, to_server, link, data))) = self.air.pop() else { break };
                self.deliver(to_server, link, &data);
            }
        }
    }

    fn deliver(&mut self, to_server: bool, link: usize, data: &[u8]) {
        let (client, now) = (client_address(link), self.now);
        let (side, tuple) = match to_server {
            true => (&mut self.server, FourTuple::new(client, Some(SERVER.ip()))),
            false => (&mut self.client, FourTuple::new(SERVER, Some(client.ip()))),
        };
        let mut buf = Vec::new();
        match side.endpoint.handle(now, tuple, None, BytesMut::from(data), &mut buf) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, conn)) = &mut side.conn {
                    conn.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let config = side.config.clone();
                side.conn = Some(side.endpoint.accept(incoming, now, &mut buf, config).expect("accepts"));
            }
            _ => {}
        }
    }

    fn transmit(&mut self, from_server: bool) {
        let side = if from_server { &mut self.server } else { &mut self.client };
        let Some((handle, conn)) = &mut side.conn else { return };
        loop {
            while let Some(event) = conn.poll_endpoint_events() {
                if let Some(answer) = side.endpoint.handle_event(*handle, event) {
                    conn.handle_event(answer);
                }
            }
            while let Some(event) = conn.poll() {
                side.events.push(event);
            }
            let mut buf = Vec::new();
            let most = NonZeroUsize::new(10).expect("not zero");
            let Some(transmit) = conn.poll_transmit(self.now, most, &mut buf) else { return };
            let index = |ip: IpAddr| (0..self.links.len()).find(|link| client_address(*link).ip() == ip);
            let link = match from_server {
                true => index(transmit.destination.ip()),
                false => transmit.src_ip.map_or(Some(0), index),
            };
            let link = link.expect("an address of a link");
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            side.pieces.push((link, transmit.size.div_ceil(segment)));
            if self.dead[link] {
                continue;
            }
            let Link { mbps, delay, queue } = self.links[link];
            for data in buf[..transmit.size].chunks(segment) {
                let start = side.busy[link].max(self.now);
                if start > self.now + queue {
                    continue;
                }
                side.busy[link] = start + Duration::from_secs_f64(data.len() as f64 * 8.0 / (mbps * 1e6));
                // xorshift64
                self.draw ^= self.draw << 13;
                self.draw ^= self.draw >> 7;
                self.draw ^= self.draw << 17;
                if ((self.draw >> 11) as f64) < self.loss[link] * (1_u64 << 53) as f64 {
                    continue;
                }
                self.serial += 1;
                let at = side.busy[link] + delay;
                self.air.push(Reverse((at, self.serial, !from_server, link, data.to_vec())));
            }
        }
    }
}

/// Reads what has arrived on all streams of `conn`; returns the bytes of each stream that had some, and whether it
/// ended.
pub fn read_all(side: &mut Side, streams: &mut Vec<noq_proto::StreamId>) -> Vec<(noq_proto::StreamId, usize, bool)> {
    let conn = side.conn();
    while let Some(id) = conn.streams().accept(noq_proto::Dir::Uni) {
        streams.push(id);
    }
    let mut read = Vec::new();
    streams.retain(|id| {
        let mut stream = conn.recv_stream(*id);
        let Ok(mut chunks) = stream.read(true) else { return false };
        let (mut bytes, mut ended) = (0, false);
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes += chunk.bytes.len(),
                Ok(None) => {
                    ended = true;
                    break;
                }
                Err(_) => break,
            }
        }
        let _ = chunks.finalize();
        if bytes > 0 || ended {
            read.push((*id, bytes, ended));
        }
        !ended
    });
    read
}

/// A configuration with as many paths as there are links.
pub fn transport(paths: u32) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_concurrent_multipath_paths(paths);
    config.mtu_discovery_config(None);
    config.max_concurrent_uni_streams(10_000_u32.into());
    config
}
