//! `weftway-bench` prints one JSON object of figures, `weftway-bench only decisions environments` some of its parts;
//! what is being measured goes to standard error. `weftway-bench count A 20000` runs scenario A once, for a profiler to
//! count, `weftway-bench bare 20000` the yardstick, `weftway-bench count B/ecf 20000` scenario B under ECF,
//! `weftway-bench count wait-or-send 20000` an environment; `weftway-bench gate` fails where a budget is broken.

use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cpu_time::ProcessTime;
use serde_json::{Map, Value, json};
use weftway_bench::scenarios::{self, RULES, Rule, Scenario};
use weftway_bench::{bare, decisions, environment, inference};

/// The budget of calendar events a packet in the timed scenarios; that of instructions is the scenario's own
/// ([`Scenario::most_instructions`]) and checked where valgrind is.
const MOST_EVENTS: f64 = 2.5;
/// Long enough that the start of a transfer does not count.
const PACKETS: u64 = 2_000_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => print(&PARTS),
        ["only", ref parts @ ..] if !parts.is_empty() && parts.iter().all(|part| PARTS.contains(part)) => print(parts),
        ["gate"] => gate(),
        ["bare", packets] => {
            println!("{}", bare::run(packets.parse().unwrap_or(0), Scenario::A.paths()));
            ExitCode::SUCCESS
        }
        ["environment"] => {
            println!("{:#}", environments());
            ExitCode::SUCCESS
        }
        ["count", name, packets] => {
            let Some(delivered) = packets.parse().ok().and_then(|packets| count(name, packets)) else { return usage() };
            println!("{delivered}");
            ExitCode::SUCCESS
        }
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: weftway-bench [only PART… | gate | environment | count WHAT PACKETS | bare PACKETS]");
    eprintln!(
        "WHAT: a scenario, B{UNDER}ecf for one under a scheduler other than min-RTT, {STEPPED}, {TAPE} or {REPLAY}"
    );
    ExitCode::from(2)
}

/// Between a scenario and the scheduler in it.
const UNDER: &str = "/";
/// The environment that is counted: stepped.
const STEPPED: &str = "wait-or-send";
/// The stepped task answered inside, and its decisions noted.
const TAPE: &str = "wait-or-send-tape";
/// The taped task, and then a replay of the decisions.
const REPLAY: &str = "wait-or-send-replay";

/// Runs once what `name` says, for a profiler to count: the packets that were delivered.
fn count(name: &str, packets: u64) -> Option<u64> {
    let setting = environment::wait_or_send(packets);
    match name {
        STEPPED => Some(environment::stepped(&setting).1 as u64),
        TAPE => Some(environment::replayed(&setting, 0)),
        REPLAY => Some(environment::replayed(&setting, 1)),
        _ => {
            let (scenario, scheduler) = name.split_once(UNDER).unwrap_or((name, "min-rtt"));
            let scenario = Scenario::ALL.into_iter().find(|known| known.name() == scenario)?;
            weftway_sched::parse(scheduler).ok()?;
            Some(scenarios::run(scenario, scheduler, packets).packets)
        }
    }
}

/// The least CPU time of three runs, in seconds, and what the run gave.
fn best<T>(mut run: impl FnMut() -> T) -> (f64, T) {
    let mut timed = || {
        let start = ProcessTime::now();
        let value = run();
        (start.elapsed().as_secs_f64(), value)
    };
    let (mut least, mut value) = timed();
    for _ in 0..2 {
        let (seconds, again) = timed();
        if seconds < least {
            (least, value) = (seconds, again);
        }
    }
    (least, value)
}

/// Parts that can be measured by themselves.
const PARTS: [&str; 4] = ["simulator", "decisions", "learned", "environments"];

fn print(parts: &[&str]) -> ExitCode {
    println!("{:#}", figures(parts));
    ExitCode::SUCCESS
}

/// Says on standard error what is being measured.
fn tell(part: &str, name: &str) {
    eprintln!("measuring {part}: {name}");
}

