//! `weft tunnel`: packets of this machine's programs over several links, and the routes that lead them there.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use weftway_relay::Classes;
use weftway_transfer::{Progress, ProxyOptions, State};
use weftway_tun::Tun;
use weftway_tunnel::{Names, TunDevice};

use crate::failure::{Done, Failure, INTERRUPTED};
use crate::options::{ClassesFile, Config, Links, Pair, Scheduling, To, Watching};
use crate::routing::{self, Plan, Routes, Watcher};
use crate::watched::Watched;
use crate::{address, classes, ends, output, signals};

/// Bytes that packets of programs may have.
const MTU: usize = 1500;
/// Bytes of the longest name of a device.
const LONGEST_NAME: usize = 15;

/// Carries all traffic of this machine over several links at once, to a machine with `weft relay`. Linux, root.
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
        value_name = "[NET][:PORT[-PORT]]",
        help = "Carries only this: 10.0.0.0/8, :443, 192.0.2.0/24:8000-8080, [2001:db8::/32]:443. Repeatable."
    )]
    only: Vec<String>,
    #[arg(
        long,
        value_name = "relay|off|ADDR[:PORT]",
        help = "Who answers questions to servers of names in private networks: the server that the relay asks, they \
                themselves, or this one. Default: relay; with --only: off."
    )]
    dns: Option<String>,
    #[arg(long, help = "Nothing goes beside the tunnel, also when it was killed.")]
    kill_switch: bool,
    #[arg(long, value_name = "NAME", default_value = "weft0", help = "The tunnel's network device.")]
    device: String,
    #[command(flatten)]
    scheduling: Scheduling,
    #[command(flatten)]
    classes: ClassesFile,
    #[command(flatten)]
    watching: Watching,
    #[arg(long, help = "Takes back what a tunnel that was killed has left, and starts nothing.")]
    restore: bool,
    #[command(flatten)]
    config: Config,
}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    match &args.to.to {
        Some(_) if args.restore => return Err(Failure::input("--restore goes alone: it starts no tunnel")),
        None if args.restore => return restore(),
        _ => {}
    }
    let mut relay = ends::relay(&args.to, &args.pair, "weft tunnel")?;
    // Its addresses are part of the routes: it is not looked up again.
    relay.lookup = None;
    let plan = plan(&args, relay.addresses.clone())?;
    let names = names(args.dns.as_deref(), &plan)?;
    let classes = classes::read(args.classes.classes.as_deref())?;
    let (scheduling, switches) = args.scheduling.switched();
    let options = ProxyOptions { links: args.links.read()?, scheduling, ..ProxyOptions::new(relay) };
    let watched = Watched::new("tunnel", args.watching.metrics.as_deref(), args.watching.json)?;
    carry(plan, names, classes, options, watched, switches)
}

/// Refuses options that the verb refuses; starts nothing, and asks for no names.
pub fn check(args: &Args) -> Done {
    names(args.dns.as_deref(), &plan(args, Vec::new())?).map(drop)
}

/// Takes back what a tunnel that was killed has left.
fn restore() -> Done {
    let mut routes = Routes::open()?;
    if let Some(left) = routing::end_connections()? {
        output::say(&left);
    }
    let _undisturbed = signals::undisturbed();
    output::say(if routes.restore()? { "restored" } else { "there was nothing to restore" });
    Ok(())
}

/// The routes that the options ask for, or why these make no sense.
fn plan(args: &Args, relays: Vec<SocketAddr>) -> Done<Plan> {
    let device = args.device.clone();
    let is_part = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    if !(1..=LONGEST_NAME).contains(&device.len())
        || !device.chars().all(is_part)
        || matches!(device.as_str(), "." | "..")
    {
        let why = "a device's name has 1 to 15 letters, digits, '-', '_' or '.'";
        return Err(Failure::input(format!("--device {device}: {why}")));
    }
    let part = |text: &String| text.parse().map_err(|why| Failure::input(format!("--only {text}: {why}")));
    let only: Vec<routing::Part> = args.only.iter().map(part).collect::<Done<_>>()?;
    let dns = args.dns.as_deref();
    let names = dns != Some("off") && (only.is_empty() || dns.is_some());
    let plan = Plan { device, mtu: MTU, relays, only, names, kill_switch: args.kill_switch };
    if plan.has_too_many_rules() {
        return Err(Failure::input("--only: these are too many; name larger networks, or fewer ports"));
    }
    Ok(plan)
}

