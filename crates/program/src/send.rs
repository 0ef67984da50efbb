//! `weft send`.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use weftway_transfer::{Options, Progress, Report};

use crate::ends::other_end;
use crate::failure::{Done, Failure};
use crate::options::{self, IdentityFile, Json, Links, Listen, Pair, WIRE_CC};
use crate::outcome::{self, finish};
use crate::reading::Lines;
use crate::transferring::{self, Ended, Role};
use crate::watched::Watched;

/// Sends a file or a directory over several links to a machine with `weft recv`.
///
/// The same command again goes on where an earlier one was stopped.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(value_name = "PATH", help = "A file or a directory.")]
    path: PathBuf,
    #[arg(long, value_name = "HOST[:PORT]", help = "Where `weft recv` listens.")]
    to: Option<String>,
    #[command(flatten)]
    listen: Listen,
    #[command(flatten)]
    pair: Pair,
    #[command(flatten)]
    links: Links,
    #[arg(long, value_name = "S", default_value = "earliest-delivery", help = "The scheduler: `weft list`.")]
    scheduler: String,
    #[arg(
        long,
        value_name = "C",
        default_value = WIRE_CC,
        help = "The congestion controller: `weft list`."
    )]
    cc: String,
    #[arg(long, help = "Reads schedulers from standard input; each takes over at once.")]
    switch: bool,
    #[command(flatten)]
    identity: IdentityFile,
    #[arg(long, help = "Compares the contents of files that are there, and not only their sizes and times.")]
    checksum: bool,
    #[arg(long, value_name = "FILE", help = "Writes a qlog file (JSON-SEQ, .sqlog).")]
    qlog: Option<PathBuf>,
    #[command(flatten)]
    json: Json,
}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    let is_json = args.json.json;
    let report = carry(args)?;
    finish(&report, if is_json { outcome::print_array } else { outcome::print_summary })
}

/// Sends until all is there; nobody who watches holds it up.
fn carry(args: Args) -> Done<Report> {
    let (chosen, switch) = channel();
    let options = args.options(switch)?;
    let mut program = Watched::new("send", None, false)?;
    let mut lines = args.switch.then(Lines::default);
    let mut watch = |progress: &Progress| {
        program.tell(progress);
        let typed = lines.as_mut().map(Lines::new_ones).unwrap_or_default();
        take_over(typed.into_iter().chain(program.schedulers()), &chosen);
    };
    match transferring::run(Role::Send, &args.path, options, &mut watch)? {
        Ended::Whole(report) | Ended::AtEnd(report) => Ok(report),
        Ended::InMidst | Ended::Before => Err(outcome::resumable()),
    }
}

impl Args {
    fn options(&self, switch: Receiver<String>) -> Done<Options> {
        let (to, listen) = (self.to.as_deref(), self.listen.listen.as_deref());
        if to.is_none() == listen.is_none() {
            return Err(Failure::input("weft send needs either --to HOST:PORT or --listen ADDR"));
        }
        let end = other_end(to, listen, self.pair.pair.as_deref(), self.identity.identity.as_deref(), "--to")?;
        let links = options::read_links(&self.links.local)?;
        Ok(Options {
            paths: links.paths,
            terms: links.terms,
            usage: Some(options::usage_file()),
            scheduler: self.scheduler.clone(),
            cc: self.cc.clone(),
            switch: Some(switch),
            qlog: self.qlog.clone(),
            checksum: self.checksum,
            ..end.options()
        })
    }
}

/// Passes on the schedulers that are to take over.
fn take_over(names: impl Iterator<Item = String>, switch: &Sender<String>) {
    for name in names {
        // The transfer may be over.
        let _ = switch.send(name);
    }
}
