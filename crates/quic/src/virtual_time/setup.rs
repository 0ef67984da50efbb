//! Parts that both endpoints are made from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use noq_proto::{
    AckFrequencyConfig, ClientConfig, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, FourTuple,
    ServerConfig, TransportConfig as NoqConfig, crypto,
};
use weftway_path::{Bytes, PathId};
use weftway_scenario::config::TransportConfig;
use weftway_scenario::mix;

use crate::driver::NOQ_ROUND_TRIPS;
use crate::driver::connection::Clock;
use crate::driver::observer::{ObserverState, Observers};
use crate::null_crypto::NullCrypto;

/// Cryptography of a connection, for whichever end is noq's.
#[derive(Clone)]
pub struct Crypto {
    /// That of a client.
    pub client: Arc<dyn crypto::ClientConfig>,
    /// That of a server.
    pub server: Arc<dyn crypto::ServerConfig>,
}

impl Crypto {
    /// None at all, at the sizes of AES-128-GCM.
    pub fn none() -> Self {
        Self { client: NullCrypto::client(), server: NullCrypto::server() }
    }
}

/// IPv4 and UDP.
pub const HEADERS: u64 = 28;
/// More paths than a scenario has may be open for a while, when one was closed and is opened again.
const SPARE_PATHS: u32 = 4;
const PORT: u16 = 4433;
/// Room for what arrives between two calls: one datagram's records.
const RECEIVE_BUFFER: usize = 1 << 20;
const CID_LENGTH: usize = 8;

/// Which end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Opens the connection and its paths.
    Client,
    /// Answers.
    Server,
}

/// The addresses of path `at`, as one side sees them.
pub fn route(side: Side, at: usize) -> FourTuple {
    let address = |side: Side| {
        let net = if side == Side::Client { 0 } else { 1 };
        IpAddr::V4(Ipv4Addr::new(10, net, (at >> 8) as u8, at as u8))
    };
    let (own, other) = if side == Side::Client { (Side::Client, Side::Server) } else { (Side::Server, Side::Client) };
    FourTuple::new(SocketAddr::new(address(other), PORT), Some(address(own)))
}

/// Connection IDs that follow from a seed.
#[derive(Debug)]
struct Cids {
    seed: u64,
    count: u64,
}

impl ConnectionIdGenerator for Cids {
    fn generate_cid(&mut self) -> ConnectionId {
        self.count += 1;
        ConnectionId::new(&mix(self.seed, self.count).to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        CID_LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// An endpoint of a run with this seed.
pub fn endpoint(side: Side, transport: &TransportConfig, seed: u64) -> Endpoint {
    let seed = mix(seed, if side == Side::Client { 0xe0 } else { 0xe1 });
    let mut config = EndpointConfig::new(Arc::new(NullCrypto));
    let mut bytes = [0; 32];
    for (at, part) in bytes.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&mix(seed, at as u64).to_be_bytes());
    }
    config.rng_seed(Some(bytes));
    config.cid_generator(Arc::new(move || Box::new(Cids { seed: mix(seed, 4), count: 0 })));
    // A packet of the scenario is never below what QUIC asks for: an obstacle says so.
    let _ = config.max_udp_payload_size(payload(transport));
    Endpoint::new(Arc::new(config), None, false)
}

/// The UDP payload of a full packet.
fn payload(transport: &TransportConfig) -> u16 {
    u16::try_from((transport.packet - Bytes::new(HEADERS)).get()).unwrap_or(u16::MAX)
}

/// Configuration of a connection: as the scenario says, and with nothing that this run has no use for.
pub fn transport_config(transport: &TransportConfig, paths: usize, observers: Arc<ObserverState>) -> Arc<NoqConfig> {
    let (packets, round_trips) = if transport.adapts_to_reordering {
        (u32::MAX, f32::from(NOQ_ROUND_TRIPS))
    } else {
        let packets = u32::try_from(transport.packet_threshold).unwrap_or(u32::MAX);
        (packets, transport.time_threshold_eighths as f32 / 8.0)
    };
    let mut config = NoqConfig::default();
    config
        .congestion_controller_factory(Arc::new(Observers { state: observers, has_window: false }))
        .max_concurrent_multipath_paths(paths as u32 + SPARE_PATHS)
        .initial_mtu(payload(transport))
        .min_mtu(payload(transport))
        .mtu_discovery_config(None)
        .max_idle_timeout(None)
        .packet_threshold(packets)
        .time_threshold(round_trips)
        .datagram_receive_buffer_size(Some(RECEIVE_BUFFER))
        .datagram_send_buffer_size(2 * usize::from(payload(transport)))
        .enable_segmentation_offload(false)
        .allow_spin(false);
    if let Some(frequency) = ack_frequency(transport) {
        config.ack_frequency_config(Some(frequency));
    }
    Arc::new(config)
}

/// Asks the peer for other acknowledgements than noq's own, if the scenario does.
fn ack_frequency(transport: &TransportConfig) -> Option<AckFrequencyConfig> {
    let plain = TransportConfig::mpquic();
    let delay =
        (transport.ack_delay != plain.ack_delay).then_some(Duration::from_nanos(transport.ack_delay.as_nanos()));
    if transport.ack_every == plain.ack_every && delay.is_none() {
        return None;
    }
    let mut config = AckFrequencyConfig::default();
    // RFC 9000 asks for an acknowledgement of what comes out of order, at once.
    config.ack_eliciting_threshold((transport.ack_every - 1).into()).reordering_threshold(1u32.into());
    config.max_ack_delay(delay);
    Some(config)
}

/// The client's configuration for a connection that is opened on path `first`.
pub fn client_config(crypto: &Crypto, transport: Arc<NoqConfig>, seed: u64, first: PathId) -> ClientConfig {
    let mut config = ClientConfig::new(crypto.client.clone());
    config.transport_config(transport);
    let draw = 0xd0 | u64::from(first.get()) << 8;
    config.initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&mix(seed, draw).to_be_bytes())));
    config
}

/// The server's configuration.
pub fn server_config(crypto: &Crypto, transport: Arc<NoqConfig>) -> Arc<ServerConfig> {
    let mut config = ServerConfig::new(crypto.server.clone(), Arc::new(NullCrypto));
    config.transport_config(transport);
    Arc::new(config)
}

/// A clock. What the machine's clock says does not matter: only differences to it are ever used.
pub fn clock() -> Clock {
    Clock::new(StdInstant::now())
}
