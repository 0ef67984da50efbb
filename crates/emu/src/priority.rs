//! A thread that is not kept waiting.

use std::thread;
use std::time::Duration;

use nix::sys::prctl::set_timerslack;
use nix::time::{ClockId, clock_gettime};
use weftway_path::{Instant, Span};

/// Priority of the thread that drives links: above everything that is not real-time, below the kernel's own threads.
const LINKS: libc::c_int = 50;

/// Priority of the programs at both ends of a transfer: just below, so that they never hold a packet up. With the
/// priority of other programs they wait for these, and the kernel takes what they have not read or written yet for the
/// path's doing. What links and ends use of one processor counts together towards the kernel's 950 ms of a second, and
/// the ends do not rest: a transfer that keeps a whole processor busy can make its links stand still, which their
/// report shows as lateness.
const ENDS: libc::c_int = LINKS - 1;

/// How much of the time a real-time thread may run here, in percent. Linux lets real-time threads run on a processor for
/// 950 ms of each second (`sched_rt_runtime_us`), and gives an ordinary thread that waits for it 50 ms of each second.
/// A thread that goes beyond stands still meanwhile: at 1 Gbit/s for 50 ms, once a second. With 96 that still happened
/// while another program kept both processors busy (docs/decisions/09-emulator.md).
const SHARE: i64 = 92;

/// Unused time that is kept for a burst. A thread has still run for at most 940 ms of a second after it.
const MOST_CREDIT_NS: i64 = 20_000_000;

/// Interval at which the thread's use of the processor is looked at.
const LOOK: Span = Span::from_millis(1);

/// Gives the calling thread, which drives links, exact timers and real-time priority, and says whether it got the
/// latter. Without it, a busy machine makes packets late.
pub fn realtime() -> bool {
    raise(LINKS)
}

/// Gives the calling thread, at an end of a transfer, its real-time priority. Where links get their priority the ends
/// get theirs.
pub fn realtime_end() -> bool {
    raise(ENDS)
}

fn raise(priority: libc::c_int) -> bool {
    // A thread's timers are late by 50 µs unless it asks for better.
    let _ = set_timerslack(1);
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 is the calling thread, and the parameters live until the call returns.
    #[allow(unsafe_code)]
    let refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    refused == 0
}

/// Short rests of a busy real-time thread: about 0.1 ms after each ms of work, so that the kernel does not stop it for
/// long.
#[derive(Debug)]
pub struct Rests {
    looked: Instant,
    /// The thread's use of the processor then.
    used: Span,
    /// Time that it may still run for before it rests; below zero, what it has run for beyond its share.
    credit_ns: i64,
}

impl Rests {
    /// Rests from `now` on.
    pub fn new(now: Instant) -> Self {
        Self { looked: now, used: used(), credit_ns: 0 }
    }

    /// Sleeps if the calling thread has run for more than its share.
    pub fn rest(&mut self, now: Instant) {
        if now.since(self.looked) < LOOK {
            return;
        }
        let sleep = self.owed(now, used());
        if sleep > Span::ZERO {
            thread::sleep(Duration::from_nanos(sleep.as_nanos()));
        }
    }

    /// Time that the thread has to rest that by `now` has run for `used` in all. While it rests, it earns its share.
    fn owed(&mut self, now: Instant, used: Span) -> Span {
        let earned = now.since(self.looked).as_nanos() as i64 * SHARE / 100;
        let spent = used.saturating_sub(self.used).as_nanos() as i64;
        (self.looked, self.used) = (now, used);
        self.credit_ns = (self.credit_ns + earned - spent).min(MOST_CREDIT_NS);
        Span::from_nanos((-self.credit_ns).max(0) as u64 * 100 / SHARE as u64)
    }
}

/// Time that the calling thread has run.
fn used() -> Span {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux counts each thread's time");
    Span::from_nanos(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works for `busy` µs at a time for a second, and rests when it has to: how long it worked and how long it rested.
    fn second(busy: u64) -> (Span, Span) {
        let mut rests = Rests { looked: Instant::ZERO, used: Span::ZERO, credit_ns: MOST_CREDIT_NS };
        let (mut now, mut used, mut rested) = (Instant::ZERO, Span::ZERO, Span::ZERO);
        while now < Instant::from_millis(1_000) {
            used += Span::from_micros(busy);
            now += LOOK;
            let rest = rests.owed(now, used);
            rested += rest;
            now += rest;
        }
        (used, rested)
    }

    /// 20 ms of credit and 92 % of 1000 ms; the last ms of work may end after the second.
    #[test]
    fn a_thread_that_is_always_busy_runs_for_its_share_and_credit() {
        let (used, rested) = second(1000);
        assert!(used >= Span::from_millis(939) && used <= Span::from_millis(941), "{used}");
        assert!(rested >= Span::from_millis(59), "{rested}");
    }

    #[test]
    fn one_that_is_busy_for_less_need_not_rest() {
        assert_eq!(second(910).1, Span::ZERO);
    }

    #[test]
    fn a_long_idle_time_is_forgotten_but_for_the_credit() {
        let mut rests = Rests { looked: Instant::ZERO, used: Span::ZERO, credit_ns: 0 };
        assert_eq!(rests.owed(Instant::from_millis(5_000), Span::ZERO), Span::ZERO);
        // 100 ms of work against 92 of its share and 20 of credit: 12 are left.
        assert_eq!(rests.owed(Instant::from_millis(5_100), Span::from_millis(100)), Span::ZERO);
        assert_eq!(rests.credit_ns, 12_000_000);
        // 20 ms beyond its share, less 12: 8 / 0.92 of rest earn them.
        assert_eq!(
            rests.owed(Instant::from_millis(5_350), Span::from_millis(350)),
            Span::from_nanos(8_000_000 * 100 / 92)
        );
    }
}
