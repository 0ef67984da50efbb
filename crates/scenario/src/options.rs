//! Options of the transport: a row each, of which [`table`] makes the keys of a scenario and their JSON Schema, the
//! configuration of a connection, the defaults of each stack, checks and the reference page of options. To add an
//! option, add its row, and the type of its value if that is new.

#[macro_use]
mod table;

use std::borrow::Cow;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use weftway_path::{Bytes, Span};

use crate::error::{Fault, Mistake};
use crate::forms::TextOrTable;
use crate::stack::{Stack, StackRules};
use crate::text::Count;
use crate::units::{Packets, Size, Time};

const EVERY: &[Stack] = &Stack::ALL;
const MULTIPATH: &[Stack] = &[Stack::MptcpV09x, Stack::MptcpLinuxV1, Stack::Mpquic];
const MPTCP_TCP: &[Stack] = &[Stack::MptcpV09x, Stack::MptcpLinuxV1, Stack::Tcp];
const V09X: &[Stack] = &[Stack::MptcpV09x];
const LINUX_V1: &[Stack] = &[Stack::MptcpLinuxV1];
const QUIC: &[Stack] = &[Stack::Mpquic];

// key: form in a scenario, type in the configuration if another, `> 0` if it must be more than zero = values of MPTCP
// v0.9x, of MPTCP linux-v1, of TCP and of MPQUIC, stacks that have the option; for any other it has no effect.
options! {
    /// Size of a full packet on the wire, IP header included.
    packet: Size as Bytes > 0 = ["1500 B", "1500 B", "1500 B", "1280 B"], EVERY;

    /// Payload of a full packet.
    mss: Size as Bytes > 0 = ["1428 B", "1424 B", "1448 B", "1200 B"], EVERY;

    /// Size of a packet without payload on the wire.
    ack_packet: Size as Bytes > 0 = ["72 B", "72 B", "52 B", "80 B"], EVERY;

    /// Window at the start.
    initial_window: Packets as u64 > 0 = ["10 packets", "10 packets", "10 packets", "10 packets"], EVERY;

    /// Window of a path with its first packet, where it starts beside another: half of what the other one's last rate
    /// brings in a round trip of this one, of the slowest that has delivered an initial window. `false`: the
    /// `initial_window`, which is also the least.
    sibling_window: bool = [false, false, false, false], MULTIPATH;

    /// Last `window` and `rtt` of an earlier connection, `{ window = "100 packets", rtt = "40 ms" }`, for every path that
    /// is like it: half of the window follows an acknowledged initial window, carefully (RFC 9959). None, if not given.
    remembered: Remembered as Option<Resumption> = [_, _, _, _], EVERY;

    /// Send buffer: how far the application writes ahead of what is acknowledged. A size, or `auto`: growing as Linux's
    /// does, to at most this.
    send_buffer: Buffer > 0 = [{ auto = "4 MiB" }, { auto = "4 MiB" }, { auto = "4 MiB" }, "4 MiB"], EVERY;

    /// Receive buffer: how far data may be ahead of what the application has read. MPTCP, TCP: what is asked for by
    /// `SO_RCVBUF`; Linux doubles it and counts what packets take in memory, so that `linux-v1` announces 1.23 times as
    /// much at most.
    receive_buffer: Buffer > 0 = [{ auto = "6 MiB" }, { auto = "6 MiB" }, { auto = "6 MiB" }, "16 MiB"], EVERY;

    /// Disagreement about the right edge of the window, as in the kernel: the sender takes it as DATA_ACK plus the
    /// window of the *subflow*, and the receiver drops what comes out of order from beyond the edge that it announced
    /// (`window_drops`); only the meta timer repairs that. `false`: both always agree.
    subflow_windows: bool = [false, true, false, false], LINUX_V1;

    /// Credit of one stream; the connection's, if not given.
    stream_window: Size as Option<Bytes> > 0 = [_, _, _, _], QUIC;

    /// Acknowledge after so many packets …
    ack_every: Packets as u32 > 0 = ["2 packets", "2 packets", "2 packets", "2 packets"], EVERY;

    /// … or after this long (Linux's delayed-ACK timer, QUIC's `max_ack_delay`).
    ack_delay: Time as Span = ["40 ms", "40 ms", "40 ms", "25 ms"], EVERY;

    /// Path on which acknowledgements return. `same`: the path that they acknowledge; `fastest`: the one with the
    /// smallest round-trip time; `picoquic`: as picoquic 1.1.53 returns them, in one packet for all paths.
    ack_path: AckPath = ["same", "same", "same", "same"], QUIC;

    /// Condition under which the delivery rate of a path that has room is marked as limited by the application, so that
    /// BBR does not take it for what the path can bring. `no-data`: less than a packet is unsent (Linux's TCP,
    /// draft-cheng-iccrg-delivery-rate-estimation, XQUIC); `path`: the path is given nothing, also because of the
    /// peer's window or of the scheduler (noq); `never`: MPTCP, whose subflows are not written to by `tcp_sendmsg`.
    app_limited: AppLimited = ["never", "never", "no-data", "no-data"], EVERY;

    /// Acknowledgement of a packet after it was declared lost: it undoes the reduction that the loss caused, and the
    /// packet counts as delivered. `false`: neither.
    credit_late_acks: bool = [true, true, true, true], QUIC;

    /// Data of a silent path, in flight or waiting, may go on the other paths: when its oldest packet was sent a probe
    /// timeout ago (RFC 9002 §6.2) and nothing was heard for as long as acknowledgements vary. The path is kept,
    /// nothing counts as lost, and most schedulers prefer the others until it answers. `false`: the data wait until the
    /// path answers or is given up.
    reinject_at_pto: bool = [false, false, false, true], QUIC;

    /// Pacing by the window of a controller that names no pacing rate (all but BBR's family): 1.25 windows in a round
    /// trip, two in slow start, in bursts of the initial window, or of a millisecond if that is more (RFC 9002 §7.7).
    /// `false`: what the window allows leaves at once.
    pace_window: bool = [false, false, false, true], QUIC;

    /// Packets that may overtake one before it counts as lost (`kPacketThreshold`).
    packet_threshold: Packets as u64 > 0 = ["3 packets", "3 packets", "3 packets", "3 packets"], QUIC;

    /// Eighths of a round trip after which an overtaken packet counts as lost.
    time_threshold_eighths: Count as u64 > 0 = [9, 9, 9, 9], QUIC;

    /// Least retransmission timeout.
    min_rto: Time as Span > 0 = ["200 ms", "200 ms", "200 ms", "200 ms"], MPTCP_TCP;

    /// Use of the least timeout. `linux`: it is added to the smoothed round-trip time; `rfc6298`: it bounds the sum.
    rto_floor: RtoFloor = ["linux", "linux", "linux", "linux"], MPTCP_TCP;

    /// Opportunistic retransmission: the oldest data go again on a faster path when the receive window is full. If not
    /// given, the scheduler says so.
    opportunistic: bool as Option<bool> = [_, false, false, false], V09X;

    /// Penalisation: the window of the path that holds them is then halved. If not given, the scheduler says so.
    penalise: bool as Option<bool> = [_, false, false, false], V09X;

    /// Penalisation of the first such path only, as up to version 0.94.
    penalise_first_only: bool = [false, false, false, false], V09X;

    /// Tick of the hosts' clocks, 1/`CONFIG_HZ`: timers fire on a tick, and long ones on every eighth or 64th. `"0
    /// ms"`: they fire when they are due. Where the ticks lie follows from the seed.
    tick: Time as Span = ["4 ms", "4 ms", "4 ms", "0 ms"], MPTCP_TCP;

    /// `TCP_NODELAY`, as browsers, curl and nginx set it and iperf3 does not. Without it a packet that is not full
    /// waits while an earlier one of its path is not acknowledged (Nagle's rule, RFC 896). The kernel backend sets the
    /// same on its sockets.
    nodelay: bool = [true, true, true, true], MPTCP_TCP;

    /// Mean time from a packet's arrival until a host takes it up: an exponential draw for each packet, at both ends,
    /// in order. A real host is never on time to the microsecond: without any loss and jitter of the links, its runs
    /// still differ. `fidelity` sets 50 µs. The kernel backend has real hosts and draws none.
    host_jitter: Time as Span = ["0 ms", "0 ms", "0 ms", "0 ms"], EVERY;

    /// Opening of paths. `full-mesh`: the first path, then all others at once; `primary-first`: the others when the
    /// first fails; `backup`: all, those after the first as backups.
    path_manager: PathManager = ["full-mesh", "full-mesh", "full-mesh", "full-mesh"], MULTIPATH;

    /// Path on which the connection begins. `primary`: the first, however long that does not answer; `race`: a
    /// handshake is begun on all paths at once, and it begins on the one whose peer answers first. The others are then
    /// dropped and join as they otherwise do. Data go on the winner before they have joined.
    open: Opening = ["primary", "primary", "primary", "primary"], MULTIPATH;

    /// Time after which a path that is silent, with data outstanding, is given up and its data go on others. Linux does
    /// that after the sixteenth retransmission timeout in a row (`tcp_retries2`: timeouts of 0.2 s, doubling up to 120
    /// s); `linux-v1` sends the data on other paths long before ([stale subflows](../explanation/transport.md)).
    path_timeout: Time as Span > 0 = ["20 s", "924.6 s", "924.6 s", "3 s"], EVERY;

    /// Interval at which a path that was given up is tried.
    probe_interval: Time as Span > 0 = ["1 s", "1 s", "1 s", "1 s"], EVERY;

    /// ECN: packets may be marked in place of being dropped.
    ecn: bool = [false, false, false, false], EVERY;

    /// Knowledge of bottlenecks that paths share, for controllers and schedulers that ask: `none`; `given`: paths with
    /// the same `via` share one, and no others; `detected`: [what their round-trip times
    /// tell](../explanation/shared-bottlenecks.md).
    bottlenecks: Bottlenecks = ["none", "none", "none", "none"], MULTIPATH;
}

