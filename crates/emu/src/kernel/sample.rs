//! A connection's statistics, by path.

use std::io;
use std::net::{Ipv4Addr, TcpStream};

use weftway_path::{BitRate, Bytes, Span};

use crate::kernel::full_info::{Connection, FullInfo, Inquiry, SubflowInfo};
use crate::netlink::CaState;

/// Statistics at one time.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Sample {
    /// Time from time zero.
    pub at: Span,
    /// Subflow of each path, by number.
    pub paths: Vec<Subflow>,
    /// Figures of the connection as a whole; `None` for TCP, and for MPTCP that fell back to it.
    pub connection: Option<Connection>,
    /// Subflows between addresses of no path, seen up to now. Their bytes are in no path.
    pub unmatched: u32,
}

impl Sample {
    /// Returns true if some subflow has sent what is not acknowledged. The connection is not asked: its last
    /// acknowledgement may come only when its timer has sent the data again.
    pub(super) fn in_doubt(&self) -> bool {
        self.paths.iter().any(|path| path.open > 0 && path.unacked > 0)
    }
}

/// Figures of a path's subflow. A path that was given up and joined again has had several: what counts from the
/// beginning is added up over them, and what is of the moment is the newest's, as it was when last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Subflow {
    /// Subflows open now; 0 before the path is joined and after it is given up.
    pub open: u32,
    /// Smoothed round-trip time; zero before the first measurement.
    pub srtt: Span,
    /// Its mean deviation.
    pub rttvar: Span,
    /// Least round-trip time.
    pub min_rtt: Option<Span>,
    /// Retransmission timeout.
    pub rto: Span,
    /// Timeouts in a row.
    pub timeouts: u8,
    /// State of congestion control.
    pub ca_state: CaState,
    /// Congestion window, in packets.
    pub cwnd_packets: u32,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold, in packets; `None` while it is infinite.
    pub ssthresh_packets: Option<u32>,
    /// Packets sent and not acknowledged by a cumulative acknowledgement.
    pub unacked: u32,
    /// Packets among these that are deemed lost.
    pub lost: u32,
    /// In flight: sent, neither arrived nor lost as far as is known.
    pub bytes_in_flight: Bytes,
    /// Latest measurement of what arrives.
    pub delivery_rate: BitRate,
    /// Rate at which packets are put out; `None` where they are not spread.
    pub pacing_rate: Option<BitRate>,
    /// Data sent, retransmissions included. From here on, everything counts from the beginning.
    pub bytes_sent: Bytes,
    /// Data acknowledged, the SYN of the side that connected counted as one.
    pub bytes_acked: Bytes,
    /// Data sent again on the same subflow.
    pub bytes_retrans: Bytes,
    /// Data received in order.
    pub bytes_received: Bytes,
    /// Packets sent again on the same subflow.
    pub total_retrans: u32,
    /// Packets delivered.
    pub delivered: u32,
    /// Packets received out of the subflow's order.
    pub out_of_order: u32,
}

impl Subflow {
    fn of(info: &SubflowInfo) -> Self {
        let tcp = &info.tcp;
        Self {
            open: 1,
            srtt: tcp.srtt,
            rttvar: tcp.rttvar,
            min_rtt: tcp.min_rtt,
            rto: tcp.rto,
            timeouts: tcp.timeouts,
            ca_state: tcp.ca_state,
            cwnd_packets: tcp.snd_cwnd,
            cwnd: tcp.cwnd_bytes(),
            ssthresh_packets: tcp.snd_ssthresh,
            unacked: tcp.unacked,
            lost: tcp.lost,
            bytes_in_flight: tcp.bytes_in_flight(),
            delivery_rate: tcp.delivery_rate,
            pacing_rate: tcp.pacing_rate,
            bytes_sent: tcp.bytes_sent,
            bytes_acked: tcp.bytes_acked,
            bytes_retrans: tcp.bytes_retrans,
            bytes_received: tcp.bytes_received,
            total_retrans: tcp.total_retrans,
            delivered: tcp.delivered,
            out_of_order: info.out_of_order,
        }
    }

    /// With what an earlier subflow of the same path counted.
    fn after(self, earlier: &Self) -> Self {
        Self {
            open: self.open + earlier.open,
            bytes_sent: self.bytes_sent + earlier.bytes_sent,
            bytes_acked: self.bytes_acked + earlier.bytes_acked,
            bytes_retrans: self.bytes_retrans + earlier.bytes_retrans,
            bytes_received: self.bytes_received + earlier.bytes_received,
            total_retrans: self.total_retrans + earlier.total_retrans,
            delivered: self.delivered + earlier.delivered,
            out_of_order: self.out_of_order + earlier.out_of_order,
            ..self
        }
    }
}

/// Observations of a connection's subflows. The kernel forgets a subflow when it closes; this does not.
#[derive(Debug)]
pub(super) struct Observer {
    view: View,
    inquiry: Inquiry,
    /// By subflow, in the order of their numbers: number, path, statistics when last seen.
    seen: Vec<(u32, Option<usize>, Subflow)>,
}

/// Way in which subflows are told apart.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// An address of each path.
    pub paths: Vec<Ipv4Addr>,
    /// The sender's and the receiver's address, should the connection be TCP.
    pub ends: [Ipv4Addr; 2],
    /// The socket to look at is the sender's.
    pub from_sender: bool,
    /// The socket is one of MPTCP.
    pub multipath: bool,
}

