//! Completion in shells, and the pages of the manual.
//!
//! The script of a shell asks the program itself (`weft-link complete`): so schedulers, interfaces and switches are completed,
//! too, and the script stays valid when options are added.

mod files;
mod words;

use std::path::PathBuf;

use clap::{Command, ValueEnum};

use crate::failure::{Done, Failure};
use crate::output;

/// Prints a script that completes the words of weft-link in a shell.
///
/// For example in ~/.bashrc: source <(weft-link completion bash)
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Completion {
    #[arg(value_name = "SHELL", help = "The shell.")]
    shell: Shell,
}

/// A shell whose words are completed.
#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints what the last word may become, a line each.
///
/// `--bash` goes first where bash has broken the words at `:` and `=`; `--told`, where the help of each may follow after a tab.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Complete {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Writes the pages of the manual into a folder.
#[derive(clap::Args)]
pub struct Manual {
    #[arg(value_name = "DIR", help = "The folder, which is made if it is not there.")]
    folder: PathBuf,
}

/// Prints a shell's script.
pub fn script(args: Completion) -> Done {
    output::write(match args.shell {
        Shell::Bash => include_str!("script.bash"),
        Shell::Zsh => include_str!("script.zsh"),
        Shell::Fish => include_str!("script.fish"),
    })
}

/// Prints what the last word of a line may become; `command` is the program's.
pub fn complete(args: Complete, command: &Command) -> Done {
    let mut words = args.words;
    let way = words.first().filter(|word| ["--bash", "--told"].contains(&word.as_str())).cloned();
    if way.is_some() {
        words.remove(0);
    }
    let way = way.as_deref();
    let (mut words, kept) = if way == Some("--bash") { words::joined(&words) } else { (words, String::new()) };
    let incomplete = words.pop().unwrap_or_default();
    for found in words::candidates(command, &words, &incomplete) {
        let text = found.text.strip_prefix(&kept).unwrap_or(&found.text);
        match (way, &found.help) {
            (Some("--bash"), _) => output::print(&files::as_word(text))?,
            (Some("--told"), Some(help)) => output::print(&format!("{text}\t{help}"))?,
            _ => output::print(text)?,
        }
    }
    Ok(())
}

/// Writes the pages of the manual of `command`.
pub fn manual(args: Manual, command: Command) -> Done {
    let written = std::fs::create_dir_all(&args.folder).and_then(|()| clap_mangen::generate_to(command, &args.folder));
    written.map_err(|error| Failure::file(&args.folder, &error))
}
