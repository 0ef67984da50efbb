//! Settings of the transport.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::forms::TextOrTable;
use crate::text::Count;
use crate::units::{Packets, Size, Time};

/// Settings of the transport; those that are not given are the transport's own.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Options {
    /// A full packet on the wire, IP header included.
    pub packet: Option<Size>,
    /// The payload of a full packet.
    pub mss: Option<Size>,
    /// A packet without payload on the wire.
    pub ack_packet: Option<Size>,
    /// The initial window.
    pub initial_window: Option<Packets>,
    /// The send buffer.
    pub send_buffer: Option<Buffer>,
    /// The receive buffer.
    pub receive_buffer: Option<Buffer>,
    /// MPTCP linux-v1: whether sender and receiver may disagree about the right edge of the window, as in the kernel.
    pub subflow_windows: Option<bool>,
    /// QUIC: the credit of the stream.
    pub stream_window: Option<Size>,
    /// Acknowledge after so many packets …
    pub ack_every: Option<Packets>,
    /// … or this long.
    pub ack_delay: Option<Time>,
    /// QUIC: on which path acknowledgements return.
    pub ack_path: Option<AckPathName>,
    /// When rate samples are marked as limited by the application.
    pub app_limited: Option<AppLimitedName>,
    /// QUIC: whether an acknowledgement for a packet given up undoes the reduction it caused.
    pub credit_late_acks: Option<bool>,
    /// QUIC: whether the other paths may carry the data of a path that was silent for a probe timeout.
    pub reinject_at_pto: Option<bool>,
    /// QUIC: whether a controller that names no pacing rate is paced by its window (RFC 9002 §7.7).
    pub pace_window: Option<bool>,
    /// QUIC: how many packets may overtake one before it counts as lost.
    pub packet_threshold: Option<Packets>,
    /// QUIC: eighths of a round trip after which an overtaken packet counts as lost.
    pub time_threshold_eighths: Option<Count>,
    /// MPTCP: the least retransmission timeout.
    pub min_rto: Option<Time>,
    /// MPTCP: what the least timeout is applied to.
    pub rto_floor: Option<RtoFloorName>,
    /// MPTCP v0.9x: repeat the oldest data on a faster path when the window is full. The
    /// scheduler's own rule, if not given.
    pub opportunistic: Option<bool>,
    /// MPTCP v0.9x: halve the window of the path that holds them. The scheduler's own rule, if
    /// not given.
    pub penalise: Option<bool>,
    /// MPTCP v0.9x: only of the first such path, as up to version 0.94.
    pub penalise_first_only: Option<bool>,
    /// MPTCP, TCP: the tick of the hosts' clocks (1/`CONFIG_HZ`), on which timers fire; `"0 ms"` if they fire when due.
    pub tick: Option<Time>,
    /// MPTCP, TCP: whether the application sets `TCP_NODELAY`: a packet that is not full does not wait for the
    /// acknowledgement of an earlier one.
    pub nodelay: Option<bool>,
    /// How much later than it arrives a host takes a packet up, on average; an exponential draw for each packet.
    pub host_jitter: Option<Time>,
    /// How paths are opened.
    pub path_manager: Option<PathManagerName>,
    /// On which path the connection begins.
    pub open: Option<OpeningName>,
    /// A path silent for so long with data outstanding is given up.
    pub path_timeout: Option<Time>,
    /// How often a path that was given up is tried.
    pub probe_interval: Option<Time>,
    /// Whether packets may be marked.
    pub ecn: Option<bool>,
    /// What is known of the bottlenecks that paths share.
    pub bottlenecks: Option<BottlenecksName>,
}

/// A buffer of fixed size, or one that grows by use.
#[derive(Clone, Debug)]
pub(crate) enum Buffer {
    /// Of this size.
    Fixed(Size),
    /// Growing as Linux's do, to at most this.
    Auto(AutoBuffer),
}

/// A buffer that grows by use.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AutoBuffer {
    /// The most it grows to.
    pub auto: Size,
}

impl<'de> Deserialize<'de> for Buffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable {
            text: |text| Size::read(text).map(Self::Fixed),
            table: Self::Auto,
            example: "a size such as \"4 MiB\", or { auto = \"6 MiB\" }",
        })
    }
}

impl JsonSchema for Buffer {
    fn schema_name() -> Cow<'static, str> {
        "Buffer".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [Size::json_schema(generator), generator.subschema_for::<AutoBuffer>()] })
    }
}

/// On which path acknowledgements return.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AckPathName {
    /// On the path they acknowledge.
    Same,
    /// On the one with the smallest round-trip time.
    Fastest,
}

/// When rate samples of a path are marked as limited by the application.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AppLimitedName {
    /// Never.
    Never,
    /// It has room, and there is less than a packet to send.
    NoData,
    /// It has room and is given nothing.
    Path,
}

/// What the least retransmission timeout is applied to.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RtoFloorName {
    /// The variance term, as in Linux.
    Linux,
    /// The sum, as in RFC 6298.
    Rfc6298,
}

/// What is known of the bottlenecks that paths share.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BottlenecksName {
    /// Nothing.
    None,
    /// Paths with the same `via` share one.
    Given,
    /// What round-trip times tell.
    Detected,
}

/// How paths are opened.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PathManagerName {
    /// The first, then all others at once.
    FullMesh,
    /// The first; the others when it fails.
    PrimaryFirst,
    /// All, those after the first as backups.
    Backup,
}

/// On which path the connection begins.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OpeningName {
    /// The first.
    Primary,
    /// The one whose peer answers first.
    Race,
}
