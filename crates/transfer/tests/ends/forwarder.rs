//! What is between the ends: it forwards datagrams, as a router that translates addresses does, until it is told to
//! lose them.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// One that forwards to a server.
pub struct Forwarder {
    /// Where clients reach it.
    pub address: SocketAddr,
    server: Arc<Mutex<SocketAddr>>,
    /// Whether what goes to the server is lost, and what comes from there.
    lost: [Arc<AtomicBool>; 2],
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    pub fn to(server: SocketAddr) -> Self {
        let inside = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        inside.set_nonblocking(true).unwrap();
        let address = inside.local_addr().unwrap();
        let lost: [Arc<AtomicBool>; 2] = Default::default();
        let stop: Arc<AtomicBool> = Arc::default();
        let server = Arc::new(Mutex::new(server));
        let (is_lost, halt) = (lost.clone(), stop.clone());
        let to = server.clone();
        let thread = thread::spawn(move || {
            // Each address of a client has a socket of its own, as a server sees several paths by their addresses.
            let mut outside: BTreeMap<SocketAddr, UdpSocket> = BTreeMap::new();
            let mut buffer = vec![0; 1 << 16];
            while !halt.load(Ordering::Relaxed) {
                let mut is_idle = true;
                let server = *to.lock().unwrap();
                while let Ok((count, from)) = inside.recv_from(&mut buffer) {
                    is_idle = false;
                    let socket = outside.entry(from).or_insert_with(|| {
                        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
                        socket.set_nonblocking(true).unwrap();
                        socket
                    });
                    if !is_lost[0].load(Ordering::Relaxed) {
                        let _ = socket.send_to(&buffer[..count], server);
                    }
                }
                for (client, socket) in &outside {
                    while let Ok((count, from)) = socket.recv_from(&mut buffer) {
                        is_idle = false;
                        // What the server before says now is not heard any more.
                        if !is_lost[1].load(Ordering::Relaxed) && from == server {
                            let _ = inside.send_to(&buffer[..count], client);
                        }
                    }
                }
                if is_idle {
                    thread::sleep(Duration::from_micros(200));
                }
            }
        });
        Self { address, server, lost, stop, thread: Some(thread) }
    }

    /// From now on it forwards to another server, as a machine does where a service is started again.
    pub fn serve(&self, server: SocketAddr) {
        *self.server.lock().unwrap() = server;
    }

    /// From now on it loses what goes to the server, and what comes from there.
    pub fn lose(&self, to_server: bool, from_server: bool) {
        self.lost[0].store(to_server, Ordering::Relaxed);
        self.lost[1].store(from_server, Ordering::Relaxed);
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
