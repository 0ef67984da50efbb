//! What a simulation is made from, in plain typed values. A scenario file becomes one of these;
//! so does a test. Nothing here is optional for lack of a default: [`SimConfig::new`] has them.

use weftway_link::LinkConfig;
use weftway_path::{BitRate, Bytes, Instant, Role, Span, Thresholds, Tier};

use crate::stack::{Stack, StackRules};

/// What an application writes at once unless it says otherwise: as iperf3 and many others, rounded to a power of two.
pub const WRITE: Bytes = Bytes::new(256 << 10);

/// One simulation: a connection over its paths, and what else uses the links.
#[derive(Clone, Debug, PartialEq)]
pub struct SimConfig {
    /// The connection's transport.
    pub transport: Transport,
    /// Its paths, by number.
    pub paths: Vec<PathConfig>,
    /// Links that several paths, or several connections, share, by number; in the data direction.
    pub shared: Vec<LinkConfig>,
    /// What the application does.
    pub workload: Workload,
    /// How much the application hands over with one `write` at most. Linux v1 begins a push, and with it a choice of a
    /// subflow, with each of them (`mptcp_sendmsg`); the other stacks do not tell writes apart.
    pub write: Bytes,
    /// A second connection that shares links with this one.
    pub rival: Option<Rival>,
    /// Sources without feedback.
    pub cross: Vec<CrossTraffic>,
    /// Which of its paths the connection's scheduler is offered, and what they cost; none: all are offered.
    pub policy: Option<Policy>,
    /// The run is cut off here, finished or not.
    pub time_limit: Span,
}

impl SimConfig {
    /// Whether data go both ways, in a connection for each way. A scenario with a call has no rival.
    pub fn is_call(&self) -> bool {
        self.rival.is_none() && self.workload.reverse().is_some()
    }

    /// A bulk transfer of `bytes` over `paths` with the defaults of `transport`.
    pub fn new(transport: Transport, paths: Vec<PathConfig>, bytes: Bytes) -> Self {
        Self {
            transport,
            paths,
            shared: Vec::new(),
            workload: Workload::Bulk { bytes },
            write: WRITE,
            rival: None,
            cross: Vec::new(),
            policy: None,
            time_limit: Span::from_secs(600),
        }
    }
}

/// One path: a link each way.
#[derive(Clone, Debug, PartialEq)]
pub struct PathConfig {
    /// Its name in the scenario.
    pub name: String,
    /// Active or backup.
    pub role: Role,
    /// The link that carries data.
    pub data: LinkConfig,
    /// The link that carries acknowledgements.
    pub acks: LinkConfig,
    /// The shared link (an index into [`SimConfig::shared`]) that data cross after their own.
    pub via: Option<usize>,
    /// When the path exists: it is added at the first instant, removed at the second, and so on.
    /// Empty: from the start to the end.
    pub presence: Vec<Instant>,
}

/// Which paths a scheduler is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// What each path is for, by number.
    pub paths: Vec<PathPolicy>,
    /// When tiers open and close.
    pub thresholds: Thresholds,
}

/// What a path is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathPolicy {
    /// When it is offered.
    pub tier: Tier,
    /// How much it may carry in a run, in bytes on the wire.
    pub cap: Option<Bytes>,
    /// What a GB costs, in millionths.
    pub price: Option<u64>,
}

impl PathPolicy {
    /// What so many bytes on the wire cost.
    pub fn cost(&self, bytes: Bytes) -> f64 {
        // Both are whole below 2⁵³ for all that a run carries.
        bytes.get() as f64 * self.price.unwrap_or(0) as f64 / 1e15
    }
}