impl TransportConfig {
    /// Returns the defaults of a stack.
    pub fn of(stack: Stack) -> Self {
        static DEFAULTS: LazyLock<[TransportConfig; 4]> = LazyLock::new(defaults);
        DEFAULTS[stack as usize].clone()
    }
}

/// Reads a cell of the table.
fn read<T: for<'de> Deserialize<'de>>(text: &str) -> T {
    let value = toml::de::ValueDeserializer::parse(text).and_then(T::deserialize);
    value.unwrap_or_else(|error| panic!("{text} in the table of options: {error}"))
}

impl Options {
    /// Returns the configuration of a stack with these options.
    pub fn apply(&self, stack: Stack, direction: Direction) -> Result<TransportConfig, Fault> {
        if let Some(key) = self.zero() {
            return Err(Fault::value(format!("`{key}` must be more than zero")).key(&["options", key]));
        }
        let mut config = TransportConfig { direction, ..TransportConfig::of(stack) };
        self.put(&mut config);
        fits(&config)?;
        Ok(config)
    }
}

/// Checks that packets fit into buffers, and options to each other.
fn fits(config: &TransportConfig) -> Result<(), Fault> {
    let TransportConfig { mss, packet, path_manager, open, .. } = *config;
    if mss > packet {
        let reason = format!("a payload of {mss} does not fit into a packet of {packet}; set `mss` and `packet`");
        return Err(Fault::new(Mistake::Value, reason).key(&["options"]));
    }
    for (key, buffer) in [("send_buffer", config.send_buffer), ("receive_buffer", config.receive_buffer)] {
        let room = buffer.most();
        if room < mss {
            let reason = format!("the payload of a packet, {mss}, does not fit into a `{key}` of {room}");
            return Err(Fault::value(reason).key(&["options", key]));
        }
    }
    let most = Bytes::new(65_535);
    if let Some(Err(reason)) = config.remembered.map(|remembered| remembered.check(config.initial_window)) {
        return Err(Fault::value(format!("`remembered`: {reason}")).key(&["options", "remembered"]));
    }
    if packet > most {
        return Err(Fault::value(format!("an IP packet has at most {most}")).key(&["options", "packet"]));
    }
    if (open, path_manager) == (Opening::Race, PathManager::PrimaryFirst) {
        let reason = "`race` begins on all paths at once, and `path_manager = \"primary-first\"` on the first alone; leave \
                      one of them out";
        return Err(Fault::value(reason).key(&["options", "open"]));
    }
    Ok(())
}

