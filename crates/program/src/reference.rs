//! The verbs, their arguments and options as sections of a page in Markdown: docs/reference/command.md.

use clap::{Arg, ArgAction, Command};

/// Verbs that `weft` does not hand over: it has others of these names.
const OWN: [&str; 2] = ["doctor", "completion"];

/// A section for each verb that is not hidden.
pub fn sections(program: &Command) -> String {
    let shown = program.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown.map(section).collect::<Vec<_>>().join("\n")
}

fn section(verb: &Command) -> String {
    let arguments: Vec<_> = verb.get_positionals().filter(|one| !one.is_hide_set()).map(spelled).collect();
    let program = if OWN.contains(&verb.get_name()) { "weft-link" } else { "weft" };
    let title = std::iter::once(verb.get_name().to_owned()).chain(arguments).collect::<Vec<_>>().join(" ");
    let about = verb.get_long_about().or(verb.get_about()).map(ToString::to_string).unwrap_or_default();
    let rows = verb.get_arguments().filter(|one| !one.is_hide_set() && one.get_id() != "help");
    let rows: String = rows.map(|one| format!("| `{}` | {} |\n", cell(&spelled(one)), cell(&meaning(one)))).collect();
    let table = if rows.is_empty() { String::new() } else { format!("| option | meaning |\n|---|---|\n{rows}") };
    format!("## `{program} {title}`\n\n{about}\n\n{table}")
}

/// `--path IFACE|ADDR`, or the name of an argument.
fn spelled(one: &Arg) -> String {
    let values =
        one.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    if one.is_positional() {
        return if values.is_empty() { one.get_id().to_string().to_uppercase() } else { values };
    }
    let long = one.get_long_and_visible_aliases().unwrap_or_default().into_iter().map(|name| format!("--{name}"));
    let short = one.get_short_and_visible_aliases().unwrap_or_default().into_iter().map(|name| format!("-{name}"));
    let words = long.chain(short).collect::<Vec<_>>().join(", ");
    let takes = matches!(one.get_action(), ArgAction::Set | ArgAction::Append);
    if takes { format!("{words} {values}") } else { words }
}

fn meaning(one: &Arg) -> String {
    let help = one.get_help().map(ToString::to_string).unwrap_or_default();
    let told = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let defaults: Vec<_> = one.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let takes = matches!(one.get_action(), ArgAction::Set | ArgAction::Append);
    if !takes || defaults.is_empty() || told.contains("efault") {
        return told;
    }
    format!("{told} Default: {}.", defaults.join(", "))
}

/// A text that stays in its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