/// Which stack carries the connection, and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Transport {
    /// The rules.
    pub stack: Stack,
    /// What the stack does.
    pub rules: StackRules,
    /// The size on the wire (IP) of a full packet.
    pub packet: Bytes,
    /// The payload of a full packet.
    pub mss: Bytes,
    /// The DSS option of a full MPTCP packet (RFC 8684 §3.3); zero elsewhere. Linux turns packets into a pacing rate by
    /// `mss_cache`, from which it is not subtracted (1448 B for packets that carry 1424 B), and charges the pacer the
    /// payload alone (`skb->len` in `tcp_update_skb_after_send`): MPTCP is paced 1.7 % above what the controller means.
    pub dss_option: Bytes,
    /// When rate samples are marked as limited by the application.
    pub app_limited: AppLimited,
    /// The size on the wire of a packet without payload.
    pub ack_packet: Bytes,
    /// The initial window, in full packets.
    pub initial_window: u64,
    /// The send buffer: how far the application writes ahead of what is acknowledged.
    pub send_buffer: Buffer,
    /// The receive buffer: how far the right edge is ahead of what the application has read.
    pub receive_buffer: Buffer,
    /// MPTCP v1 of Linux: the sender takes the right edge as DATA_ACK plus the send window of the subflow that brings
    /// it, and the receiver drops what comes out of order from beyond the edge that it announced. The two disagree at
    /// times, and only the meta timer repairs that.
    pub subflow_windows: bool,
    /// QUIC: the credit of one stream; `None` for the connection's.
    pub stream_window: Option<Bytes>,
    /// Acknowledge every so many packets.
    pub ack_every: u32,
    /// … or after this long (Linux's delayed-ACK timer; QUIC's max_ack_delay).
    pub ack_delay: Span,
    /// QUIC: the path on which acknowledgements return.
    pub ack_path: AckPath,
    /// QUIC: whether a packet that is acknowledged after it was declared lost undoes the
    /// reduction that it caused, and counts as delivered.
    pub credit_late_acks: bool,
    /// QUIC: whether the other paths may carry the data of a path that was silent for a probe timeout.
    pub reinject_at_pto: bool,
    /// QUIC: whether a controller that names no pacing rate is paced by its window (RFC 9002 §7.7).
    pub pace_window: bool,
    /// QUIC over several paths: a window does not grow while its packets wait longer than this in the queue that it fills. Only
    /// the driver does it, and scenarios cannot set it: so the simulator and QUIC in virtual time stay the same.
    pub standing_queue: Option<Span>,
    /// QUIC: where packets of a path arrive after they were declared lost, its packets are waited for longer from then
    /// on. Only the driver does it, and scenarios cannot set it.
    pub adapts_to_reordering: bool,
    /// QUIC: packets that may overtake before a packet counts as lost (kPacketThreshold).
    pub packet_threshold: u64,
    /// QUIC: the time threshold, as eighths of a round trip (9 for 9/8).
    pub time_threshold_eighths: u64,
    /// MPTCP: the least retransmission timeout. Linux adds it to srtt; RFC 6298 takes the larger.
    pub min_rto: Span,
    /// MPTCP: how the least timeout applies.
    pub rto_floor: RtoFloor,
    /// MPTCP v0.9x: opportunistic retransmission; `None` leaves it to the scheduler's entry.
    pub opportunistic: Option<bool>,
    /// MPTCP v0.9x: penalisation; `None` leaves it to the scheduler's entry.
    pub penalise: Option<bool>,
    /// MPTCP v0.9x: penalise only the first holder, as versions up to 0.94 did.
    pub penalise_first_only: bool,
    /// MPTCP and TCP: the tick of the hosts' clocks (1/`CONFIG_HZ`), on which timers fire; zero: they fire when due.
    pub tick: Span,
    /// MPTCP and TCP: a packet that is not full waits while an earlier one is unacknowledged (Nagle's rule, RFC 896);
    /// without, the application has set `TCP_NODELAY`.
    pub holds_small: bool,
    /// How much later than it arrives a host takes a packet up, on average: an exponential draw for each packet.
    pub host_jitter: Span,
    /// How subflows or paths are opened.
    pub path_manager: PathManager,
    /// On which of them the connection begins.
    pub open: Opening,
    /// A path that has been silent this long although data are outstanding is given up; its data
    /// are reinjected.
    pub path_timeout: Span,
    /// How often a path that was given up is tried again.
    pub probe_interval: Span,
    /// Who sends the data: the side that opens the connection (upload), or the other.
    pub direction: Direction,
    /// Whether packets carry ECN-capable marks.
    pub ecn: bool,
    /// What is known of bottlenecks that paths share.
    pub bottlenecks: Bottlenecks,
}