/// Reads who answers questions to servers of names in private networks.
fn names(dns: Option<&str>, plan: &Plan) -> Done<Names> {
    match dns {
        _ if !plan.names => Ok(Names::AsTheyAre),
        None | Some("relay") => Ok(Names::Relay),
        Some(server) => address::name_server(server).map(Names::Server),
    }
}

/// Carries packets until it is interrupted. Then all routes are as they were, and so they are when it fails, unless
/// there is a kill switch: what programs send leads nowhere then, until it is restored.
///
/// Routes that other programs take away meanwhile are set again.
fn carry(
    plan: Plan,
    names: Names,
    classes: Classes,
    options: ProxyOptions,
    watched: Watched,
    switches: Sender<String>,
) -> Done {
    let routes = Arc::new(Mutex::new(Routes::open()?));
    routing::check_free(&plan.device)?;
    // A second interrupt would end the program at once, and leave routes that lead nowhere.
    let _undisturbed = signals::undisturbed();
    let mut led = RoutedTunnel { plan, routes, watcher: None, notes: Vec::new(), watched, switches, is_ended: false };
    let ended = led.carry(names, classes, options);
    let is_stopped = ended.is_ok() && signals::interrupted();
    led.end(ended)?;
    if is_stopped { Err(Failure::Status("stopped the tunnel".to_owned(), INTERRUPTED)) } else { Ok(()) }
}

/// A tunnel, and the routes that lead packets to it.
struct RoutedTunnel {
    plan: Plan,
    routes: routing::Shared,
    /// Looks after the routes, once they are there.
    watcher: Option<Watcher>,
    /// Notes for the user that were not told yet.
    notes: Vec<String>,
    watched: Watched,
    /// Schedulers that are to take over.
    switches: Sender<String>,
    /// True once routes were taken back, or left to a kill switch.
    is_ended: bool,
}

impl RoutedTunnel {
    fn carry(&mut self, names: Names, classes: Classes, options: ProxyOptions) -> Done {
        let plan = self.plan.clone();
        self.notes.extend(routing::locked(&self.routes).begin(&plan)?);
        let device = device(&plan.device)?;
        routing::locked(&self.routes).prepare(&plan)?;
        if plan.kill_switch {
            self.lead()?;
        }
        routing::resolve_through(&plan)?;
        let mut told = Ok(());
        let ended = weftway_transfer::tunnel(device, plan.mtu, names, classes, options, &mut |progress| {
            told = if signals::interrupted() { Err(None) } else { self.tell(progress).map_err(Some) };
            told.is_ok()
        });
        match told {
            Ok(()) => Ok(ended?),
            Err(None) => Ok(()),
            Err(Some(failure)) => Err(failure),
        }
    }

    /// Leads packets to the tunnel.
    fn lead(&mut self) -> Done {
        if self.watcher.is_none() {
            routing::locked(&self.routes).apply(&self.plan)?;
            self.watcher = Some(Watcher::start(&self.plan, &self.routes)?);
        }
        Ok(())
    }

    /// Takes in how far it is.
    fn tell(&mut self, progress: &Progress) -> Done {
        let is_relaying = progress.state == State::Relaying;
        if is_relaying {
            self.lead()?;
        }
        let mut astray = None;
        if let Some(watcher) = &self.watcher {
            self.notes.extend(watcher.notes()?);
            astray = watcher.astray().filter(|_| is_relaying);
        }
        let note = Some(std::mem::take(&mut self.notes).join("; ")).filter(|note| !note.is_empty());
        self.watched.tell_as(progress, astray, note.as_deref());
        self.watched.pass_schedulers(&self.switches);
        Ok(())
    }

