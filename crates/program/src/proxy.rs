//! `weft proxy`.

use std::path::{Path, PathBuf};

use weftway_relay::{Accounts, PortAddress};
use weftway_transfer::ProxyOptions;

use crate::address;
use crate::connections::Carrying;
use crate::failure::{Done, Failure};
use crate::identity::read_private;
use crate::options::{ClassesFile, Config, Links, Pair, Scheduling, To, Watching};
use crate::{classes, connections, ends, output};

/// Place where programs connect to, if none is named: the port of SOCKS.
const PLACE: &str = "127.0.0.1:1080";
const SOCKS_PORT: u16 = 1080;

/// Carries the connections of programs on this machine over several links at once, to a machine with `weft relay`.
///
/// The port speaks SOCKS5 and HTTP CONNECT. A program is told of it, for example: curl -x socks5h://127.0.0.1:1080
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    pair: Pair,
    #[command(flatten)]
    links: Links,
    #[arg(
        long,
        value_name = "[ADDR:]PORT|unix:PATH",
        help = "Where programs connect to: a port, or a socket that only this user may open. Default: 127.0.0.1:1080. \
                Repeatable."
    )]
    listen: Vec<String>,
    #[arg(
        long,
        value_name = "FILE",
        help = "Programs need a user and a password: a line USER:PASSWORD of this file, which nobody else may read."
    )]
    passwords: Option<PathBuf>,
    #[command(flatten)]
    scheduling: Scheduling,
    #[command(flatten)]
    classes: ClassesFile,
    #[arg(
        long,
        value_name = "[udp:]HOST:PORT[,dscp=EF]",
        help = "Says of which class a connection there would be, and why. Starts nothing."
    )]
    check: Option<String>,
    #[command(flatten)]
    watching: Watching,
    #[command(flatten)]
    config: Config,
}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    let rules = classes::read(args.classes.classes.as_deref())?;
    if let Some(target) = &args.check {
        return classes::explain(&rules, target)?.iter().try_for_each(|line| output::print(line));
    }
    let relay = ends::relay(&args.to, &args.pair, "weft proxy")?;
    let ports = local_ports(&args.listen)?;
    let accounts = read_passwords(args.passwords.as_deref())?;
    if accounts.is_open() {
        warn_of_others(&ports);
    }
    let (scheduling, switches) = args.scheduling.switched();
    let options = ProxyOptions { links: args.links.read()?, scheduling, ..ProxyOptions::new(relay) };
    let carrying =
        Carrying { program: "proxy", stopped: "stopped carrying connections", watching: args.watching, switches };
    connections::carry(carrying, || None, |watch| weftway_transfer::proxy(&ports, rules, accounts, options, watch))
}

/// Places where programs connect to: those that are named, or the usual one.
pub fn local_ports(named: &[String]) -> Done<Vec<PortAddress>> {
    if named.is_empty() {
        return Ok(vec![local_port(PLACE)?]);
    }
    named.iter().map(|text| local_port(text)).collect()
}

/// `[ADDR:]PORT` for programs of this machine, where `ADDR` is 127.0.0.1 if it is not named; or `unix:PATH`.
fn local_port(text: &str) -> Done<PortAddress> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            let told = "name the socket's file, as in unix:/run/user/1000/weft.sock";
            return Err(Failure::input(format!("--listen {text}: {told}")));
        }
        let whole = std::path::absolute(path).map_err(|error| Failure::file(Path::new(path), &error))?;
        return Ok(PortAddress::Unix(whole));
    }
    let (host, port) = address::split_listening(text, SOCKS_PORT)?;
    Ok(PortAddress::Tcp(address::resolve_first(host.as_deref().unwrap_or("127.0.0.1"), port)?))
}

/// The passwords of a file, which nobody else may read; none without a file.
pub fn read_passwords(file: Option<&Path>) -> Done<Accounts> {
    let Some(file) = file else { return Ok(Accounts::default()) };
    let text = read_private(file, "file of passwords", "take other passwords")?;
    Accounts::parse(&text).map_err(|error| Failure::input(format!("--passwords {}: {error}", file.display())))
}

/// Says at which ports programs of other machines need no password.
fn warn_of_others(ports: &[PortAddress]) {
    let reached: Vec<String> = ports.iter().filter(|port| is_open_to_others(port)).map(ToString::to_string).collect();
    if !reached.is_empty() {
        let reached = reached.join(", ");
        output::say(&format!("programs of other machines may use {reached} too, without a password: see --passwords"));
    }
}

/// Returns true if programs of other machines reach a port.
fn is_open_to_others(port: &PortAddress) -> bool {
    matches!(port, PortAddress::Tcp(address) if !address.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_where_nobody_can_listen_is_refused() {
        assert!(matches!(local_port("unix:"), Err(Failure::Input(text)) if text.contains("name the socket's file")));
        // It may be the name of a machine, which may be found later.
        assert!(local_port("1080x").is_err());
        assert!(matches!(local_port("70000"), Err(Failure::Input(text)) if text.contains("a number up to 65535")));
    }

    #[test]
    fn a_place_is_one_of_this_machine_if_no_other_is_named() {
        let told = |text: &str| local_port(text).map(|port| (port.to_string(), is_open_to_others(&port))).ok();
        assert_eq!(told("8080"), Some(("127.0.0.1:8080".into(), false)));
        assert_eq!(told("0.0.0.0"), Some(("0.0.0.0:1080".into(), true)));
        assert_eq!(told("[::1]:7"), Some(("[::1]:7".into(), false)));
        let file = std::path::absolute("socket").map(|file| format!("unix:{}", file.display())).ok();
        assert_eq!(told("unix:socket"), file.map(|file| (file, false)));
        let usual = local_ports(&[]).map(|ports| ports.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(usual.ok().as_deref(), Some(&[PLACE.to_owned()][..]));
    }
}
