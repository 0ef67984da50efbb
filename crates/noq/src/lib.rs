//! Schedulers of Weftway inside a noq application, and what noq's sockets need for several links.
//!
//! - [`gate`]: a [`Gate`](gate::Gate) is one line of noq's `TransportConfig`; a scheduler behind it chooses the path of each
//!   packet. It shows the [health of each path](gate::Gate::paths), takes a path out of use or makes it a backup
//!   ([`set_role`](gate::Gate::set_role)), as for a link that costs money, and lets another scheduler take over.
//! - [`Interfaces`]: one socket of noq's over several, each bound to an address of its own, as where each link has an
//!   interface and its routes.
//! - [`Batching`]: datagrams that alternate between paths leave in batches. On Unix, with the feature `batching`.
//!
//! ```no_run
//! use std::net::UdpSocket;
//! use std::sync::Arc;
//! use weftway_noq::Interfaces;
//! use weftway_noq::gate::Gate;
//!
//! # async fn example(server: std::net::SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = noq::default_runtime().expect("inside of a runtime");
//! let sockets = [UdpSocket::bind("192.0.2.7:0")?, UdpSocket::bind("198.51.100.7:0")?];
//! let socket = Box::new(Interfaces::new(sockets, &*runtime)?);
//! let client = noq::Endpoint::new_with_abstract_socket(noq::EndpointConfig::default(), None, socket, runtime)?;
//!
//! let mut transport = noq::TransportConfig::default();
//! transport.max_concurrent_multipath_paths(2);
//! let (transport, gate) = Gate::new("min-rtt")?.connection(&transport);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/two_interfaces.rs` is a whole program: two links, one of which costs money.
//!
//! # Features
//!
//! `batching`, on by default: [`Batching`], and with it the sockets of `weftway-udp`. Without it the crate has no dependency
//! beyond noq's and the schedulers'.
//!
//! # Versions
//!
//! A version of this crate is for one version of noq, whose types are in its interface: `=1.4.0` for 0.1. Another noq is
//! another minor version here, and so is a scheduler whose decisions change. The names of schedulers and of their switches
//! stay within a minor version.

#[cfg(all(unix, feature = "batching"))]
mod batches;
#[cfg(all(unix, feature = "batching"))]
mod batching;
mod interfaces;
#[cfg(all(unix, feature = "batching"))]
mod socket;

#[cfg(all(unix, feature = "batching"))]
pub use batching::Batching;
pub use interfaces::Interfaces;
pub use weftway_quic::gate;
