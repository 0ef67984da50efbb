//! Programs that send datagrams, and servers that answer these.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::programs::connect;
use crate::world::PATIENCE;

/// How long something is waited for before it is asked for again.
const AGAIN: Duration = Duration::from_millis(200);

/// A socket that does not wait for ever.
pub fn socket(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(AGAIN)).unwrap();
    socket
}

/// The next datagram that comes to a socket, and where it comes from; none if none comes for a while.
pub fn next(socket: &UdpSocket) -> Option<(Vec<u8>, SocketAddr)> {
    let mut buffer = vec![0; 1 << 16];
    match socket.recv_from(&mut buffer) {
        Ok((count, source)) => {
            buffer.truncate(count);
            Some((buffer, source))
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
        Err(error) => panic!("{error}"),
    }
}

/// The next datagram that comes to a socket, which one does.
pub fn await_next(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let began = Instant::now();
    loop {
        match next(socket) {
            Some(datagram) => return datagram,
            None => assert!(began.elapsed() < PATIENCE, "waited for a datagram"),
        }
    }
}

/// Sends each datagram back to where it came from. Its thread ends with the test program.
pub fn udp_echo(address: &str) -> SocketAddr {
    let socket = UdpSocket::bind(address).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((count, source)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..count], source);
        }
    });
    address
}

/// Asks for a way for datagrams: the code of the reply, where they are to be sent to, and the connection.
pub fn associate(proxy: SocketAddr) -> (u8, SocketAddr, TcpStream) {
    let mut tcp = connect(proxy);
    tcp.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut reply = [0; 12];
    tcp.read_exact(&mut reply).unwrap();
    let [5, 0, 5, code, 0, 1, a, b, c, d, high, low] = reply else { panic!("{reply:?}") };
    (code, ([a, b, c, d], u16::from_be_bytes([high, low])).into(), tcp)
}

/// A program with a way for datagrams.
pub struct Program {
    pub tcp: TcpStream,
    pub udp: UdpSocket,
    pub way: SocketAddr,
}

/// What SOCKS5 has before a datagram.
pub fn header(host: &str, port: u16) -> Vec<u8> {
    let address = match host.parse() {
        Ok(IpAddr::V4(ip)) => [&[1][..], &ip.octets()].concat(),
        Ok(IpAddr::V6(ip)) => [&[4][..], &ip.octets()].concat(),
        Err(_) => [&[3, host.len() as u8], host.as_bytes()].concat(),
    };
    [&[0, 0, 0][..], &address, &port.to_be_bytes()].concat()
}

impl Program {
    pub fn new(proxy: SocketAddr) -> Self {
        let (code, way, tcp) = associate(proxy);
        assert_eq!((code, way.ip()), (0, proxy.ip()));
        Self { tcp, udp: socket("127.0.0.1:0"), way }
    }

    /// Sends a datagram, as it is.
    pub fn send(&self, bytes: &[u8]) {
        self.udp.send_to(bytes, self.way).unwrap();
    }

    pub fn send_to(&self, host: &str, port: u16, data: &[u8]) {
        self.send(&[&header(host, port), data].concat());
    }

    /// Sends a datagram to an echo until it is back from `server`.
    pub fn exchange(&self, host: &str, server: SocketAddr, data: &[u8]) {
        let expected = [&header(&server.ip().to_string(), server.port()), data].concat();
        let began = Instant::now();
        loop {
            self.send_to(host, server.port(), data);
            // Another may be late, or come twice.
            while let Some((datagram, source)) = next(&self.udp) {
                assert_eq!(source, self.way);
                if datagram == expected {
                    return;
                }
            }
            assert!(began.elapsed() < PATIENCE, "waited for an echo from {host}");
        }
    }
}
