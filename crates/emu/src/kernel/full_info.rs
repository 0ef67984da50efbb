//! Information of the kernel about a connection in one call: `MPTCP_FULL_INFO` of `linux/mptcp.h`, or `TCP_INFO`.
//!
//! The C library does not know the structures, and they grow at their ends from kernel to kernel. So they are read
//! from bytes at their offsets; what an older kernel does not fill stays zero.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};

use weftway_path::Bytes;

use crate::netlink::TcpInfo;

const SOL_MPTCP: libc::c_int = 284;
const MPTCP_FULL_INFO: libc::c_int = 4;

/// More subflows than the kernel lets a connection have at once.
const SUBFLOWS: usize = 16;
/// `struct mptcp_full_info` up to its last member.
const HEAD: usize = 40;
/// Size of that member, `struct mptcp_info`, as of Linux 6.10.
const MPTCP_INFO: usize = 96;
/// `struct mptcp_subflow_info`: a number, padding, two `sockaddr_storage`.
const PLACE: usize = 8 + 2 * 128;
/// `struct tcp_info`, and room for what is added to it.
const TCP_INFO: usize = 280;
/// `tcpi_rcv_ooopack` in it.
const OUT_OF_ORDER: usize = 224;

/// `MPTCP_INFO_FLAG_FALLBACK`.
const FALLBACK: u32 = 1;

/// Figures of MPTCP's connection (`struct mptcp_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Connection {
    /// Subflows besides the first.
    pub subflows: u8,
    /// It became TCP.
    pub fallback: bool,
    /// Times that data were handed to another subflow because their acknowledgement was overdue.
    pub timeouts: u32,
    /// Data sent; what was sent more than once counts once.
    pub bytes_sent: Bytes,
    /// Data acknowledged by the peer's connection. It may lag behind the subflows at the end of the data.
    pub bytes_acked: Bytes,
    /// Data received in order.
    pub bytes_received: Bytes,
    /// Data sent again on a subflow because another did not bring them: reinjections.
    pub bytes_retrans: Bytes,
}

/// Information of the kernel about a connection.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct FullInfo {
    /// About the connection; `None` if it is TCP.
    pub connection: Option<Connection>,
    /// About each subflow that is open. TCP is one subflow.
    pub subflows: Vec<SubflowInfo>,
}

/// Information of the kernel about a subflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SubflowInfo {
    /// Counted from the connection's first; never given twice.
    pub id: u32,
    /// Its two addresses; `None` where they are not known, as for TCP.
    pub addresses: Option<[Ipv4Addr; 2]>,
    /// Its statistics.
    pub tcp: TcpInfo,
    /// Packets that arrived out of order (`tcpi_rcv_ooopack`).
    pub out_of_order: u32,
}

/// Room for the answers, used again and again.
#[derive(Debug)]
pub(super) struct Inquiry {
    head: [u8; HEAD + MPTCP_INFO],
    places: Vec<u8>,
    tcp: Vec<u8>,
}

impl Inquiry {
    /// Room for one connection's answers.
    pub fn new() -> Self {
        Self { head: [0; _], places: vec![0; SUBFLOWS * PLACE], tcp: vec![0; SUBFLOWS * TCP_INFO] }
    }

    /// Asks about MPTCP, and about TCP where `socket` is, or has become, that.
    pub fn ask(&mut self, socket: &impl AsFd, multipath: bool) -> io::Result<FullInfo> {
        if multipath {
            match self.ask_mptcp(socket) {
                Err(error) if is_tcp(&error) => {}
                answer => return answer,
            }
        }
        self.ask_tcp(socket)
    }

    fn ask_mptcp(&mut self, socket: &impl AsFd) -> io::Result<FullInfo> {
        self.head.fill(0);
        let words = [(4, TCP_INFO as u32), (12, PLACE as u32), (20, SUBFLOWS as u32)];
        for (at, value) in words {
            self.head[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let arrays = [(24, self.places.as_mut_ptr()), (32, self.tcp.as_mut_ptr())];
        for (at, array) in arrays {
            self.head[at..at + 8].copy_from_slice(&(array.expose_provenance() as u64).to_ne_bytes());
        }
        // SAFETY: the arrays named in the head have room for as many elements of the sizes named there, and live, like
        // the head, until the call returns.
        #[allow(unsafe_code)]
        let length = unsafe { getsockopt(socket, (SOL_MPTCP, MPTCP_FULL_INFO), &mut self.head) }?;
        Ok(parse(&self.head[..length], &self.places, &self.tcp))
    }

    fn ask_tcp(&mut self, socket: &impl AsFd) -> io::Result<FullInfo> {
        let room = &mut self.tcp[..TCP_INFO];
        // SAFETY: `TCP_INFO` has no pointers to elsewhere.
        #[allow(unsafe_code)]
        let length = unsafe { getsockopt(socket, (libc::IPPROTO_TCP, libc::TCP_INFO), room) }?;
        Ok(FullInfo { connection: None, subflows: vec![subflow(0, None, &room[..length])] })
    }
}

/// The options of MPTCP are unknown to TCP, and to MPTCP that fell back to it.
fn is_tcp(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT))
}

