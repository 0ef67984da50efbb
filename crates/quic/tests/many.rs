//! Many gated connections of one client endpoint at once, on sockets.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use noq::rustls::RootCertStore;
use noq::rustls::pki_types::PrivatePkcs8KeyDer;
use noq::{ClientConfig, Connection, Endpoint, FourTuple, PathStatus, ServerConfig, TransportConfig};
use weftway_quic::gate::{self, Gate};

type Failure = Box<dyn Error + Send + Sync>;

const CONNECTIONS: usize = 100;
const BYTES: usize = 100_000;

/// On a busy machine noq loses a connection now and then that opens a second path at once: with its own controllers and
/// without a gate 3 runs in 10 had one that was silent until its idle timeout.
const RETRIES: usize = 3;
const IDLE: Duration = Duration::from_secs(3);

/// Sends bytes over two paths and has them back: the connection, which has not been closed.
async fn echo(client: &Endpoint, config: ClientConfig, address: SocketAddr, fill: u8) -> Result<Connection, Failure> {
    let connection = client.connect_with(config, address, "localhost")?.await?;
    let second = FourTuple::new(address, Some([127, 0, 0, 2].into()));
    let open = |to| connection.open_path(to, PathStatus::Available);
    gate::open_paths([second], open, connection.closed(), tokio::time::sleep).await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    let data = vec![fill; BYTES];
    send.write_all(&data).await?;
    send.finish()?;
    let echo = receive.read_to_end(BYTES).await?;
    assert!(echo == data, "connection {fill} got other data");
    Ok(connection)
}

/// Answers each connection with what it sends, behind a gate of its own.
async fn serve(server: Endpoint, config: ServerConfig, pattern: Gate, transport: TransportConfig) {
    while let Some(incoming) = server.accept().await {
        let mut config = config.clone();
        config.transport_config(pattern.connection(&transport).0);
        let Ok(connecting) = incoming.accept_with(Arc::new(config)) else { continue };
        tokio::spawn(async move {
            let connection = connecting.await?;
            let (mut send, mut receive) = connection.accept_bi().await?;
            let data = receive.read_to_end(BYTES).await?;
            send.write_all(&data).await?;
            send.finish()?;
            connection.closed().await;
            Ok::<_, Failure>(())
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_connections_at_once_each_have_their_own_gate() -> Result<(), Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone())?;
    let roots = Arc::new(roots);
    let mut transport = TransportConfig::default();
    transport.max_concurrent_multipath_paths(2);
    transport.max_idle_timeout(Some(IDLE.try_into()?));
    let pattern = Gate::new("round-robin:num_segments=2")?.with_controller("olia")?;

    let mut server_config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
    server_config.transport_config(Arc::new(transport.clone()));
    let server = Endpoint::server(server_config.clone(), "0.0.0.0:0".parse()?)?;
    let address = SocketAddr::new([127, 0, 0, 1].into(), server.local_addr()?.port());
    tokio::spawn(serve(server.clone(), server_config, pattern.clone(), transport.clone()));

    let client = Endpoint::client("0.0.0.0:0".parse()?)?;
    let mut tasks = Vec::new();
    for number in 0..CONNECTIONS {
        let (pattern, transport, roots, client) = (pattern.clone(), transport.clone(), roots.clone(), client.clone());
        tasks.push(tokio::spawn(async move {
            let mut tries = 0;
            loop {
                let (config, gate) = pattern.connection(&transport);
                let mut client_config = ClientConfig::with_root_certificates(Arc::clone(&roots))?;
                client_config.transport_config(config);
                match echo(&client, client_config, address, number as u8).await {
                    Ok(connection) => return Ok::<_, Failure>((gate, connection)),
                    Err(error) if tries == RETRIES => return Err(error),
                    Err(_) => tries += 1,
                }
            }
        }));
    }
    let all = async {
        for (number, task) in tasks.into_iter().enumerate() {
            // The gate forgets its paths when the connection is gone.
            let (gate, _connection) = task.await??;
            // What one connection sends, and no more: its gate saw no other's packets.
            let sent: u64 = gate.paths().iter().map(|path| path.sent.bytes.get()).sum();
            assert!((BYTES as u64..3 * BYTES as u64).contains(&sent), "connection {number} sent {sent}");
            assert!(gate.paths().iter().all(|path| path.id.get() < 2), "connection {number}");
            assert!(gate.counts().decisions > 0, "connection {number}");
        }
        Ok::<_, Failure>(())
    };
    tokio::time::timeout(Duration::from_secs(120), all).await?
}
