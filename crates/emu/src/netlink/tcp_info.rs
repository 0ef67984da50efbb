//! Information of the kernel about a TCP connection: `struct tcp_info` of `linux/tcp.h`.
//!
//! The structure grows at its end from kernel to kernel. Here it is read from bytes, field by field at its offset, so
//! that an answer of an older kernel is a shorter one and no other type: what it does not hold is zero, or `None`.

use weftway_path::{BitRate, Bytes, Recovery, Span};

/// The kernel's slow-start threshold before the first loss.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// A connection's state, as far as it says anything about sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TcpState {
    /// Data flows in both directions.
    Established,
    /// The peer has said that it sends no more; this side still may.
    CloseWait,
    /// On its way up, on its way down, or listening.
    #[default]
    Other,
}

/// The part of `struct tcp_info` that a packet scheduler and its observer read.
///
/// Windows and counts are in packets where the kernel counts packets; [`cwnd_bytes`](Self::cwnd_bytes) translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// State of the connection.
    pub state: TcpState,
    /// State of loss recovery.
    pub ca_state: Recovery,
    /// Timeouts in a row without an acknowledgement.
    pub timeouts: u8,
    /// The delivery rate below is what the application offered, not what the path can do.
    pub app_limited: bool,
    /// Retransmission timeout.
    pub rto: Span,
    /// Largest segment that is sent.
    pub snd_mss: Bytes,
    /// Packets sent and not yet acknowledged, retransmissions not counted.
    pub unacked: u32,
    /// Packets among these that are selectively acknowledged.
    pub sacked: u32,
    /// Packets among these that are deemed lost.
    pub lost: u32,
    /// Retransmissions that are in flight.
    pub retrans: u32,
    /// Time since data was last sent, in the kernel's ticks (1 to 10 ms).
    pub since_data_sent: Span,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Span,
    /// Its mean deviation.
    pub rttvar: Span,
    /// Least round-trip time of the last five minutes; `None` before the first sample.
    pub min_rtt: Option<Span>,
    /// Slow-start threshold, in packets; `None` while it is infinite.
    pub snd_ssthresh: Option<u32>,
    /// Congestion window, in packets.
    pub snd_cwnd: u32,
    /// The peer's receive window.
    pub snd_wnd: Bytes,
    /// Distance of reordering that is tolerated, in packets.
    pub reordering: u32,
    /// Rate at which packets are spread out; `None` when they are not.
    pub pacing_rate: Option<BitRate>,
    /// Most recent goodput sample that the path, or the application, allowed.
    pub delivery_rate: BitRate,
    /// Bytes acknowledged in sequence, the SYN counted as one.
    pub bytes_acked: Bytes,
    /// Bytes of data received in sequence.
    pub bytes_received: Bytes,
    /// Bytes of data sent, retransmissions included.
    pub bytes_sent: Bytes,
    /// Bytes of data retransmitted.
    pub bytes_retrans: Bytes,
    /// Bytes in the send queue that were never sent.
    pub notsent_bytes: Bytes,
    /// Segments sent, retransmissions and bare acknowledgements included.
    pub segs_out: u32,
    /// Segments with data sent, retransmissions included.
    pub data_segs_out: u32,
    /// Retransmissions since the beginning, in packets.
    pub total_retrans: u32,
    /// Packets delivered, selectively acknowledged ones included.
    pub delivered: u32,
    /// Packets among these with a congestion mark.
    pub delivered_ce: u32,
    /// Duplicates that the peer reported: retransmissions for nothing.
    pub dsack_dups: u32,
    /// Times that reordering was seen.
    pub reord_seen: u32,
    /// Time with data to send.
    pub busy: Span,
    /// Part of this time in which the peer's receive window held back.
    pub rwnd_limited: Span,
    /// Part of this time in which the send buffer held back.
    pub sndbuf_limited: Span,
}

impl TcpInfo {
    /// Reads the structure as `getsockopt` and `inet_diag` fill it, of any length.
    pub fn parse(bytes: &[u8]) -> Self {
        let raw = Raw(bytes);
        Self { ..raw.state().with_window(raw).with_counters(raw).with_times(raw) }
    }

    /// The congestion window in bytes.
    pub fn cwnd_bytes(&self) -> Bytes {
        self.in_bytes(self.snd_cwnd)
    }

    /// Bytes in flight: sent, neither acknowledged nor deemed lost, and retransmissions.
    pub fn bytes_in_flight(&self) -> Bytes {
        let gone = self.sacked.saturating_add(self.lost);
        self.in_bytes(self.unacked.saturating_sub(gone).saturating_add(self.retrans))
    }

    fn in_bytes(&self, packets: u32) -> Bytes {
        Bytes::new(u64::from(packets) * self.snd_mss.get())
    }

    fn with_window(self, raw: Raw) -> Self {
        let ssthresh = raw.u32(76);
        Self {
            snd_mss: Bytes::new(raw.u32(16).into()),
            unacked: raw.u32(24),
            sacked: raw.u32(28),
            lost: raw.u32(32),
            retrans: raw.u32(36),
            snd_ssthresh: (ssthresh < INFINITE_SSTHRESH).then_some(ssthresh),
            snd_cwnd: raw.u32(80),
            snd_wnd: Bytes::new(raw.u32(228).into()),
            reordering: raw.u32(88),
            pacing_rate: raw.rate(104),
            delivery_rate: raw.rate(160).unwrap_or_default(),
            ..self
        }
    }

