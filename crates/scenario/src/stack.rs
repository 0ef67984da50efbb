//! What the stacks do differently, a rule each. The engine asks for a rule, not for the stack, so that what a rule means
//! is said in one place.

/// The rules of the transport; `docs/explanation/transport.md` tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// MPTCP of the out-of-tree kernels, v0.89 to v0.96.
    MptcpV09x,
    /// MPTCP v1 (RFC 8684) as Linux has it since 5.6, and plain TCP.
    MptcpLinuxV1,
    /// Multipath QUIC (RFC 9000, RFC 9002, draft-ietf-quic-multipath).
    Mpquic,
}

/// How losses are found and repaired, and what a window counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossRecovery {
    /// As Linux does for TCP: RACK, tail-loss probes, proportional rate reduction; a path repairs what it lost, and windows
    /// count packets.
    Tcp,
    /// RFC 9002: packet and time thresholds, probe timeouts; lost data go back to the connection, and windows count bytes.
    Quic,
}

/// How the connection repairs what no path does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaTimer {
    /// It need not: lost data are its own.
    None,
    /// MPTCP v0.9x: after twice the longest timeout of the subflows, its oldest packet is offered to all of them.
    LongestTimeout,
    /// Linux v1: after the longest rest of a pending timer, an idle subflow repeats the oldest fragment, and what a silent
    /// subflow holds is sent again on the others after a while.
    PendingTimers,
}

/// How a receive buffer becomes the window that the sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWindow {
    /// Half of twice what was asked for (`tcp_adv_win_scale` before Linux 6.6).
    Assumed,
    /// The measured share of twice what was asked for (`scaling_ratio` since Linux 6.6), in the units of the window scale.
    Measured,
    /// All of it: QUIC's limit, raised when half of it is used.
    Credit,
}

/// The rules of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackRules {
    /// How losses are found and repaired.
    pub recovery: LossRecovery,
    /// How the connection repairs what no path does.
    pub meta_timer: MetaTimer,
    /// How a receive buffer becomes a window.
    pub receive_window: ReceiveWindow,
    /// A sender fills bursts for its device: it waits for a third of the window (`tcp_tso_should_defer`), and packets of
    /// a burst share a buffer (`tcp_tso_autosize`).
    pub fills_bursts: bool,
    /// Bursts are longer where the round trip is a few milliseconds (`tcp_tso_rtt_log`, since Linux 5.18).
    pub lengthens_bursts: bool,
    /// Data are pushed in fragments and writes, within which the choice of a path and its memory are not looked at again
    /// (`mptcp_sendmsg`, `mptcp_send_limit`).
    pub pushes_fragments: bool,
    /// A subflow whose timer fired takes no new data (`mptcp_is_def_unavailable`).
    pub spares_failing: bool,
    /// What a subflow has outstanding when its timer fires is offered to the others (`mptcp_reinject_data`).
    pub reinjects_at_timeout: bool,
    /// Opportunistic retransmission and penalisation are possible (Raiciu et al., NSDI 2012).
    pub relieves_window: bool,
    /// And so they are where the send buffer keeps the application waiting, not only where the window is shut
    /// (`__mptcp_next_segment`).
    pub relieves_buffer: bool,
    /// A pacer holds the whole path back, not only what waits on it.
    pub pacer_blocks: bool,
    /// Lost data may take any path, those included that have carried them.
    pub repeats_anywhere: bool,
    /// A blocked writer goes on when a third of its buffer is free (`sk_stream_is_writeable`), not at once.
    pub writer_waits: bool,
    /// A receiver whose application has read acknowledges it where that opens the window (`mptcp_cleanup_rbuf`).
    pub tells_of_reading: bool,
    /// A receive window grows with what is read in the longest round trip of all paths (`mptcp_rcv_space_adjust`).
    pub grows_by_longest_rtt: bool,
    /// Paths after the first *join*: when the client has heard from the server, with four messages (RFC 8684 §3).
    pub joins: bool,
    /// How many handshakes wait for a second each before the wait doubles (`net.ipv4.tcp_syn_linear_timeouts` since
    /// Linux 6.5).
    pub even_handshakes: u32,
    /// Repetitions of the first path's handshake before the connection opens as plain TCP
    /// (`net.mptcp.syn_retrans_before_tcp_fallback` since Linux 6.14); none: it asks for several paths as long as it
    /// takes.
    pub repeats_before_tcp: Option<u32>,
    /// Handshakes and path validation fill datagrams of 1200 B (RFC 9000 §14.1, §8.2), and the first path's has a third
    /// and a fourth message: the client's last, and what the server sends after it, connection IDs for other paths
    /// among them (RFC 9000 §19.15, draft-ietf-quic-multipath §3.1).
    pub pads_handshakes: bool,
}

const LINUX_V1: StackRules = StackRules {
    recovery: LossRecovery::Tcp,
    meta_timer: MetaTimer::PendingTimers,
    receive_window: ReceiveWindow::Measured,
    fills_bursts: true,
    lengthens_bursts: true,
    pushes_fragments: true,
    spares_failing: false,
    reinjects_at_timeout: false,
    relieves_window: false,
    relieves_buffer: false,
    pacer_blocks: false,
    repeats_anywhere: false,
    writer_waits: true,
    tells_of_reading: true,
    grows_by_longest_rtt: true,
    joins: true,
    even_handshakes: 4,
    repeats_before_tcp: Some(2),
    pads_handshakes: false,
};

const V09X: StackRules = StackRules {
    meta_timer: MetaTimer::LongestTimeout,
    receive_window: ReceiveWindow::Assumed,
    fills_bursts: false,
    lengthens_bursts: false,
    pushes_fragments: false,
    spares_failing: true,
    reinjects_at_timeout: true,
    relieves_window: true,
    relieves_buffer: true,
    tells_of_reading: false,
    grows_by_longest_rtt: false,
    even_handshakes: 0,
    repeats_before_tcp: None,
    ..LINUX_V1
};

const MPQUIC: StackRules = StackRules {
    recovery: LossRecovery::Quic,
    meta_timer: MetaTimer::None,
    receive_window: ReceiveWindow::Credit,
    fills_bursts: false,
    lengthens_bursts: false,
    pushes_fragments: false,
    pacer_blocks: true,
    repeats_anywhere: true,
    writer_waits: false,
    tells_of_reading: false,
    grows_by_longest_rtt: false,
    joins: false,
    even_handshakes: 0,
    repeats_before_tcp: None,
    pads_handshakes: true,
    ..LINUX_V1
};

impl Stack {
    /// What it does.
    pub const fn rules(self) -> StackRules {
        match self {
            Self::MptcpV09x => V09X,
            Self::MptcpLinuxV1 => LINUX_V1,
            Self::Mpquic => MPQUIC,
        }
    }
}
