//! `weft relay`.

use std::sync::mpsc::{Sender, channel};

use weftway_relay::{PipeLeave, Policy};
use weftway_transfer::{ClientRules, RelayOptions};
use weftway_udp::tls::Identity;

use crate::address;
use crate::connections::Carrying;
use crate::ends::Listening;
use crate::failure::{Done, Failure};
use crate::identity::Changes;
use crate::options::{Config, IdentityFile, Listen, Paths, Scheduling, Watching};
use crate::{connections, ends, pipe};

const SCHEDULER_HELP: &str =
    "The scheduler of what this end sends: `weft list`. Default: deadline to clients with pipes, min-rtt to others.";

/// Is the server side of `weft proxy`, `weft tunnel` and `weft pipe` on other machines. Run it where the good link is.
///
/// It needs no root. Whoever has this machine's pairing line may use it; by default it reaches public addresses only.
#[derive(clap::Args)]
#[command(verbatim_doc_comment, mut_arg("scheduler", |arg| arg.default_value(None).help(SCHEDULER_HELP)))]
pub struct Args {
    #[command(flatten)]
    listen: Listen,
    #[command(flatten)]
    paths: Paths,
    #[arg(
        long,
        value_name = "NET",
        help = "A network that clients may reach though it is not public, for example 192.168.1.0/24. Repeatable."
    )]
    allow: Vec<String>,
    #[arg(
        long,
        value_name = "NET",
        help = "A network that clients may not reach though it is public or allowed, for example this machine's neighbours. \
                Repeatable."
    )]
    deny: Vec<String>,
    #[arg(
        long,
        value_name = "HOST:PORT",
        help = "Where the pipes of clients may lead (`weft pipe`), whatever --allow and --deny say: 192.168.1.5:9001, \
                media.example:9000-9010, 10.0.0.0/8:*. Nowhere else. Repeatable."
    )]
    allow_pipe: Vec<String>,
    #[arg(
        long,
        value_name = "[NAME,]KEY=VALUE",
        help = "How much the clients of each pairing line may have together, or those of this name: rate=50Mbit/s (each way), \
                connections=200, memory=64MB, places=4 (connections to this relay); as in \
                laptop,rate=10Mbit/s,connections=50. Repeatable."
    )]
    client: Vec<String>,
    #[arg(
        long,
        value_name = "ADDR[:PORT]",
        help = "The server of names that is asked for clients with `weft tunnel`. Default: that of this machine."
    )]
    dns: Option<String>,
    #[command(flatten)]
    scheduling: Scheduling,
    #[command(flatten)]
    identity: IdentityFile,
    #[command(flatten)]
    watching: Watching,
    #[command(flatten)]
    config: Config,
}

/// Runs the verb. When the file of its identity changes, names that are new and those that were revoked count at once.
pub fn run(args: Args) -> Done {
    let Listening { listen, file, text } = ends::listen(&args.listen.place(), &args.identity)?;
    let names = args.dns.as_deref().map(address::name_server).transpose()?;
    let policy = Policy::parse(&args.allow, &args.deny).map_err(Failure::input)?;
    let rules = ClientRules::parse(&args.client).map_err(Failure::input)?;
    let pipes = read_pipes(&args.allow_pipe)?;
    let pipe_scheduler = pipe_scheduler(&args.scheduling);
    let (scheduling, switches) = args.scheduling.switched();
    let (became, identities) = channel();
    let (paths, identities) = (args.paths.read()?, Some(identities));
    let options = RelayOptions { paths, scheduling, pipe_scheduler, pipes, identities, ..RelayOptions::new(listen) };
    let carrying = Carrying { program: "relay", stopped: "stopped relaying", watching: args.watching, switches };
    let mut changes = Changes::new(file, text);
    let note = || take_over(&mut changes, &became);
    connections::carry(carrying, note, |watch| weftway_transfer::relay(policy, rules, names, options, watch))
}

/// The scheduler for clients with pipes, unless one is named: that one is for all.
fn pipe_scheduler(scheduling: &Scheduling) -> Option<String> {
    scheduling.scheduler.is_none().then(|| pipe::SCHEDULER.to_owned())
}

/// Reads the targets that pipes may have.
pub fn read_pipes(texts: &[String]) -> Done<PipeLeave> {
    PipeLeave::parse(texts).map_err(|error| Failure::input(format!("--allow-pipe: {error}")))
}

/// Hands an identity on that has changed; returns what is wrong with the file, if something is.
fn take_over(changes: &mut Changes, became: &Sender<Identity>) -> Option<String> {
    match changes.now() {
        Ok(identity) => {
            // Nobody takes it any more: the program ends.
            identity.map(|identity| became.send(identity));
            None
        }
        Err(failure) => failure.text().map(|text| format!("{text}; the identity before is kept")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_scheduler_that_is_named_is_for_pipes_too() {
        for (words, for_pipes, for_others) in [
            (&["relay", "--listen", "4433"][..], Some("deadline"), "min-rtt"),
            (&["relay", "--listen", "4433", "--scheduler", "min-rtt"], None, "min-rtt"),
            (&["relay", "--listen", "4433", "--scheduler", "ecf"], None, "ecf"),
        ] {
            let Line { args } = Line::try_parse_from(words).unwrap();
            assert_eq!(pipe_scheduler(&args.scheduling).as_deref(), for_pipes);
            assert_eq!(args.scheduling.switched().0.scheduler, for_others);
        }
    }
}