fn figures(parts: &[&str]) -> Value {
    let mut out = Map::new();
    if parts.contains(&"simulator") {
        simulator(&mut out);
    }
    if parts.contains(&"decisions") {
        let decisions = weftway_sched::all().iter().map(|entry| {
            tell("decisions", entry.name);
            (entry.name.to_owned(), decision_costs(entry.name))
        });
        out.insert("decision_ns".into(), Value::Object(decisions.collect()));
    }
    if parts.contains(&"learned") {
        let due = inference::policies().map(|(scheduler, policy)| {
            tell("learned", scheduler);
            let us = (inference::microseconds(scheduler, policy, 2) * 1000.0).round() / 1000.0;
            (format!("{scheduler}:policy={policy}"), json!(us))
        });
        out.insert("learned_decision_us".into(), Value::Object(due.collect()));
    }
    if parts.contains(&"environments") {
        out.insert("environment".into(), environments());
    }
    Value::Object(out)
}

fn simulator(out: &mut Map<String, Value>) {
    let mut per_second = Map::new();
    let (mut ratio, mut bare_per_second, mut events) = (Map::new(), Map::new(), Map::new());
    for scenario in Scenario::TIMED {
        tell("simulator", scenario.name());
        let (seconds, count) = best(|| scenarios::run(scenario, "min-rtt", PACKETS));
        let (bare_seconds, _) = best(|| std::hint::black_box(bare::run(PACKETS * 4, scenario.paths())));
        let (ours, bare) = (count.packets as f64 / seconds, (PACKETS * 4) as f64 / bare_seconds);
        per_second.insert(scenario.name().into(), json!(ours.round()));
        bare_per_second.insert(scenario.name().into(), json!(bare.round()));
        ratio.insert(scenario.name().into(), json!((ours / bare * 1e4).round() / 1e4));
        events.insert(scenario.name().into(), json!(events_per_packet(scenario)));
    }
    out.insert("packets_per_cpu_second".into(), per_second.into());
    out.insert("bare_loop_packets_per_cpu_second".into(), bare_per_second.into());
    out.insert("ratio_to_bare_loop".into(), ratio.into());
    out.insert("events_per_packet".into(), events.into());
    tell("simulator", "instructions per packet");
    let (mut counts, mut cases) = (Map::new(), Map::new());
    for (case, count) in all_instructions() {
        cases.insert(case.name.clone(), json!({ "what": case.what, "budget": case.most, "aim": case.aim }));
        counts.insert(case.name, json!(count));
    }
    out.insert("instructions_per_packet".into(), counts.into());
    out.insert("cases".into(), cases.into());
    out.insert("events_per_packet_budget".into(), json!(MOST_EVENTS));
    out.insert("peak_memory_mb".into(), peak_memory().map_or(Value::Null, |mb| json!(mb)));
}

/// Costs of stepping environments, by the setting's name.
fn environments() -> Value {
    let settings = environment::settings();
    Value::Object(settings.iter().map(|setting| (setting.name.to_owned(), stepped(setting))).collect())
}

/// Cost of stepping one environment. The instructions of one are counted.
fn stepped(setting: &environment::Setting) -> Value {
    tell("environments", setting.name);
    let found = environment::step(setting);
    let counted = if setting.name == environment::wait_or_send(0).name { environment_instructions() } else { None };
    let rounded = |value: f64, unit: f64| json!((value / unit).round() * unit);
    json!({
        "steps_per_cpu_second": rounded(found.steps_per_second, 1.0),
        "packets_per_cpu_second": rounded(found.packets_per_second, 1.0),
        "packets_per_step": (found.packets_per_step * 10.0).round() / 10.0,
        "ratio_to_raw": (found.ratio_to_raw * 1000.0).round() / 1000.0,
        "ratio_to_replay": (found.ratio_to_replay * 1000.0).round() / 1000.0,
        "instructions_per_packet": counted.map(|(stepped, _)| stepped),
        "ratio_to_replay_in_instructions": counted.map(|(stepped, replay)| (replay / stepped * 1000.0).round() / 1000.0),
    })
}

fn decision_costs(name: &str) -> Value {
    let cost = |&paths: &usize| (paths.to_string(), json!((decisions::nanoseconds(name, paths) * 10.0).round() / 10.0));
    Value::Object(decisions::PATHS.iter().map(cost).collect())
}

