//! Connections that `weft proxy` and `weft relay` carry until they are interrupted.

use std::sync::mpsc::Sender;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use weftway_transfer::{Progress, Watch};

use crate::failure::{Done, Failure, INTERRUPTED};
use crate::options::Watching;
use crate::signals;
use crate::watched::Watched;

/// Program that carries connections.
pub struct Carrying<'a> {
    /// Its verb.
    pub program: &'a str,
    /// Its last words when it is interrupted.
    pub stopped: &'a str,
    /// Options of those who watch.
    pub watching: Watching,
    /// Sender of schedulers that are to take over.
    pub switches: Sender<String>,
}

/// Carries connections by `work`, and tells all that watch of it, until it is interrupted. `note` returns a note of the
/// program's own, if it has one.
pub fn carry(
    carrying: Carrying<'_>,
    mut note: impl FnMut() -> Option<String>,
    work: impl FnOnce(Watch<'_>) -> Result<(), weftway_transfer::Failure>,
) -> Done {
    let Carrying { program, stopped, watching, switches } = carrying;
    let mut watched = Watched::new(program, watching.metrics.as_deref(), watching.json)?;
    allow_descriptors();
    let mut interrupted = false;
    let ended = work(&mut |progress: &Progress| {
        interrupted = signals::interrupted();
        if interrupted {
            return false;
        }
        watched.tell_as(progress, None, note().as_deref());
        watched.pass_schedulers(&switches);
        true
    });
    drop(watched);
    if interrupted {
        return Err(Failure::Status(stopped.to_owned(), INTERRUPTED));
    }
    Ok(ended?)
}

/// Allows as many file descriptors as the system gives this user, and not 1024: each connection of a program needs one.
/// Where that is refused, further connections wait.
fn allow_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