impl Observer {
    /// An observer that has seen nothing.
    pub fn new(view: View) -> Self {
        Self { view, inquiry: Inquiry::new(), seen: Vec::new() }
    }

    /// Looks at the connection.
    pub fn look(&mut self, socket: &TcpStream, at: Span) -> io::Result<Sample> {
        let info = self.inquiry.ask(socket, self.view.multipath)?;
        Ok(self.note(info, at))
    }

    fn note(&mut self, info: FullInfo, at: Span) -> Sample {
        for (_, _, subflow) in &mut self.seen {
            subflow.open = 0;
        }
        for mut subflow in info.subflows {
            // What has become TCP goes on as the subflow that it was.
            if let (None, Some((first, _, _))) = (info.connection, self.seen.first()) {
                subflow.id = *first;
            }
            self.see(&subflow);
        }
        let paths = (0..self.view.paths.len()).map(|path| self.path(path)).collect();
        let unmatched = self.seen.iter().filter(|(_, path, _)| path.is_none()).count() as u32;
        Sample { at, paths, connection: info.connection, unmatched }
    }

    fn see(&mut self, info: &SubflowInfo) {
        let now = Subflow::of(info);
        match self.seen.binary_search_by_key(&info.id, |(id, _, _)| *id) {
            Ok(at) => self.seen[at].2 = now,
            Err(at) => self.seen.insert(at, (info.id, self.view.path_of(info.addresses), now)),
        }
    }

    fn path(&self, path: usize) -> Subflow {
        let here = self.seen.iter().filter(|(_, of, _)| *of == Some(path));
        here.fold(Subflow::default(), |earlier, (_, _, subflow)| subflow.after(&earlier))
    }
}

impl View {
    /// The path between a local and a remote address. The sender's decides, if it can.
    fn path_of(&self, addresses: Option<[Ipv4Addr; 2]>) -> Option<usize> {
        let ends = match addresses {
            None => self.ends,
            Some([local, remote]) if self.from_sender => [local, remote],
            Some([local, remote]) => [remote, local],
        };
        ends.iter().find_map(|address| self.paths.iter().position(|path| path == address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::TcpInfo;

    const fn left(path: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, path, 1)
    }

    const fn right(path: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, path, 2)
    }

    fn observer(from_sender: bool) -> Observer {
        let view = View { paths: vec![left(0), left(1)], ends: [left(0), right(0)], from_sender, multipath: true };
        Observer::new(view)
    }

    fn subflow(id: u32, addresses: [Ipv4Addr; 2], sent: u64, srtt: u64) -> SubflowInfo {
        let tcp = TcpInfo { bytes_sent: Bytes::new(sent), srtt: Span::from_millis(srtt), ..TcpInfo::default() };
        SubflowInfo { id, addresses: Some(addresses), tcp, out_of_order: 0 }
    }

    fn mptcp(subflows: &[SubflowInfo]) -> FullInfo {
        FullInfo { connection: Some(Connection::default()), subflows: subflows.to_vec() }
    }

    /// Path 1 is given up after 200 bytes and joined again as subflow 3, which sends 30: 230 in all.
    #[test]
    fn a_path_that_is_joined_again_goes_on_counting() {
        let mut observer = observer(true);
        let first = subflow(1, [left(0), right(0)], 100, 10);
        observer.note(mptcp(&[subflow(2, [left(1), right(1)], 200, 40), first]), Span::ZERO);
        let alone = observer.note(mptcp(&[first]), Span::ZERO);
        assert_eq!((alone.paths[0].open, alone.paths[1].open), (1, 0));
        assert_eq!((alone.paths[1].bytes_sent, alone.paths[1].srtt), (Bytes::new(200), Span::from_millis(40)));
        let again = observer.note(mptcp(&[first, subflow(3, [left(1), right(1)], 30, 50)]), Span::ZERO);
        assert_eq!((again.paths[1].open, again.paths[1].bytes_sent), (1, Bytes::new(230)));
        assert_eq!((again.paths[1].srtt, again.unmatched), (Span::from_millis(50), 0));
    }

    /// Both ends have an address of some path; the sender's counts. Neither has: it is unmatched.
    #[test]
    fn the_senders_address_tells_the_path() {
        let crossed = mptcp(&[subflow(1, [left(1), left(0)], 7, 1), subflow(2, [right(0), right(1)], 8, 1)]);
        let here = observer(true).note(crossed.clone(), Span::ZERO);
        assert_eq!((here.paths[1].bytes_sent, here.unmatched), (Bytes::new(7), 1));
        let there = observer(false).note(crossed, Span::ZERO);
        assert_eq!(there.paths[0].bytes_sent, Bytes::new(7));
    }

    #[test]
    fn what_becomes_tcp_is_not_counted_twice() {
        let mut observer = observer(true);
        observer.note(mptcp(&[subflow(1, [left(0), right(0)], 100, 10)]), Span::ZERO);
        let plain = SubflowInfo { addresses: None, ..subflow(0, [left(0), right(0)], 150, 10) };
        let sample = observer.note(FullInfo { connection: None, subflows: vec![plain] }, Span::ZERO);
        assert_eq!((sample.paths[0].bytes_sent, sample.connection), (Bytes::new(150), None));
    }
}