impl Transport {
    /// What a packet with so much payload takes of the pacer, whose rates are of payload (draft-ietf-ccwg-bbr and
    /// RFC 9002 leave out what is below the transport, too): all of it, or less by MPTCP's option.
    #[inline]
    pub fn paced(&self, payload: Bytes) -> Bytes {
        if self.dss_option == Bytes::ZERO {
            return payload;
        }
        payload.mul_div(self.mss.get(), (self.mss + self.dss_option).get())
    }

    /// The size on the wire of a packet with so much payload.
    #[inline]
    pub fn data_packet(&self, payload: Bytes) -> Bytes {
        Bytes::new(payload.get() + self.packet.get() - self.mss.get())
    }

    /// The size on the wire of a handshake's message: QUIC's least datagram, IPv4 and UDP, or a packet without payload.
    pub fn handshake_packet(&self) -> Bytes {
        if self.rules.pads_handshakes { Bytes::new(1200 + 28) } else { self.ack_packet }
    }

    /// QUIC: what the server's last message of the handshake takes, with connection IDs for so many paths, and what follows
    /// in a packet of its own where they do not fit into one.
    ///
    /// noq gives five IDs a path (30 B each: PATH_NEW_CONNECTION_ID), for four paths more than there are, less the one that the
    /// handshake had; the driver asks for the four. What else the message has, and the second packet's own head, are as noq
    /// 1.4 sent them: 1025 B for two paths, 1175 for three, 1277 and 102 for four, where a full packet has 1280.
    pub fn id_packets(&self, paths: usize) -> (Bytes, Option<Bytes>) {
        let (ids, full) = (30 * (5 * (paths as u64 + 4) - 1), self.packet.get() - 3);
        match ids + 155 {
            whole if whole <= full => (Bytes::new(whole), None),
            whole => (Bytes::new(full), Some(Bytes::new(whole - full + 54))),
        }
    }

    /// Returns true if it is MPTCP: its segments carry a data sequence signal (RFC 8684 §3.3), those of TCP do not.
    pub fn is_mptcp(&self) -> bool {
        self.dss_option > Bytes::ZERO
    }

    /// Whether the connection begins on whichever path answers first.
    pub fn races(&self) -> bool {
        self.open == Opening::Race
    }

    /// A time in whole ticks, rounded up.
    pub fn whole_ticks(&self, span: Span) -> Span {
        let tick = self.tick.as_nanos().max(1);
        Span::from_nanos(span.as_nanos().div_ceil(tick) * tick)
    }

    /// The initial window in payload bytes.
    pub fn initial_cwnd(&self) -> Bytes {
        Bytes::new(self.mss.get().saturating_mul(self.initial_window))
    }

    /// MPTCP of the out-of-tree kernels 0.89 to 0.96, on which the papers measured.
    pub fn mptcp_v09x() -> Self {
        Self {
            stack: Stack::MptcpV09x,
            rules: Stack::MptcpV09x.rules(),
            mss: Bytes::new(1428),
            dss_option: Bytes::new(20),
            subflow_windows: false,
            opportunistic: None,
            penalise: None,
            path_timeout: Span::from_secs(20),
            ..Self::mptcp_linux_v1()
        }
    }

