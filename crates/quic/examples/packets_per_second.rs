//! How many packets virtual time takes in a second of the CPU, on Linux: `cargo run --release -p weftway-quic --example
//! packets_per_second`.

use weftway_host::Host;
use weftway_link::{Limit, LinkConfig, Queue, Rate};
use weftway_path::{BitRate, Bytes, Role, Span};
use weftway_quic::virtual_time::Job;
use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let link = |ms| LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(50)),
        delay: Span::from_millis(ms),
        queue: Queue { limit: Limit::Packets(100), ..Queue::default() },
        ..LinkConfig::default()
    };
    let path = |name: &str, ms| PathConfig {
        name: name.to_owned(),
        role: Role::Active,
        data: link(ms),
        acks: link(ms),
        via: None,
        presence: Vec::new(),
    };
    let config = SimConfig::new(TransportConfig::mpquic(), vec![path("a", 10), path("b", 30)], Bytes::new(100_000_000));
    for name in ["min-rtt", "earliest-delivery", "redundant"] {
        let (entry, spec) = weftway_sched::parse(name)?;
        let mut scheduler = entry.make(&spec.given)?;
        let job = Job { config: &config, cc: "cubic", seed: 1 };
        let mut world = job.world(Host::serving(scheduler.as_ref(), entry.transport))?;
        let start = cpu_seconds()?;
        let finished = world.run(scheduler.as_mut())?;
        let seconds = cpu_seconds()? - start;
        println!(
            "{name}: {} datagrams in {seconds:.2} s of CPU, {:.0} a second; 100 MB in {:.2} s of virtual time",
            finished.datagrams,
            finished.datagrams as f64 / seconds,
            world.elapsed().as_secs_f64(),
        );
    }
    Ok(())
}

/// What this thread has had of the CPU.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos: u64 = stat.split_whitespace().next().ok_or("no such figure")?.parse()?;
    Ok(nanos as f64 / 1e9)
}
