//! The program `weft-link`: what carries real traffic over several links, without Python.
//!
//! | module | what it has |
//! |---|---|
//! | `verbs` | the command line: a verb each, its options in the verb's own module |
//! | `pair`, `send`, `recv`, `relay`, `proxy`, `pipe`, `tunnel`, `top`, `service`, `record`, `doctor` | a verb each |
//! | `options`, `config`, `completion` | options that several verbs have; those of a file; what a shell completes |
//! | `transferring`, `outcome` | a transfer that runs until an interrupt comes, and what came of it |
//! | `address`, `ends`, `identity`, `classes`, `reading` | addresses, the other end, who this machine is, rules, files of text |
//! | `connections` | connections that a proxy or a relay carries until it is interrupted |
//! | `watched` | a running program, and all that are told of it: terminal, JSON, `top`, Prometheus, systemd |
//! | `routing` | routes and rules of a tunnel: set, watched, taken back |
//! | `output`, `display`, `table`, `text` | what is printed, which never waits for a reader while traffic is carried |
//! | `failure`, `signals`, `whole_file` | how a command ends; interrupts; files that are there whole or not at all |

mod address;

mod classes;
mod completion;
mod config;
mod connections;
mod display;
mod doctor;
mod ends;
mod failure;
mod identity;
mod options;
mod outcome;
mod output;
mod pair;
mod pipe;
mod proxy;
mod reading;
mod record;
mod recv;
mod reference;
mod relay;
#[cfg(all(target_os = "linux", feature = "tunnel"))]
mod routing;
mod send;
mod service;
mod signals;
mod table;
mod text;
mod top;
mod transferring;
#[cfg(all(target_os = "linux", feature = "tunnel"))]
mod tunnel;
mod verbs;
mod watched;
mod whole_file;

use std::process::ExitCode;

use failure::{BAD_INPUT, CLOSED, Done, Failure, RUN_FAILED};
use text::printable;

fn main() -> ExitCode {
    signals::prepare();
    let ended = verbs::run(std::env::args_os().collect());
    exit(ended)
}

/// Says why a command ended, and gives its status.
fn exit(ended: Done) -> ExitCode {
    let (message, status) = match ended {
        Ok(()) => (None, 0),
        // Names and lines of files may be in it, on several lines.
        Err(Failure::Input(text) | Failure::File(text)) => (Some(printable(&text, "\n\t")), BAD_INPUT),
        // The other end's words, and names of files, may be in it.
        Err(Failure::Run(text)) => (Some(printable(&text, "")), RUN_FAILED),
        Err(Failure::Status(text, status)) => (Some(text), status),
        Err(Failure::Said(status)) => (None, status),
        Err(Failure::ClosedPipe) => (None, CLOSED),
    };
    if let Some(message) = message {
        output::say(&format!("weft: {message}"));
    }
    ExitCode::from(output::finish(status))
}