    /// Takes routes back, unless a tunnel with a kill switch failed: then nothing goes beside it.
    fn end(mut self, ended: Done) -> Done {
        let restored = self.take_back(ended.is_err());
        if ended.is_err() {
            say_of(restored);
            return ended;
        }
        restored
    }

    fn take_back(&mut self, has_failed: bool) -> Done {
        self.is_ended = true;
        if let Some(watcher) = self.watcher.take() {
            watcher.close();
        }
        if has_failed && self.plan.kill_switch {
            return Ok(());
        }
        routing::locked(&self.routes).restore().map(drop)
    }
}

impl Drop for RoutedTunnel {
    /// A fault of the program itself that ends it past [`RoutedTunnel::end`] is a tunnel that failed.
    fn drop(&mut self) {
        if !self.is_ended {
            say_of(self.take_back(true));
        }
    }
}

/// Says why routes could not be taken back. The command returns another failure.
fn say_of(restored: Done) {
    if let Err(failure) = restored
        && let Some(text) = failure.text()
    {
        output::say(&format!("weft: {text}"));
    }
}

/// The device. If another program deletes it, it is made again, without addresses.
fn device(name: &str) -> Done<TunDevice> {
    let first = Tun::offloading(name).map_err(Failure::run)?;
    let name = name.to_owned();
    let make = move || Ok(Tun::offloading(&name).map_err(io::Error::other)?.into_fd());
    TunDevice::new(first.into_fd(), make).map_err(Failure::run)
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

    /// Plan and names of a tunnel with these options.
    fn set(words: &[&str]) -> Done<(Plan, Names)> {
        let args = Line::parse_from(["tunnel"].iter().chain(words)).args;
        let plan = plan(&args, vec![([192, 0, 2, 1], 4433).into()])?;
        let names = names(args.dns.as_deref(), &plan)?;
        Ok((plan, names))
    }

    fn refused(words: &[&str]) -> String {
        match set(words) {
            Err(Failure::Input(text)) => text,
            _ => panic!("{words:?} make no sense"),
        }
    }

    #[test]
    fn names_go_through_a_tunnel_that_carries_all() {
        let asked = |words: &[&str]| set(words).unwrap().1;
        assert!(matches!(asked(&[]), Names::Relay));
        assert!(matches!(asked(&["--dns", "off"]), Names::AsTheyAre));
        assert!(matches!(asked(&["--only", ":443"]), Names::AsTheyAre));
        assert!(matches!(asked(&["--only", ":443", "--dns", "relay"]), Names::Relay));
        assert!(matches!(asked(&["--dns", "9.9.9.9"]), Names::Server(at) if at == ([9, 9, 9, 9], 53).into()));
        assert!(refused(&["--dns", "dns.example"]).starts_with("--dns dns.example: it is the address"));
    }

    #[test]
    fn a_device_has_a_name_that_the_kernel_takes() {
        assert_eq!(set(&["--device", "weft-1.a_b"]).unwrap().0.device, "weft-1.a_b");
        for name in ["a/b", "", ".", "..", "a b", "wéft", "sixteen-letters-"] {
            assert!(refused(&["--device", name]).ends_with("1 to 15 letters, digits, '-', '_' or '.'"), "{name}");
        }
    }

    #[test]
    fn a_tunnel_has_no_more_rules_than_it_takes_back() {
        let ports: Vec<_> = (1..=49).map(|port| format!("--only=:{port}")).collect();
        let words: Vec<_> = ports.iter().map(String::as_str).collect();
        assert!(set(&words).is_ok(), "98 rules, and one for the relay");
        assert!(refused(&[&words[..], &["--only", "10.0.0.0/8"]].concat()).starts_with("--only: these are too many"));
        assert!(refused(&["--only", "10.0.0.0/33"]).starts_with("--only 10.0.0.0/33: it is a network, ports, or both"));
    }
}
