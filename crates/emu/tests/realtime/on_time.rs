//! Tests with bounds in time, on a machine that may give the processor to somebody else.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(1);
/// A thread that wakes up so late has been kept waiting by more than the test's own threads.
const LATE: Duration = Duration::from_millis(15);
const TRIES: usize = 6;

/// Runs `test`; again if it fails while a thread that only sleeps woke up late. A failure on a machine that was in time
/// stays one, and so does the last.
pub fn on_time(test: impl Fn()) {
    for _ in 1..TRIES {
        let (result, late) = watched(&test);
        match result {
            Ok(()) => return,
            Err(_) if late > LATE => eprintln!("again: the machine was {late:?} late"),
            Err(panic) => resume_unwind(panic),
        }
    }
    test();
}

/// Runs `test`, and how late a thread woke up meanwhile at worst.
fn watched(test: &impl Fn()) -> (thread::Result<()>, Duration) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut worst = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                thread::sleep(TICK);
                worst = worst.max(begin.elapsed().saturating_sub(TICK));
            }
            worst
        });
        let result = catch_unwind(AssertUnwindSafe(test));
        over.store(true, Ordering::Relaxed);
        (result, watch.join().unwrap())
    })
}
