//! Candidates for the last word of a command line.

use clap::{Arg, ArgAction, Command};
use weftway_path::spec::Param;

use super::files;

/// The option that every verb has.
const HELP: &str = "--help";

/// A word that may stand there.
#[derive(Debug, PartialEq)]
pub struct Candidate {
    /// The word.
    pub text: String,
    /// Meaning, in a line.
    pub help: Option<String>,
}

/// Words that `incomplete` may become after these words of `command`'s line.
pub fn candidates(command: &Command, words: &[String], incomplete: &str) -> Vec<Candidate> {
    let mut found = all_candidates(command, words, incomplete);
    found.retain(|one| one.text.starts_with(incomplete));
    found
}

fn all_candidates(command: &Command, words: &[String], incomplete: &str) -> Vec<Candidate> {
    let Some((name, words)) = words.split_first() else {
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        return verbs
            .map(|verb| candidate(verb.get_name(), first_line(verb.get_about())))
            .chain(options(command, &[]))
            .collect();
    };
    let Some(verb) = command.find_subcommand(name) else { return Vec::new() };
    let line = Line::read(verb, words);
    // A service has the options of what it runs.
    let run = line.places.first().filter(|_| name == "service").and_then(|run| command.find_subcommand(run));
    let Some(run) = run else { return line.ending(verb, incomplete) };
    let own: Vec<String> = words.iter().filter(|word| *word != run.get_name()).cloned().collect();
    let line = Line::read(run, &own);
    let mut found = line.ending(run, incomplete);
    if line.awaited.is_none() && incomplete.starts_with('-') {
        found.extend(options(verb, &line.given).into_iter().filter(|one| one.text != HELP));
    }
    found
}

/// The words of a verb so far.
struct Line<'a> {
    /// The option whose value comes next.
    awaited: Option<&'a Arg>,
    /// Options that stand there, by their long names.
    given: Vec<&'a str>,
    /// Words that are no options.
    places: Vec<&'a str>,
    /// After `--` there are no options.
    is_rest: bool,
}

impl<'a> Line<'a> {
    fn read(verb: &'a Command, words: &'a [String]) -> Self {
        let mut line = Line { awaited: None, given: Vec::new(), places: Vec::new(), is_rest: false };
        for word in words {
            if line.awaited.take().is_some() {
                continue;
            }
            match word.strip_prefix("--") {
                _ if line.is_rest => line.places.push(word),
                Some("") => line.is_rest = true,
                Some(name) => {
                    let (name, value) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
                    line.given.push(name);
                    line.awaited = option(verb, name).filter(|one| takes_value(one) && value.is_none());
                }
                None if word.starts_with('-') && word.len() > 1 => {}
                None => line.places.push(word),
            }
        }
        line
    }

    /// Words that may come next.
    fn ending(&self, verb: &Command, incomplete: &str) -> Vec<Candidate> {
        if let Some(awaited) = self.awaited {
            return values(awaited, incomplete);
        }
        if !self.is_rest
            && let Some((name, value)) = incomplete.strip_prefix("--").and_then(|word| word.split_once('='))
        {
            let found = option(verb, name).map_or(Vec::new(), |one| values(one, value));
            return found.into_iter().map(|one| Candidate { text: format!("--{name}={}", one.text), ..one }).collect();
        }
        if incomplete.starts_with('-') && !self.is_rest {
            return options(verb, &self.given);
        }
        let mut places = verb.get_positionals();
        let place =
            places.nth(self.places.len()).or_else(|| verb.get_positionals().last().filter(|one| is_repeated(one)));
        match place {
            Some(place) => values(place, incomplete),
            None if self.is_rest => Vec::new(),
            None => options(verb, &self.given),
        }
    }
}

/// The option of this long name.
fn option<'a>(verb: &'a Command, name: &str) -> Option<&'a Arg> {
    verb.get_opts().find(|one| one.get_long() == Some(name))
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn is_repeated(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append) || arg.get_num_args().is_some_and(|range| range.max_values() > 1)
}

