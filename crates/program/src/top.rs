//! `weft top`: the links and connections of all programs of this user that carry something.

mod fields;
mod programs;
mod prompt;
mod reader;
mod screen;
mod terminal;
mod view;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::failure::{Done, Failure, INTERRUPTED, RUN_FAILED};
use crate::{output, signals, watched, whole_file};
use reader::{PATIENCE, Reader, running};

const NOTHING_RUNS: &str = "no weft proxy, relay, tunnel or send of this user runs on this machine";
/// Columns of what is printed where there is no terminal.
const COLUMNS: usize = 160;

/// Shows the links and connections of every `weft proxy`, `tunnel`, `relay` and `send` of this user on this machine.
///
/// Keep it open on a terminal, press s to switch a program's scheduler and q to end it. Elsewhere it prints one table.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(long, help = "Prints one JSON array on standard output.")]
    json: bool,
    #[arg(
        long,
        value_name = "FILE",
        help = "Writes the last hour as a page that needs no network, and shows nothing."
    )]
    page: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    if let Some(file) = args.page {
        return write_page(&file, args.json);
    }
    if args.json {
        return output::print_json(&once(false)?);
    }
    let is_terminal = rustix::termios::isatty(rustix::stdio::stdout());
    if is_terminal && rustix::termios::isatty(rustix::stdio::stdin()) {
        return screen::show();
    }
    let columns = if is_terminal { output::size(rustix::stdio::stdout()).0 } else { COLUMNS };
    let snapshots = once(false)?;
    if snapshots.is_empty() {
        output::say(NOTHING_RUNS);
    }
    let mut lines = snapshots.iter().flat_map(|one| view::view(one, view::MOST_FLOWS, columns));
    lines.try_for_each(|line| output::print(&line.text))
}

fn write_page(file: &Path, json: bool) -> Done {
    if json {
        return Err(Failure::input("either --json or --page FILE: a page is no JSON"));
    }
    let snapshots = once(true)?;
    if snapshots.is_empty() {
        return Err(Failure::Status(NOTHING_RUNS.to_owned(), RUN_FAILED));
    }
    whole_file::write(file, watched::hour_page(&snapshots))?;
    output::say(&format!("written: {}", file.display()));
    Ok(())
}

/// A snapshot of each program that runs, with its last hour if that is wanted.
fn once(with_hour: bool) -> Done<Vec<Value>> {
    let mut found = Vec::new();
    for mut reader in running(&[])? {
        // One that has ended meanwhile tells nothing.
        found.extend(first_of(&mut reader, with_hour).unwrap_or(None));
        if signals::interrupted() {
            return Err(Failure::Said(INTERRUPTED));
        }
    }
    Ok(found)
}

/// The first snapshot that a program tells, if it tells one in time.
fn first_of(reader: &mut Reader, with_hour: bool) -> io::Result<Option<Value>> {
    let deadline = Instant::now() + PATIENCE;
    if with_hour {
        reader.ask(&json!({"hour": true}))?;
    }
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        if signals::interrupted() || !ready(&mut [PollFd::new(reader, PollFlags::IN)], left)[0] {
            return Ok(None);
        }
        match reader.read()? {
            Some(snapshot) if !with_hour || snapshot.get("hour").is_some() => return Ok(Some(snapshot)),
            _ => {}
        }
    }
    Ok(None)
}

/// Waits for something to read, no longer than this; returns where there is some. A signal breaks the wait off.
fn ready(waited: &mut [PollFd<'_>], longest: Duration) -> Vec<bool> {
    let longest = Timespec::try_from(longest).ok();
    match poll(waited, longest.as_ref()) {
        Ok(_) => waited.iter().map(|one| !one.revents().is_empty()).collect(),
        Err(_) => vec![false; waited.len()],
    }
}
