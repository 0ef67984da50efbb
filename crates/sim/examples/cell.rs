//! dev: one cell
use weftway_link::*;
use weftway_path::*;
use weftway_sim::config::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    // cell PROTO CC BYTES "rate/delay/loss/qN;..." SCHED SEEDS
    let mut t = match a[1].as_str() { "tcp" => Transport::tcp(), "v1" => Transport::mptcp_linux_v1(), "v0" => Transport::mptcp_v09x(), _ => Transport::mpquic() };
    t.direction = Direction::Upload;
    let bytes = a[3].parse().unwrap();
    let paths: Vec<_> = a[4].split(';').enumerate().map(|(n, p)| {
        let f: Vec<&str> = p.split('/').collect();
        let mut l = LinkConfig { rate: BitRate::from_bps((f[0].parse::<f64>().unwrap() * 1e6) as u64).into(), delay: Span::from_secs_f64(f[1].parse::<f64>().unwrap() / 1e3), ..Default::default() };
        l.queue.limit = Limit::Packets(100);
        for x in &f[3..] {
            if let Some(q) = x.strip_prefix('q') { l.queue.limit = Limit::Packets(q.parse().unwrap()); }
            if x.starts_with('j') { l.jitter = Some(Jitter { distribution: Distribution::Correlated { sd: Span::from_micros(2200), over: Span::from_millis(20) }, reorder: false }); }
        }
        let acks = l.clone();
        let loss: f64 = f[2].parse().unwrap();
        if loss > 0.0 { l.loss = Loss::Bernoulli(loss / 100.0); }
        PathConfig { name: format!("p{n}"), role: Role::Active, data: l, acks, via: None, presence: vec![] }
    }).collect();
    let config = SimConfig::new(t, paths, Bytes::new(bytes));
    let seeds: u64 = a[6].parse().unwrap();
    let mut g = Vec::new();
    let t0 = std::time::Instant::now();
    let mut packets = 0;
    for s in 0..seeds {
        let (sim, v) = weftway_sim::run::run(&config, &a[5], &a[2], s).unwrap();
        let c = sim.connection(0);
        packets += c.tally.arrived;
        g.push(bytes as f64 * 8.0 / sim.now().as_secs_f64() / 1e6);
        if seeds <= 3 { println!("{v:?} t={} ev={} pk={} {:?}", sim.now(), sim.calendar_events(), c.tally.arrived, c.tally);
            for p in &c.path_tallies { println!("   {p:?}"); } }
    }
    g.sort_by(f64::total_cmp);
    let dt = t0.elapsed().as_secs_f64();
    println!("{:?} median {:.2}  {:.2} Mpkt/s", g.iter().map(|x| (x * 100.0).round() / 100.0).collect::<Vec<_>>(), g[g.len() / 2], packets as f64 / dt / 1e6);
}