/// Window and round trip of an earlier connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// Window in packets.
    pub packets: u64,
    /// Round trip.
    pub rtt: Span,
}

impl Resumption {
    /// Checks that there is something to resume after such an initial window.
    fn check(self, initial_window: u64) -> Result<(), String> {
        if self.rtt.is_zero() {
            return Err("its `rtt` must be more than zero".to_owned());
        }
        if self.packets / 2 <= initial_window {
            return Err(format!(
                "half of its `window`, {} packets, is no more than the `initial_window` of {initial_window}: give a larger \
                 one, or leave it out",
                self.packets
            ));
        }
        Ok(())
    }
}

/// Window and round trip of an earlier connection, as a scenario has them.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Remembered {
    /// Window.
    window: Packets,
    /// Round trip.
    rtt: Time,
}

impl From<Remembered> for Resumption {
    fn from(given: Remembered) -> Self {
        Self { packets: given.window.into(), rtt: given.rtt.into() }
    }
}

impl From<Remembered> for Option<Resumption> {
    fn from(given: Remembered) -> Self {
        Some(given.into())
    }
}

/// Size of a buffer: fixed, or grown by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Fixed.
    Fixed(Bytes),
    /// Grown by use as Linux does, up to `max`.
    Auto {
        /// Limit (`tcp_wmem[2]`, `tcp_rmem[2]`).
        max: Bytes,
    },
}

