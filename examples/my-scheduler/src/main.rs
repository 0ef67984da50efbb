//! A scheduler that lives outside Weftway's source tree, beside one of the registry's.

use std::error::Error;
use std::path::Path as File;

use weftway_path::{Bytes, Context, Decision, Path};
use weftway_scenario::Scenario;
use weftway_sched::{Scheduler, TransportRules};
use weftway_sim::measure::Singles;
use weftway_sim::run::Job;

/// Min-RTT that lets standing queues drain: a path whose round trip has doubled gets nothing more
/// while it has packets in flight.
#[derive(Clone)]
struct Calm;

impl Calm {
    fn is_calm(path: &Path) -> bool {
        path.srtt <= path.min_rtt * 2 || path.bytes_in_flight == Bytes::ZERO
    }
}

impl Scheduler for Calm {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        // Without a packet at hand only copies may go, and this rule makes none.
        let calm = cx.sendable().filter(|path| Self::is_calm(path));
        let fastest = cx.packet.and(calm.min_by_key(|path| path.srtt));
        fastest.map_or(Decision::Wait, |path| Decision::Send(path.id))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or("scenarios/wifi-lte.toml".to_owned());
    let scenario = Scenario::load(File::new(&file), &[])?;
    for variant in scenario.variants()? {
        let job = Job { config: &variant.config, cc: "cubic", seed: 0, timing: variant.timing };
        let mut mine: Box<dyn Scheduler> = Box::new(Calm);
        let runs = [
            ("calm", job.run(mine.as_mut(), TransportRules::NONE, Vec::new())?),
            ("min-rtt", job.run_named("min-rtt")?),
        ];
        for (name, finished) in &runs {
            let row = job.row(finished, &Singles::default());
            println!("{name:<8} {:>8} ms {:>10} Mbit/s", row["fct_ms"], row["goodput_mbps"]);
        }
    }
    Ok(())
}
