//! Datagrams of a noq endpoint that alternates between paths leave in batches.
//!
//! The kernel takes many datagrams in one call (UDP_SEGMENT) if all have one size and go to one address. noq hands out
//! the datagrams of one path at a time, so an endpoint that changes the path after each packet, as a gate with
//! `round-robin` does, makes a call for each packet. [`Batching`] is a runtime of noq's around another one. Its sockets
//! gather what leaves in one turn of a connection, a batch for each path, and hand each batch to the kernel in one
//! call.
//!
//! ```no_run
//! use std::net::UdpSocket;
//! use std::sync::Arc;
//! use weftway_noq::Batching;
//!
//! # async fn example() -> std::io::Result<()> {
//! let runtime = Arc::new(Batching::new(noq::default_runtime().expect("inside of a runtime")));
//! let socket = UdpSocket::bind("0.0.0.0:0")?;
//! let client = noq::Endpoint::new(noq::EndpointConfig::default(), None, socket, runtime)?;
//! # Ok(())
//! # }
//! ```
//!
//! What leaves, on which path, and in which order on each path stays as noq decides it. Only datagrams of different
//! paths may overtake one another, within one turn.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use noq::{AsyncTimer, AsyncUdpSocket, Runtime};

use crate::socket::Socket;

/// A runtime whose sockets send in batches. All else is the other runtime's.
#[derive(Clone, Debug)]
pub struct Batching {
    inner: Arc<dyn Runtime>,
}

impl Batching {
    /// Wraps the runtime `inner` with such sockets.
    pub fn new(inner: Arc<dyn Runtime>) -> Self {
        Self { inner }
    }
}

impl Runtime for Batching {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        self.inner.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        let socket = self.inner.wrap_udp_socket(socket)?;
        Ok(Box::new(Socket::new(socket, Arc::clone(&self.inner))))
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }
}
