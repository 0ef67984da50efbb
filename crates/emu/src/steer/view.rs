//! A subflow of the kernel as a scheduler's path.
//!
//! `sock_diag` tells the state of TCP: round-trip times, windows, rates, counters. It does not tell of a single packet,
//! nor of the connection's data, nor of the device below. What is therefore not in a path: `next` and `device_queue`
//! stay 0 and `queue_room` without bound; `latest_rtt` is the smoothed one; `max_rtt`, `rtt_sum` and `rtt_samples` are
//! over what looks found, not over every sample; `lost` is what was sent again, less what the peer reported as
//! duplicate.

use weftway_path::{BitRate, BlockedReason, Bytes, Counters, Health, Path, PathId, Role, Span};

use crate::netlink::{SubflowInfo, TcpInfo};

/// The path of a subflow that has just been found. `backup`: it is one of its own accord.
pub(super) fn path(id: PathId, info: &SubflowInfo, backup: bool) -> Path {
    let mut path = Path::new(id, info.tcp.snd_mss, info.tcp.cwnd_bytes());
    path.role = if backup { Role::Backup } else { Role::Active };
    renew(&mut path, &info.tcp);
    path
}

/// Brings `path` up to date. It is open whatever its window says: the question is where data should go for a while.
pub(super) fn renew(path: &mut Path, tcp: &TcpInfo) {
    path.blocked = BlockedReason::None;
    path.health = if tcp.timeouts > 0 { Health::Suspect } else { Health::Good };
    path.recovery = tcp.ca_state;
    path.pto_count = tcp.timeouts.into();
    window(path, tcp);
    trips(path, tcp);
    counters(path, tcp);
}

fn window(path: &mut Path, tcp: &TcpInfo) {
    path.mss = tcp.snd_mss;
    path.cwnd = tcp.cwnd_bytes();
    path.ssthresh = tcp.snd_ssthresh.map_or(Bytes::MAX, |packets| tcp.snd_mss.mul_div(packets.into(), 1));
    path.bytes_in_flight = tcp.bytes_in_flight();
    path.queued = tcp.notsent_bytes;
    path.delivery_rate = tcp.delivery_rate;
    // Linux keeps a rate whether or not it paces by it; "no bound" says nothing about the path.
    path.pacing_rate = tcp.pacing_rate.unwrap_or(BitRate::ZERO);
}

/// An idle subflow has no new sample: only what was delivered since the last look counts.
fn trips(path: &mut Path, tcp: &TcpInfo) {
    let is_new = path.rtt_samples == 0 || u64::from(tcp.delivered) > path.acked.packets;
    (path.srtt, path.rttvar, path.latest_rtt) = (tcp.srtt, tcp.rttvar, tcp.srtt);
    path.min_rtt = tcp.min_rtt.unwrap_or(tcp.srtt);
    path.max_rtt = path.max_rtt.max(tcp.srtt);
    if is_new && tcp.srtt > Span::ZERO {
        path.rtt_sum += tcp.srtt;
        path.rtt_samples += 1;
    }
}

fn counters(path: &mut Path, tcp: &TcpInfo) {
    let needed = u64::from(tcp.total_retrans.saturating_sub(tcp.dsack_dups));
    path.sent = Counters { bytes: tcp.bytes_sent, packets: tcp.data_segs_out.into() };
    path.acked = Counters { bytes: tcp.bytes_acked, packets: tcp.delivered.into() };
    path.retransmitted = Counters { bytes: tcp.bytes_retrans, packets: tcp.total_retrans.into() };
    path.lost = Counters { bytes: tcp.snd_mss.mul_div(needed, 1).min(tcp.bytes_retrans), packets: needed };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(srtt_ms: u64, delivered: u32) -> TcpInfo {
        TcpInfo {
            snd_mss: Bytes::new(1000),
            snd_cwnd: 20,
            unacked: 12,
            sacked: 2,
            srtt: Span::from_millis(srtt_ms),
            delivered,
            total_retrans: 5,
            dsack_dups: 2,
            bytes_retrans: Bytes::new(4_800),
            notsent_bytes: Bytes::new(3000),
            ..TcpInfo::default()
        }
    }

    /// 12 unacknowledged less 2 that arrived: 10 packets in flight; with 3 unsent ones, 7 of 20 are free. Of 5 sent
    /// again, 2 were for nothing.
    #[test]
    fn a_path_says_what_tcp_says() {
        let mut path = Path::new(PathId::new(1), Bytes::new(1), Bytes::new(1));
        renew(&mut path, &tcp(30, 40));
        assert_eq!((path.cwnd, path.bytes_in_flight, path.space()), (packets(20), packets(10), packets(7)));
        assert_eq!((path.lost.packets, path.lost.bytes, path.retransmitted.packets), (3, packets(3), 5));
        assert!(path.is_open() && path.in_first_slow_start());
        assert_eq!((path.srtt, path.min_rtt), (Span::from_millis(30), Span::from_millis(30)));
    }

    #[test]
    fn an_idle_path_has_no_new_sample() {
        let mut path = Path::new(PathId::new(0), Bytes::new(1), Bytes::new(1));
        for (srtt, delivered) in [(30, 40), (30, 40), (50, 41)] {
            renew(&mut path, &tcp(srtt, delivered));
        }
        // Two looks found something delivered: (30 + 50) / 2.
        assert_eq!((path.rtt_samples, path.mean_rtt()), (2, Span::from_millis(40)));
    }

    fn packets(n: u64) -> Bytes {
        Bytes::new(1000 * n)
    }
}
