//! Options that several verbs have. A verb takes a group in with `#[command(flatten)]`.

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};

use clap::{Arg, ArgMatches, Command};
use weftway_transfer::{INITIAL_WINDOW, LARGEST_INITIAL_WINDOW, Link};
use weftway_udp::Local;

use crate::address::PORT;
use crate::failure::{Done, Failure};
use crate::identity;

/// The congestion controller over real links: some lose packets that no queue dropped.
pub const WIRE_CC: &str = "cubic:random_loss=2";
/// The scheduler of what an end sends, where the other end sends, too.
const SCHEDULER: &str = "min-rtt";

/// Address where this end listens.
#[derive(clap::Args, Clone, Debug)]
pub struct Listen {
    #[arg(
        long,
        value_name = "[ADDR:]PORT",
        help = "Waits here for the other end, for example at 4433. A port alone is over IPv6 and IPv4."
    )]
    pub listen: Option<String>,
}

impl Listen {
    /// Returns the place: the usual port if none is named.
    pub fn place(&self) -> String {
        self.listen.clone().unwrap_or_else(|| PORT.to_string())
    }
}

/// The pairing line of the other end.
#[derive(clap::Args, Clone, Debug)]
pub struct Pair {
    #[arg(
        long,
        value_name = "LINE|FILE|-",
        help = "What `weft pair` printed on the machine that listens: the line, a file with it, or - to read it from standard \
                input. Without it, WEFT_PAIR in the environment is taken."
    )]
    pub pair: Option<String>,
}

/// Links of which nothing is said but where they begin.
#[derive(clap::Args, Clone, Debug)]
pub struct Paths {
    #[arg(
        long = "path",
        value_name = "IFACE|ADDR",
        help = "A link of this machine: an interface or its address. Repeatable."
    )]
    pub local: Vec<String>,
}

/// Links, and what each is for.
#[derive(clap::Args, Clone, Debug)]
pub struct Links {
    #[arg(
        long = "path",
        value_name = "IFACE|ADDR[,KEY=VALUE]",
        help = "A link of this machine: an interface or its address. What it is for may follow, as in \
                wwan0,tier=backup,cap=10GB/month,price=4/GB (docs/how-to/policy.md). Repeatable."
    )]
    pub local: Vec<String>,
}

/// The file of this machine's identity.
#[derive(clap::Args, Clone, Debug)]
pub struct IdentityFile {
    #[arg(long, value_name = "FILE", help = "This machine's identity. Default: weftway/identity.json in ~/.config.")]
    pub identity: Option<PathBuf>,
}

/// Address at which a proxy or a tunnel finds its relay.
#[derive(clap::Args, Clone, Debug)]
pub struct To {
    #[arg(long, value_name = "HOST[:PORT]", help = "Where `weft relay` listens.")]
    pub to: Option<String>,
}

/// Scheduler and controller of an end, where the other end sends, too.
#[derive(clap::Args, Clone, Debug)]
pub struct Scheduling {
    #[arg(
        long,
        value_name = "S",
        default_value = SCHEDULER,
        help = "The scheduler of what this end sends: `weft list`."
    )]
    pub scheduler: Option<String>,
    #[arg(
        long,
        value_name = "C",
        default_value = WIRE_CC,
        help = "The congestion controller of what this end sends: `weft list`."
    )]
    pub cc: String,
    #[command(flatten)]
    pub window: InitialWindow,
}

/// The initial window of what an end sends.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct InitialWindow {
    #[arg(
        long = "initial-window",
        value_name = "N",
        default_value_t = INITIAL_WINDOW,
        value_parser = clap::value_parser!(u64).range(1..=LARGEST_INITIAL_WINDOW),
        help = "Packets that each path may have in flight at the start of what this end sends."
    )]
    pub initial_window: u64,
}

/// Rules of a proxy or a tunnel.
#[derive(clap::Args, Clone, Debug)]
pub struct ClassesFile {
    #[arg(long, value_name = "FILE", help = "Rules that put calls before downloads (docs/how-to/classes.md).")]
    pub classes: Option<PathBuf>,
}