    /// MPTCP v1 of today's kernel.
    pub fn mptcp_linux_v1() -> Self {
        Self {
            stack: Stack::MptcpLinuxV1,
            rules: Stack::MptcpLinuxV1.rules(),
            packet: Bytes::new(1500),
            // A DSS option of 4 + 4 (DATA_ACK) + 14 (64-bit mapping) bytes is padded to 24; the timestamps take 12.
            mss: Bytes::new(1424),
            dss_option: Bytes::new(24),
            app_limited: AppLimited::Never,
            ack_packet: Bytes::new(72),
            initial_window: 10,
            send_buffer: Buffer::Auto { max: Bytes::new(4 << 20) },
            receive_buffer: Buffer::Auto { max: Bytes::new(6 << 20) },
            subflow_windows: true,
            stream_window: None,
            ack_every: 2,
            ack_delay: Span::from_millis(40),
            ack_path: AckPath::Same,
            credit_late_acks: true,
            reinject_at_pto: false,
            standing_queue: None,
            adapts_to_reordering: false,
            pace_window: false,
            packet_threshold: 3,
            time_threshold_eighths: 9,
            min_rto: Span::from_millis(200),
            rto_floor: RtoFloor::Linux,
            opportunistic: Some(false),
            penalise: Some(false),
            penalise_first_only: false,
            tick: Span::from_millis(4),
            holds_small: false,
            host_jitter: Span::ZERO,
            path_manager: PathManager::FullMesh,
            open: Opening::Primary,
            // `net.ipv4.tcp_retries2` = 15: the 16th timeout in a row, of 0.2 s, doubling up to 120 s.
            path_timeout: Span::from_millis(924_600),
            probe_interval: Span::from_secs(1),
            direction: Direction::Download,
            ecn: false,
            bottlenecks: Bottlenecks::None,
        }
    }

    /// Single-path TCP: MPTCP v1's subflow without its option bytes.
    pub fn tcp() -> Self {
        Self {
            mss: Bytes::new(1448),
            dss_option: Bytes::ZERO,
            app_limited: AppLimited::NoData,
            subflow_windows: false,
            ack_packet: Bytes::new(52),
            ..Self::mptcp_linux_v1()
        }
    }

    /// Repetitions of the first handshake that ask for MPTCP before the connection opens as plain TCP, if it ever does.
    pub fn repeats_before_tcp(&self) -> Option<u32> {
        self.rules.repeats_before_tcp.filter(|_| self.is_mptcp())
    }

    /// The transport as plain TCP, without MPTCP's options: what a host falls back to.
    #[must_use]
    pub fn as_tcp(&self) -> Self {
        let tcp = Self::tcp();
        let options = Self::mptcp_linux_v1().ack_packet - tcp.ack_packet;
        Self {
            mss: self.mss + self.dss_option,
            dss_option: tcp.dss_option,
            app_limited: tcp.app_limited,
            subflow_windows: tcp.subflow_windows,
            ack_packet: self.ack_packet.saturating_sub(options),
            ..self.clone()
        }
    }

    /// Multipath QUIC: RFC 9000, RFC 9002, multipath extension.
    pub fn mpquic() -> Self {
        Self {
            stack: Stack::Mpquic,
            rules: Stack::Mpquic.rules(),
            packet: Bytes::new(1280),
            mss: Bytes::new(1200),
            dss_option: Bytes::ZERO,
            app_limited: AppLimited::NoData,
            subflow_windows: false,
            ack_packet: Bytes::new(80),
            send_buffer: Buffer::Fixed(Bytes::new(4 << 20)),
            receive_buffer: Buffer::Fixed(Bytes::new(16 << 20)),
            ack_delay: Span::from_millis(25),
            reinject_at_pto: true,
            pace_window: true,
            path_timeout: Span::from_secs(3),
            tick: Span::ZERO,
            ..Self::mptcp_linux_v1()
        }
    }
}

/// A buffer's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Fixed.
    Fixed(Bytes),
    /// Grown by use as Linux does, up to `max`.
    Auto {
        /// The limit (`tcp_wmem[2]`, `tcp_rmem[2]`).
        max: Bytes,
    },
}

