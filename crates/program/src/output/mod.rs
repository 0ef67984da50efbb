//! Output: results on standard output, all else on standard error.
//!
//! While traffic is carried nothing waits for a reader: threads write, and lines that nobody takes are dropped and
//! counted.

mod json;
mod queue;

use std::os::fd::AsFd;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

pub use json::json_text;
use nix::errno::Errno;
use queue::{Queue, write_now};
use rustix::stdio::{stderr, stdout};

use crate::failure::{CLOSED, Done, Failure, INTERRUPTED, RUN_FAILED};
use crate::signals;

/// Standard output and error, once threads write them.
static RESULTS: OnceLock<Option<Queue>> = OnceLock::new();
static SAID: OnceLock<Option<Queue>> = OnceLock::new();

/// Lines that are shown on the terminal below all others, and replaced.
static SHOWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn results() -> Option<&'static Queue> {
    RESULTS.get()?.as_ref()
}

fn said() -> Option<&'static Queue> {
    SAID.get()?.as_ref()
}

/// Prints a line of results on standard output. Nobody reads it: [`Failure::ClosedPipe`].
pub fn print(line: &str) -> Done {
    write(&format!("{line}\n"))
}

/// Writes to standard output as it is.
pub fn write(text: &str) -> Done {
    match results() {
        Some(queue) => {
            queue.write(text.as_bytes());
            Ok(())
        }
        None => match write_now(stdout(), text.as_bytes(), signals::interrupted) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::Said(INTERRUPTED)),
            Err(error) => Err(Failure::standard_output(error)),
        },
    }
}

/// Writes a line of JSON to standard output if no other line waits; returns true if it did.
pub fn write_if_free(line: &str) -> bool {
    match results() {
        Some(queue) => queue.write_if_free(line.as_bytes()),
        None => write(line).is_ok(),
    }
}

/// Says a line on standard error.
pub fn say(line: &str) {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // Of a terminal that is slow to take it, no more is asked: what was shown is shown again by and by.
    let kept = if said().is_none_or(Queue::is_free) { shown.clone() } else { Vec::new() };
    if write_said(&format!("{}{line}\n{}", erased(&shown), drawn(&kept))) {
        *shown = kept;
    }
}

/// Shows lines on the terminal below all that is said, in place of those before. None: they go. Where the terminal does
/// not take what came before, they are left out: the next ones are newer.
pub fn show(lines: Vec<String>) {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.is_empty() && shown.is_empty() || said().is_some_and(|queue| !queue.is_free()) && !lines.is_empty() {
        return;
    }
    let text = erased(&shown) + &drawn(&lines);
    if write_said(&text) {
        *shown = lines;
    }
}

/// Goes back to where these lines began, and clears what is below.
fn erased(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("\r\x1b[{}A\x1b[J", lines.len()) }
}

fn drawn(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// Writes to standard error, whoever reads it; returns true if it was not dropped.
fn write_said(text: &str) -> bool {
    match said() {
        Some(queue) => queue.write(text.as_bytes()),
        None => write_now(stderr(), text.as_bytes(), signals::interrupted) == Ok(true),
    }
}

/// Returns true if standard error is a terminal that obeys more than the end of a line.
pub fn says_on_terminal() -> bool {
    let is_dumb = std::env::var("TERM").is_ok_and(|name| ["dumb", "unknown"].contains(&name.as_str()));
    rustix::termios::isatty(stderr()) && !is_dumb
}

/// Columns and lines of a terminal, as the environment or the terminal itself says.
pub fn size(terminal: impl AsFd) -> (usize, usize) {
    let named = |name| std::env::var(name).ok()?.parse::<usize>().ok().filter(|&size| size > 0);
    let told = rustix::termios::tcgetwinsize(terminal).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    let (columns, lines) = told.map_or((80, 25), |size| (size.ws_col.into(), size.ws_row.into()));
    (named("COLUMNS").unwrap_or(columns), named("LINES").unwrap_or(lines))
}

/// Prints an array of JSON, a line for each element.
pub fn print_json(rows: &[serde_json::Value]) -> Done {
    if rows.is_empty() {
        return write("[]\n");
    }
    let lines: Vec<String> = rows.iter().map(json_text).collect();
    write(&format!("[\n{}\n]\n", lines.join(",\n")))
}

/// Lets threads write standard output and error, so that nothing waits for a reader as long as this lives.
pub fn beside_traffic() -> BesideTraffic {
    // Without a thread or a descriptor for it, what is printed is waited for.
    RESULTS.get_or_init(|| Queue::new(stdout().try_clone_to_owned().ok()?).ok());
    SAID.get_or_init(|| Queue::new(stderr().try_clone_to_owned().ok()?).ok());
    set_beside_traffic(true);
    BesideTraffic
}

fn set_beside_traffic(is_beside_traffic: bool) {
    for queue in [results(), said()].into_iter().flatten() {
        queue.set_beside_traffic(is_beside_traffic);
    }
}

/// While this lives, nothing that is printed waits for a reader.
pub struct BesideTraffic;

impl Drop for BesideTraffic {
    fn drop(&mut self) {
        set_beside_traffic(false);
    }
}

/// Number of lines of standard output and error that were dropped.
pub fn dropped_lines() -> u64 {
    [results(), said()].into_iter().flatten().map(Queue::dropped).sum()
}

/// Number of lines of standard error that were dropped since the last call, once it is taken again; otherwise none.
pub fn newly_dropped() -> Option<u64> {
    said()?.newly_dropped()
}

/// Gives readers time for the rest; returns the status with which the command ends.
pub fn finish(status: u8) -> u8 {
    show(Vec::new());
    let begun = Instant::now();
    if let Some(queue) = said() {
        // Nobody could be told.
        let _ = queue.finish(begun);
    }
    match results().map_or(Ok(()), |queue| queue.finish(begun)) {
        Ok(()) => status,
        Err(Errno::EPIPE) if status == 0 => CLOSED,
        Err(Errno::EPIPE) => status,
        Err(error) => {
            let text = format!("weft: standard output: {}\n", error.desc());
            let _ = write_now(stderr(), text.as_bytes(), signals::interrupted);
            RUN_FAILED
        }
    }
}