/// For those who watch a program that lasts.
#[derive(clap::Args, Clone, Debug)]
pub struct Watching {
    #[arg(
        long,
        value_name = "[ADDR:]PORT",
        help = "Answers Prometheus here, for example at 9464; ADDR is 127.0.0.1 unless it is named."
    )]
    pub metrics: Option<String>,
    #[arg(long, help = "Prints what is going on as JSON, a line a second (docs/how-to/see.md).")]
    pub json: bool,
}

/// Results as JSON.
#[derive(clap::Args, Clone, Debug)]
pub struct Json {
    #[arg(long, help = "Prints one JSON array on standard output.")]
    pub json: bool,
}

/// Options in a file: [`crate::config`] reads it while the command line is parsed.
#[derive(clap::Args, Clone, Debug)]
pub struct Config {
    #[arg(
        long,
        value_name = "FILE",
        help = "Takes options from this command's table in a TOML file; those given here count before them \
                (docs/how-to/service.md)."
    )]
    pub config: Option<PathBuf>,
}

impl Paths {
    /// Reads the local ends of the paths.
    pub fn read(&self) -> Done<Vec<Local>> {
        Ok(read_links(&self.local)?.locals()?)
    }
}

impl Links {
    /// Reads the links.
    pub fn read(&self) -> Done<weftway_transfer::Links> {
        read_links(&self.local)
    }
}

/// Reads the values of `--path`. Bytes of links with a cap are counted in a file of the user.
pub fn read_links(texts: &[String]) -> Done<weftway_transfer::Links> {
    let all = texts.iter().map(|text| Link::parse(text).map_err(Failure::input)).collect::<Done<_>>()?;
    let usage = identity::user_folder("XDG_STATE_HOME", ".local/state").join("weftway/usage.json");
    Ok(weftway_transfer::Links { all, usage: Some(usage) })
}

impl Scheduling {
    /// Returns the scheduling of an end, and the sender of schedulers that are to take over.
    pub fn switched(self) -> (weftway_transfer::Scheduling, Sender<String>) {
        let (switches, switch) = channel();
        let Self { scheduler, cc, window: InitialWindow { initial_window } } = self;
        let scheduler = scheduler.unwrap_or_else(|| SCHEDULER.to_owned());
        (weftway_transfer::Scheduling { scheduler, cc, initial_window, switch: Some(switch) }, switches)
    }
}

/// Refuses a value that has nothing in it: `--out "$UNSET"` is a slip, and no path or name. `matches` are those of
/// `command`.
///
/// Words that are passed on to another command are left to that one.
pub fn refuse_empty(command: &Command, matches: &ArgMatches) -> Done {
    for arg in command.get_arguments().filter(|arg| takes_words(arg)) {
        let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
        if values.into_iter().any(|value| is_empty(&value.to_string_lossy())) {
            return Err(Failure::input(empty(&usage(arg), arg)));
        }
    }
    match matches.subcommand() {
        Some((name, rest)) => command.find_subcommand(name).map_or(Ok(()), |command| refuse_empty(command, rest)),
        None => Ok(()),
    }
}

/// An option or argument that has a value of its own.
pub fn takes_words(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_trailing_var_arg_set()
}

/// Returns true if a text has nothing in it.
pub fn is_empty(text: &str) -> bool {
    text.trim().is_empty()
}

/// The message that a value is empty, with the help of its option; `place` is where the value stands.
pub fn empty(place: &str, arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    format!("{place}: the value is empty. {help}").trim_end().to_owned()
}

/// `--out DIR`, or `PATH`.
fn usage(arg: &Arg) -> String {
    let long = arg.get_long().map(|long| format!("--{long}"));
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    long.into_iter().chain(value).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_with_what_they_are_for() {
        let read = read_links(&["wlan0".to_owned(), "wwan0,tier=backup".to_owned()]).unwrap();
        assert_eq!(read.all.iter().map(|link| link.terms.is_some()).collect::<Vec<_>>(), [false, true]);
        assert!(matches!(read.locals(), Err(weftway_transfer::Failure::Spec(_))));
        for (text, told) in [
            ("wwan0,tier=bakcup", "did you mean `backup`?"),
            ("wwan0,cap=10GB", "in which time? For example cap=10GB/month"),
            ("wwan0,price=4", "has no unit"),
        ] {
            let Err(Failure::Input(why)) = read_links(&[text.to_owned()]) else { panic!("{text} is refused") };
            assert!(why.contains(told), "{why}");
        }
    }
}
