//! Options of a command in a file: `--config weft.toml`.
//!
//! The file has a table for each command, whose keys are the command's own long options: there is no second list of
//! them.

use std::path::Path;

use clap::{Arg, ArgAction, Command, Id};
use toml::{Table, Value};
use weftway_path::spec::nearest;

use crate::failure::{Done, Failure};
use crate::{options, reading};

/// The commands that take a file; each has its table.
pub const TABLES: [&str; 5] = ["proxy", "pipe", "relay", "tunnel", "recv"];

/// The option that names the file.
pub const OPTION: &str = "config";

/// The option of a command whose table may have tables of its own, `[pipe.camera]`: each is a value of it, as TOML.
const NAMED: &str = "named";

/// Options that a file has not.
const NOT_HERE: [&str; 3] = [OPTION, "help", "version"];

/// The command line with the options of `verb` in `file` as defaults: those of the command line count before them.
pub fn with_defaults(command: Command, verb: &str, file: &Path) -> Done<Command> {
    let Some(of_verb) = command.find_subcommand(verb) else { return Ok(command) };
    let found = defaults(of_verb, verb, file)?;
    Ok(command.mut_subcommand(verb, |of_verb| {
        found.into_iter().fold(of_verb, |of_verb, (id, texts)| of_verb.mut_arg(id, |arg| arg.default_values(texts)))
    }))
}

/// The values of the command's table, by the names of its arguments.
fn defaults(command: &Command, verb: &str, file: &Path) -> Done<Vec<(Id, Vec<String>)>> {
    let (name, known) = (file.display(), known(command));
    let (mut found, mut tables) = (Vec::new(), Vec::new());
    let named = command.get_arguments().find(|arg| arg.get_id() == NAMED);
    for (key, value) in table(file, verb)? {
        if named.is_some() && value.is_table() {
            tables.push(Table::from_iter([(key, value)]).to_string());
            continue;
        }
        let place = format!("{name}: [{verb}] {key}");
        let Some((_, arg)) = known.iter().find(|(long, _)| *long == key) else {
            let hint = nearest(&key, known.iter().map(|(long, _)| *long)).map_or_else(
                || format!(": its keys are {}", known.iter().map(|(long, _)| *long).collect::<Vec<_>>().join(", ")),
                |near| format!("; did you mean {near}?"),
            );
            return Err(Failure::input(format!("{place}: weft {verb} has no such option{hint}")));
        };
        found.push((arg.get_id().clone(), texts(&place, arg, value)?));
    }
    found.extend(named.filter(|_| !tables.is_empty()).map(|arg| (arg.get_id().clone(), tables)));
    Ok(found)
}

/// The table of a command.
fn table(file: &Path, verb: &str) -> Done<Table> {
    let (name, text) = (file.display(), reading::text(file)?);
    let mut tables: Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Failure::input(format!("{name}: {} (line {line})", error.message().replace('\n', ", ")))
    })?;
    for (one, value) in &tables {
        if !TABLES.contains(&one.as_str()) {
            let all = TABLES.map(|one| format!("[{one}]")).join(", ");
            return Err(Failure::input(format!("{name}: [{one}]: the tables are {all}")));
        }
        if !value.is_table() {
            let told = format!("{name}: {one}: options stand in the table of their command, as in [{one}]");
            return Err(Failure::input(told));
        }
    }
    match tables.remove(verb) {
        Some(Value::Table(found)) => Ok(found),
        _ => Err(Failure::input(format!("{name} has no table [{verb}]"))),
    }
}

/// The options of the command in order, by their long names without dashes. What takes another one back is none.
fn known(command: &Command) -> Vec<(&str, &Arg)> {
    let longs: Vec<(&str, &Arg)> = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg))).collect();
    let takes_back =
        |long: &str| long.strip_prefix("no-").is_some_and(|rest| longs.iter().any(|(one, _)| *one == rest));
    let is_here = |long: &str, arg: &Arg| !NOT_HERE.contains(&long) && !takes_back(long) && !arg.is_hide_set();
    let mut found: Vec<_> = longs.iter().copied().filter(|(long, arg)| is_here(long, arg)).collect();
    found.sort_by_key(|(long, _)| *long);
    found
}

