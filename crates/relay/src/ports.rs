//! The local ports of a proxy.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
use weftway_path::Instant;

use crate::limits::NO_DESCRIPTORS;
use crate::stream::Stream;

/// The most connections to a socket of the file system that wait in the kernel, as those of TCP.
const BACKLOG: i32 = 1024;

/// A place where programs connect to a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortAddress {
    /// An address and a port of TCP.
    Tcp(SocketAddr),
    /// A socket in the file system, which only its user may open.
    Unix(PathBuf),
}

/// A text that names no place where programs could connect to a proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is neither an address with a port nor unix:PATH")]
pub struct NoPortAddress(String);

impl FromStr for PortAddress {
    type Err = NoPortAddress;

    fn from_str(text: &str) -> Result<Self, NoPortAddress> {
        let error = || NoPortAddress(text.to_owned());
        match text.strip_prefix("unix:") {
            Some("") => Err(error()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| error()),
        }
    }
}

impl fmt::Display for PortAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

struct Port {
    socket: Listener,
    /// The file of the socket, which goes away with it.
    _file: Option<SocketFile>,
    address: PortAddress,
    /// Connections may wait in the kernel's queue.
    ready: bool,
}

/// Local ports. Their tokens are the highest, from above.
pub struct Ports {
    ports: Vec<Port>,
    /// Not before is anything accepted.
    at: Instant,
}

impl Ports {
    /// Listens at `addresses`.
    pub fn listen(addresses: &[PortAddress], registry: &Registry) -> io::Result<Self> {
        let mut ports = Vec::new();
        for (number, address) in addresses.iter().enumerate() {
            let explain =
                |error: io::Error| io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"));
            let token = Token(usize::MAX - number);
            let (socket, _file, address) = match address {
                PortAddress::Tcp(at) => {
                    let mut socket = TcpListener::bind(*at).map_err(explain)?;
                    registry.register(&mut socket, token, Interest::READABLE)?;
                    let at = socket.local_addr()?;
                    (Listener::Tcp(socket), None, PortAddress::Tcp(at))
                }
                PortAddress::Unix(path) => {
                    let (mut socket, file) = listen_at(path).map_err(explain)?;
                    registry.register(&mut socket, token, Interest::READABLE)?;
                    (Listener::Unix(socket), Some(file), address.clone())
                }
            };
            ports.push(Port { address, socket, _file, ready: true });
        }
        Ok(Self { ports, at: Instant::ZERO })
    }

    /// Place where it listens.
    pub fn addresses(&self) -> impl Iterator<Item = &PortAddress> {
        self.ports.iter().map(|port| &port.address)
    }

    /// Takes note of an event, if it is of a port.
    pub fn note(&mut self, token: Token) -> bool {
        let port = self.ports.get_mut(usize::MAX - token.0);
        port.map(|port| port.ready = true).is_some()
    }

    /// Instant at which a connection may be there to be accepted.
    pub fn next_event(&self) -> Instant {
        if self.ports.iter().any(|port| port.ready) { self.at } else { Instant::NEVER }
    }

    /// Accepts a connection, if any waits.
    pub fn accept(&mut self, now: Instant) -> Option<Stream> {
        while now >= self.at
            && let Some(port) = self.ports.iter_mut().find(|port| port.ready)
        {
            let accepted = match &port.socket {
                Listener::Tcp(socket) => socket.accept().map(|(stream, _)| Stream::Tcp(stream)),
                Listener::Unix(socket) => socket.accept().map(|(stream, _)| Stream::Unix(stream)),
            };
            match accepted {
                Ok(stream) => return Some(stream),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => port.ready = false,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    // No descriptor or no memory is left. More of it is there when others are closed.
                    _ => self.at = now + NO_DESCRIPTORS,
                },
            }
        }
        None
    }
}

/// The name of a socket in the file system. It is removed with the socket, unless another socket has it by then.
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn identity(path: &Path) -> io::Result<(u64, u64)> {
        path.symlink_metadata().map(|found| (found.dev(), found.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if Self::identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens at a socket that only this user may open. One that was left behind is replaced.
fn listen_at(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    remove_left_behind(path)?;
    let made = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&made, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&made, true)?;
    bind(&made, &SocketAddrUnix::new(path)?)?;
    let file = SocketFile { path: path.to_owned(), identity: SocketFile::identity(path)? };
    // Before it listens nobody can connect, whatever the umask is.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listen(&made, BACKLOG)?;
    Ok((UnixListener::from_std(made.into()), file))
}

/// Removes a socket at which nobody listens. What is no socket stays, and so does one that is in use.
fn remove_left_behind(path: &Path) -> io::Result<()> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is no socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens there")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::{UnixListener as Other, UnixStream};

    use super::*;
    use crate::socket::Poller;

    /// A folder that goes away.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("weftway-{name}-{}", std::process::id()));
            std::fs::create_dir(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn listen(path: &Path) -> io::Result<(Ports, Poller)> {
        let poller = Poller::new()?;
        Ok((Ports::listen(&[PortAddress::Unix(path.to_owned())], poller.registry())?, poller))
    }

    #[test]
    fn an_address_is_one_of_tcp_or_of_the_file_system() {
        for text in ["127.0.0.1:1080", "[::1]:1080", "unix:/run/weft.sock"] {
            assert_eq!(text.parse::<PortAddress>().unwrap().to_string(), text);
        }
        for text in ["unix:", "localhost:80", "/run/weft.sock", "1080"] {
            assert_eq!(text.parse::<PortAddress>(), Err(NoPortAddress(text.to_owned())));
        }
    }

    #[test]
    fn a_socket_is_its_user_s_alone_and_goes_away_with_its_program() {
        let folder = Folder::new("socket");
        let path = folder.0.join("socket");
        // One that a killed program left: nobody listens there.
        drop(Other::bind(&path).unwrap());
        let (mut ports, _poller) = listen(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut program = UnixStream::connect(&path).unwrap();
        let accepted = ports.accept(Instant::ZERO).unwrap();
        assert!(!accepted.is_tcp() && ports.accept(Instant::ZERO).is_none());
        accepted.write_vectored(&[io::IoSlice::new(b"hello")]).unwrap();
        drop(accepted);
        let mut said = String::new();
        program.read_to_string(&mut said).unwrap();
        assert_eq!(said, "hello");
        drop(ports);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_in_use_or_no_socket_is_refused_and_stays() {
        let folder = Folder::new("taken");
        let (taken, file) = (folder.0.join("taken"), folder.0.join("file"));
        let (ports, _poller) = listen(&taken).unwrap();
        std::fs::write(&file, "precious").unwrap();
        for (path, why) in [(&taken, "another program listens there"), (&file, "something that is no socket")] {
            let error = listen(path).err().unwrap().to_string();
            assert!(error.starts_with(&format!("cannot listen at unix:{}: ", path.display())), "{error}");
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
        // Another program has taken the name over: it is not removed.
        std::fs::remove_file(&taken).unwrap();
        let _other = Other::bind(&taken).unwrap();
        drop(ports);
        assert!(taken.exists());
    }
}
