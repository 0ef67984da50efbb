//! The options of what a service runs: refused as the program itself would refuse them, and where they make no sense in
//! a unit.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};
use weftway_path::spec::Params;
use weftway_relay::Policy;
use weftway_transfer::ClientRules;

use super::FILES;
use crate::failure::{Done, Failure};
use crate::{address, classes, identity, options, pipe, proxy, relay, watched};

/// The options that were given, by their long names.
pub struct GivenOptions<'a> {
    command: &'a Command,
    matches: &'a ArgMatches,
}

impl GivenOptions<'_> {
    /// Checks the options of a program, which is a verb of `all`, and returns the files that it reads, by their
    /// options.
    pub fn checked(all: &Command, program: &str, matches: &ArgMatches) -> Done<Vec<(&'static str, PathBuf)>> {
        let Some(command) = all.find_subcommand(program) else {
            return Err(Failure::input(format!("this weft-link has no {program}")));
        };
        let given = GivenOptions { command, matches };
        given.check_sense(program)?;
        given.check_values(program)?;
        given.files(program)
    }

    /// An option's value.
    fn one(&self, name: &str) -> Option<String> {
        self.several(name).pop()
    }

    /// All values of an option.
    fn several(&self, name: &str) -> Vec<String> {
        let Some(arg) = self.command.get_opts().find(|arg| arg.get_long() == Some(name)) else { return Vec::new() };
        let values = self.matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
        values.map(|value| value.to_string_lossy().into_owned()).collect()
    }

    /// Returns true if a switch was given.
    fn is_set(&self, name: &str) -> bool {
        self.one(name).is_some_and(|value| value == "true")
    }

    /// Refuses what makes no sense in a unit.
    fn check_sense(&self, program: &str) -> Done {
        let refuse = |text: String| Err(Failure::input(text));
        if self.one("check").is_some() {
            return refuse("--check starts nothing: it is no service".to_owned());
        }
        if self.is_set("restore") {
            return refuse("--restore starts nothing: it is no service".to_owned());
        }
        let pair = self.one("pair");
        if program != "relay" && self.one("to").is_none() {
            return refuse(format!("weft service {program} needs --to HOST:PORT, where `weft relay` listens"));
        }
        if program != "relay" && pair.as_deref().is_none_or(|pair| pair == "-") {
            return refuse(format!("weft service {program} needs --pair FILE: nobody types the line of a service"));
        }
        if pair.is_some_and(|pair| pair.starts_with("weft1-")) {
            return refuse(
                "a pairing line is a password, and a unit is no secret: put it into a file, --pair FILE".to_owned(),
            );
        }
        for name in ["pair", "identity", "passwords"] {
            if let Some(file) = self.one(name).filter(|file| !Path::new(file).exists()) {
                return refuse(format!("--{name} {file}: there is no such file"));
            }
        }
        Ok(())
    }

    /// Has each option read as the program will read it.
    fn check_values(&self, program: &str) -> Done {
        if let Some(name) = self.one("scheduler") {
            weftway_sched::build(&name).map_err(Failure::input)?;
        }
        if let Some(name) = self.one("cc") {
            let (entry, spec) = weftway_cc::parse(&name).map_err(Failure::input)?;
            Params::new(entry.name, entry.params, &spec.given).map_err(Failure::input)?;
        }
        options::read_links(&self.several("path"))?;
        match program {
            "relay" => self.check_relay(),
            "pipe" => self.check_pipe(),
            "tunnel" => self.check_near().and_then(|()| self.check_tunnel()),
            _ => self.check_near(),
        }?;
        self.one("metrics").map_or(Ok(()), |place| watched::check_metrics(&place))
    }

    fn check_relay(&self) -> Done {
        if let Some(place) = self.one("listen") {
            address::split_listening(&place, address::PORT)?;
        }
        if let Some(place) = self.one("dns") {
            address::name_server(&place)?;
        }
        Policy::parse(&self.several("allow"), &self.several("deny")).map_err(Failure::input)?;
        ClientRules::parse(&self.several("client")).map_err(Failure::input)?;
        relay::read_pipes(&self.several("allow-pipe"))?;
        Ok(())
    }

    fn check_pipe(&self) -> Done {
        address::split(&self.one("to").unwrap_or_default(), address::PORT)?;
        let read = <pipe::Args as clap::FromArgMatches>::from_arg_matches(self.matches);
        pipe::check(&read.map_err(Failure::input)?)
    }

    /// Checks the end that is near: a proxy or a tunnel.
    fn check_near(&self) -> Done {
        address::split(&self.one("to").unwrap_or_default(), address::PORT)?;
        classes::read(self.one("classes").as_deref().map(Path::new))?;
        proxy::local_ports(&self.several("listen"))?;
        proxy::read_passwords(self.one("passwords").as_deref().map(Path::new))?;
        Ok(())
    }

    #[cfg(all(target_os = "linux", feature = "tunnel"))]
    fn check_tunnel(&self) -> Done {
        let read = <crate::tunnel::Args as clap::FromArgMatches>::from_arg_matches(self.matches);
        crate::tunnel::check(&read.map_err(Failure::input)?)
    }

    /// There is no tunnel in this build: its verb was refused before.
    #[cfg(not(all(target_os = "linux", feature = "tunnel")))]
    fn check_tunnel(&self) -> Done {
        Ok(())
    }

    /// The files that the program reads, by their options.
    fn files(&self, program: &str) -> Done<Vec<(&'static str, PathBuf)>> {
        let own = |name: &str| (name == "identity" && program == "relay").then(identity::identity_file);
        let named = |name: &'static str| Some((name, self.one(name).map(PathBuf::from).or_else(|| own(name))?));
        let whole = |(name, file): (&'static str, PathBuf)| match std::path::absolute(&file) {
            Ok(whole) => Ok((name, whole)),
            Err(error) => Err(Failure::file(&file, &error)),
        };
        FILES.into_iter().filter_map(named).map(whole).collect()
    }
}
