//! The command line: a verb each.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::{Done, Failure};
use crate::{completion, config, doctor, options, output, pair, pipe, proxy, record, recv, relay, send, service, top};

/// The program's name, where it is not called `weft`.
const NAME: &str = "weft-link";

/// Carries real traffic over several links at once.
#[derive(Parser)]
#[command(
    name = NAME,
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
    Pipe(pipe::Args),
    #[cfg(all(target_os = "linux", feature = "tunnel"))]
    Tunnel(crate::tunnel::Args),
    Top(top::Args),
    Service(service::Args),
    Record(record::Args),
    Doctor(doctor::Args),
    Completion(completion::Completion),
    #[command(hide = true)]
    Complete(completion::Complete),
    #[command(hide = true)]
    Manual(completion::Manual),
    /// Prints the verbs and their options as a page.
    #[command(hide = true)]
    Reference,
}

/// The command line as clap has it; help names the program as it was called: `weft` or `weft-link`.
pub fn command(called: &str) -> clap::Command {
    Line::command().name(called.to_owned()).bin_name(called.to_owned())
}

/// Runs what the command line says.
pub fn run(words: Vec<OsString>) -> Done {
    let matches = parse(words)?;
    match Line::from_arg_matches(&matches).map_err(told)?.verb {
        Verb::Pair(args) => pair::run(args),
        Verb::Send(args) => send::run(args),
        Verb::Recv(args) => recv::run(args).map_err(Failure::of_what_lasts),
        Verb::Relay(args) => relay::run(args).map_err(Failure::of_what_lasts),
        Verb::Proxy(args) => proxy::run(args).map_err(Failure::of_what_lasts),
        Verb::Pipe(args) => pipe::run(args).map_err(Failure::of_what_lasts),
        #[cfg(all(target_os = "linux", feature = "tunnel"))]
        Verb::Tunnel(args) => crate::tunnel::run(args).map_err(Failure::of_what_lasts),
        Verb::Top(args) => top::run(args),
        Verb::Service(args) => service::run(args, &command("weft"), parse),
        Verb::Record(args) => record::run(args),
        Verb::Doctor(args) => doctor::run(args),
        Verb::Completion(args) => completion::script(args),
        Verb::Complete(args) => completion::complete(args, &command(NAME)),
        Verb::Manual(args) => completion::manual(args, command(NAME)),
        Verb::Reference => output::write(&crate::reference::sections(&command("weft"))),
    }
}

/// The values of a command line, whose first word is the program's name. Options that `--config` names a file for are
/// in them.
pub fn parse(words: Vec<OsString>) -> Done<ArgMatches> {
    let called = words.first().map(Path::new).and_then(Path::file_name);
    let mut command = command(if called.is_some_and(|name| name == "weft") { "weft" } else { NAME });
    // What else is wrong is said below.
    if let Ok(matches) = as_words(command.clone()).try_get_matches_from(&words) {
        options::refuse_empty(&command, &matches)?;
        if let Some((verb, file)) = config_file(&matches) {
            command = config::with_defaults(command, verb, Path::new(file)).map_err(Failure::of_what_lasts)?;
        }
    }
    command.try_get_matches_from(words).map_err(told)
}

/// The command line whose values are words, whatever they are to become.
fn as_words(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let takes_values = arg.get_action().takes_values();
        if takes_values { arg.value_parser(clap::value_parser!(OsString)) } else { arg }
    });
    command.mut_subcommands(as_words)
}

/// The verb that has a file of options, and the file.
fn config_file(matches: &ArgMatches) -> Option<(&str, &OsStr)> {
    let (verb, matches) = matches.subcommand()?;
    let mut values = matches.try_get_raw(config::OPTION).ok()??;
    config::TABLES.contains(&verb).then(|| values.next())?.map(|file| (verb, file))
}

/// Tells what clap says: help and version are results, all else is bad input.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Done<ArgMatches> {
        parse(["weft"].iter().chain(words).map(OsString::from).collect())
    }

    #[test]
    fn the_command_line_is_well_made() {
        command("weft").debug_assert();
    }

    #[test]
    fn a_value_that_is_empty_is_refused_before_all_else() {
        for (words, told) in [
            (
                &["pair", "--name", ""][..],
                "--name NAME: the value is empty. A line for one client, for example laptop.",
            ),
            (&["pair", "--identity", " "], "--identity FILE: the value is empty. This machine's identity."),
            (&["send", "", "--to", "h"], "PATH: the value is empty. A file or a directory."),
            (&["send", "x", "--path", "lo", "--path="], "--path IFACE|ADDR[,KEY=VALUE]: the value is empty. A link"),
            (&["recv", "x", "--config", ""], "--config FILE: the value is empty."),
        ] {
            let Err(Failure::Input(why)) = parsed(words) else { panic!("{words:?} is refused") };
            assert!(why.starts_with(told), "{why}");
        }
    }

    #[test]
    fn a_file_of_options_counts_after_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weft.toml");
        let name = file.to_str().unwrap();
        let missing = parsed(&["recv", "x", "--config", name]);
        assert!(matches!(missing, Err(Failure::Run(why)) if why.ends_with("weft.toml: No such file or directory")));
        std::fs::write(&file, "[recv]\nlisten = 7\nsync = false\n").unwrap();
        let found = |more: &[&str]| {
            let words: Vec<&str> = ["recv", "x", "--config", name].iter().chain(more).copied().collect();
            let (_, found) = parsed(&words).unwrap().remove_subcommand().unwrap();
            (found.get_one::<String>("listen").unwrap().clone(), found.get_flag("sync"))
        };
        assert_eq!(found(&[]), ("7".to_owned(), false));
        assert_eq!(found(&["--listen", "8", "--sync"]), ("8".to_owned(), true));
        std::fs::write(&file, "[recv]\nno-sync = true\n").unwrap();
        let unknown = parsed(&["recv", "x", "--config", name]);
        assert!(
            matches!(unknown, Err(Failure::Input(why)) if why.contains("[recv] no-sync: weft recv has no such option"))
        );
    }
}
