//! Sockets of TCP and MPTCP, and what is set on them before they connect or listen.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{self, Backlog, SetSockOpt, SockaddrIn, sockopt};
use weftway_path::Bytes;

use crate::kernel::order::{Opener, Transfer};
use crate::{EmuError, Namespace};

/// Per namespace, by the thread that reads it.
const CONTROLLERS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const MPTCP_ENABLED: &str = "/proc/sys/net/mptcp/enabled";

/// The congestion controllers that `namespace` has. The kernel may load more on demand.
pub fn available_controllers(namespace: &Namespace) -> Result<Vec<String>, EmuError> {
    let names = namespace.within(|| fs::read_to_string(CONTROLLERS).map_err(EmuError::system(CONTROLLERS)))?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// Returns true if connections in `namespace` can be of MPTCP: the kernel has it, and it is switched on.
pub fn mptcp_enabled(namespace: &Namespace) -> Result<bool, EmuError> {
    namespace.within(|| Ok(fs::read_to_string(MPTCP_ENABLED).is_ok_and(|text| text.trim() == "1")))
}

/// A socket of the calling thread's namespace, for the end that `opener` names, ready to connect or to listen.
pub(super) fn new(order: &Transfer, end: Opener) -> Result<OwnedFd, EmuError> {
    let socket = create(order.multipath)?;
    controller(&socket, &order.cc)?;
    set(&socket, "TCP_NODELAY", sockopt::TcpNoDelay, &order.nodelay)?;
    match end {
        Opener::Sender => {
            let Some(bytes) = order.send_buffer else { return Ok(socket) };
            buffer(&socket, ("SO_SNDBUF", bytes), (sockopt::SndBufForce, sockopt::SndBuf))?;
        }
        Opener::Receiver => {
            let Some(bytes) = order.receive_buffer else { return Ok(socket) };
            buffer(&socket, ("SO_RCVBUF", bytes), (sockopt::RcvBufForce, sockopt::RcvBuf))?;
        }
    }
    Ok(socket)
}

/// Listens on every address: with MPTCP, further subflows come to others. The port is the kernel's choice.
pub(super) fn listen(socket: OwnedFd) -> Result<TcpListener, EmuError> {
    bind(&socket, Ipv4Addr::UNSPECIFIED)?;
    socket::listen(&socket, Backlog::MAXCONN).map_err(EmuError::errno("listening"))?;
    Ok(TcpListener::from(socket))
}

/// Binds to an address, and to a port that is the kernel's choice.
pub(super) fn bind(socket: &OwnedFd, address: Ipv4Addr) -> Result<(), EmuError> {
    let place = SockaddrIn::from(SocketAddrV4::new(address, 0));
    socket::bind(socket.as_raw_fd(), &place).map_err(EmuError::errno(format!("binding to {address}")))
}

/// Begins to connect.
pub(super) fn connect(socket: &TcpStream, to: SocketAddrV4) -> io::Result<()> {
    match socket::connect(socket.as_raw_fd(), &SockaddrIn::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Ends the connection at once, whatever it still holds: the peer gets a reset, and nothing goes on in the
/// background. Connecting to the address family "unspecified" is how Linux spells it.
pub(super) fn abort(socket: &TcpStream) {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let length = size_of_val(&nowhere) as libc::socklen_t;
    // SAFETY: the address lives until the call returns, and the length is its own. A refusal changes nothing: the
    // socket is closed anyway.
    #[allow(unsafe_code)]
    unsafe {
        libc::connect(socket.as_raw_fd(), &raw const nowhere, length);
    }
}

fn create(multipath: bool) -> Result<OwnedFd, EmuError> {
    let protocol = if multipath { libc::IPPROTO_MPTCP } else { libc::IPPROTO_TCP };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers. (`nix` does not know MPTCP.)
    #[allow(unsafe_code)]
    let descriptor = unsafe { libc::socket(libc::AF_INET, kind, protocol) };
    if descriptor < 0 {
        let source = io::Error::last_os_error();
        return Err(match multipath {
            true => EmuError::Missing {
                what: "MPTCP",
                source,
                remedy: "it needs Linux 5.16 or later with CONFIG_MPTCP, and net.mptcp.enabled=1",
            },
            false => EmuError::System { step: "making a socket".to_owned(), source },
        });
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    #[allow(unsafe_code)]
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn controller(socket: &OwnedFd, cc: &str) -> Result<(), EmuError> {
    socket::setsockopt(socket, sockopt::TcpCongestion, &OsString::from(cc)).map_err(|errno| {
        let names = fs::read_to_string(CONTROLLERS).unwrap_or_default();
        let names: Vec<_> = names.split_whitespace().collect();
        EmuError::errno(format!("congestion controller `{cc}`, where the kernel has {}", names.join(", ")))(errno)
    })
}

/// Sets the size of a buffer: past the system's limit if we may, and else not beyond it.
fn buffer<F, L>(socket: &OwnedFd, (name, bytes): (&str, Bytes), (force, plain): (F, L)) -> Result<(), EmuError>
where
    F: SetSockOpt<Val = usize>,
    L: SetSockOpt<Val = usize> + socket::GetSockOpt<Val = usize> + Copy,
{
    let asked = usize::try_from(bytes.get()).unwrap_or(usize::MAX).min(i32::MAX as usize / 2);
    if socket::setsockopt(socket, force, &asked).is_ok() {
        return Ok(());
    }
    set(socket, name, plain, &asked)?;
    // The kernel doubles what is asked, and tells the double.
    let got = socket::getsockopt(socket, plain).map_err(EmuError::errno(name))? / 2;
    if got < asked {
        let step = format!("{name} of {asked} B: the limit here is {got} B");
        return Err(EmuError::System { step, source: io::ErrorKind::PermissionDenied.into() });
    }
    Ok(())
}

fn set<O: SetSockOpt>(socket: &impl AsFd, name: &str, option: O, value: &O::Val) -> Result<(), EmuError> {
    socket::setsockopt(socket, option, value).map_err(EmuError::errno(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use weftway_path::Span;

    use crate::kernel::order::Work;

    fn order(multipath: bool) -> Transfer {
        Transfer {
            multipath,
            opener: Opener::Receiver,
            cc: "reno".to_owned(),
            work: Work::Bulk { bytes: Bytes::ZERO },
            write: Bytes::new(256 << 10),
            time_limit: Span::ZERO,
            nodelay: false,
            send_buffer: Some(Bytes::new(70_000)),
            receive_buffer: None,
            sample_every: Span::ZERO,
            paths: Vec::new(),
        }
    }

    fn accepted(order: &Transfer) -> Result<(TcpStream, TcpStream), EmuError> {
        let listener = listen(new(order, Opener::Sender)?)?;
        let client = TcpStream::from(new(order, Opener::Receiver)?);
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        connect(&client, to).unwrap();
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Ok((client, stream)),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// In a download the sender's socket is one that was accepted. 70 000 B are doubled by the kernel.
    #[test]
    fn an_accepted_socket_has_what_was_set_on_the_listening_one() {
        for (multipath, nodelay) in [(false, false), (false, true), (true, false), (true, true)] {
            let (client, stream) = match accepted(&Transfer { nodelay, ..order(multipath) }) {
                Err(error @ EmuError::Missing { .. }) => return eprintln!("skipped: {error}"),
                pair => pair.unwrap(),
            };
            assert_eq!(socket::getsockopt(&stream, sockopt::SndBuf).unwrap(), 140_000);
            for socket in [&stream, &client] {
                assert_eq!(socket::getsockopt(socket, sockopt::TcpNoDelay).unwrap(), nodelay);
                let name = socket::getsockopt(socket, sockopt::TcpCongestion).unwrap();
                assert!(name.to_string_lossy().starts_with("reno"), "{name:?}");
            }
        }
    }

    /// Data that wait for a peer that does not read are gone, and the peer hears of it at once.
    #[test]
    fn an_aborted_connection_is_reset() {
        for multipath in [false, true] {
            let (mut client, stream) = match accepted(&order(multipath)) {
                Err(error @ EmuError::Missing { .. }) => return eprintln!("skipped: {error}"),
                pair => pair.unwrap(),
            };
            io::Write::write_all(&mut &stream, &[0; 1000]).unwrap();
            abort(&stream);
            std::thread::sleep(Duration::from_millis(20));
            let met =
                io::Read::read(&mut client, &mut [0; 2000]).and_then(|_| io::Read::read(&mut client, &mut [0; 1]));
            assert_eq!(met.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "multipath: {multipath}");
        }
    }
}