/// The options that may still be given.
fn options(verb: &Command, given: &[&str]) -> Vec<Candidate> {
    let is_free = |one: &&Arg| {
        !one.is_hide_set() && (is_repeated(one) || one.get_long().is_none_or(|long| !given.contains(&long)))
    };
    let told = |one: &Arg| Some(candidate(&format!("--{}", one.get_long()?), first_line(one.get_help())));
    let help = candidate(HELP, Some("Prints help.".to_owned()));
    let own = verb.get_arguments().filter(is_free).filter_map(told).filter(|one| one.text != help.text);
    own.collect::<Vec<_>>().into_iter().chain(if given.contains(&"help") { None } else { Some(help) }).collect()
}

/// Values of an argument.
fn values(arg: &Arg, typed: &str) -> Vec<Candidate> {
    match arg.get_long() {
        Some("scheduler") => return schedulers(typed),
        Some("cc") => return controllers(typed),
        Some("path") => return interfaces(),
        _ => {}
    }
    let listed = arg.get_possible_values();
    if !listed.is_empty() && takes_value(arg) {
        let named = listed.iter().filter(|one| !one.is_hide_set());
        return named.map(|one| candidate(one.get_name(), first_line(one.get_help()))).collect();
    }
    let kinds: Vec<&str> = arg.get_value_names().into_iter().flatten().flat_map(|name| name.split('|')).collect();
    let is_word = |kind: &&&str| kind.len() > 1 && kind.chars().all(|one| one.is_ascii_lowercase() || one == '-');
    let mut found: Vec<_> = kinds.iter().filter(is_word).map(|kind| candidate(kind, None)).collect();
    let has = |wanted: &str| kinds.iter().any(|kind| kind.contains(wanted));
    if has("FILE") || has("PATH") || has("DIR") {
        let only_folders = has("DIR") && !has("FILE") && !has("PATH");
        found.extend(files::matching(typed, only_folders).iter().map(|file| candidate(file, None)));
    }
    found
}

fn schedulers(typed: &str) -> Vec<Candidate> {
    let named = |name: &str| weftway_sched::parse(name).ok().map(|(entry, _)| entry.params);
    specs(typed, weftway_sched::all().iter().map(|entry| (entry.name, entry.summary)), named)
}

fn controllers(typed: &str) -> Vec<Candidate> {
    let named = |name: &str| weftway_cc::find(name).map(|entry| entry.params);
    specs(typed, weftway_cc::all().iter().map(|entry| (entry.name, entry.summary)), named)
}

/// Names of a registry; after `NAME:` its switches, with their values or their default.
fn specs<'a>(
    typed: &str,
    every: impl Iterator<Item = (&'a str, &'a str)>,
    params_of: impl Fn(&str) -> Option<&'static [Param]>,
) -> Vec<Candidate> {
    let Some((head, _)) = typed.rsplit_once(':') else {
        return every.map(|(name, summary)| candidate(name, Some(summary.to_owned()))).collect();
    };
    let mut words = head.split(':');
    let params = params_of(words.next().unwrap_or_default()).unwrap_or_default();
    let given: Vec<&str> = words.map(|switch| switch.split('=').next().unwrap_or_default()).collect();
    let left = params.iter().filter(|param| !given.contains(&param.name));
    let switch =
        |param: &Param, value: &str| candidate(&format!("{head}:{}={value}", param.name), Some(param.doc.to_owned()));
    left.flat_map(|param| match param.values.contains(" | ") {
        true => param.values.split(" | ").map(|value| switch(param, value)).collect(),
        false => vec![switch(param, param.default)],
    })
    .collect()
}

/// This machine's interfaces.
fn interfaces() -> Vec<Candidate> {
    let found = weftway_transfer::doctor::interfaces().unwrap_or_default();
    let told = |addresses: Vec<String>| (!addresses.is_empty()).then(|| addresses.join(", "));
    found
        .into_iter()
        .map(|one| candidate(&one.name, told(one.addresses.iter().map(ToString::to_string).collect())))
        .collect()
}

fn candidate(text: &str, help: Option<String>) -> Candidate {
    Candidate { text: text.to_owned(), help }
}

/// The first line of a help text.
fn first_line(help: Option<&clap::builder::StyledStr>) -> Option<String> {
    help.and_then(|help| help.to_string().lines().next().map(str::to_owned))
}

