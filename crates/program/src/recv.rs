//! `weft recv`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use weftway_transfer::{OtherEnd, Progress, ReceiveOptions, Report, receive};
use weftway_udp::tls::Identity;

use crate::display::{Display, state_name};
use crate::ends::{self, Listening};
use crate::failure::{Done, Failure, INTERRUPTED};
use crate::options::{Config, IdentityFile, Listen, Pair, Paths};
use crate::outcome::{self, finish};
use crate::output;
use crate::text::{number_of, printable};
use crate::transferring::{self, TransferEnd};

/// Receives files over several links from a machine with `weft send`. It listens, or it connects with --from.
///
/// It takes one transfer after another until Ctrl-C; with --once or --from it takes one.
///
/// A file has its name when its BLAKE3 hash is the sender's; until then it is in DIR/.weft-partial.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(value_name = "DIR", help = "Where the files go. Nothing is written elsewhere.")]
    target: Option<PathBuf>,
    #[command(flatten)]
    listen: Listen,
    #[arg(long = "from", value_name = "HOST[:PORT]", help = "Where `weft send --listen` waits.")]
    source: Option<String>,
    #[command(flatten)]
    pair: Pair,
    #[command(flatten)]
    paths: Paths,
    #[command(flatten)]
    identity: IdentityFile,
    #[arg(
        long,
        default_value = "true",
        overrides_with = "no_sync",
        help = "Ends when all files are on the disk itself, and not only in the system's memory: this is the default."
    )]
    sync: bool,
    #[arg(
        long,
        overrides_with = "sync",
        help = "Ends when all files are in the system's memory, and may not be on the disk itself yet."
    )]
    no_sync: bool,
    #[arg(long, help = "Keeps nothing of what comes: for weft compare --backend live.")]
    measure: bool,
    #[arg(long, help = "Ends after one transfer. Without it, the next one may come.")]
    once: bool,
    #[arg(long, help = "Prints JSON on standard output, a line for each transfer.")]
    json: bool,
    #[command(flatten)]
    config: Config,
}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    args.go_together()?;
    if let Some(source) = &args.source {
        return args.receive_once(ends::connect(source, args.pair.pair.as_deref(), "--from")?.into());
    }
    ends::refuse_pair(&args.pair, "--from")?;
    let listening = ends::listen(&args.listen.place(), &args.identity)?;
    if args.once {
        return args.receive_once(listening.listen.into());
    }
    match args.receive_on(&listening)? {
        0 => Err(Failure::Status("stopped listening".to_owned(), INTERRUPTED)),
        whole => {
            output::say(&format!("stopped listening after {}", number_of(whole, "transfer")));
            Ok(())
        }
    }
}

impl Args {
    fn go_together(&self) -> Done {
        let (keeps, connects) = (self.target.is_some(), self.source.is_some());
        if self.measure && (keeps || connects) {
            return Err(Failure::input("weft recv --measure keeps nothing and listens: leave out DIR and --from"));
        }
        if !self.measure && !keeps {
            return Err(Failure::input("weft recv needs DIR, where the files go"));
        }
        if connects && self.listen.listen.is_some() {
            return Err(Failure::input("weft recv either listens or connects: --listen or --from"));
        }
        Ok(())
    }

    /// Form of a printed report.
    fn show(&self) -> fn(&Report) -> Done {
        match &self.target {
            _ if self.json => outcome::print_line,
            Some(_) => outcome::print_summary,
            None => outcome::print_rate,
        }
    }

    /// The end of a transfer that an interrupt stopped.
    fn interrupted(&self) -> Failure {
        if self.target.is_some() {
            outcome::resumable()
        } else {
            Failure::Status("interrupted".to_owned(), INTERRUPTED)
        }
    }

    /// Receives one transfer, and prints its report.
    fn receive_once(&self, other: OtherEnd) -> Done {
        match self.receive(other, &mut Display::new("listening at"))? {
            TransferEnd::Whole(report) | TransferEnd::AtEnd(report) => finish(&report, self.show()),
            TransferEnd::InMidst | TransferEnd::Before => Err(self.interrupted()),
        }
    }

    /// Receives one transfer.
    fn receive(&self, other: OtherEnd, display: &mut Display) -> Done<TransferEnd> {
        let (paths, sync) = (self.paths.read()?, self.sync && !self.no_sync);
        let options = ReceiveOptions { paths, sync, ..ReceiveOptions::new(other) };
        let _beside = output::beside_traffic();
        let inbox = Inbox::new(self.target.as_deref())?;
        let mut watch = |progress: &Progress| display.tell(progress, state_name(progress.state));
        transferring::run(&mut watch, |watch| receive(inbox.folder(), options, watch))
    }

    /// Receives one transfer after another until an interrupt comes between two; returns how many arrived whole.
    ///
    /// A transfer that fails is told, and the next one may come: its sender tries again.
    fn receive_on(&self, end: &Listening) -> Done<u64> {
        let (mut whole, mut address, mut is_first) = (0, end.listen.address, true);
        loop {
            let mut display =
                Display::new(if is_first { "listening at" } else { "listening for the next transfer at" });
            // The identity is the one that was read at the start.
            let identity = Identity::load(&end.text).map_err(weftway_transfer::Failure::from)?;
            let ended = self.receive(weftway_transfer::Listen { address, identity }.into(), &mut display);
            // A port that was free stays the same one.
            address = display.listening.unwrap_or(address);
            let has_listened = display.listening.is_some();
            drop(display);
            match ended {
                Ok(TransferEnd::Whole(report)) => whole += self.told(&report)?,
                Ok(TransferEnd::AtEnd(report)) => return Ok(whole + self.told(&report)?),
                Ok(TransferEnd::InMidst) => return Err(self.interrupted()),
                Ok(TransferEnd::Before) => return Ok(whole),
                Err(Failure::Run(why)) if has_listened => output::say(&format!("weft: {}", printable(&why, ""))),
                // It was right at the start.
                Err(Failure::Input(why) | Failure::File(why)) if !is_first => {
                    return Err(Failure::Run(why));
                }
                Err(failure) => return Err(failure),
            }
            is_first = false;
        }
    }

    /// Prints what came of a transfer; returns 1 if it arrived whole, and 0 otherwise.
    fn told(&self, report: &Report) -> Done<u64> {
        match finish(report, self.show()) {
            Ok(()) => Ok(1),
            Err(Failure::Status(why, _)) => {
                output::say(&format!("weft: {why}"));
                Ok(0)
            }
            Err(failure) => Err(failure),
        }
    }
}

/// The folder where files go.
enum Inbox<'a> {
    /// Folder that the user named.
    Kept(&'a Path),
    /// Folder that is removed.
    Passing(tempfile::TempDir),
}

impl<'a> Inbox<'a> {
    fn new(target: Option<&'a Path>) -> Done<Self> {
        // What comes is for this user alone.
        let mode = Permissions::from_mode(0o700);
        let made = || tempfile::Builder::new().prefix("weftway-").permissions(mode).tempdir();
        match target {
            Some(folder) => Ok(Self::Kept(folder)),
            None => Ok(Self::Passing(made().map_err(|error| Failure::file(&std::env::temp_dir(), &error))?)),
        }
    }

    fn folder(&self) -> &Path {
        match self {
            Self::Kept(folder) => folder,
            Self::Passing(folder) => folder.path(),
        }
    }
}