/// When rate samples of a path are marked as limited by the application: a controller does not take them for what the
/// path can bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppLimited {
    /// Never. MPTCP gives data to its subflows without `tcp_sendmsg`, the only place where Linux marks samples.
    Never,
    /// The path has room, and less than a packet is unsent: Linux's TCP (`tcp_rate_check_app_limited`), the draft that it
    /// follows (draft-cheng-iccrg-delivery-rate-estimation), and XQUIC, where no path may hold packets either.
    NoData,
    /// The path has room and is given nothing, be it that there are no data, that the peer's window is shut, or that the
    /// scheduler prefers another path: noq.
    Path,
}

impl AppLimited {
    /// Whether a path that has room, and was given nothing, is limited by an application with so much `unsent`.
    #[inline]
    pub fn is_limited(self, unsent: Bytes, mss: Bytes) -> bool {
        match self {
            Self::Never => false,
            Self::NoData => unsent < mss,
            Self::Path => true,
        }
    }
}

/// On which path acknowledgements return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPath {
    /// On the path they acknowledge.
    Same,
    /// On the path with the smallest round-trip time.
    Fastest,
}

/// How the least retransmission timeout applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// To the variance term: the timeout is at least srtt + min_rto.
    Linux,
    /// To the sum (RFC 6298 §2.4).
    Rfc6298,
}

/// How paths are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathManager {
    /// The first path, then all others at once.
    FullMesh,
    /// The first path; the others only when it fails.
    PrimaryFirst,
    /// All, but every path except the first is a backup.
    Backup,
}

/// On which path the connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The first.
    Primary,
    /// The one whose peer answers first: a handshake is begun on all paths at once.
    /// The others are dropped with that answer and join as under [`Opening::Primary`].
    Race,
}

/// What a connection knows of the bottlenecks that its paths share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottlenecks {
    /// Nothing.
    None,
    /// Everything: paths with the same [`PathConfig::via`] share one.
    Given,
    /// What their round-trip times tell.
    Detected,
}

/// Who sends the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The side that opens the connection.
    Upload,
    /// The other side, on request.
    Download,
}

/// What the application does.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Sends so many bytes at once; the run ends when the last has arrived.
    Bulk {
        /// How many.
        bytes: Bytes,
    },
    /// Sends without end; the run stops after this long.
    Duration {
        /// From the start of the connection.
        span: Span,
    },
    /// Sends messages of mixed sizes at a fixed period.
    Messages {
        /// What is drawn for each message.
        sizes: Vec<MessageSize>,
        /// From one message to the next.
        period: Span,
        /// How many.
        count: u64,
        /// How long after it is written a message is still of use.
        deadline: Option<Span>,
    },
    /// Writes at a steady rate.
    Limited {
        /// How fast.
        rate: BitRate,
        /// How much in all.
        bytes: Bytes,
    },
    /// Writes a frame at each period, each with a deadline: live video.
    Stream {
        /// The mean rate.
        rate: BitRate,
        /// From one frame to the next.
        period: Span,
        /// A key frame every so many frames; 0 for none.
        key_every: u32,
        /// A key frame is so many times as large as another.
        key_ratio: u32,
        /// How long after it is written a frame is still of use.
        deadline: Span,
        /// How long it goes on.
        span: Span,
    },
    /// Sends a request's answer, waits for the next request, and so on.
    RequestResponse {
        /// The size of an answer.
        bytes: Bytes,
        /// From the end of an answer to the next request.
        think: Span,
        /// How many.
        count: u64,
    },
    /// Sends a page: a document, and objects that are asked for when what names them has arrived.
    Web {
        /// In the order in which they are asked for; the first is the document. Never empty.
        objects: Vec<WebObject>,
        /// From the arrival of an object to the requests that follow from it.
        think: Span,
    },
    /// Sends a packet of speech each period, one way.
    Voip {
        /// The payload of a packet.
        bytes: Bytes,
        /// From one packet to the next.
        period: Span,
        /// How long after it is written a packet is played.
        deadline: Span,
        /// How long it goes on.
        span: Span,
    },
    /// Flows that come at random, each a stream of the connection ([`has_flows`](Workload::has_flows)): all its data are
    /// written when it comes.
    Flows {
        /// From one to the next, on the mean of an exponential distribution: they are a Poisson process.
        mean_gap: Span,
        /// How many.
        count: u64,
        /// What is drawn for each. Never empty.
        kinds: Vec<FlowKind>,
    },
    /// A call with both voices and pictures: frames of one size each way, at once.
    Call {
        /// The rate in the direction of the scenario.
        rate: BitRate,
        /// The rate in the other direction.
        back: BitRate,
        /// From one frame to the next.
        period: Span,
        /// How long after it is written a frame is still of use.
        deadline: Span,
        /// How long it goes on.
        span: Span,
    },
}