    fn with_counters(self, raw: Raw) -> Self {
        Self {
            total_retrans: raw.u32(100),
            bytes_acked: Bytes::new(raw.u64(120)),
            bytes_received: Bytes::new(raw.u64(128)),
            segs_out: raw.u32(136),
            notsent_bytes: Bytes::new(raw.u32(144).into()),
            data_segs_out: raw.u32(156),
            delivered: raw.u32(192),
            delivered_ce: raw.u32(196),
            bytes_sent: Bytes::new(raw.u64(200)),
            bytes_retrans: Bytes::new(raw.u64(208)),
            dsack_dups: raw.u32(216),
            reord_seen: raw.u32(220),
            ..self
        }
    }

    fn with_times(self, raw: Raw) -> Self {
        let min_rtt = raw.u32(148);
        Self {
            rto: Span::from_micros(raw.u32(8).into()),
            since_data_sent: Span::from_millis(raw.u32(44).into()),
            srtt: Span::from_micros(raw.u32(68).into()),
            rttvar: Span::from_micros(raw.u32(72).into()),
            // All ones before the first sample; nothing where the kernel is older than the field.
            min_rtt: (min_rtt != 0 && min_rtt != u32::MAX).then(|| Span::from_micros(min_rtt.into())),
            busy: Span::from_micros(raw.u64(168)),
            rwnd_limited: Span::from_micros(raw.u64(176)),
            sndbuf_limited: Span::from_micros(raw.u64(184)),
            ..self
        }
    }
}

/// The structure's bytes. What lies beyond their end is zero.
#[derive(Clone, Copy)]
struct Raw<'a>(&'a [u8]);

impl Raw<'_> {
    fn state(self) -> TcpInfo {
        let state = match self.u8(0) {
            1 => TcpState::Established,
            8 => TcpState::CloseWait,
            _ => TcpState::Other,
        };
        let ca_state = match self.u8(1) {
            1 => Recovery::Disorder,
            2 => Recovery::Cwr,
            3 => Recovery::Recovery,
            4 => Recovery::Loss,
            _ => Recovery::Open,
        };
        // A bit field of one bit: the lowest on a little-endian machine, the highest on a big-endian one.
        let limited = if cfg!(target_endian = "little") { 1 } else { 0x80 };
        TcpInfo { state, ca_state, timeouts: self.u8(2), app_limited: self.u8(7) & limited != 0, ..Default::default() }
    }

    fn u8(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn u32(self, at: usize) -> u32 {
        self.word(at).map_or(0, u32::from_ne_bytes)
    }

    fn u64(self, at: usize) -> u64 {
        self.word(at).map_or(0, u64::from_ne_bytes)
    }

    /// Bytes per second, all ones where there is no bound.
    fn rate(self, at: usize) -> Option<BitRate> {
        let bytes = self.u64(at);
        (bytes != u64::MAX).then(|| BitRate::from_bps(bytes.saturating_mul(8)))
    }

    fn word<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The structure of Linux 5.15 and later up to `tcpi_snd_wnd`: 232 bytes.
    fn bytes(fields: &[(usize, u64, usize)]) -> Vec<u8> {
        let mut bytes = vec![0; 232];
        for &(at, value, width) in fields {
            match width {
                1 => bytes[at] = value as u8,
                4 => bytes[at..at + 4].copy_from_slice(&(value as u32).to_ne_bytes()),
                _ => bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes()),
            }
        }
        bytes
    }

    #[test]
    fn units_are_those_of_the_kernel() {
        let info =
            TcpInfo::parse(&bytes(&[(0, 1, 1), (1, 3, 1), (8, 204_000, 4), (68, 20_290, 4), (160, 1_250_000, 8)]));
        assert_eq!((info.state, info.ca_state), (TcpState::Established, Recovery::Recovery));
        // Microseconds and bytes per second: 204 ms, 20.29 ms, 10 Mbit/s.
        assert_eq!(info.rto, Span::from_millis(204));
        assert_eq!(info.srtt, Span::from_micros(20_290));
        assert_eq!(info.delivery_rate, BitRate::from_mbps(10));
    }

    #[test]
    fn in_flight_is_what_neither_arrived_nor_was_lost() {
        // 10 unacknowledged, 3 of them arrived out of order, 2 lost, 1 of these sent again: 10 - 3 - 2 + 1 = 6 packets.
        let info =
            TcpInfo::parse(&bytes(&[(16, 1428, 4), (24, 10, 4), (28, 3, 4), (32, 2, 4), (36, 1, 4), (80, 7, 4)]));
        assert_eq!(info.bytes_in_flight(), Bytes::new(6 * 1428));
        assert_eq!(info.cwnd_bytes(), Bytes::new(7 * 1428));
    }

    #[test]
    fn no_sample_and_no_bound_are_none() {
        let info = TcpInfo::parse(&bytes(&[(76, 0x7fff_ffff, 4), (148, 0xffff_ffff, 4), (104, u64::MAX, 8)]));
        assert_eq!((info.snd_ssthresh, info.min_rtt, info.pacing_rate), (None, None, None));
    }

    #[test]
    fn an_older_kernels_structure_is_shorter() {
        // Linux 3.x ended behind `tcpi_total_retrans`, at 104 bytes.
        let long = bytes(&[(100, 5, 4), (120, 9, 8), (200, 9, 8)]);
        let info = TcpInfo::parse(&long[..104]);
        assert_eq!((info.total_retrans, info.bytes_acked, info.bytes_sent), (5, Bytes::ZERO, Bytes::ZERO));
        assert_eq!(TcpInfo::parse(&[]).state, TcpState::Other);
    }

    /// The C library has the beginning of the structure too.
    #[test]
    fn offsets_are_those_of_the_c_library() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rto), 8);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rtt), 68);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_snd_cwnd), 80);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_total_retrans), 100);
    }
}