/// The words as they were typed, where bash has broken them at `:` and `=`, and the part of the last one that bash has
/// already.
pub fn joined(broken: &[String]) -> (Vec<String>, String) {
    let (mut whole, mut kept, mut is_open) = (Vec::<String>::new(), String::new(), false);
    for word in broken {
        let is_break = !word.is_empty() && word.chars().all(|one| one == ':' || one == '=');
        if whole.is_empty() || !(is_break || is_open) {
            whole.push(String::new());
        }
        let last = whole.last_mut().expect("one was pushed");
        kept.clone_from(last);
        last.push_str(word);
        if is_break {
            kept.clone_from(last);
        }
        is_open = is_break;
    }
    (unquoted(whole), kept)
}

/// Words without the quotes that a shell takes away.
fn unquoted(words: Vec<String>) -> Vec<String> {
    let plain = |word: String| match shlex::split(&word).as_deref() {
        Some([only]) => only.clone(),
        _ => word,
    };
    words.into_iter().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Command {
        let option = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let relay = Command::new("relay")
            .arg(option("scheduler", "S").help("The scheduler."))
            .arg(option("cc", "C"))
            .arg(option("allow", "NET").action(ArgAction::Append))
            .arg(option("dns", "relay|off|ADDR[:PORT]"))
            .arg(flag("once"))
            .arg(flag("secret").hide(true));
        let service =
            Command::new("service").arg(flag("write")).arg(Arg::new("program").value_name("proxy|relay|tunnel"));
        Command::new("weft-link").subcommands([relay, service, Command::new("manual").hide(true)])
    }

    fn found(words: &[&str]) -> Vec<String> {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let incomplete = words.pop().unwrap();
        candidates(&example(), &words, &incomplete).into_iter().map(|one| one.text).collect()
    }

    #[test]
    fn verbs_options_and_values_are_completed() {
        for (words, expected) in [
            (&["re"][..], &["relay"][..]),
            (&["m"], &[]),
            (&["relay", "--s"], &["--scheduler"]),
            (&["relay", "--once", "--on"], &[]),
            (&["relay", "--allow", "a", "--al"], &["--allow"]),
            (&["relay", "--dns", ""], &["relay", "off"]),
            (&["relay", "--dns=o"], &["--dns=off"]),
            (&["relay", "--once", ""], &["--scheduler", "--cc", "--allow", "--dns", "--help"]),
            (&["relay", "--", "--s"], &[]),
            (&["nothing", ""], &[]),
            (&["service", ""], &["proxy", "relay", "tunnel"]),
            (&["service", "re"], &["relay"]),
            (&["service", "--wr"], &["--write"]),
            (&["service", "relay", "--al"], &["--allow"]),
            (&["service", "relay", "--wr"], &["--write"]),
            (&["service", "--write", "relay", "--o"], &["--once"]),
            (&["service", "relay", "--he"], &["--help"]),
            (&["service", "relay", "--cc", "newr"], &["newreno"]),
        ] {
            assert_eq!(found(words), expected, "{words:?}");
        }
    }

    #[test]
    fn schedulers_are_completed_with_their_switches() {
        for (typed, expected) in [
            ("earliest", &["earliest-delivery"][..]),
            ("eccf", &[]),
            ("ecf:form=", &["ecf:form=kernel", "ecf:form=paper"]),
            ("ecf:form=paper:be", &["ecf:form=paper:beta=0.25"]),
            ("ecf:beta=0.5:be", &[]),
        ] {
            assert_eq!(found(&["relay", "--scheduler", typed]), expected, "{typed}");
        }
        let words = ["relay".to_owned(), "--scheduler".to_owned()];
        let [one] = &candidates(&example(), &words, "earliest-d")[..] else { panic!("one has that name") };
        assert!(one.help.is_some());
    }

    #[test]
    fn words_that_bash_breaks_are_joined() {
        let joined = |broken: &[&str]| {
            let broken: Vec<String> = broken.iter().map(|word| (*word).to_owned()).collect();
            let (words, kept) = joined(&broken);
            (words.join(" "), kept)
        };
        for (broken, words, kept) in [
            (&["send", "pho"][..], "send pho", ""),
            (&["send", ""], "send ", ""),
            (&["send", "--cc", "a", ":", "b", "=", "c"], "send --cc a:b=c", "a:b="),
            (&["send", "--cc", "a", ":"], "send --cc a:", "a:"),
            (&["send", "--cc", "=", "cu"], "send --cc=cu", "--cc="),
            (&["send", "my\\ photo"], "send my photo", ""),
        ] {
            assert_eq!(joined(broken), (words.to_owned(), kept.to_owned()));
        }
    }
}
