//! Progress of a recording: a bar on a terminal, elsewhere a line now and then.

use std::time::{Duration, Instant};

use crate::output;

/// Time below which nothing is shown.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time from one line to the next where there is no terminal: in a log, or a file.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
/// Time from one drawing to the next on a terminal.
const BETWEEN_BARS: Duration = Duration::from_millis(250);
const WIDTH: u64 = 40;
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// Appears after a while, and goes away with this; lines stay.
pub struct Bar {
    total: u32,
    begun: Instant,
    next: Duration,
    is_terminal: bool,
}

impl Bar {
    /// A bar of so many seconds.
    pub fn new(total: u32) -> Self {
        Self { total, begun: Instant::now(), next: PATIENCE, is_terminal: output::says_on_terminal() }
    }

    /// Takes in how many are recorded.
    pub fn tell(&mut self, done: u32) {
        let elapsed = self.begun.elapsed();
        if elapsed < self.next {
            return;
        }
        if self.is_terminal {
            output::show(vec![drawn(done, self.total)]);
            self.next = elapsed + BETWEEN_BARS;
        } else {
            let seconds = elapsed.as_secs_f64();
            output::say(&format!("{done} of {} seconds recorded after {seconds:.0} s", self.total));
            self.next = elapsed + BETWEEN_LINES;
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        output::show(Vec::new());
    }
}

fn drawn(done: u32, total: u32) -> String {
    let full = WIDTH * u64::from(done) / u64::from(total.max(1));
    let part = |count: u64| "━".repeat(usize::try_from(count).unwrap_or(0));
    let left = total.saturating_sub(done);
    let left = format!("{}:{:02}:{:02}", left / 3600, left / 60 % 60, left % 60);
    format!("seconds {}{DIM}{}{PLAIN} {done}/{total} {left}", part(full), part(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_what_is_done() {
        let half = "━".repeat(20);
        assert_eq!(drawn(40, 80), format!("seconds {half}{DIM}{half}{PLAIN} 40/80 0:00:40"));
    }
}
