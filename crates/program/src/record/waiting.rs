//! Waiting for sockets.

use std::net::UdpSocket;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::Ns;

/// Waits until something has come at one of the sockets, or until one has room for which it is awaited; at most for
/// this time.
pub fn wait(sockets: &[(&UdpSocket, bool)], most_ns: Ns) {
    let awaited = |is_full| if is_full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut polled: Vec<_> = sockets.iter().map(|(socket, is_full)| PollFd::new(*socket, awaited(*is_full))).collect();
    let most = Timespec::try_from(Duration::from_nanos(most_ns.max(0) as u64)).ok();
    // An interrupt ends it early.
    let _ = poll(&mut polled, most.as_ref());
}
