//! smoltcp for one connection: the TCP that answers a program in the place of the server.
//!
//! Each connection has an interface of smoltcp's own, with the server's address and one socket. An interface asks each
//! of its sockets whether a segment is for it; so one for all connections would look through them at each packet.

use std::io::{self, IoSlice};
use std::num::NonZeroUsize;

use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{
    self, Checksum, ChecksumCapabilities, DeviceCapabilities, Medium, PacketMeta, SegmentationCapabilities,
};
use smoltcp::socket::tcp::{RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Instant as Time;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use weftway_path::Instant;
use weftway_relay::parts::TcpEnd;

use crate::device::{Device, LONGEST};
use crate::fragments;
use crate::packet::Ends;

/// Bytes that a program may send before they are read, and that it may leave unread: the memory of a connection.
const BUFFER: usize = 64 << 10;
/// The longest segment that is handed to the kernel at once, with its headers: it cuts it.
const LONGEST_SEGMENT: NonZeroUsize = NonZeroUsize::new(65_000).expect("not zero");

/// The headers of IPv6 and TCP.
const HEADERS_V6: usize = 60;

/// The device, and what packets need that leave through it.
pub struct Outside<D> {
    /// The device.
    pub device: D,
    /// The longest packet of the device.
    pub mtu: usize,
    /// For a packet that is being written.
    pub buffer: Vec<u8>,
    /// The number of the last packet that was sent in fragments.
    number: u32,
}

impl<D: Device> Outside<D> {
    /// Through a device whose packets may have `mtu` bytes.
    pub fn new(device: D, mtu: usize) -> Self {
        Self { device, mtu, buffer: Vec::with_capacity(LONGEST), number: 0 }
    }

    /// Hands the packet in the buffer to the kernel, in fragments if it is too long for the device. It is none of TCP.
    pub fn send(&mut self) {
        if self.buffer.len() <= self.mtu {
            return self.device.send(&self.buffer, None);
        }
        self.number = self.number.wrapping_add(1);
        fragments::cut(&self.buffer, self.mtu, self.number, |fragment| self.device.send(fragment, None));
    }
}

/// The TCP of one connection.
pub struct Stack {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    is_v6: bool,
    /// True if nothing more is written. smoltcp learns of it once the program has taken all: in LAST-ACK smoltcp 0.14
    /// takes no news of a window (it answers them as if they were out of date), and what waits for one would wait for a
    /// timer.
    is_finished: bool,
}

impl Stack {
    /// Waits for the first segment of the connection between `ends`. `seed` makes its first sequence number.
    pub fn new<D: Device>(now: Instant, ends: Ends, seed: u64, outside: &mut Outside<D>) -> Self {
        let mut interface = interface(now, ends, seed, outside);
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        // A port that is not 0, and nothing is open: it cannot fail.
        let _ = socket.listen(ends.server);
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        interface.poll_maintenance(time(now));
        Self { interface, sockets, handle, is_v6: ends.server.is_ipv6(), is_finished: false }
    }

    /// Takes a segment of the program.
    pub fn take<D: Device>(&mut self, now: Instant, packet: &[u8], outside: &mut Outside<D>) {
        let is_v6 = self.is_v6;
        let mut wire = Wire { packet: Some(packet), is_v6, outside };
        self.interface.poll_ingress_single(time(now), &mut wire, &mut self.sockets);
    }

    /// Sends the program what may be sent.
    pub fn send<D: Device>(&mut self, now: Instant, outside: &mut Outside<D>) {
        if self.is_finished && self.socket().send_queue() == 0 {
            self.socket().close();
        }
        let is_v6 = self.is_v6;
        let mut wire = Wire { packet: None, is_v6, outside };
        while self.interface.poll_egress(time(now), &mut wire, &mut self.sockets) == PollResult::SocketStateChanged {}
    }

    /// Instant at which it has to send again.
    pub fn next_event(&mut self, now: Instant) -> Instant {
        self.interface
            .poll_at(time(now), &self.sockets)
            .map_or(Instant::NEVER, |at| Instant::from_micros(u64::try_from(at.total_micros()).unwrap_or(0)))
    }

    /// Ends it, and tells the program so.
    pub fn reset<D: Device>(&mut self, now: Instant, outside: &mut Outside<D>) {
        self.socket().abort();
        self.send(now, outside);
    }

    /// Returns true if there is nothing left to send or to wait for. What the kernel may repeat of its end is answered
    /// with a reset then, which it takes for an answer.
    pub fn is_over(&self) -> bool {
        matches!(self.state(), State::Closed | State::TimeWait)
    }

    fn state(&self) -> State {
        self.sockets.get::<Socket<'_>>(self.handle).state()
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

impl TcpEnd for Stack {
    fn has_failed(&self) -> bool {
        self.state() == State::Closed
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let room = buffer.capacity() - buffer.len();
        let socket = self.socket();
        let before = buffer.len();
        let taken = socket.recv(|bytes| {
            let count = bytes.len().min(room);
            buffer.extend_from_slice(&bytes[..count]);
            (count, ())
        });
        match (taken, socket.state()) {
            (Ok(()), _) if buffer.len() > before => Ok(Some(buffer.len() - before)),
            (Ok(()), _) | (Err(RecvError::InvalidState), State::Listen | State::SynReceived) => Ok(None),
            (Err(RecvError::Finished), _) => Ok(Some(0)),
            (Err(RecvError::InvalidState), _) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    fn write_parts(&mut self, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let socket = self.socket();
        let mut written = 0;
        for part in parts {
            match (socket.send_slice(part), socket.state()) {
                (Ok(count), _) => {
                    written += count;
                    if count < part.len() {
                        break;
                    }
                }
                (Err(_), State::Listen | State::SynReceived) => break,
                (Err(_), _) => return Err(io::ErrorKind::ConnectionReset.into()),
            }
        }
        Ok((written > 0).then_some(written))
    }

    fn finish(&mut self) {
        self.is_finished = true;
    }
}

/// Answers a segment that is of no connection, as TCP does: with a reset, unless it is one.
pub fn refuse<D: Device>(now: Instant, ends: Ends, packet: &[u8], outside: &mut Outside<D>) {
    let mut interface = interface(now, ends, 0, outside);
    let mut wire = Wire { packet: Some(packet), is_v6: ends.server.is_ipv6(), outside };
    interface.poll_ingress_single(time(now), &mut wire, &mut SocketSet::new(Vec::new()));
}

/// Stack that has the server's address.
fn interface<D: Device>(now: Instant, ends: Ends, seed: u64, outside: &mut Outside<D>) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut interface =
        Interface::new(config, &mut Wire { packet: None, is_v6: ends.server.is_ipv6(), outside }, time(now));
    // All addresses are in its network: it sends to each without a route.
    interface.update_ip_addrs(|addresses| {
        let _ = addresses.push(IpCidr::new(IpAddress::from(ends.server.ip()), 0));
    });
    interface
}

fn time(now: Instant) -> Time {
    Time::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

/// Device of smoltcp: one packet to receive, and the device to send to.
struct Wire<'a, D> {
    packet: Option<&'a [u8]>,
    is_v6: bool,
    outside: &'a mut Outside<D>,
}

impl<D: Device> phy::Device for Wire<'_, D> {
    type RxToken<'a>
        = Rx<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Tx<'a, D>
    where
        Self: 'a;

    fn receive(&mut self, _: Time) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let packet = self.packet.take()?;
        Some((Rx(packet), Tx::new(self.outside)))
    }

    fn transmit(&mut self, _: Time) -> Option<Self::TxToken<'_>> {
        Some(Tx::new(self.outside))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut checksum = ChecksumCapabilities::default();
        // The kernel writes and knows those of TCP.
        checksum.tcp = Checksum::None;
        // It wrote the others, too.
        checksum.ipv4 = Checksum::Tx;
        let mut segmentation = SegmentationCapabilities::default();
        (segmentation.tcpv4, segmentation.tcpv6) = (Some(LONGEST_SEGMENT), Some(LONGEST_SEGMENT));
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        // smoltcp 0.14 drops long segments of IPv6, unless the device takes packets of that length.
        capabilities.max_transmission_unit = if self.is_v6 { LONGEST_SEGMENT.get() } else { self.outside.mtu };
        capabilities.checksum = checksum;
        capabilities.segmentation = segmentation;
        capabilities
    }
}

struct Rx<'a>(&'a [u8]);

impl phy::RxToken for Rx<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

struct Tx<'a, D> {
    device: &'a mut D,
    buffer: &'a mut Vec<u8>,
    mtu: usize,
    segment: Option<u16>,
}

impl<'a, D> Tx<'a, D> {
    fn new(outside: &'a mut Outside<D>) -> Self {
        Self { device: &mut outside.device, buffer: &mut outside.buffer, mtu: outside.mtu, segment: None }
    }
}

impl<D: Device> phy::TxToken for Tx<'_, D> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        self.buffer.clear();
        self.buffer.resize(length, 0);
        let result = f(self.buffer);
        // Of IPv6 smoltcp does not tell it.
        let fitting = || (length > self.mtu).then(|| u16::try_from(self.mtu.saturating_sub(HEADERS_V6)).ok()).flatten();
        self.device.send(self.buffer, self.segment.or_else(fitting));
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.segment = meta.segmentation_offload_size.map(Into::into);
    }
}