/// An object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebObject {
    /// Its size.
    pub bytes: Bytes,
    /// How many objects are asked for when it has arrived. Requests go in the order of arrivals, so they are the next
    /// ones of the page that nobody has asked for.
    pub children: u64,
}

impl Workload {
    /// The call as the other side sends it; `None` for what goes one way.
    pub fn reverse(&self) -> Option<Self> {
        match *self {
            Self::Call { rate, back, period, deadline, span } => {
                Some(Self::Call { rate: back, back: rate, period, deadline, span })
            }
            _ => None,
        }
    }

    /// Whether it is made of messages: data that are of use once all of them have arrived.
    pub fn has_messages(&self) -> bool {
        !matches!(self, Self::Bulk { .. } | Self::Duration { .. } | Self::Limited { .. })
    }

    /// Whether its messages are flows, each a stream of its own. Where a connection has streams, they arrive in any order, and
    /// what is urgent leaves before what was written earlier.
    pub fn has_flows(&self) -> bool {
        matches!(self, Self::Flows { .. })
    }

    /// How long after it is written a message is still of use.
    pub fn deadline(&self) -> Option<Span> {
        match *self {
            Self::Messages { deadline, .. } => deadline,
            Self::Stream { deadline, .. } | Self::Voip { deadline, .. } | Self::Call { deadline, .. } => Some(deadline),
            _ => None,
        }
    }
}

/// Flows that are equally urgent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowKind {
    /// How urgent they are.
    pub class: FlowClass,
    /// How often they come, against the others.
    pub weight: u32,
    /// Half of them are no larger. Sizes are log-normal.
    pub median: Bytes,
    /// The standard deviation of the size's natural logarithm; 0 if all have one size.
    pub sigma: f64,
}

/// How urgent a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowClass {
    /// Somebody waits for it.
    Interactive = 1,
    /// All else.
    Bulk = 2,
}

impl FlowClass {
    /// Both, the more urgent first.
    pub const ALL: [Self; 2] = [Self::Interactive, Self::Bulk];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
        }
    }
}

/// One of the sizes that messages have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSize {
    /// How often, against the others.
    pub weight: u32,
    /// The size.
    pub bytes: Bytes,
    /// How urgent messages of this size are; 0 the most.
    pub class: u8,
}

impl MessageSize {
    /// This size, most urgent, with weight 1.
    pub const fn of(bytes: Bytes) -> Self {
        Self { weight: 1, bytes, class: 0 }
    }
}

/// A second connection over some of the same links, always sending.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    /// Its transport.
    pub transport: Transport,
    /// Its paths; they share links by `via`.
    pub paths: Vec<PathConfig>,
    /// Its controller.
    pub cc: String,
    /// Its scheduler.
    pub scheduler: String,
    /// When it starts.
    pub start: Instant,
}

/// A source without feedback on one link in the data direction.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossTraffic {
    /// The link it uses.
    pub on: CrossLink,
    /// Its mean rate while on.
    pub rate: BitRate,
    /// The size of its packets on the wire.
    pub packet: Bytes,
    /// Mean time on and off, both exponential; `None`: always on.
    pub on_off: Option<(Span, Span)>,
    /// Whether gaps between packets are exponential (Poisson), or equal.
    pub poisson: bool,
}

/// Where cross traffic enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrossLink {
    /// The data link of the path with this index.
    Path(usize),
    /// The shared link with this index.
    Shared(usize),
}
