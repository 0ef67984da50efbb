//! Programs that use the proxy.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::world::PATIENCE;

/// A connection that does not wait for ever.
pub fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Asks for a connection by SOCKS5, naming the host in text: the code of the reply.
pub fn socks(proxy: SocketAddr, host: &str, port: u16) -> (u8, TcpStream) {
    let mut socket = connect(proxy);
    socket.write_all(&[5, 1, 0]).unwrap();
    let mut method = [0; 2];
    socket.read_exact(&mut method).unwrap();
    assert_eq!(method, [5, 0]);
    let request = [&[5, 1, 0, 3, host.len() as u8], host.as_bytes(), &port.to_be_bytes()].concat();
    socket.write_all(&request).unwrap();
    (socks_reply(&mut socket), socket)
}

/// The code of a reply to a request of SOCKS5.
pub fn socks_reply(socket: &mut TcpStream) -> u8 {
    let mut reply = [0; 10];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!((reply[0], reply[2], reply[3]), (5, 0, 1));
    reply[1]
}

/// A connection by SOCKS5 that has come about.
pub fn through(proxy: SocketAddr, target: SocketAddr) -> TcpStream {
    let (code, socket) = socks(proxy, &target.ip().to_string(), target.port());
    assert_eq!(code, 0);
    socket
}

/// Asks for a connection by HTTP CONNECT, with `early` behind it: the head of the answer.
pub fn http(proxy: SocketAddr, target: &str, early: &[u8]) -> (String, TcpStream) {
    let mut socket = connect(proxy);
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    socket.write_all(&[request.as_bytes(), early].concat()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    (String::from_utf8(head).unwrap(), socket)
}

/// Bytes that repeat late.
pub fn bytes(count: usize, salt: u64) -> Vec<u8> {
    (0..count as u64).map(|n| ((n + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Sends `sent` and the end, and meanwhile reads to the end.
pub fn exchange(socket: &TcpStream, sent: &[u8]) -> Vec<u8> {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut socket = socket;
            socket.write_all(sent).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
        });
        let (mut socket, mut read) = (socket, Vec::new());
        socket.read_to_end(&mut read).unwrap();
        read
    })
}

/// An error that a reset brings about, sooner or later.
pub fn is_reset(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe)
}
