//! Servers of one behaviour each. Their threads end with the test program.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
#[cfg(target_os = "linux")]
use rustix::net::{AddressFamily, SocketType, bind, connect, getsockname, listen, socket};

use crate::ports;
use crate::world::PATIENCE;

/// A server that does this with each connection.
pub fn serve(each: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, each) = (socket.unwrap(), each.clone());
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.set_write_timeout(Some(PATIENCE)).unwrap();
            std::thread::spawn(move || each(socket));
        }
    });
    address
}

/// Sends back what comes, and the end.
pub fn echo() -> SocketAddr {
    serve(|mut socket| {
        let mut other = socket.try_clone().unwrap();
        // The client may reset the connection.
        if std::io::copy(&mut socket, &mut other).is_ok() {
            let _ = other.shutdown(Shutdown::Write);
        }
    })
}

/// Reads to the end, and then says how many bytes came.
pub fn count() -> SocketAddr {
    serve(|mut socket| {
        let mut read = Vec::new();
        socket.read_to_end(&mut read).unwrap();
        socket.write_all(read.len().to_string().as_bytes()).unwrap();
    })
}

/// Sends without end, until the client does not want any more.
pub fn source() -> SocketAddr {
    serve(|mut socket| while socket.write_all(&[7; 10_000]).is_ok() {})
}

/// Sends nothing and reads nothing, and never ends.
pub fn silent() -> SocketAddr {
    serve(|_socket| std::thread::sleep(2 * PATIENCE))
}

/// Ends with a reset, once a byte has come.
pub fn resetting() -> SocketAddr {
    serve(|mut socket| {
        socket.read_exact(&mut [0]).unwrap();
        reset(socket);
    })
}

/// A port where nothing listens.
pub fn closed() -> SocketAddr {
    ([127, 0, 0, 1], ports::free()).into()
}

/// A port at which nothing answers: the queue of the socket that listens there is full, so that the kernel drops what
/// else comes (tcp(7)). It is so for as long as what is returned lives.
#[cfg(target_os = "linux")]
pub fn full(address: &str) -> (SocketAddr, Vec<OwnedFd>) {
    let address: SocketAddr = address.parse().unwrap();
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &address).unwrap();
    listen(&listener, 0).unwrap();
    let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
    let mut queue = vec![listener];
    for _ in 0..3 {
        let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::io::ioctl_fionbio(&client, true).unwrap();
        // It is under way.
        let _ = connect(&client, &address);
        queue.push(client);
    }
    (address, queue)
}

/// Ends a connection with a reset.
pub fn reset(socket: TcpStream) {
    set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
}