/// Fills `room` and tells how much of it.
///
/// # Safety
///
/// Addresses that `room` holds for this option must be good for what the option writes there.
#[allow(unsafe_code)]
unsafe fn getsockopt(socket: &impl AsFd, option: (i32, i32), room: &mut [u8]) -> io::Result<usize> {
    let descriptor = socket.as_fd().as_raw_fd();
    let mut length = room.len() as libc::socklen_t;
    // SAFETY: `room` and `length` live until the call returns, and `length` is the room's. The rest is the caller's.
    let refused =
        unsafe { libc::getsockopt(descriptor, option.0, option.1, room.as_mut_ptr().cast(), &raw mut length) };
    if refused == 0 { Ok(room.len().min(length as usize)) } else { Err(io::Error::last_os_error()) }
}

/// Reads `struct mptcp_full_info` and its two arrays.
fn parse(head: &[u8], places: &[u8], tcp: &[u8]) -> FullInfo {
    let info = head.get(HEAD..).unwrap_or_default();
    let connection = Connection {
        subflows: u8_at(info, 0),
        fallback: u32_at(info, 8) & FALLBACK != 0,
        timeouts: u32_at(info, 44),
        bytes_retrans: Bytes::new(u64_at(info, 48)),
        bytes_sent: Bytes::new(u64_at(info, 56)),
        bytes_received: Bytes::new(u64_at(info, 64)),
        bytes_acked: Bytes::new(u64_at(info, 72)),
    };
    let count = u32_at(head, 16) as usize;
    let arrays = places.chunks_exact(PLACE).zip(tcp.chunks_exact(TCP_INFO));
    let subflows = arrays.take(count).map(|(place, tcp)| {
        let addresses = ipv4(&place[8..]).zip(ipv4(&place[136..]));
        subflow(u32_at(place, 0), addresses.map(Into::into), tcp)
    });
    FullInfo { connection: Some(connection), subflows: subflows.collect() }
}

fn subflow(id: u32, addresses: Option<[Ipv4Addr; 2]>, tcp: &[u8]) -> SubflowInfo {
    SubflowInfo { id, addresses, tcp: TcpInfo::parse(tcp), out_of_order: u32_at(tcp, OUT_OF_ORDER) }
}

/// A `sockaddr_in`: family, port, address.
fn ipv4(place: &[u8]) -> Option<Ipv4Addr> {
    let family = u16::from_ne_bytes(word(place, 0)?);
    let octets: [u8; 4] = word(place, 4)?;
    (i32::from(family) == libc::AF_INET).then(|| Ipv4Addr::from(octets))
}

fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at).map_or(0, u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    word(bytes, at).map_or(0, u64::from_ne_bytes)
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::Span;

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// Two subflows in arrays that have room for three; offsets by hand from `linux/mptcp.h` and `linux/tcp.h`.
    #[test]
    fn an_answer_is_read_at_its_offsets() {
        let mut head = [0; HEAD + MPTCP_INFO];
        put(&mut head, 16, &2_u32.to_ne_bytes()); // num_subflows
        put(&mut head, 40, &[1]); // mptcpi_subflows: besides the first
        put(&mut head, 40 + 44, &9_u32.to_ne_bytes()); // mptcpi_retransmits
        put(&mut head, 40 + 56, &5000_u64.to_ne_bytes()); // mptcpi_bytes_sent
        put(&mut head, 40 + 72, &4000_u64.to_ne_bytes()); // mptcpi_bytes_acked
        let (mut places, mut tcp) = (vec![0; 3 * PLACE], vec![0; 3 * TCP_INFO]);
        put(&mut places, PLACE, &7_u32.to_ne_bytes());
        put(&mut places, PLACE + 8, &2_u16.to_ne_bytes()); // AF_INET
        put(&mut places, PLACE + 8 + 4, &[10, 0, 2, 1]);
        put(&mut places, PLACE + 136, &2_u16.to_ne_bytes());
        put(&mut places, PLACE + 136 + 4, &[10, 0, 2, 2]);
        put(&mut tcp, TCP_INFO + 68, &20_000_u32.to_ne_bytes()); // tcpi_rtt
        put(&mut tcp, TCP_INFO + 224, &3_u32.to_ne_bytes()); // tcpi_rcv_ooopack

        let info = parse(&head, &places, &tcp);
        let connection = info.connection.unwrap();
        assert_eq!((connection.subflows, connection.timeouts, connection.fallback), (1, 9, false));
        assert_eq!((connection.bytes_sent, connection.bytes_acked), (Bytes::new(5000), Bytes::new(4000)));
        let [first, second] = info.subflows[..] else { panic!("two subflows") };
        assert_eq!((first.id, first.addresses), (0, None));
        let addresses = Some([Ipv4Addr::new(10, 0, 2, 1), Ipv4Addr::new(10, 0, 2, 2)]);
        assert_eq!((second.id, second.addresses, second.out_of_order), (7, addresses, 3));
        assert_eq!(second.tcp.srtt, Span::from_millis(20));
    }

    #[test]
    fn an_older_kernels_answer_is_shorter() {
        let mut head = [0; HEAD + MPTCP_INFO];
        put(&mut head, 40 + 8, &1_u32.to_ne_bytes()); // mptcpi_flags
        put(&mut head, 40 + 56, &5000_u64.to_ne_bytes());
        let connection = parse(&head[..40 + 48], &[], &[]).connection.unwrap();
        assert_eq!((connection.fallback, connection.bytes_sent), (true, Bytes::ZERO));
    }
}
