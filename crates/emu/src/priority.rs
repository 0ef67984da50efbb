//! A thread that is not kept waiting.

use nix::sys::prctl::set_timerslack;

/// Above everything that is not real-time, below the kernel's own threads.
const PRIORITY: libc::c_int = 50;

/// Gives the calling thread exact timers and real-time priority, and says whether it got the latter. Without it, a
/// busy machine makes packets late.
pub fn realtime() -> bool {
    let _ = set_timerslack(1);
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: 0 is the calling thread, and the parameters live until the call returns.
    #[allow(unsafe_code)]
    let refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    refused == 0
}
