//! Stacks with their defaults, and sizes and times that follow from the settings of one.

use weftway_path::{Bytes, Span};

use crate::options::{Opening, TransportConfig};
use crate::stack::Stack;

impl TransportConfig {
    /// MPTCP of the out-of-tree kernels 0.89 to 0.96, on which the papers measured.
    pub fn mptcp_v09x() -> Self {
        Self::of(Stack::MptcpV09x)
    }

    /// MPTCP v1 of today's kernel.
    pub fn mptcp_linux_v1() -> Self {
        Self::of(Stack::MptcpLinuxV1)
    }

    /// Single-path TCP: a subflow of MPTCP v1 without its option bytes.
    pub fn tcp() -> Self {
        Self::of(Stack::Tcp)
    }

    /// Multipath QUIC: RFC 9000, RFC 9002, multipath extension.
    pub fn mpquic() -> Self {
        Self::of(Stack::Mpquic)
    }

    /// Bytes that a packet with so much payload takes of the pacer, whose rates are of payload (draft-ietf-ccwg-bbr and
    /// RFC 9002 leave out what is below the transport, too): all of it, or less by MPTCP's option.
    #[inline]
    pub fn paced(&self, payload: Bytes) -> Bytes {
        let option = self.rules.dss_option;
        if option == Bytes::ZERO {
            return payload;
        }
        payload.mul_div(self.mss.get(), (self.mss + option).get())
    }

    /// Size on the wire of a packet with so much payload.
    #[inline]
    pub fn data_packet(&self, payload: Bytes) -> Bytes {
        Bytes::new(payload.get() + self.packet.get() - self.mss.get())
    }

    /// Size on the wire of a handshake's message: QUIC's least datagram, IPv4 and UDP, or a packet without payload.
    pub fn handshake_packet(&self) -> Bytes {
        if self.rules.pads_handshakes { Bytes::new(1200 + 28) } else { self.ack_packet }
    }

    /// QUIC: size of the server's last message of the handshake, with connection IDs for so many paths, and of the
    /// packet that follows where they do not fit into one.
    ///
    /// noq gives five IDs a path (30 B each: PATH_NEW_CONNECTION_ID), for four paths more than there are, less the one
    /// that the handshake had; the driver asks for the four. The rest of the message, and the second packet's own head,
    /// are as noq 1.4 sent them: 1025 B for two paths, 1175 for three, 1277 and 102 for four, where a full packet has
    /// 1280.
    pub fn id_packets(&self, paths: usize) -> (Bytes, Option<Bytes>) {
        let (ids, full) = (30 * (5 * (paths as u64 + 4) - 1), self.packet.get() - 3);
        match ids + 155 {
            whole if whole <= full => (Bytes::new(whole), None),
            whole => (Bytes::new(full), Some(Bytes::new(whole - full + 54))),
        }
    }

    /// Returns true if the connection begins on whichever path answers first.
    pub fn races(&self) -> bool {
        self.open == Opening::Race
    }

    /// Returns true if a packet that is not full waits while an earlier one is unacknowledged (Nagle's rule, RFC 896).
    pub fn holds_small(&self) -> bool {
        !self.nodelay
    }

    /// Rounds a time up to whole ticks.
    pub fn whole_ticks(&self, span: Span) -> Span {
        let tick = self.tick.as_nanos().max(1);
        Span::from_nanos(span.as_nanos().div_ceil(tick) * tick)
    }

    /// Initial window in payload bytes.
    pub fn initial_cwnd(&self) -> Bytes {
        Bytes::new(self.mss.get().saturating_mul(self.initial_window))
    }

    /// Window, in payload bytes, and round trip that are remembered of an earlier connection.
    pub fn remembered(&self) -> Option<(Bytes, Span)> {
        self.remembered.map(|given| (Bytes::new(self.mss.get().saturating_mul(given.packets)), given.rtt))
    }

    /// Returns the transport as plain TCP, without MPTCP's options: a host falls back to it.
    #[must_use]
    pub fn as_tcp(&self) -> Self {
        let tcp = Self::tcp();
        let options = Self::mptcp_linux_v1().ack_packet - tcp.ack_packet;
        Self {
            stack: tcp.stack,
            rules: tcp.rules,
            mss: self.mss + self.rules.dss_option,
            app_limited: tcp.app_limited,
            subflow_windows: tcp.subflow_windows,
            ack_packet: self.ack_packet.saturating_sub(options),
            ..self.clone()
        }
    }
}