fn events_per_packet(scenario: Scenario) -> f64 {
    let count = scenarios::run(scenario, "min-rtt", 200_000);
    (count.events as f64 / count.packets as f64 * 1e4).round() / 1e4
}

/// A case that is counted: what to run, the packets of the shorter of two runs, the budget.
struct Case {
    name: String,
    what: String,
    packets: u64,
    most: f64,
    aim: Option<f64>,
}

/// The scenarios under min-RTT, and some of them under other rules.
fn cases() -> Vec<Case> {
    let scenarios = Scenario::ALL.into_iter().map(|it| Case {
        name: it.name().to_owned(),
        what: it.what().to_owned(),
        packets: it.counted(),
        most: it.most_instructions(),
        aim: it.aim(),
    });
    let rules = RULES.into_iter().map(|Rule { scenario, scheduler, most, aim }| Case {
        name: format!("{}{UNDER}{scheduler}", scenario.name()),
        what: format!("{} under {scheduler}", scenario.name()),
        packets: scenario.counted(),
        most,
        aim,
    });
    scenarios.chain(rules).collect()
}

/// The instructions of all cases. They are counted and not timed, so that those of several may be at once.
fn all_instructions() -> Vec<(Case, Option<f64>)> {
    let (cases, next) = (cases(), AtomicUsize::new(0));
    let counts = Mutex::new(vec![None; cases.len()]);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at) else { return };
            let count = instructions(&case.name, case.packets);
            counts.lock().expect("no thread panics")[at] = count;
        }
    };
    std::thread::scope(|scope| {
        (0..std::thread::available_parallelism().map_or(1, usize::from)).for_each(|_| drop(scope.spawn(work)));
    });
    let counts = counts.into_inner().expect("no thread panics");
    cases.into_iter().zip(counts).collect()
}

/// Instructions per delivered packet, (I(2N) − I(N)) / N, by callgrind; none without valgrind.
fn instructions(name: &str, packets: u64) -> Option<f64> {
    let (once, first) = counted(name, packets)?;
    let (twice, second) = counted(name, 2 * packets)?;
    Some(((twice - once) / (second - first)).round())
}

/// Instructions per delivered packet of an environment that is stepped, and of a replay of the same decisions.
fn environment_instructions() -> Option<(f64, f64)> {
    let count = |name| instructions(name, environment::COUNTED);
    Some((count(STEPPED)?, count(REPLAY)? - count(TAPE)?))
}

/// Instructions and packets of one run.
fn counted(name: &str, packets: u64) -> Option<(f64, f64)> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["count", name, &packets.to_string()])
        .output()
        .ok()?;
    let told = String::from_utf8_lossy(&output.stderr);
    let collected = told.lines().find_map(|line| line.split("Collected : ").nth(1))?;
    let delivered = String::from_utf8_lossy(&output.stdout).trim().parse().ok()?;
    Some((collected.trim().parse().ok()?, delivered))
}

/// The most memory this process has had, in megabytes (Linux).
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some((kilobytes * 1.024 / 100.0).round() / 10.0)
}

fn gate() -> ExitCode {
    let mut sound = true;
    for scenario in Scenario::TIMED {
        sound &= within(scenario.name(), "calendar events", events_per_packet(scenario), MOST_EVENTS);
    }
    for (case, count) in all_instructions() {
        match count {
            Some(count) => sound &= within(&case.name, "instructions", count, case.most),
            None => println!("{}: instructions per packet SKIPPED: valgrind does not run here", case.name),
        }
    }
    match environment_instructions() {
        Some((stepped, replay)) => {
            sound &= within(STEPPED, "instructions", stepped, environment::MOST_INSTRUCTIONS);
            println!("{STEPPED}: {replay} instructions per packet in a replay of the same decisions");
        }
        None => println!("{STEPPED}: instructions per packet SKIPPED: valgrind does not run here"),
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn within(name: &str, what: &str, value: f64, most: f64) -> bool {
    let verdict = if value <= most { "ok" } else { "TOO MANY" };
    println!("{name}: {value} {what} per packet, at most {most}: {verdict}");
    value <= most
}
