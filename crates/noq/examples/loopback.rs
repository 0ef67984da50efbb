//! Bulk transfer over two loopback addresses, noq by itself against gates, interleaved: `loopback [MB] [ROUNDS] [NUMBER
//! …]`. With numbers, only those candidates run. Ratios are of the medians; CPU time is that of the whole process,
//! sender and receiver.

use std::sync::Arc;
use std::time::Instant;

use noq::{Runtime, TokioRuntime};
use weftway_noq::Batching;
use weftway_quic::controller::Controllers;
use weftway_quic::gate::Gate;

use pair::Failure;

#[path = "../tests/pair/mod.rs"]
mod pair;

/// Senders: noq with its own CUBIC, noq with this project's, and gates; on noq's sockets, or on those that send in
/// batches.
const CANDIDATES: [(Sender, bool); 8] = [
    (Sender::Noq, false),
    (Sender::OurController, false),
    (Sender::Gate("min-rtt"), false),
    (Sender::Gate("earliest-delivery"), false),
    (Sender::Gate("round-robin:num_segments=10"), false),
    (Sender::Gate("round-robin"), false),
    (Sender::Gate("min-rtt"), true),
    (Sender::Gate("round-robin"), true),
];

#[derive(Clone, Copy)]
enum Sender {
    Noq,
    OurController,
    Gate(&'static str),
}

fn name((sender, in_batches): (Sender, bool)) -> String {
    let name = match sender {
        Sender::Noq => "noq",
        Sender::OurController => "noq, our cubic",
        Sender::Gate(spec) => spec,
    };
    if in_batches { format!("{name}, in batches") } else { name.to_owned() }
}

/// CPU seconds of this process so far, from `/proc/self/stat`; 100 ticks a second.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Mbit/s, CPU seconds per GB, and what the gate counted.
async fn transfer((sender, in_batches): (Sender, bool), bytes: usize) -> Result<(f64, f64, String), Failure> {
    let mut transport = pair::transport();
    let mut gate = None;
    match sender {
        Sender::Noq => {}
        Sender::OurController => {
            transport.congestion_controller_factory(Arc::new(Controllers::new("cubic")?));
        }
        Sender::Gate(spec) => {
            let gate = gate.insert(Gate::new(spec)?);
            transport.congestion_controller_factory(Arc::new(gate.clone()));
        }
    }
    let mut runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime);
    if in_batches {
        runtime = Arc::new(Batching::new(runtime));
    }
    // The server's sockets are noq's own, whatever sends.
    let pair = pair::connect(transport, [runtime, Arc::new(TokioRuntime)]).await?;

    let (begin, before) = (Instant::now(), cpu());
    let mut sender = pair.client.open_uni().await?;
    let accepted = pair.server.clone();
    let receiver = tokio::spawn(async move {
        let mut stream = accepted.accept_uni().await?;
        let mut read = 0;
        while let Some(chunk) = stream.read_chunk(usize::MAX).await? {
            read += chunk.len();
        }
        Ok::<_, Failure>(read)
    });
    let (data, mut left) = (vec![0; 1 << 20], bytes);
    while left > 0 {
        let part = left.min(data.len());
        sender.write_all(&data[..part]).await?;
        left -= part;
    }
    sender.finish()?;
    let read = receiver.await??;
    if read != bytes {
        return Err(format!("{read} bytes arrived of {bytes}").into());
    }
    let (time, cpu) = (begin.elapsed().as_secs_f64(), cpu() - before);
    let counts = gate.map(|gate| {
        let shares: Vec<u64> = gate.paths().iter().map(|path| path.sent.packets).collect();
        format!("{}: packets {shares:?} {:?}", gate.name(), gate.counts())
    });
    Ok((read as f64 * 8e-6 / time, cpu * 1e9 / read as f64, counts.unwrap_or_default()))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let (megabytes, rounds) = (args.next().unwrap_or(1000), args.next().unwrap_or(3));
    let mut chosen: Vec<usize> = args.filter(|number| *number < CANDIDATES.len()).collect();
    if chosen.is_empty() {
        chosen = (0..CANDIDATES.len()).collect();
    }
    let mut measured = vec![(Vec::new(), Vec::new()); CANDIDATES.len()];
    for round in 0..rounds {
        for &at in &chosen {
            let (rate, cpu, counts) = transfer(CANDIDATES[at], megabytes * 1_000_000).await?;
            println!("{round} {:28} {rate:6.0} Mbit/s  {cpu:5.2} CPU-s/GB  {counts}", name(CANDIDATES[at]));
            measured[at].0.push(rate);
            measured[at].1.push(cpu);
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let medians: Vec<_> = measured.iter_mut().map(|(rates, cpu)| (median(rates), median(cpu))).collect();
    for at in chosen {
        let (rate, cpu) = medians[at];
        let (noq, ours) = (rate / medians[0].0, rate / medians[1].0);
        println!(
            "{:28} {rate:6.0} Mbit/s  {cpu:5.2} CPU-s/GB  {noq:.2} of noq, {ours:.2} of noq with our controller",
            name(CANDIDATES[at])
        );
    }
    Ok(())
}
