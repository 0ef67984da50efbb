//! Interrupts: Ctrl-C, and the signals that are as good as one (SIGTERM, SIGHUP), unless the program was told to ignore
//! them.
//!
//! The first one is only noted: whoever works looks at [`interrupted`]. A later one, while the program ends, ends it at
//! once.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};

use crate::failure::INTERRUPTED;

/// Signals that come together are one: a terminal that closes sends SIGHUP, and so does its shell.
const TOGETHER: Duration = Duration::from_millis(300);

/// True while nothing may end the program half-way.
static UNDISTURBED: AtomicBool = AtomicBool::new(false);

/// True once an interrupt came that was not of the first's company.
static CAME_AGAIN: AtomicBool = AtomicBool::new(false);

static CAME: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Prepares signals: an interrupt is noted; writing to a closed pipe, or more than a file may have, is an error and not
/// the end.
pub fn prepare() {
    // The standard library ignores SIGPIPE. A handler does the same for a file that may not grow; programs that are
    // started have none.
    let _ = flag::register(SIGXFSZ, Arc::default());
    let Ok((told, tells)) = UnixStream::pair() else { return };
    let ignored = ignored();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignored & (1 << (signal - 1)) != 0 {
            continue;
        }
        let _ = flag::register(signal, Arc::clone(&CAME));
        if let Ok(tells) = tells.try_clone() {
            let _ = low_level::pipe::register(signal, tells);
        }
    }
    let _ = std::thread::Builder::new().name("signals".into()).stack_size(1 << 16).spawn(|| end_at_the_second(told));
}

/// Returns true once an interrupt came.
pub fn interrupted() -> bool {
    CAME.load(Ordering::SeqCst)
}

/// Returns true once a second interrupt came: somebody is impatient.
pub fn interrupted_again() -> bool {
    CAME_AGAIN.load(Ordering::SeqCst)
}

/// While this lives, no further interrupt ends the program.
pub struct Undisturbed(());

/// Keeps impatient interrupts from ending what must not be left half done.
pub fn undisturbed() -> Undisturbed {
    UNDISTURBED.store(true, Ordering::SeqCst);
    Undisturbed(())
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        UNDISTURBED.store(false, Ordering::SeqCst);
    }
}

/// Each signal is a byte. The program ends with one that is not of the first's company.
fn end_at_the_second(mut told: UnixStream) {
    let mut first = None;
    while told.read_exact(&mut [0]).is_ok() {
        let first = *first.get_or_insert_with(Instant::now);
        if first.elapsed() >= TOGETHER {
            CAME_AGAIN.store(true, Ordering::SeqCst);
            if !UNDISTURBED.load(Ordering::SeqCst) {
                std::process::exit(INTERRUPTED.into());
            }
        }
    }
}

/// Signals that the program was told to ignore (`nohup`), a bit each. Linux tells; elsewhere none is taken for one of
/// them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let told = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    told.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
