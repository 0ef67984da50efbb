//! Settings of noq's endpoints and connections over sockets.

use std::sync::Arc;
use std::time::Duration;

use noq_proto::{EndpointConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};
use weftway_path::Span;

use weftway_quic::driver::NOQ_ROUND_TRIPS;
use weftway_quic::driver::observer::{ObserverState, Observers};

/// The payload of a UDP datagram in an Ethernet frame of 1500 bytes, after the headers of IPv6: what is taken for
/// possible where an interface does not say how much it carries.
pub const ETHERNET_PAYLOAD: u16 = 1500 - 48;
/// Payload in a jumbo frame of 9000 bytes, and what is sent at most.
pub const LARGEST_PAYLOAD: u16 = 9000 - 48;
/// Paths that may be open at a time.
pub const MAX_PATHS: usize = 8;
/// Some more, for paths that are closed and opened again.
const SPARE_PATHS: u32 = 8;
/// A connection without any sign of life for so long is over, if neither end wants it to be sooner.
pub const IDLE: Span = Span::from_secs(30);
/// An idle path says that it is alive, which also keeps bindings of NATs: the shortest known are of some 20 s.
pub const KEEP_ALIVE: Span = Span::from_secs(2);
/// noq gives a link short packets after four bursts of losses of long ones, and asks again how long they may be after
/// this time: mostly it had faded.
const SUSPICION: Span = Span::from_secs(5);
/// Bytes by which the control stream may be ahead of what the other end has read.
const CONTROL_WINDOW: u32 = 256 << 10;
/// Room for the records of what arrives in one call.
const RECORDS: usize = 4 << 20;

/// Settings of a connection that is over after the silence `idle`. noq looks how long packets may be, up to
/// `largest_payload` (RFC 8899).
pub(super) fn transport(observers: Arc<ObserverState>, largest_payload: u16, idle: Span) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(largest_payload.min(LARGEST_PAYLOAD));
    mtu.black_hole_cooldown(Duration::from_nanos(SUSPICION.as_nanos()));
    let idle = u32::try_from(idle.as_millis()).unwrap_or(u32::MAX);
    let idle = IdleTimeout::from(VarInt::from_u32(idle));
    config
        .congestion_controller_factory(Arc::new(Observers { state: observers, has_window: true }))
        .max_concurrent_multipath_paths(MAX_PATHS as u32 + SPARE_PATHS)
        .max_concurrent_bidi_streams(1u32.into())
        .max_concurrent_uni_streams(0u32.into())
        .max_idle_timeout(Some(idle))
        .default_path_keep_alive_interval(Some(Duration::from_nanos(KEEP_ALIVE.as_nanos())))
        .stream_receive_window(CONTROL_WINDOW.into())
        .datagram_receive_buffer_size(Some(RECORDS))
        .datagram_send_buffer_size(2 * usize::from(LARGEST_PAYLOAD))
        .mtu_discovery_config(Some(mtu))
        // The driver finds losses itself.
        .packet_threshold(u32::MAX)
        .time_threshold(f32::from(NOQ_ROUND_TRIPS))
        .enable_segmentation_offload(false);
    Arc::new(config)
}

/// The configuration of an endpoint that takes the largest packets.
pub fn endpoint(mut config: EndpointConfig) -> EndpointConfig {
    // It is more than QUIC's least.
    let _ = config.max_udp_payload_size(LARGEST_PAYLOAD);
    config
}
