//! `weft record`: rate, round trip and loss of several links at once, both directions, on one clock, as a drive.
//!
//! | module | what is in it |
//! |---|---|
//! | `wire`, `cookies` | the packets that both ends exchange; who has shown its address |
//! | `probes` | when probes leave, which is all that is sent unless load is asked for |
//! | `window` | how much load is under way |
//! | `arrivals` | what came, as short records that the other end can ask for |
//! | `channel` | one path at one end, without sockets or a clock: packets in, packets out, when to come back |
//! | `places`, `waiting` | sockets at interfaces and addresses |
//! | `listening`, `serving`, `recording`, `line` | the two ends |
//! | `estimate` | from what was sent and what came to a line for each moment |
//! | `report`, `scenario`, `bar` | what is told, and the files |

mod arrivals;
mod bar;
mod channel;
mod cookies;
mod estimate;
mod line;
mod listening;
mod places;
mod probes;
mod recording;
mod report;
mod scenario;
mod serving;
mod waiting;
mod window;
mod wire;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weftway_scenario::policy;

use crate::failure::{Done, Failure, INTERRUPTED, RUN_FAILED};
use crate::options::{Json, Paths};
use crate::output;
use crate::signals;
use crate::text::amount;
use bar::Bar;
use listening::MOST_SECONDS;
use recording::Recorder;
use report::Report;
use wire::{Plan, SECOND_NS};

const CAP: &str = "100 MB";
/// Bytes beside probes that a path may take: what comes before the first second, and records.
const BESIDE_PROBES: u64 = 1_000_000;
const SIZES: &str = "B, kB, MB, GB, KiB, MiB, GiB";
const TIMES: &str = "ns, us, µs, ms, s, min, h";

/// Measures several links at once, both directions, on one clock; writes a drive and a scenario that uses it.
///
/// By default with probes: round trip and loss, and for the rate an upper bound.
/// On the other machine: weft record --listen 4434.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    paths: Paths,
    #[arg(long, value_name = "HOST[:PORT]", help = "Where `weft record --listen` runs; port 4434.")]
    peer: Option<String>,
    #[arg(long, value_name = "[ADDR:]PORT", help = "Is the other end, for one recording after another.")]
    listen: Option<String>,
    #[arg(long = "for", value_name = "TIME", default_value = "60 s", help = "How long it measures.")]
    seconds: String,
    #[arg(long, help = "Fills all links in both directions: the rate is what arrives.")]
    load: bool,
    #[arg(
        long,
        value_name = "SIZE",
        help = "With --load or --listen: the most a path and direction takes. Default: 100 MB."
    )]
    cap: Option<String>,
    #[arg(
        long = "out",
        value_name = "NAME",
        default_value = "recorded",
        help = "Writes NAME.toml, NAME.down.csv, NAME.up.csv."
    )]
    name: String,
    #[arg(long, value_name = "bulk|web|stream|voip|call", help = "The scenario's workload. Default: bulk.")]
    workload: Option<String>,
    #[command(flatten)]
    json: Json,
}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    let cap = args.cap.as_deref().unwrap_or(CAP);
    match (&args.peer, &args.listen) {
        (None, Some(listen)) => {
            if !args.paths.local.is_empty() || args.load || args.workload.is_some() || args.json.json {
                let text = "weft record --listen takes --cap alone: the other end says what is measured";
                return Err(Failure::input(text));
            }
            host(listen, size(cap)?)
        }
        (Some(peer), None) => {
            if args.paths.local.is_empty() {
                let text = "weft record needs --path for each link, as in --path wlan0 --path wwan0";
                return Err(Failure::input(text));
            }
            if args.cap.is_some() && !args.load {
                return Err(Failure::input("--cap is the most that load takes: it goes with --load"));
            }
            let (seconds, cap) = (whole_seconds(&args.seconds)?, size(cap)?);
            measure(&args, peer, seconds, args.load.then_some(cap))
        }
        _ => {
            let text = "weft record needs either --peer HOST, with --path for each link, or --listen PORT";
            Err(Failure::input(text))
        }
    }
}

/// A cap in bytes.
fn size(text: &str) -> Done<u64> {
    let read = policy::read_size(text).map(|size| size.get());
    read.map_err(|_| Failure::input(format!("--cap: `{text}` is not a size; its units are {SIZES}")))
}

