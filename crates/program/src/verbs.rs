//! The command line: a verb each.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::{Done, Failure};
use crate::{doctor, output, pair, proxy, record, recv, relay, send, service, top};

/// Carries real traffic over several links at once.
#[derive(Parser)]
#[command(
    name = "weft-link",
    version,
    disable_version_flag = true,
    after_help = "Exit status: 0 it worked, 1 a run failed, 2 bad input, 130 interrupted.",
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Line {
    #[command(subcommand)]
    verb: Verb,
    /// Prints the version.
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

#[derive(Subcommand)]
enum Verb {
    Pair(pair::Args),
    Send(send::Args),
    Recv(recv::Args),
    Relay(relay::Args),
    Proxy(proxy::Args),
    #[cfg(all(target_os = "linux", feature = "tunnel"))]
    Tunnel(crate::tunnel::Args),
    Top(top::Args),
    Service(service::Args),
    Record(record::Args),
    Doctor(doctor::Args),
}

/// The command line as clap has it; help names the program as it was called: `weft` or `weft-link`.
pub fn command(called: &str) -> clap::Command {
    Line::command().name(called.to_owned()).bin_name(called.to_owned())
}

/// Runs what the command line says.
pub fn run(words: Vec<OsString>) -> Done {
    let called = words.first().map(std::path::Path::new).and_then(|path| path.file_name());
    let called = if called.is_some_and(|name| name == "weft") { "weft" } else { "weft-link" };
    let matches = command(called).try_get_matches_from(words).map_err(told)?;
    match Line::from_arg_matches(&matches).map_err(told)?.verb {
        Verb::Pair(args) => pair::run(args),
        Verb::Send(args) => send::run(args),
        Verb::Recv(args) => recv::run(args).map_err(Failure::lasting),
        Verb::Relay(args) => relay::run(args).map_err(Failure::lasting),
        Verb::Proxy(args) => proxy::run(args).map_err(Failure::lasting),
        #[cfg(all(target_os = "linux", feature = "tunnel"))]
        Verb::Tunnel(args) => crate::tunnel::run(args).map_err(Failure::lasting),
        Verb::Top(args) => top::run(args),
        Verb::Service(args) => service::run(args),
        Verb::Record(args) => record::run(args),
        Verb::Doctor(args) => doctor::run(args),
    }
}

/// What clap says: help and version are results, all else is bad input.
fn told(error: clap::Error) -> Failure {
    if error.use_stderr() {
        output::say(error.render().to_string().trim_end());
        return Failure::Said(crate::failure::BAD_INPUT);
    }
    match output::write(&error.render().to_string()) {
        Ok(()) => Failure::Said(0),
        Err(failure) => failure,
    }
}
