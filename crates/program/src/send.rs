//! `weft send`.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

use weftway_transfer::{OtherEnd, Progress, Report, SendOptions, send};

use crate::ends;
use crate::failure::{Done, Failure};
use crate::options::{IdentityFile, InitialWindow, Json, Links, Listen, Pair, WIRE_CC};
use crate::outcome::{self, finish};
use crate::reading::Lines;
use crate::transferring::{self, TransferEnd};
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
    #[command(flatten)]
    window: InitialWindow,
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
        for name in lines.as_mut().map(Lines::new_ones).unwrap_or_default() {
            // The transfer may be over.
            let _ = chosen.send(name);
        }
        program.pass_schedulers(&chosen);
    };
    match transferring::run(&mut watch, |watch| send(&args.path, options, watch))? {
        TransferEnd::Whole(report) | TransferEnd::AtEnd(report) => Ok(report),
        TransferEnd::InMidst | TransferEnd::Before => Err(outcome::resumable()),
    }
}

impl Args {
    fn options(&self, switch: Receiver<String>) -> Done<SendOptions> {
        let (other, links) = (self.other()?, self.links.read()?);
        let (scheduler, cc) = (self.scheduler.clone(), self.cc.clone());
        let initial_window = self.window.initial_window;
        Ok(SendOptions {
            links,
            scheduling: weftway_transfer::Scheduling { scheduler, cc, initial_window, switch: Some(switch) },
            checksum: self.checksum,
            qlog: self.qlog.clone(),
            ..SendOptions::new(other)
        })
    }

    fn other(&self) -> Done<OtherEnd> {
        match (&self.to, &self.listen.listen) {
            (Some(host), None) => Ok(ends::connect(host, self.pair.pair.as_deref(), "--to")?.into()),
            (None, Some(place)) => {
                ends::refuse_pair(&self.pair, "--to")?;
                Ok(ends::listen(place, &self.identity)?.listen.into())
            }
            _ => Err(Failure::input("weft send needs either --to HOST:PORT or --listen ADDR")),
        }
    }
}
