//! Differences between the stacks, a rule each. The engine asks for a rule, not for the stack, so that the meaning of a
//! rule is said in one place.

use weftway_path::Bytes;

/// Transport protocol of a host; `docs/explanation/transport.md` tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// MPTCP of the out-of-tree kernels, v0.89 to v0.96.
    MptcpV09x,
    /// MPTCP v1 (RFC 8684) as Linux has it since 5.6.
    MptcpLinuxV1,
    /// TCP on a single path, as Linux has it.
    Tcp,
    /// Multipath QUIC (RFC 9000, RFC 9002, draft-ietf-quic-multipath).
    Mpquic,
}

impl Stack {
    /// All stacks, in the order of the tables of options and of rules.
    pub const ALL: [Self; 4] = [Self::MptcpV09x, Self::MptcpLinuxV1, Self::Tcp, Self::Mpquic];
}

/// Loss detection and repair, and the unit of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossRecovery {
    /// Linux's for TCP: RACK, tail-loss probes, proportional rate reduction; a path repairs what it lost, and windows
    /// count packets.
    Tcp,
    /// RFC 9002: packet and time thresholds, probe timeouts; lost data go back to the connection, and windows count
    /// bytes.
    Quic,
}

/// Repair by the connection of what no path repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaTimer {
    /// None is needed: lost data are the connection's own.
    None,
    /// MPTCP v0.9x: after twice the longest timeout of the subflows, its oldest packet is offered to all of them.
    LongestTimeout,
    /// Linux v1: after the longest rest of a pending timer, an idle subflow repeats the oldest fragment, and what a
    /// silent subflow holds is sent again on the others after a while.
    PendingTimers,
}

/// Window that the sender is told for a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWindow {
    /// Half of twice what was asked for (`tcp_adv_win_scale` before Linux 6.6).
    Assumed,
    /// The measured share of twice what was asked for (`scaling_ratio` since Linux 6.6), in the units of the window
    /// scale.
    Measured,
    /// All of it: QUIC's limit, raised when half of it is used.
    Credit,
}

/// Makes [`StackRules`] and the rules of each stack, none of which is another's by default.
macro_rules! rules {
    ($($(#[$doc:meta])+ $name:ident: $type:ty = [$v09x:expr, $linux_v1:expr, $tcp:expr, $mpquic:expr];)+) => {
        /// Rules of one stack.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct StackRules {
            $($(#[$doc])+ pub $name: $type,)+
        }

        impl Stack {
            /// Returns the rules of the stack.
            pub const fn rules(self) -> StackRules {
                match self {
                    Self::MptcpV09x => StackRules { $($name: $v09x,)+ },
                    Self::MptcpLinuxV1 => StackRules { $($name: $linux_v1,)+ },
                    Self::Tcp => StackRules { $($name: $tcp,)+ },
                    Self::Mpquic => StackRules { $($name: $mpquic,)+ },
                }
            }
        }
    };
}

// rule: type = [MPTCP v0.9x, MPTCP linux-v1, TCP, MPQUIC]. TCP is run as a subflow of linux-v1, the only one of its
// connection.
rules! {
    /// Loss detection and repair.
    recovery: LossRecovery = [LossRecovery::Tcp, LossRecovery::Tcp, LossRecovery::Tcp, LossRecovery::Quic];

    /// Repair by the connection of what no path repairs.
    meta_timer: MetaTimer
        = [MetaTimer::LongestTimeout, MetaTimer::PendingTimers, MetaTimer::PendingTimers, MetaTimer::None];

    /// Window that the sender is told for a receive buffer.
    receive_window: ReceiveWindow
        = [ReceiveWindow::Assumed, ReceiveWindow::Measured, ReceiveWindow::Measured, ReceiveWindow::Credit];

    /// DSS option of a full MPTCP packet (RFC 8684 §3.3): 4 + 4 (DATA_ACK) + 14 bytes (64-bit mapping), padded to 24;
    /// 20 with the 32-bit mapping of v0.9x. Linux turns packets into a pacing rate by `mss_cache`, from which it is not
    /// subtracted (1448 B for packets that carry 1424 B), and charges the pacer the payload alone (`skb->len` in
    /// `tcp_update_skb_after_send`): MPTCP is paced 1.7 % above what the controller means.
    dss_option: Bytes = [Bytes::new(20), Bytes::new(24), Bytes::ZERO, Bytes::ZERO];

    /// A sender fills bursts for its device: it waits for a third of the window (`tcp_tso_should_defer`), and packets
    /// of a burst share a buffer (`tcp_tso_autosize`).
    fills_bursts: bool = [false, true, true, false];

    /// Bursts are longer where the round trip is a few milliseconds (`tcp_tso_rtt_log`, since Linux 5.18).
    lengthens_bursts: bool = [false, true, true, false];

    /// Data are pushed in fragments and writes, within which the choice of a path and its memory are not looked at
    /// again (`mptcp_sendmsg`, `mptcp_send_limit`).
    pushes_fragments: bool = [false, true, true, false];

    /// A subflow whose timer fired takes no new data (`mptcp_is_def_unavailable`).
    spares_failing: bool = [true, false, false, false];

    /// Data that a subflow has outstanding when its timer fires are offered to the others (`mptcp_reinject_data`).
    reinjects_at_timeout: bool = [true, false, false, false];

    /// Opportunistic retransmission and penalisation are possible (Raiciu et al., NSDI 2012).
    relieves_window: bool = [true, false, false, false];

    /// They are possible, too, where the send buffer keeps the application waiting, not only where the window is shut
    /// (`__mptcp_next_segment`).
    relieves_buffer: bool = [true, false, false, false];

    /// A pacer holds the whole path back, not only what waits on it.
    pacer_blocks: bool = [false, false, false, true];

    /// Lost data may take any path, those included that have carried them.
    repeats_anywhere: bool = [false, false, false, true];

    /// A blocked writer goes on when a third of its buffer is free (`sk_stream_is_writeable`), not at once.
    writer_waits: bool = [true, true, true, false];

    /// A receiver whose application has read acknowledges it where that opens the window (`mptcp_cleanup_rbuf`).
    tells_of_reading: bool = [false, true, true, false];

    /// A receive window grows with what is read in the longest round trip of all paths (`mptcp_rcv_space_adjust`).
    grows_by_longest_rtt: bool = [false, true, true, false];

    /// Paths after the first *join*: when the client has heard from the server, with four messages (RFC 8684 §3).
    joins: bool = [true, true, true, false];

    /// Handshakes that wait for a second each before the wait doubles (`net.ipv4.tcp_syn_linear_timeouts` since
    /// Linux 6.5).
    even_handshakes: u32 = [0, 4, 4, 0];

    /// Repetitions of the first path's handshake before the connection opens as plain TCP
    /// (`net.mptcp.syn_retrans_before_tcp_fallback` since Linux 6.14); none: it asks for several paths as long as it
    /// takes.
    repeats_before_tcp: Option<u32> = [None, Some(2), None, None];

    /// Handshakes and path validation fill datagrams of 1200 B (RFC 9000 §14.1, §8.2), and the first path's has a third
    /// and a fourth message: the client's last, and what the server sends after it, connection IDs for other paths
    /// among them (RFC 9000 §19.15, draft-ietf-quic-multipath §3.1).
    pads_handshakes: bool = [false, false, false, true];
}
