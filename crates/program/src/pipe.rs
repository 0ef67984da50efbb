//! `weft pipe`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Deserialize;
use toml::Value;
use weftway_path::Span;
use weftway_path::spec::Spec;
use weftway_relay::{LEAST_LATENCY, MOST_LATENCY, MOST_PIPES, Order, Pipe, PipeTarget, Target};
use weftway_scenario::policy::read_time;
use weftway_transfer::ProxyOptions;

use crate::address;
use crate::connections::Carrying;
use crate::failure::{Done, Failure};
use crate::options::{Config, Links, Pair, Scheduling, To, Watching};
use crate::{connections, ends};

/// The scheduler, if none is named.
pub const SCHEDULER: &str = "deadline";
/// Time in which a datagram is to be there, if none is named.
const LATENCY: &str = "200ms";

/// Carries datagrams of UDP to one place over several links at once, in a given time: live video, voice, a VPN.
///
/// They go to a machine with `weft relay --allow-pipe HOST:PORT`, and from there to HOST:PORT; answers come back. For
/// several pipes, --listen and --deliver are given for each, in the same order.
#[derive(clap::Args)]
#[command(verbatim_doc_comment, mut_arg("scheduler", |arg| arg.default_value(SCHEDULER)))]
pub struct Args {
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    pair: Pair,
    #[command(flatten)]
    links: Links,
    #[arg(
        long,
        value_name = "[udp://][ADDR:]PORT",
        help = "Takes datagrams here, for example at 9000; ADDR is 127.0.0.1 unless it is named. Repeatable."
    )]
    listen: Vec<String>,
    #[arg(
        long,
        value_name = "[udp://]HOST:PORT",
        help = "Where the relay sends them. It finds the address of a name. Repeatable."
    )]
    deliver: Vec<String>,
    #[arg(
        long,
        value_name = "TIME",
        help = "A datagram that is not there in this time is dropped: 1ms to 10s; one for all pipes, or one for each. \
                Default: 200ms. Repeatable."
    )]
    latency: Vec<String>,
    #[arg(
        long,
        help = "Holds each datagram at the other end until its time is over, and gives them in order: what links differ in \
                is not seen."
    )]
    order: bool,
    #[arg(
        long,
        conflicts_with = "order",
        help = "Gives each datagram at once. Without this, one that has overtaken others waits for them, for half of the \
                latency: many programs take what others overtake for lost."
    )]
    any_order: bool,
    #[arg(
        long,
        help = "Sends datagrams that no packet of the links holds in up to four pieces, and drops none of them."
    )]
    pieces: bool,
    #[arg(long, hide = true, help = "A table [pipe.NAME] of a file of options, as TOML.")]
    named: Vec<String>,
    #[arg(
        long,
        value_name = "PERCENT",
        help = "The share of datagrams that should be there in time, for example 99.9%: a copy goes where one alone \
                does not reach it. Of the scheduler `deadline`; default: 99.9%."
    )]
    target: Option<String>,
    #[arg(
        long,
        value_name = "PERCENT",
        help = "What copies may take, of the bytes that are sent once, for example 30%. Of the scheduler `deadline`; \
                default: 30%."
    )]
    redundancy: Option<String>,
    #[command(flatten)]
    scheduling: Scheduling,
    #[command(flatten)]
    watching: Watching,
    #[command(flatten)]
    config: Config,
}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    let relay = ends::relay(&args.to, &args.pair, "weft pipe")?;
    let pipes = pipes(&args)?;
    let scheduler = scheduler(&args)?;
    let (scheduling, switches) = Scheduling { scheduler: Some(scheduler), ..args.scheduling }.switched();
    let options = ProxyOptions { links: args.links.read()?, scheduling, ..ProxyOptions::new(relay) };
    let carrying =
        Carrying { program: "pipe", stopped: "stopped carrying datagrams", watching: args.watching, switches };
    connections::carry(carrying, || None, |watch| weftway_transfer::pipe(pipes, options, watch))
}

/// Refuses what makes no sense, and starts nothing.
pub fn check(args: &Args) -> Done {
    scheduler(args)?;
    pipes(args).map(drop)
}

