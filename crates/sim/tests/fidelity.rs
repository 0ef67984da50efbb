//! Replays the kernel's cells and compares goodput. `cargo test -p weftway-sim --test all fidelity:: -- --nocapture`
//! prints the table. A cell is off by the ratio of the medians; where that is beyond the cell's allowance, it is a miss
//! only if the 95 % interval of our median does not meet the kernel's [min, max] widened by a tenth.

use std::path::Path;

use weftway_link::{Distribution, Jitter, Limit, LinkConfig, Loss};
use weftway_path::{BitRate, Bytes, Role, Span};
use weftway_scenario::config::{Direction, PathConfig, SimConfig, TransportConfig};

const SEEDS: u64 = 12;
/// The order statistics that bound a median of twelve with at least 95 %: 1 − 2·(1 + 12 + 66)/2¹² = 0.961.
const INTERVAL: (usize, usize) = (2, 9);

struct Cell {
    name: String,
    cc: String,
    single: bool,
    kernel: Vec<f64>,
    left_out: u32,
    config: SimConfig,
}

fn link(rate: &str, delay: &str, queue: u64) -> LinkConfig {
    let rate = BitRate::from_bps((rate.parse::<f64>().unwrap() * 1e6) as u64);
    let mut link = LinkConfig { rate: rate.into(), delay: millis(delay.parse().unwrap()), ..LinkConfig::default() };
    link.queue.limit = Limit::Packets(queue);
    link
}

fn jitter(sd: f64) -> Jitter {
    Jitter { distribution: Distribution::Correlated { sd: millis(sd), over: Span::from_millis(20) }, reorder: false }
}

fn millis(ms: f64) -> Span {
    Span::from_secs_f64(ms / 1e3)
}

fn path(number: usize, text: &str) -> PathConfig {
    let fields: Vec<&str> = text.split('/').collect();
    let numbered = |letter: char| fields[3..].iter().find_map(|field| field.strip_prefix(letter));
    let queue = numbered('q').unwrap().parse().unwrap();
    // The recorded runs had jitter in the direction of the data only.
    let jitter = numbered('j').map(|sd| jitter(sd.parse().unwrap()));
    let acks = link(fields[0], fields[1], queue);
    let loss = fields[2].parse::<f64>().unwrap() / 100.0;
    let loss = if loss > 0.0 { Loss::Bernoulli(loss) } else { Loss::None };
    let data = LinkConfig { loss, jitter, ..acks.clone() };
    PathConfig { name: format!("p{number}"), role: Role::Active, data, acks, via: None, presence: Vec::new() }
}

fn cells() -> Vec<Cell> {
    let rows = include_str!("data/kernel.csv").lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.map(|row| {
        let [scenario, cc, proto, bytes, paths, left_out, goodput] = row.split(',').collect::<Vec<_>>()[..] else {
            panic!("seven columns: {row}");
        };
        let single = proto == "tcp";
        let mut transport = if single { TransportConfig::tcp() } else { TransportConfig::mptcp_linux_v1() };
        transport.direction = Direction::Upload;
        let paths = paths.split(';').enumerate().map(|(number, text)| path(number, text)).collect();
        Cell {
            name: scenario.to_owned(),
            cc: cc.to_owned(),
            single,
            kernel: goodput.split(' ').map(|number| number.parse().unwrap()).collect(),
            left_out: left_out.parse().unwrap(),
            config: SimConfig::new(transport, paths, Bytes::new(bytes.parse().unwrap())),
        }
    })
    .collect()
}

fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

fn ours(cell: &Cell) -> Vec<f64> {
    let bytes = match cell.config.workload {
        weftway_scenario::config::Workload::Bulk { bytes } => bytes.get() as f64,
        _ => unreachable!("cells are bulk transfers"),
    };
    let scheduler = if cell.single { "min-rtt" } else { "linux-v1" };
    let mut goodput: Vec<f64> = (0..SEEDS)
        .map(|seed| {
            let (sim, _) = weftway_sim::run::run(&cell.config, scheduler, &cell.cc, seed).unwrap();
            bytes * 8.0 / sim.now().as_secs_f64() / 1e6
        })
        .collect();
    goodput.sort_by(f64::total_cmp);
    goodput
}

/// Runs in ascending order; a bar where the next is half as much again: two modes.
fn list(values: &[f64]) -> String {
    let mut text = format!("{:.2}", values[0]);
    for pair in values.windows(2) {
        let bar = if pair[1] > 1.5 * pair[0] { " |" } else { "" };
        text += &format!("{bar} {:.2}", pair[1]);
    }
    text
}

struct Line {
    text: String,
    error: f64,
    meets: bool,
    single: bool,
}

fn compare(cell: &Cell) -> Line {
    let goodput = ours(cell);
    let (mine, theirs) = (median(&goodput), median(&cell.kernel));
    let error = mine / theirs - 1.0;
    let (low, high) = (cell.kernel[0] * 0.9, cell.kernel[cell.kernel.len() - 1] * 1.1);
    let meets = goodput[INTERVAL.0] <= high && goodput[INTERVAL.1] >= low;
    let text = format!(
        "{:<22} {:<6} {:>7.2} {:>7.2} {:>+6.1} % {}  kernel [{}]  ours [{}]",
        cell.name,
        cell.cc,
        theirs,
        mine,
        error * 100.0,
        if meets { "meets" } else { "apart" },
        list(&cell.kernel),
        list(&goodput),
    );
    Line { text, error: error.abs(), meets, single: cell.single }
}

#[test]
fn the_kernels_goodput_is_ours() {
    let cells = cells();
    let left_out: u32 = cells.iter().map(|cell| cell.left_out).sum();
    let lines: Vec<Line> = std::thread::scope(|scope| {
        let halves = cells.chunks(cells.len().div_ceil(2));
        let workers: Vec<_> = halves.map(|half| scope.spawn(|| half.iter().map(compare).collect::<Vec<_>>())).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    println!("{:<22} {:<6} {:>7} {:>7}", "cell", "cc", "kernel", "ours");
    lines.iter().for_each(|line| println!("{}", line.text));
    let counted = format!("{} cells; {left_out} late runs left out", lines.len());
    println!("{counted}");
    let errors = |single: bool| {
        let mut errors: Vec<f64> = lines.iter().filter(|line| line.single == single).map(|line| line.error).collect();
        errors.sort_by(f64::total_cmp);
        errors
    };
    let misses =
        |single: bool| lines.iter().filter(|line| line.single == single && line.error > 0.25 && !line.meets).count();
    let (single, multi) = (errors(true), errors(false));
    let summary = format!(
        "single path: median {:.1} %, ninth decile {:.1} %, {} of {} miss; several paths: median {:.1} %, worst {:.1} %, {} of {} miss",
        median(&single) * 100.0,
        single[single.len() * 9 / 10] * 100.0,
        misses(true),
        single.len(),
        median(&multi) * 100.0,
        multi[multi.len() - 1] * 100.0,
        misses(false),
        multi.len(),
    );
    println!("{summary}");
    assert!(median(&single) <= 0.10, "single paths: the median cell is within a tenth");
    assert!(misses(true) <= single.len() / 10, "single paths: nine in ten within a quarter");
    assert!(median(&multi) <= 0.10, "several paths: the median cell is within a tenth");
    assert_eq!(misses(false), 0, "several paths: the worst cell is within a quarter");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/explanation/fidelity.md");
    let told = format!("{counted}\n{summary}\n");
    assert!(
        std::fs::read_to_string(&page).unwrap().contains(&told),
        "docs/explanation/fidelity.md says otherwise:\n{told}"
    );
}
