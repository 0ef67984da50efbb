//! A thread that is not kept waiting.

use std::thread;
use std::time::Duration;

use nix::sys::prctl::set_timerslack;
use nix::time::{ClockId, clock_gettime};
use weftway_path::{Instant, Span};

/// Above everything that is not real-time, below the kernel's own threads.
const PRIORITY: libc::c_int = 50;

/// How much of the time a real-time thread may run here, in percent. Linux lets real-time threads run on a processor for
/// 950 ms of each second (`sched_rt_runtime_us`), and gives an ordinary thread that waits for it 50 ms of each second.
/// A thread that goes beyond stands still meanwhile: at 1 Gbit/s for 50 ms, once a second. With 92 that still happened
/// while another program kept both processors busy, and not with 88.
const SHARE: u64 = 88;

/// Unused time that is kept for a burst. A thread has still run for at most 900 ms of a second after it.
const MOST_CREDIT: Span = Span::from_millis(20);

/// How often the thread's use of the processor is looked at.
const LOOK: Span = Span::from_millis(1);

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

/// Short rests of a busy real-time thread: about 0.1 ms after each ms of work, so that the kernel does not stop it for long.
#[derive(Debug)]
pub struct Rests {
    looked: Instant,
    /// The thread's use of the processor then.
    used: Span,
    credit: Span,
}

impl Rests {
    /// From `now` on.
    pub fn new(now: Instant) -> Self {
        Self { looked: now, used: used(), credit: Span::ZERO }
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

    /// How long the thread has to rest that by `now` has run for `used` in all.
    fn owed(&mut self, now: Instant, used: Span) -> Span {
        let share = Span::from_nanos(now.since(self.looked).as_nanos() * SHARE / 100);
        let (earned, spent) = (self.credit + share, used.saturating_sub(self.used));
        (self.looked, self.used) = (now, used);
        self.credit = earned.saturating_sub(spent).min(MOST_CREDIT);
        spent.saturating_sub(earned)
    }
}

/// How long the calling thread has run.
fn used() -> Span {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux counts each thread's time");
    Span::from_nanos(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works for `busy` µs at a time for a second, and rests when it has to: how long it worked and how long it rested.
    fn second(busy: u64) -> (Span, Span) {
        let mut rests = Rests { looked: Instant::ZERO, used: Span::ZERO, credit: MOST_CREDIT };
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

    /// 20 ms of credit and 88 % of 1000 ms, and what the last of its looks has not seen yet.
    #[test]
    fn a_thread_that_is_always_busy_runs_for_nine_tenths_of_a_second() {
        let (used, rested) = second(1000);
        assert!(used <= Span::from_millis(901), "{used}");
        assert!(used + rested >= Span::from_millis(1000), "{used} {rested}");
    }

    #[test]
    fn one_that_is_busy_for_less_need_not_rest() {
        assert_eq!(second(870).1, Span::ZERO);
    }

    #[test]
    fn a_long_idle_time_is_forgotten_but_for_the_credit() {
        let mut rests = Rests { looked: Instant::ZERO, used: Span::ZERO, credit: Span::ZERO };
        assert_eq!(rests.owed(Instant::from_millis(5_000), Span::ZERO), Span::ZERO);
        // 100 ms of work; 88 are its share, 20 its credit.
        assert_eq!(rests.owed(Instant::from_millis(5_100), Span::from_millis(100)), Span::ZERO);
        assert_eq!(rests.credit, Span::from_millis(8));
        assert_eq!(rests.owed(Instant::from_millis(5_200), Span::from_millis(200)), Span::from_millis(4));
    }
}