/// The scheduler, with --target and --redundancy as its switches: these are those of `deadline`.
fn scheduler(args: &Args) -> Done<String> {
    let named = args.scheduling.scheduler.as_deref().unwrap_or(SCHEDULER);
    let mut spec: Spec = named.parse().map_err(Failure::input)?;
    for (key, given) in [("target", &args.target), ("redundancy", &args.redundancy)] {
        let Some(given) = given else { continue };
        let refused = |why: String| Failure::input(format!("--{key} {given}: {why}"));
        if spec.name != SCHEDULER {
            return Err(refused(format!("it goes with --scheduler {SCHEDULER}, and not with {named}")));
        }
        let percent = given.trim().trim_end_matches('%').trim_end();
        spec.given.push((key.to_owned(), percent.to_owned()));
        let (entry, _) = weftway_sched::parse(SCHEDULER).map_err(Failure::input)?;
        entry.make(&spec.given).map_err(|error| refused(error.to_string()))?;
    }
    Ok(if args.target.is_some() || args.redundancy.is_some() { spec.to_string() } else { named.to_owned() })
}

/// A table `[pipe.NAME]` of a file of options. What it does not say is as for the other pipes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    listen: Value,
    deliver: String,
    latency: Option<String>,
    order: Option<bool>,
    any_order: Option<bool>,
    pieces: Option<bool>,
}

/// The pipes: those without a name, and those that have one.
fn pipes(args: &Args) -> Done<Vec<Pipe>> {
    let mut pipes = unnamed(args)?;
    for text in &args.named {
        let tables: BTreeMap<String, Value> = toml::from_str(text).map_err(Failure::input)?;
        for (name, table) in tables {
            let refused = |why: &str| Failure::input(format!("[pipe.{name}]: {}", why.trim().replace('\n', ", ")));
            let table = table.try_into::<Named>().map_err(|error| refused(error.message()))?;
            let pipe = named(&name, table, args).map_err(|failure| refused(failure.text().unwrap_or_default()))?;
            pipes.push(pipe);
        }
    }
    match pipes.len() {
        0 => Err(unmatched(args)),
        count if count > MOST_PIPES => Err(Failure::input(format!("--listen: {MOST_PIPES} pipes at most"))),
        _ => Ok(pipes),
    }
}

fn unmatched(Args { listen, deliver, .. }: &Args) -> Failure {
    let told = "weft pipe needs --listen [ADDR:]PORT and --deliver HOST:PORT, both for each pipe";
    Failure::input(format!("{told}: {} and {} are given", listen.len(), deliver.len()))
}

/// A pipe of this name.
fn named(name: &str, table: Named, args: &Args) -> Done<Pipe> {
    let listen = match &table.listen {
        Value::String(text) => place(text)?,
        other => place(&other.to_string())?,
    };
    let latency = match (&table.latency, &args.latency[..]) {
        (Some(own), _) => own,
        (None, [one]) => one,
        (None, _) => LATENCY,
    };
    let order = match (table.order, table.any_order) {
        (None, None) => args.order(),
        (Some(true), Some(true)) => return Err(Failure::input("order and any_order: one of both, please")),
        (always, any) => order(always == Some(true), any == Some(true)),
    };
    let target = PipeTarget { latency: read_latency(latency)?, order, target: target(&table.deliver)? };
    Ok(Pipe { name: Some(name.to_owned()), listen, target, pieces: table.pieces.unwrap_or(args.pieces) })
}

/// The pipes without a name: each has its own place and target, and the latency of all or its own.
fn unnamed(args: &Args) -> Done<Vec<Pipe>> {
    let Args { listen, deliver, latency, pieces, .. } = args;
    if listen.len() != deliver.len() {
        return Err(unmatched(args));
    }
    let latencies = match &latency[..] {
        [] => vec![LATENCY; listen.len()],
        [one] => vec![one.as_str(); listen.len()],
        several if several.len() == listen.len() => several.iter().map(String::as_str).collect(),
        several => {
            let told = format!(
                "--latency: one for all pipes, or one for each of {}: {} are given",
                listen.len(),
                several.len()
            );
            return Err(Failure::input(told));
        }
    };
    let ends = listen.iter().zip(deliver).zip(latencies);
    ends.map(|((listen, deliver), latency)| {
        let target = PipeTarget { latency: read_latency(latency)?, order: args.order(), target: target(deliver)? };
        Ok(Pipe { name: None, listen: place(listen)?, target, pieces: *pieces })
    })
    .collect()
}

/// Order in which datagrams are given, by both options.
fn order(always: bool, any: bool) -> Order {
    match (always, any) {
        (true, _) => Order::Always,
        (false, true) => Order::Any,
        (false, false) => Order::Mostly,
    }
}

impl Args {
    fn order(&self) -> Order {
        order(self.order, self.any_order)
    }
}

fn read_latency(text: &str) -> Done<Span> {
    let latency = read_time(text).map_err(|why| Failure::input(format!("--latency {text}: {why}")))?;
    if !(LEAST_LATENCY..=MOST_LATENCY).contains(&latency) {
        return Err(Failure::input(format!("--latency {text}: it is from 1ms to 10s")));
    }
    Ok(latency)
}

