//! A file over two loopback addresses, as `weft send` does it: `transfer [MB] [SCHEDULER …]`. CPU time is that of the
//! whole process: sender, receiver, hashes, cryptography and disk.

use std::error::Error;
use std::sync::mpsc::channel;
use std::time::Instant;

use weftway_transfer::{Connect, Links, Listen, ReceiveOptions, Scheduling, SendOptions, receive, send};
use weftway_udp::Local;
use weftway_udp::tls::Identity;

/// CPU seconds of this process so far, from `/proc/self/stat`; 100 ticks a second.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn transfer(scheduler: &str, megabytes: usize) -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("weftway-transfer-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let file = dir.join("data");
    let random: Vec<u8> = (0..1_000_003_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let data: Vec<u8> = random.iter().copied().cycle().take(megabytes * 1_000_000).collect();
    std::fs::write(&file, data)?;

    let identity = Identity::generate()?;
    let pairing = identity.pairing();
    let (told, listening) = channel();
    let target = dir.join("target");
    let order = ReceiveOptions::new(Listen { address: ([127, 0, 0, 1], 0).into(), identity });
    let receiver = std::thread::spawn(move || {
        receive(&target, order, &mut |progress| {
            // The sender takes the first one.
            let _ = progress.listening.map(|address| told.send(address));
            true
        })
    });
    let address = listening.recv()?;
    let (begin, before) = (Instant::now(), cpu());
    let links = Links::plain(["127.0.0.1", "127.0.0.2"].map(Local::parse).into());
    let scheduling = Scheduling { scheduler: scheduler.to_owned(), ..Scheduling::default() };
    let options = SendOptions { links, scheduling, ..SendOptions::new(Connect::to(vec![address], pairing)) };
    let report = send(&file, options, &mut |_| true);
    receiver.join().map_err(|_| "the receiver panicked")??;
    let (report, wall, cpu) = (report?, begin.elapsed().as_secs_f64(), cpu() - before);
    std::fs::remove_dir_all(&dir)?;
    let shares: Vec<u64> = report.paths.iter().map(|path| path.packets).collect();
    let lost: Vec<u64> = report.paths.iter().map(|path| path.lost).collect();
    let rtt: Vec<f64> = report.paths.iter().filter_map(|path| path.srtt_ms).collect();
    println!(
        "{scheduler:20} {:6.0} Mbit/s  {:5.2} CPU-s/GB  {wall:5.2} s  packets {shares:?} lost {lost:?} srtt {rtt:?} ms",
        report.goodput_mbps,
        cpu * 1e3 / megabytes as f64,
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let megabytes = args.next().and_then(|text| text.parse().ok()).unwrap_or(200);
    let given: Vec<String> = args.collect();
    let schedulers = if given.is_empty() { vec!["earliest-delivery".into(), "min-rtt".into()] } else { given };
    schedulers.iter().try_for_each(|scheduler| transfer(scheduler, megabytes))
}
