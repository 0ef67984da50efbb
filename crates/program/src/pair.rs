//! `weft pair`.

use std::path::Path;

use serde_json::{Value, json};

use crate::failure::{Done, Failure};
use crate::options::{IdentityFile, Json};
use crate::table::Table;
use crate::{identity, output};

/// Prints the line with which another machine connects to this one. Keep it secret: it holds the access token.
///
/// Run it on the machine that listens; give the line to `weft send`, `weft recv` or `weft proxy` --pair on the other.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    identity: IdentityFile,
    #[arg(long, value_name = "NAME", help = "A line for one client, for example laptop. It is made if there is none.")]
    name: Option<String>,
    #[arg(long, value_name = "NAME", help = "The line of this client is no longer valid.")]
    revoke: Option<String>,
    #[arg(long, help = "Shows the names of clients, not their lines.")]
    list: bool,
    #[arg(long, help = "A new identity: no older line is valid any more, with a name or without.")]
    new: bool,
    #[command(flatten)]
    json: Json,
}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    args.go_together()?;
    let file = args.identity.identity.clone().unwrap_or_else(identity::identity_file);
    let is_json = args.json.json;
    if args.list {
        return print_names(&identity::names(&file)?, is_json);
    }
    match &args.revoke {
        Some(name) => revoke(&file, name, is_json),
        None => print_line(&file, args.name.as_deref(), args.new, is_json),
    }
}

impl Args {
    /// Refuses two commands at once.
    fn go_together(&self) -> Done {
        let given = [
            ("--name", self.name.is_some()),
            ("--revoke", self.revoke.is_some()),
            ("--list", self.list),
            ("--new", self.new),
        ];
        let chosen: Vec<&str> = given.into_iter().filter_map(|(option, is_given)| is_given.then_some(option)).collect();
        match chosen.as_slice() {
            [one, other, ..] => {
                Err(Failure::input(format!("{one} and {other} do not go together: each is a command of its own")))
            }
            _ => Ok(()),
        }
    }
}

fn print_line(file: &Path, name: Option<&str>, new: bool, is_json: bool) -> Done {
    // It does not matter why what is about to be replaced cannot be read.
    let gone = if new { identity::names(file).unwrap_or_default() } else { Vec::new() };
    let line = identity::pair(file, name, new)?;
    if is_json {
        let mut made = json!({ "pairing": line });
        if let Some(name) = name {
            made["name"] = json!(name);
        }
        made["identity"] = json!(file.to_string_lossy());
        output::print_json(&[made])?;
    } else {
        output::print(&line)?;
    }
    if !gone.is_empty() {
        output::say(&format!("the lines with names are no longer valid either: {}", gone.join(", ")));
    }
    Ok(())
}

fn revoke(file: &Path, name: &str, is_json: bool) -> Done {
    identity::revoke(file, name)?;
    if is_json {
        return output::print_json(&[json!({ "revoked": name, "identity": file.to_string_lossy() })]);
    }
    output::say(&format!("the line of {name} is no longer valid"));
    Ok(())
}

fn print_names(names: &[String], is_json: bool) -> Done {
    if is_json {
        let rows: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        return output::print_json(&rows);
    }
    if names.is_empty() {
        output::say("there are no names: `weft pair --name laptop` makes a line for one client");
        return Ok(());
    }
    let mut table = Table::new(["name"]);
    for name in names {
        table.add([name.clone()]);
    }
    table.lines().iter().try_for_each(|line| output::print(line))
}
