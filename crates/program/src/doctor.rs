//! `weft doctor`: what this machine's links, sockets and rights allow, tried rather than guessed.

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;
use weftway_transfer::doctor::{Interface, interfaces, sockets};
use weftway_udp::socket::Sockets;

use crate::failure::{Done, Failure, system_text};
use crate::output;
use crate::text::printable;

/// The capability to change networks: its bit in the sets of capabilities(7).
const CAP_NET_ADMIN: u32 = 12;

/// Tells what this machine's links, sockets and rights allow.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[arg(long, help = "Prints one JSON array on standard output.")]
    json: bool,
}

/// A thing that was looked at.
#[derive(Debug, PartialEq)]
struct Finding {
    kind: &'static str,
    name: String,
    there: bool,
    /// Note of what is known.
    note: String,
    /// Remedy, if it is not there.
    remedy: String,
    /// Addresses of a link.
    addresses: Option<Vec<String>>,
}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    let failed = |error: std::io::Error| Failure::run(system_text(&error));
    let mut found: Vec<Finding> = interfaces().map_err(failed)?.iter().flat_map(of_link).collect();
    found.extend(of_sockets(&sockets().map_err(failed)?));
    found.extend(std::fs::read_to_string("/proc/self/status").ok().and_then(|text| of_rights(&text)));
    if args.json {
        return output::print_json(&found.iter().map(Finding::json).collect::<Vec<_>>());
    }
    lines(&found).iter().try_for_each(|line| output::print(line))
}

impl Finding {
    fn new(kind: &'static str, name: &str, there: bool, note: String, remedy: &str) -> Self {
        Self { kind, name: name.to_owned(), there, note, remedy: remedy.to_owned(), addresses: None }
    }

    /// The remedy, where one is needed.
    fn needed(&self) -> Option<&str> {
        (!self.there).then_some(&*self.remedy)
    }

    fn json(&self) -> Value {
        let Self { kind, name, there, note, .. } = self;
        let mut told = json!({ "kind": kind, "name": name, "there": there, "note": note, "remedy": self.needed() });
        if let Some(addresses) = &self.addresses {
            told["addresses"] = json!(addresses);
        }
        told
    }
}

/// An interface: its state, and what binding a socket to it comes to.
fn of_link(link: &Interface) -> [Finding; 2] {
    let Interface { name, up, .. } = link;
    let addresses: Vec<String> = link.addresses.iter().map(ToString::to_string).collect();
    let listed = if addresses.is_empty() { "no address".to_owned() } else { addresses.join(", ") };
    let state = format!("{}, {listed}", if *up { "up" } else { "down" });
    let bound = link.bind_obstacle.clone().unwrap_or_else(|| format!("weft send --path {name}"));
    [
        Finding { addresses: Some(addresses), ..Finding::new("link", name, *up, state, "bring it up") },
        Finding::new(
            "socket",
            &format!("bind to {name}"),
            link.bind_obstacle.is_none(),
            bound,
            "give its address with --path",
        ),
    ]
}

/// Abilities of UDP sockets.
fn of_sockets(sockets: &Sockets) -> [Finding; 3] {
    let several = |name, count: usize| {
        let note = format!("{count} datagrams in one call");
        Finding::new("socket", name, count > 1, note, "a kernel since 5.0 has it")
    };
    let (got, wanted) = (sockets.receive_buffer, sockets.receive_buffer_wanted);
    let note = format!("{} KiB of {} KiB", got >> 10, wanted >> 10);
    let remedy = format!("as root: sysctl -w net.core.rmem_max={wanted}");
    [
        several("GSO (UDP_SEGMENT)", sockets.send_segments),
        several("GRO (UDP_GRO)", sockets.receive_segments),
        Finding::new("socket", "receive buffer", got >= wanted, note, &remedy),
    ]
}

/// The right to change networks, from the `status` of proc(5); none where there is no such file.
fn of_rights(status: &str) -> Option<Finding> {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let there = u64::from_str_radix(set.trim(), 16).ok()? >> CAP_NET_ADMIN & 1 == 1;
    let note = if there { "held" } else { "not held" };
    Some(Finding::new("right", "CAP_NET_ADMIN", there, note.to_owned(), "not needed for weft send"))
}

/// A line for each finding: kind, name, yes or no, and what is known of it.
fn lines(found: &[Finding]) -> Vec<String> {
    let names: Vec<String> = found.iter().map(|one| printable(&one.name, "")).collect();
    let kinds = found.iter().map(|one| one.kind.len()).max().unwrap_or(0);
    let widest = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let line = |(one, name): (&Finding, &String)| {
        let after = " ".repeat(widest - name.width());
        let there = if one.there { "yes" } else { "no" };
        let remedy = one.needed().map_or(String::new(), |remedy| format!("; {remedy}"));
        format!("{:kinds$}  {name}{after}  {there:3}  {}{remedy}", one.kind, printable(&one.note, ""))
    };
    found.iter().zip(&names).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_told_with_what_would_help() {
        let link = Interface {
            name: "wlan0".to_owned(),
            bind_obstacle: Some("not allowed".to_owned()),
            ..Interface::default()
        };
        let found = of_link(&link);
        assert_eq!(
            lines(&found),
            [
                "link    wlan0          no   down, no address; bring it up",
                "socket  bind to wlan0  no   not allowed; give its address with --path",
            ]
        );
        assert_eq!(
            found[0].json().to_string(),
            r#"{"kind":"link","name":"wlan0","there":false,"note":"down, no address","remedy":"bring it up","addresses":[]}"#
        );
        assert_eq!(found[1].json().get("addresses"), None);
    }

    #[test]
    fn what_is_there_needs_no_remedy() {
        let link = Interface {
            name: "lo".to_owned(),
            addresses: vec![[127, 0, 0, 1].into()],
            up: true,
            ..Interface::default()
        };
        let [link, socket] = of_link(&link);
        assert_eq!((link.json()["remedy"].clone(), &*link.note), (Value::Null, "up, 127.0.0.1"));
        assert_eq!(&*socket.note, "weft send --path lo");
        let wanted =
            Sockets { send_segments: 1, receive_segments: 64, receive_buffer: 4096, receive_buffer_wanted: 4096 };
        assert_eq!(of_sockets(&wanted).map(|one| one.there), [false, true, true]);
    }

    #[test]
    fn the_right_to_change_networks_is_a_bit() {
        let held = |text: &str| of_rights(text).map(|one| one.there);
        assert_eq!(held("Name:\tweft\nCapEff:\t0000000000001000\n"), Some(true));
        assert_eq!(held("CapEff:\t0000000000000fff\n"), Some(false));
        assert_eq!((held("CapEff:\tbogus\n"), held("")), (None, None));
    }
}
