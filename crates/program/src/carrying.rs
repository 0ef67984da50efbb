//! A transfer that runs until all is there or an interrupt comes.

use std::path::Path;

use weftway_transfer::{Options, Progress, Report, State, receive, send};

use crate::failure::{Done, Failure};
use crate::signals;

/// What this end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It sends what is at a path.
    Send,
    /// It writes into the folder at a path.
    Receive,
}

/// How a transfer ended.
#[derive(Debug)]
pub enum Ended {
    /// All was there.
    Whole(Report),
    /// All was there when an interrupt came: the program is to end.
    AtEnd(Report),
    /// An interrupt came when the ends had met, and not all was there.
    InMidst,
    /// An interrupt came before the ends had met.
    Before,
}

/// Sends what is at `path`, or receives into it, until all of it is there. `watch` is told ten times a second how far it is.
pub fn run(role: Role, path: &Path, options: Options, watch: &mut dyn FnMut(&Progress)) -> Done<Ended> {
    run_until(role, path, options, watch, &signals::interrupted)
}

/// The same, until `stops` returns true.
fn run_until(
    role: Role,
    path: &Path,
    options: Options,
    watch: &mut dyn FnMut(&Progress),
    stops: &dyn Fn() -> bool,
) -> Done<Ended> {
    let (mut is_stopped, mut is_begun) = (false, false);
    let mut tell = |progress: &Progress| {
        is_begun |= progress.state != State::Listening;
        is_stopped |= stops();
        if !is_stopped {
            watch(progress);
            is_stopped = stops();
        }
        !is_stopped
    };
    let ended = match role {
        Role::Send => send(path, options, &mut tell),
        Role::Receive => receive(path, options, &mut tell),
    };
    match (ended, is_stopped) {
        (Ok(report), false) => Ok(Ended::Whole(report)),
        (Ok(report), true) => Ok(Ended::AtEnd(report)),
        (Err(_), true) if is_begun => Ok(Ended::InMidst),
        (Err(_), true) => Ok(Ended::Before),
        (Err(failure), false) => Err(Failure::from(failure)),
    }
}
