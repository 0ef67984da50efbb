//! Waiting for sockets.

use std::net::UdpSocket;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::{Ns, SECOND_NS};

/// Waits until something has come at one of the sockets, or until one has room for which it is awaited; at most for
/// this time.
pub fn wait(sockets: &[(&UdpSocket, bool)], most_ns: Ns) {
    let awaited = |is_full| if is_full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut polled: Vec<_> = sockets.iter().map(|(socket, is_full)| PollFd::new(*socket, awaited(*is_full))).collect();
    let most_ns = most_ns.max(0);
    let most = Timespec { tv_sec: most_ns / SECOND_NS, tv_nsec: most_ns % SECOND_NS };
    // An interrupt ends it early.
    let _ = poll(&mut polled, Some(&most));
}
