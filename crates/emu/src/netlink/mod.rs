//! Netlink: how the kernel is asked about, and told of, devices, addresses, routes, MPTCP and sockets.
//!
//! Everything here speaks for the network namespace in which it was opened, from whatever thread it is used later:
//! open it inside [`Namespace::within`](crate::Namespace::within).

mod diag;
mod events;
mod generic;
mod mptcp;
mod route;
mod socket;
mod tcp_info;

pub use diag::{ConnectionInfo, Diagnosis, MptcpSubflow, SubflowFlags, SubflowInfo, diagnose};
pub use events::{Events, PmEvent, PmEventKind};
pub use mptcp::{Endpoint, EndpointFlags, PathManager};
pub use route::{LinkStats, Prefix, Route};
pub use tcp_info::{TcpInfo, TcpState};
pub use weftway_path::Recovery as CaState;
