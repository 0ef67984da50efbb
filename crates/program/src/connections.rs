//! Connections that `weft proxy` and `weft relay` carry until they are interrupted.

use std::sync::mpsc::{Sender, channel};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use weftway_transfer::{Options, Progress, Watch};
use weftway_udp::tls::Identity;

use crate::ends::End;
use crate::failure::{Done, Failure, INTERRUPTED};
use crate::identity::Changes;
use crate::options::{Scheduling, Watching, read_links, usage_file};
use crate::signals;
use crate::watched::Watched;

/// A program that carries connections, as the options say it.
pub struct Carrying<'a> {
    /// The verb.
    pub program: &'a str,
    /// The last words of the program when it is interrupted.
    pub stopped: &'a str,
    /// Links, and what they are for.
    pub links: &'a [String],
    /// Scheduler and controller of what this end sends.
    pub scheduling: Scheduling,
    /// Options of those who watch.
    pub watching: Watching,
}

/// Carries connections by `work`, and tells all that watch of it, until it is interrupted.
///
/// When the file of its identity changes, names that are new and those that were revoked count at once.
pub fn carry(
    end: End,
    carrying: Carrying<'_>,
    work: impl FnOnce(Options, Watch<'_>) -> Result<(), weftway_transfer::Failure>,
) -> Done {
    let mut changes = end.identity.clone().map(|(file, text)| Changes::new(file, text));
    let (options, switches) = set(end.options(), carrying.links, carrying.scheduling)?;
    let watching = carrying.watching;
    let mut watched = Watched::new(carrying.program, watching.metrics.as_deref(), watching.json)?;
    let (became, identities) = channel();
    let options = Options { identities: Some(identities), ..options };
    allow_descriptors();
    let mut interrupted = false;
    let ended = work(options, &mut |progress: &Progress| {
        interrupted = signals::interrupted();
        if interrupted {
            return false;
        }
        let note = changes.as_mut().and_then(|changes| take_over(changes, &became));
        watched.tell_as(progress, None, note.as_deref());
        for name in watched.schedulers() {
            let _ = switches.send(name);
        }
        true
    });
    drop(watched);
    if interrupted {
        return Err(Failure::Status(carrying.stopped.to_owned(), INTERRUPTED));
    }
    Ok(ended?)
}

/// Sets the links and how they are scheduled; returns where schedulers are named that are to take over, too.
pub fn set(options: Options, links: &[String], scheduling: Scheduling) -> Done<(Options, Sender<String>)> {
    let links = read_links(links)?;
    let (switches, switch) = channel();
    let options = Options {
        paths: links.paths,
        terms: links.terms,
        usage: Some(usage_file()),
        scheduler: scheduling.scheduler,
        cc: scheduling.cc,
        switch: Some(switch),
        ..options
    };
    Ok((options, switches))
}

/// Hands an identity on that has changed; returns what is wrong with the file, if something is.
fn take_over(changes: &mut Changes, became: &Sender<Identity>) -> Option<String> {
    match changes.now() {
        Ok(identity) => {
            // Nobody takes it any more: the program ends.
            identity.map(|identity| became.send(identity));
            None
        }
        Err(failure) => failure.text().map(|text| format!("{text}; the identity before is kept")),
    }
}

/// Allows as many file descriptors as the system gives this user, and not 1024: each connection of a program needs one. Where
/// that is refused, further connections wait.
pub fn allow_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
