//! `weft service`: the unit with which systemd runs a proxy, a relay, a tunnel or a pipe.

mod given;
mod unit;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};
use weftway_path::spec::nearest;

use crate::failure::{BAD_INPUT, Done, Failure, INTERRUPTED};
use crate::{identity, output};
use given::GivenOptions;
use unit::{Manager, Run};

/// Verbs that a service runs.
const PROGRAMS: [&str; 4] = ["proxy", "relay", "tunnel", "pipe"];

/// Options that name a file which the program reads when it starts.
const FILES: [&str; 5] = ["identity", "pair", "passwords", "classes", "config"];

/// Prints a systemd unit that runs `weft proxy`, `relay`, `tunnel` or `pipe` with the given options, hardened and watched.
///
/// For example: weft service relay --listen 4433 | sudo tee /etc/systemd/system/weft-relay.service
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(value_name = "proxy|relay|tunnel|pipe", help = "Its options follow, as without `service`.")]
    program: String,
    #[arg(long, help = "Writes the unit for this user's service manager, and starts nothing.")]
    write: bool,
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// Reads a command line of the program.
pub type Parse = fn(Vec<OsString>) -> Done<ArgMatches>;

/// Runs the verb. `command` has all verbs, and `parse` reads the line of one.
pub fn run(args: Args, command: &Command, parse: Parse) -> Done {
    let Args { program, write, mut options } = args;
    if !PROGRAMS.contains(&program.as_str()) {
        let hint =
            nearest(&program, PROGRAMS.into_iter()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Err(Failure::input(format!("weft service runs {}, not {program}{hint}", PROGRAMS.join(", "))));
    }
    // It may stand among the program's options, too.
    let before = options.len();
    options.retain(|word| word != "--write");
    let write = write || options.len() < before;
    if program == "tunnel" && write {
        return Err(Failure::input(
            "weft service tunnel --write: a tunnel needs root, and a user's service manager has no such rights",
        ));
    }
    let given =
        parsed(&program, &options, parse).and_then(|matches| GivenOptions::checked(command, &program, &matches));
    // A file that is missing may come later where a service runs, but not here.
    let files = given.map_err(as_input)?;
    let this = std::env::current_exe().map_err(|error| Failure::file(Path::new("/proc/self/exe"), &error))?;
    let folder = std::env::current_dir().map_err(|error| Failure::file(Path::new("."), &error))?;
    let run = Run { program: &this, verb: &program, options: &options, folder: &folder, files: &files };
    if write {
        return install(&run);
    }
    match folder_closed_to_others(&this) {
        Some(closed) => output::write(&run.unit(Manager::SystemAs { user: &user(), closed: &closed })),
        None => output::write(&run.unit(Manager::System)),
    }
}

/// The options of a program, as its own command line would have them.
fn parsed(program: &str, options: &[String], parse: Parse) -> Done<ArgMatches> {
    let line = ["weft", program].into_iter().chain(options.iter().map(String::as_str));
    let mut matches = parse(line.map(OsString::from).collect())?;
    Ok(matches.remove_subcommand().map(|(_, options)| options).unwrap_or_default())
}

fn as_input(failure: Failure) -> Failure {
    match failure {
        Failure::Run(text) => Failure::Input(text),
        Failure::Status(text, status) if status != INTERRUPTED => Failure::Status(text, BAD_INPUT),
        other => other,
    }
}

/// Writes the unit for this user's service manager.
fn install(run: &Run<'_>) -> Done {
    let name = format!("weft-{}", run.verb);
    let folder = identity::user_folder("XDG_CONFIG_HOME", ".config").join("systemd/user");
    let file = folder.join(format!("{name}.service"));
    std::fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, &error))?;
    std::fs::write(&file, run.unit(Manager::User)).map_err(|error| Failure::file(&file, &error))?;
    output::say(&format!("written: {}", file.display()));
    output::say(&format!("start it now and at each login: systemctl --user enable --now {name}"));
    output::say("keep it running without a login: loginctl enable-linger");
    Ok(())
}

/// The first folder above this file that other users cannot enter. What links to it is followed.
fn folder_closed_to_others(file: &Path) -> Option<PathBuf> {
    let places = [std::path::absolute(file), file.canonicalize()];
    places.iter().flatten().find_map(|place| {
        let above: Vec<&Path> = place.ancestors().skip(1).collect();
        let is_closed = |folder: &&&Path| folder.metadata().is_ok_and(|found| found.permissions().mode() & 0o001 == 0);
        above.iter().rev().find(is_closed).map(|folder| folder.to_path_buf())
    })
}

/// The name of the one who asks.
fn user() -> String {
    let named = |variable: &str| std::env::var(variable).ok().filter(|name| !name.is_empty());
    if let Some(name) = ["LOGNAME", "USER"].into_iter().find_map(named) {
        return name;
    }
    let id = nix::unistd::getuid();
    let found = nix::unistd::User::from_uid(id).ok().flatten();
    found.map_or_else(|| id.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_others_cannot_enter_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        std::fs::create_dir_all(home.join("bin")).unwrap();
        std::fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).unwrap();
        assert!(folder_closed_to_others(&home.join("bin/weft-link")).is_some());
        assert_eq!(folder_closed_to_others(Path::new("/usr/bin/env")), None);
    }
}
