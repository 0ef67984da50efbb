//! A noq client and server over two loopback addresses, with a scheduler by name: `gated round-robin:num_segments=10`.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use noq::rustls::RootCertStore;
use noq::rustls::pki_types::PrivatePkcs8KeyDer;
use noq::{ClientConfig, Endpoint, FourTuple, PathStatus, ServerConfig, TransportConfig};
use weftway_quic::gate::{self, Gate};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let spec = std::env::args().nth(1).unwrap_or_else(|| "min-rtt".into());
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

    let gate = Gate::new(&spec)?; // A copy stays here, to look at.
    transport.congestion_controller_factory(Arc::new(gate.clone()));

    let mut client_config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client_config.transport_config(Arc::new(transport));
    let client = Endpoint::client("0.0.0.0:0".parse()?)?;
    client.set_default_client_config(client_config);
    let (connecting, incoming) = (client.connect(address, "localhost")?, server.accept());
    let (connection, accepted) =
        tokio::join!(connecting, async { incoming.await.ok_or("no client")?.await.map_err(Box::<dyn Error>::from) });
    let (connection, accepted) = (connection?, accepted?);
    let second = FourTuple::new(address, Some([127, 0, 0, 2].into()));
    let open = |to| connection.open_path(to, PathStatus::Available);
    let _second = gate::open_paths([second], open, connection.closed(), tokio::time::sleep).await?;

    let begin = Instant::now();
    let (mut sender, data) = (connection.open_uni().await?, vec![0; 64 << 20]);
    let receiver = tokio::spawn(async move {
        accepted.accept_uni().await?.read_to_end(64 << 20).await.map_err(Box::<dyn Error + Send + Sync>::from)
    });
    sender.write_all(&data).await?;
    sender.finish()?;
    let read = receiver.await?.map_err(|error| error.to_string())?.len();
    println!("{spec}: {read} bytes, {:.0} Mbit/s", read as f64 * 8e-6 / begin.elapsed().as_secs_f64());
    for path in gate.paths() {
        println!(
            "{:?}: {} packets, srtt {}, window {}, lost {}",
            path.id, path.sent.packets, path.srtt, path.cwnd, path.lost.packets
        );
    }
    println!("{:?}", gate.counts());
    Ok(())
}