/// A value as the command line would have it, or why it makes no sense.
fn texts(place: &str, arg: &Arg, value: Value) -> Done<Vec<String>> {
    if !arg.get_action().takes_values() {
        let Value::Boolean(is_set) = value else {
            return Err(Failure::input(format!("{place}: it is true or false")));
        };
        return Ok(vec![is_set.to_string()]);
    }
    let is_multiple = matches!(arg.get_action(), ArgAction::Append);
    let values = match value {
        Value::Array(values) if is_multiple => values,
        value => vec![value],
    };
    let texts: Option<Vec<String>> = values.into_iter().map(text).collect();
    let texts = texts.ok_or_else(|| {
        let many = if is_multiple { r#", or several: ["…", "…"]"# } else { "" };
        Failure::input(format!(r#"{place}: it is a text, "…"{many}"#))
    })?;
    if texts.iter().any(|text| options::is_empty(text)) {
        return Err(Failure::input(options::empty(place, arg)));
    }
    Ok(texts)
}

/// A text, or a number as a text.
fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::ArgMatches;

    use super::*;

    fn weft() -> Command {
        let several = |name: &'static str| Arg::new(name).long(name).action(ArgAction::Append);
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let proxy = Command::new("proxy")
            .args([Arg::new("to").long("to").help("Where it is."), several("path"), several("listen")])
            .args([Arg::new("scheduler").long("scheduler").default_value("min-rtt"), Arg::new("config").long("config")])
            .args([flag("kill-switch"), flag("sync").default_value("true"), flag("no-sync")]);
        let pipe = Command::new("pipe").args([several("listen"), several("named").hide(true)]);
        Command::new("weft").subcommand(proxy).subcommand(pipe).subcommand(Command::new("relay"))
    }

    fn given(text: &str, words: &[&str]) -> Done<ArgMatches> {
        of_verb("proxy", text, words)
    }

    fn of_verb(verb: &str, text: &str, words: &[&str]) -> Done<ArgMatches> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weft.toml");
        std::fs::write(&file, text).unwrap();
        let command = with_defaults(weft(), verb, &file)?;
        let words = ["weft", verb].into_iter().chain(words.iter().copied());
        Ok(command.try_get_matches_from(words).unwrap().remove_subcommand().unwrap().1)
    }

    fn all<'a>(found: &'a ArgMatches, name: &str) -> Vec<&'a str> {
        found.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect()
    }

    #[test]
    fn values_are_as_on_the_command_line_which_counts_before_them() {
        let text = "[proxy]\nto = \"192.0.2.1\"\npath = [\"wlan0\", \"wwan0\"]\nlisten = 1080\nkill-switch = true\nsync = false";
        let found = given(text, &[]).unwrap();
        assert_eq!((all(&found, "to"), all(&found, "path")), (vec!["192.0.2.1"], vec!["wlan0", "wwan0"]));
        assert_eq!((all(&found, "listen"), all(&found, "scheduler")), (vec!["1080"], vec!["min-rtt"]));
        assert!(found.get_flag("kill-switch") && !found.get_flag("sync"));
        let over = given(text, &["--path", "eth0", "--to", "::1", "--sync"]).unwrap();
        assert_eq!((all(&over, "to"), all(&over, "path")), (vec!["::1"], vec!["eth0"]));
        assert!(over.get_flag("sync"));
    }

    #[test]
    fn a_table_may_have_tables_of_its_own() {
        let text = "[pipe]\nlisten = 1\n[pipe.voice]\nlisten = 2\n[pipe.\"a b\"]\nlisten = 3\n";
        let found = of_verb("pipe", text, &[]).unwrap();
        assert_eq!(all(&found, "listen"), ["1"]);
        let mut named = all(&found, "named");
        named.sort_unstable();
        assert_eq!(named, ["[\"a b\"]\nlisten = 3\n", "[voice]\nlisten = 2\n"]);
        let Err(Failure::Input(why)) = of_verb("pipe", "[pipe]\nnamed = \"x\"", &[]) else { panic!("it is refused") };
        assert!(why.contains("[pipe] named: weft pipe has no such option"), "{why}");
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_place() {
        for (text, told) in [
            ("[proxy]\npaht = \"a\"", "weft.toml: [proxy] paht: weft proxy has no such option; did you mean path?"),
            ("[proxy]\nconfig = \"a\"", "[proxy] config: weft proxy has no such option"),
            ("[proxy]\nzzzzzzz = 1", ": its keys are kill-switch, listen, path, scheduler, sync, to"),
            ("[prxy]", "weft.toml: [prxy]: the tables are [proxy], [pipe], [relay], [tunnel], [recv]"),
            ("[relay]", "weft.toml has no table [proxy]"),
            ("proxy = 1", "as in [proxy]"),
            ("[proxy]\nkill-switch = 1", "[proxy] kill-switch: it is true or false"),
            ("[proxy]\nscheduler = true", "[proxy] scheduler: it is a text, \"…\""),
            ("[proxy]\nscheduler = [\"a\"]", "[proxy] scheduler: it is a text"),
            ("[proxy.first]\nto = \"a\"", "[proxy] first: weft proxy has no such option"),
            ("[proxy]\npath = [1.5]", "[proxy] path: it is a text, \"…\", or several"),
            ("[proxy]\nto = \" \"", "[proxy] to: the value is empty. Where it is."),
            ("[proxy]\nto = \"a\"\n[proxy", "(line 3)"),
        ] {
            let Err(Failure::Input(why)) = given(text, &[]) else { panic!("{text} is refused") };
            assert!(why.contains(told) && !why.contains('\n'), "{why}");
        }
    }
}
