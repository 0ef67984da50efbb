//! One socket of noq's over several, each bound to an address of its own.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, Runtime, UdpSender};

/// Sockets of several interfaces as one. A datagram leaves through the socket that is bound to its source address, and
/// through the first if it has none or another: that of the handshake.
///
/// Bind each to an address of its interface, and on Linux also to the interface (`SO_BINDTODEVICE`) where its routes do
/// not follow its address.
#[derive(Debug)]
pub struct Interfaces {
    sockets: Vec<(IpAddr, Box<dyn AsyncUdpSocket>)>,
    /// The socket that is asked first: in turn, so that a busy one does not hide the others.
    next: usize,
}

impl Interfaces {
    /// Hands `sockets` to `runtime`. Each is bound to an address, and no two to the same.
    pub fn new(sockets: impl IntoIterator<Item = UdpSocket>, runtime: &dyn Runtime) -> io::Result<Self> {
        let mut found: Vec<(IpAddr, Box<dyn AsyncUdpSocket>)> = Vec::new();
        for socket in sockets {
            let address = socket.local_addr()?.ip();
            let wrong = match () {
                () if address.is_unspecified() => {
                    "is bound to no address: datagrams to and from it would have no interface"
                }
                () if found.iter().any(|(known, _)| *known == address) => "is bound to the address of another one",
                () => "",
            };
            if !wrong.is_empty() {
                let which = format!("the socket {} of an endpoint, at {address}, {wrong}", found.len() + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, which));
            }
            found.push((address, runtime.wrap_udp_socket(socket)?));
        }
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an endpoint needs a socket"));
        }
        Ok(Self { sockets: found, next: 0 })
    }
}

impl AsyncUdpSocket for Interfaces {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        let senders = self.sockets.iter().map(|(address, socket)| (*address, socket.create_sender())).collect();
        Box::pin(Senders(senders))
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = self.sockets.len();
        for _ in 0..count {
            let (address, socket) = &mut self.sockets[self.next];
            self.next = (self.next + 1) % count;
            let Poll::Ready(result) = socket.poll_recv(cx, buffers, meta) else { continue };
            let arrived = result?;
            // Not every system says it; noq tells paths apart by it.
            for one in &mut meta[..arrived] {
                one.dst_ip.get_or_insert(*address);
            }
            return Poll::Ready(Ok(arrived));
        }
        Poll::Pending
    }

    /// Returns the address of the first socket.
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.sockets[0].1.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        let counts = self.sockets.iter().map(|(_, socket)| socket.max_receive_segments());
        counts.max().unwrap_or(NonZeroUsize::MIN)
    }

    fn may_fragment(&self) -> bool {
        self.sockets.iter().any(|(_, socket)| socket.may_fragment())
    }
}

/// A sender of each socket, in their order.
#[derive(Debug)]
struct Senders(Vec<(IpAddr, Pin<Box<dyn UdpSender>>)>);

impl UdpSender for Senders {
    fn poll_send(mut self: Pin<&mut Self>, transmit: &Transmit<'_>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let named = self.0.iter().position(|(address, _)| Some(*address) == transmit.src_ip);
        self.0[named.unwrap_or(0)].1.as_mut().poll_send(transmit, cx)
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        let counts = self.0.iter().map(|(_, sender)| sender.max_transmit_segments());
        counts.min().unwrap_or(NonZeroUsize::MIN)
    }
}