/// `[udp://][ADDR:]PORT`.
fn place(text: &str) -> Done<SocketAddr> {
    let given = without_scheme("--listen", text)?;
    let (host, port) = address::split_listening(given, 0)?;
    if port == 0 && !given.ends_with(":0") {
        return Err(Failure::input(format!("--listen {text}: name the port, as in udp://127.0.0.1:9000")));
    }
    address::resolve_first(host.as_deref().unwrap_or("127.0.0.1"), port)
}

/// `[udp://]HOST:PORT`.
fn target(text: &str) -> Done<Target> {
    let whole = without_scheme("--deliver", text)?;
    whole.parse().map_err(|error| Failure::input(format!("--deliver {text}: {error}")))
}

/// The text without `udp://`; no other scheme is carried.
fn without_scheme<'a>(option: &str, text: &'a str) -> Done<&'a str> {
    match text.split_once("://") {
        None => Ok(text),
        Some(("udp", rest)) => Ok(rest.trim_end_matches('/')),
        Some((scheme, _)) => {
            let told = "datagrams of UDP are carried, as in udp://127.0.0.1:9000; SRT, RTP and QUIC are such";
            Err(Failure::input(format!("{option} {text}: {scheme}: {told}")))
        }
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

    fn read(words: &[&str]) -> Done<Vec<Pipe>> {
        let words = ["pipe"].iter().chain(words);
        pipes(&Line::try_parse_from(words).unwrap().args)
    }

    #[test]
    fn a_pipe_has_its_place_its_target_and_its_latency() {
        let of = |words: &[&str]| {
            let pipes = read(words).unwrap().into_iter();
            pipes.map(|pipe| (pipe.listen.to_string(), pipe.target.to_string())).collect::<Vec<_>>()
        };
        let one = of(&["--listen", "udp://127.0.0.1:9000", "--deliver", "udp://a.example:9001", "--order"]);
        assert_eq!(one, [("127.0.0.1:9000".to_owned(), "pipe:1/200000/order/a.example:9001".to_owned())]);
        let ends =
            ["--listen", "9000", "--deliver", "192.0.2.1:1", "--listen", "0.0.0.0:7", "--deliver", "[2001:db8::1]:2"];
        let (all, each) = ([&ends[..], &["--latency", "50ms"]], [&ends[..], &["--latency", "50ms", "--latency", "1s"]]);
        let [first, second] = ["pipe:1/50000//192.0.2.1:1", "pipe:1/50000//[2001:db8::1]:2"].map(str::to_owned);
        let [here, there] = ["127.0.0.1:9000", "0.0.0.0:7"].map(str::to_owned);
        assert_eq!(of(&all.concat()), [(here.clone(), first.clone()), (there.clone(), second)]);
        assert_eq!(of(&each.concat()), [(here, first), (there, "pipe:1/1000000//[2001:db8::1]:2".to_owned())]);
    }

    #[test]
    fn target_and_redundancy_are_switches_of_its_scheduler() {
        let read = |words: &[&str]| scheduler(&Line::try_parse_from(["pipe"].iter().chain(words)).unwrap().args);
        for (words, spec) in [
            (&[][..], "deadline"),
            (&["--scheduler", "redundant"], "redundant"),
            (&["--target", "99.99%"], "deadline:target=99.99"),
            (&["--redundancy", "50 %", "--target", "99"], "deadline:target=99:redundancy=50"),
            (&["--scheduler", "Deadline:target=95", "--redundancy", "0"], "deadline:target=95:redundancy=0"),
        ] {
            assert_eq!(read(words).unwrap(), spec);
            weftway_sched::build(spec).unwrap();
        }
        for (words, told) in [
            (
                &["--scheduler", "redundant", "--target", "99%"][..],
                "--target 99%: it goes with --scheduler deadline, and not with redundant",
            ),
            (&["--target", "100%"], "--target 100%: `deadline:target=100`: expected %, 0 to 99.999"),
            (&["--redundancy", "much"], "--redundancy much: `deadline:redundancy=much`: expected %, 0 to 300"),
            (&["--redundancy", "30:target=1"], "--redundancy 30:target=1: `deadline:redundancy=30:target=1`: expected"),
            (
                &["--scheduler", "deadline:target=95", "--target", "99"],
                "--target 99: `deadline`: `target` is given twice",
            ),
        ] {
            let Err(Failure::Input(why)) = read(words) else { panic!("{words:?} is refused") };
            assert!(why.starts_with(told), "{why}");
        }
    }

    #[test]
    fn a_pipe_may_have_a_name_in_a_file() {
        let camera = "[camera]\nlisten = 9000\ndeliver = \"udp://a.example:1\"\norder = true\n";
        let voice =
            "[voice]\nlisten = \"127.0.0.1:9001\"\ndeliver = \"a.example:2\"\nlatency = \"60ms\"\npieces = true\n";
        let of = |words: &[&str]| {
            let pipes = read(&[words, &["--named", camera, "--named", voice]].concat()).unwrap().into_iter();
            pipes.map(|pipe| (pipe.name, pipe.listen.port(), pipe.target.to_string(), pipe.pieces)).collect::<Vec<_>>()
        };
        let named = |name: &str| Some(name.to_owned());
        let [first, second] = ["pipe:1/200000/order/a.example:1", "pipe:1/60000//a.example:2"].map(str::to_owned);
        assert_eq!(of(&[]), [(named("camera"), 9000, first, false), (named("voice"), 9001, second, true)]);
        // What a table does not say is as for the others.
        let [plain, first, second] =
            ["pipe:1/50000/order/b:3", "pipe:1/50000/order/a.example:1", "pipe:1/60000/order/a.example:2"];
        let found = of(&["--latency", "50ms", "--order", "--listen", "7", "--deliver", "b:3"]);
        let targets: Vec<_> = found.iter().map(|(name, _, target, _)| (name.as_deref(), &target[..])).collect();
        assert_eq!(targets, [(None, plain), (Some("camera"), first), (Some("voice"), second)]);
        let call = "[call]\nlisten = 1\ndeliver = \"c:1\"\nany_order = true\n";
        let order = |words: &[&str]| read(words).unwrap().pop().unwrap().target.order;
        assert_eq!(order(&["--order", "--named", call]), Order::Any);
        assert_eq!(order(&["--any-order", "--named", voice]), Order::Any);
        assert_eq!(order(&["--order", "--named", &camera.replace("true", "false")]), Order::Mostly);
        for (table, told) in [
            (
                "[a]\nlisten = 1\ndeliver = \"b:1\"\nlatncy = \"1s\"",
                "[pipe.a]: unknown field `latncy`, expected one of `listen`",
            ),
            ("[a]\nlisten = 1", "[pipe.a]: missing field `deliver`"),
            (
                "[a]\nlisten = 1\ndeliver = \"b:1\"\norder = 1",
                "[pipe.a]: invalid type: integer `1`, expected a boolean",
            ),
            ("[a]\nlisten = 1\ndeliver = \"b:1\"\nlatency = \"20s\"", "[pipe.a]: --latency 20s: it is from 1ms to 10s"),
            (
                "[a]\nlisten = 1\ndeliver = \"b:1\"\norder = true\nany_order = true",
                "[pipe.a]: order and any_order: one of both",
            ),
            ("[a]\nlisten = true\ndeliver = \"b:1\"", "[pipe.a]: --listen true: name the port"),
            ("[a]\nlisten = 1\ndeliver = \"b\"", "[pipe.a]: --deliver b: a target is a host and a port"),
        ] {
            let Err(Failure::Input(why)) = read(&["--named", table]) else { panic!("{table} is refused") };
            assert!(why.starts_with(told), "{why}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let ends = ["--listen", "9000", "--deliver", "192.0.2.1:9001"];
        for (words, told) in [
            (
                &[][..],
                "weft pipe needs --listen [ADDR:]PORT and --deliver HOST:PORT, both for each pipe: 0 and 0 are given",
            ),
            (&["--listen", "9000"], "both for each pipe: 1 and 0 are given"),
            (
                &["--listen", "srt://127.0.0.1:9000", "--deliver", "a.example:1"],
                "--listen srt://127.0.0.1:9000: srt: datagrams",
            ),
            (&["--listen", "127.0.0.1", "--deliver", "a.example:1"], "--listen 127.0.0.1: name the port"),
            (&["--listen", "9000", "--deliver", "a.example"], "--deliver a.example: a target is a host and a port"),
            (&[&ends[..], &["--latency", "0ms"]].concat(), "--latency 0ms: it is from 1ms to 10s"),
            (&[&ends[..], &["--latency", "11s"]].concat(), "--latency 11s: it is from 1ms to 10s"),
            (&[&ends[..], &["--latency", "200"]].concat(), "--latency 200: "),
            (&[&ends[..], &["--latency", "1s", "--latency", "2s"]].concat(), "one for each of 1: 2 are given"),
            (&ends.repeat(MOST_PIPES + 1), "--listen: 16 pipes at most"),
        ] {
            let Err(Failure::Input(why)) = read(words) else { panic!("{words:?} is refused") };
            assert!(why.contains(told), "{why}");
        }
    }
}
