//! The monotonic clock, counted from a chosen instant.

use nix::time::{ClockId, clock_gettime};
use weftway_path::Instant;

/// A clock that began at zero when it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero_ns: u64,
}

impl Clock {
    /// A clock that is at zero now.
    #[expect(clippy::new_without_default, reason = "two clocks made one after the other differ")]
    pub fn new() -> Self {
        Self { zero_ns: monotonic() }
    }

    /// The time.
    pub fn now(self) -> Instant {
        Instant::from_nanos(monotonic() - self.zero_ns)
    }
}

fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has a monotonic clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}