/// Duration of the measurement.
fn whole_seconds(text: &str) -> Done<u32> {
    let read = policy::read_time(text)
        .map_err(|_| Failure::input(format!("--for: `{text}` is not a time; its units are {TIMES}")))?;
    let second = SECOND_NS.unsigned_abs();
    let whole = read.as_nanos() / second;
    let seconds = u32::try_from(whole).ok().filter(|found| (1..=MOST_SECONDS).contains(found));
    seconds
        .filter(|_| read.as_nanos() % second == 0)
        .ok_or_else(|| Failure::input(format!("--for {text}: whole seconds from 1 to {MOST_SECONDS} are possible")))
}

/// Is the end that listens, until it is interrupted.
fn host(listen: &str, cap: u64) -> Done {
    let opened = places::listening(listen)?;
    let secret: [u8; 32] = random()?;
    let _beside_traffic = output::beside_traffic();
    if let Ok(address) = opened.local_addr() {
        output::say(&format!("listening at {address}"));
    }
    serving::serve(&opened, cap, &secret, output::say, signals::interrupted);
    Err(Failure::Status("stopped listening".to_owned(), INTERRUPTED))
}

/// Records, writes, and says what it found.
fn measure(args: &Args, peer: &str, seconds: u32, cap: Option<u64>) -> Done {
    let (paths, workload) = (&args.paths.local, args.workload.as_deref());
    report::free(&args.name, workload)?;
    report::link_names(paths)?;
    let plan = plan(paths.len(), seconds, cap)?;
    let recorder = Recorder::new(paths, peer, plan)?;
    // A second interrupt ends the wait for the last records, and not the program: what was measured is written.
    let undisturbed = signals::undisturbed();
    let recorded = {
        let _beside_traffic = output::beside_traffic();
        let mut bar = Bar::new(seconds);
        recorder.run(|done| bar.tell(done))?
    };
    let made = report::write(&recorded, &args.name, workload)?;
    drop(undisturbed);
    if args.json.json {
        output::print_json(&report::records(&made))?;
    } else {
        print(&made)?;
    }
    let ended = |why: &str, written: &str| format!("{why}; {written} were measured and are written");
    if recorded.interrupted {
        let text = ended("interrupted", &format!("{} s", made.seconds));
        return Err(Failure::Status(text, INTERRUPTED));
    }
    match &made.cut {
        Some(cut) => Err(Failure::Status(ended(cut, &format!("{} of {seconds} s", made.seconds)), RUN_FAILED)),
        None => Ok(()),
    }
}

/// Request, which is said.
fn plan(paths: usize, seconds: u32, cap: Option<u64>) -> Done<Plan> {
    let probes = report::probe_bytes(seconds, places::IPV6_HEADER);
    let plan = |cap| Plan { paths: u8::try_from(paths).unwrap_or(u8::MAX), seconds, load: false, cap };
    let Some(cap) = cap else {
        output::say(&format!("probes: {} a path and direction in {seconds} s", amount(probes)));
        // Twice: for what comes before the first second, and for the records.
        return Ok(plan(2 * probes + BESIDE_PROBES));
    };
    if cap < 2 * probes {
        let text = format!("--cap: {} are not enough for {seconds} s: probes take half of it", amount(cap));
        return Err(Failure::input(text));
    }
    let (one, all) = (amount(cap), amount(cap.saturating_mul(2 * paths as u64)));
    output::say(&format!("load: at most {one} a path and direction, {all} in all; it ends when one is spent"));
    Ok(Plan { load: true, ..plan(cap) })
}

/// For a person.
fn print(made: &Report) -> Done {
    for line in report::table(made).iter().chain(&made.caveats) {
        output::print(line)?;
    }
    for line in made.scenario.told() {
        output::print(&line)?;
    }
    Ok(())
}

/// Bytes that nobody can guess.
fn random<const N: usize>() -> Done<[u8; N]> {
    let (source, mut bytes) = (Path::new("/dev/urandom"), [0; N]);
    let read = File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| Failure::file(source, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_and_sizes_have_units() {
        assert_eq!((whole_seconds("60s").unwrap(), whole_seconds(" 1 h ").unwrap()), (60, 3600));
        assert_eq!((size("5GB").unwrap(), size("1.5 kB").unwrap()), (5_000_000_000, 1500));
        let why = |done: Done<u32>| match done {
            Err(Failure::Input(text)) => text,
            _ => panic!("it is refused"),
        };
        for text in ["0.5 s", "0 s", "3601 s", "1.0001 s"] {
            assert_eq!(why(whole_seconds(text)), format!("--for {text}: whole seconds from 1 to 3600 are possible"));
        }
        let told = "--for: `soon` is not a time; its units are ns, us, µs, ms, s, min, h";
        assert_eq!(why(whole_seconds("soon")), told);
    }
}
