//! Bulk transfer over two loopback addresses, noq by itself against gates, interleaved: `loopback [MB] [ROUNDS]`.
//! Ratios are of the medians; CPU time is that of the whole process, sender and receiver.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use noq::rustls::RootCertStore;
use noq::rustls::pki_types::PrivatePkcs8KeyDer;
use noq::{ClientConfig, Endpoint, FourTuple, PathStatus, ServerConfig, TransportConfig};
use weftway_quic::controller::Controllers;
use weftway_quic::gate::{self, Gate};

type Failure = Box<dyn Error + Send + Sync>;

/// noq with its own CUBIC, noq with this project's, and gates.
const CANDIDATES: [Option<&str>; 6] = [
    None,
    Some(CONTROLLER),
    Some("min-rtt"),
    Some("earliest-delivery"),
    Some("round-robin:num_segments=10"),
    Some("round-robin"),
];

/// No gate: only the controller that stands behind each gate.
const CONTROLLER: &str = "(ungated, our cubic)";

/// CPU seconds of this process so far, from `/proc/self/stat`; 100 ticks a second.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Mbit/s, CPU seconds per GB, and what the gate counted.
async fn transfer(spec: Option<&str>, bytes: usize) -> Result<(f64, f64, String), Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone())?;
    let mut transport = TransportConfig::default();
    transport.max_concurrent_multipath_paths(2);

    let mut server_config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
    server_config.transport_config(Arc::new(transport.clone()));
    let server = Endpoint::server(server_config, "0.0.0.0:0".parse()?)?;
    let address = SocketAddr::new([127, 0, 0, 1].into(), server.local_addr()?.port());

    let gate = spec.filter(|spec| *spec != CONTROLLER).map(Gate::new).transpose()?;
    if spec == Some(CONTROLLER) {
        transport.congestion_controller_factory(Arc::new(Controllers::new("cubic")?));
    }
    if let Some(gate) = &gate {
        transport.congestion_controller_factory(Arc::new(gate.clone()));
    }
    let mut client_config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client_config.transport_config(Arc::new(transport));
    let client = Endpoint::client("0.0.0.0:0".parse()?)?;
    let connecting = client.connect_with(client_config, address, "localhost")?;
    let accepting = async { Ok::<_, Failure>(server.accept().await.ok_or("no client")?.await?) };
    let (connection, accepted) = tokio::join!(connecting, accepting);
    let (connection, accepted) = (connection?, accepted?);
    let second = FourTuple::new(address, Some([127, 0, 0, 2].into()));
    let open = |to| connection.open_path(to, PathStatus::Available);
    let _second = gate::open_paths([second], open, tokio::time::sleep).await?;

    let (begin, before) = (Instant::now(), cpu());
    let mut sender = connection.open_uni().await?;
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
    let mut rates = [const { Vec::new() }; CANDIDATES.len()];
    for round in 0..rounds {
        for (index, spec) in CANDIDATES.iter().enumerate() {
            let (rate, cpu, counts) = transfer(*spec, megabytes * 1_000_000).await?;
            println!("{round} {:28} {rate:6.0} Mbit/s  {cpu:5.2} CPU-s/GB  {counts}", spec.unwrap_or("(ungated)"));
            rates[index].push(rate);
        }
    }
    let medians = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    for (spec, median) in CANDIDATES.iter().zip(medians).skip(1) {
        let (noq, ours) = (median / medians[0], median / medians[1]);
        println!("{:28} {noq:.2} of noq, {ours:.2} of noq with our controller", spec.unwrap_or_default());
    }
    Ok(())
}