impl Buffer {
    /// Largest size that it has.
    fn most(self) -> Bytes {
        match self {
            Self::Fixed(bytes) | Self::Auto { max: bytes } => bytes,
        }
    }

    fn smallest(self) -> u64 {
        self.most().get()
    }
}

/// A buffer that grows by use.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AutoBuffer {
    /// Most that it grows to.
    auto: Size,
}

impl<'de> Deserialize<'de> for Buffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable {
            text: |text| Size::read(text).map(|size| Self::Fixed(size.get())),
            table: |table: AutoBuffer| Self::Auto { max: table.auto.get() },
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

/// Makes enums whose variants are words in a scenario.
macro_rules! words {
    ($($(#[$about:meta])+ $name:ident { $($(#[$doc:meta])+ $variant:ident,)+ })+) => {$(
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$doc])+ $variant,)+
        }
    )+};
}

words! {
    /// Condition under which rate samples of a path are marked as limited by the application: a controller does not
    /// take them for what the path can bring.
    AppLimited {
        /// Never. MPTCP gives data to its subflows without `tcp_sendmsg`, the only place where Linux marks samples.
        Never,
        /// The path has room, and less than a packet is unsent: Linux's TCP (`tcp_rate_check_app_limited`), the draft
        /// that it follows (draft-cheng-iccrg-delivery-rate-estimation), and XQUIC, where no path may hold packets
        /// either.
        NoData,
        /// The path has room and is given nothing, be it that there are no data, that the peer's window is shut, or
        /// that the scheduler prefers another path: noq.
        Path,
    }

    /// Path on which acknowledgements return.
    AckPath {
        /// The path that they acknowledge.
        Same,
        /// The path with the smallest round-trip time.
        Fastest,
        /// The paths of picoquic 1.1.53, and its times: one packet acknowledges all paths, and a copy follows.
        Picoquic,
    }

    /// Use of the least retransmission timeout.
    RtoFloor {
        /// Floor of the variance term: the timeout is at least srtt + min_rto.
        Linux,
        /// Floor of the sum (RFC 6298 §2.4).
        Rfc6298,
    }

    /// Opening of paths.
    PathManager {
        /// The first path, then all others at once.
        FullMesh,
        /// The first path; the others only when it fails.
        PrimaryFirst,
        /// All, but every path except the first is a backup.
        Backup,
    }

    /// Path on which the connection begins.
    Opening {
        /// The first.
        Primary,
        /// The one whose peer answers first: a handshake is begun on all paths at once. The others are dropped with
        /// that answer and join as under [`Opening::Primary`].
        Race,
    }

    /// Knowledge of the bottlenecks that paths of a connection share.
    Bottlenecks {
        /// None.
        None,
        /// Everything: paths with the same [`PathConfig::via`](crate::config::PathConfig::via) share one.
        Given,
        /// Guesses from their round-trip times.
        Detected,
    }
}

impl AppLimited {
    /// Returns true if a path that has room, and was given nothing, is limited by an application with so much `unsent`.
    #[inline]
    pub fn is_limited(self, unsent: Bytes, mss: Bytes) -> bool {
        match self {
            Self::Never => false,
            Self::NoData => unsent < mss,
            Self::Path => true,
        }
    }
}

/// Direction of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the side that opened the connection, on request.
    #[default]
    Download,
    /// Away from that side.
    Upload,
}

/// Rows of the reference page: key, value for each stack in the order of [`Stack::ALL`], meaning.
pub fn option_rows() -> impl Iterator<Item = (&'static str, [String; 4], &'static str)> {
    ROWS.iter().map(|&(key, values, owners, meaning)| {
        let value = |n: usize| match values[n] {
            _ if !owners.contains(&Stack::ALL[n]) => "–".to_owned(),
            "_" => "not given".to_owned(),
            value => format!("`{value}`"),
        };
        let values = std::array::from_fn(value);
        (key, values, meaning.trim())
    })
}
