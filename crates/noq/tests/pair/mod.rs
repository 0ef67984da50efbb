//! A noq client and a noq server, connected over two loopback addresses.

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use noq::rustls::RootCertStore;
use noq::rustls::pki_types::PrivatePkcs8KeyDer;
use noq::{
    ClientConfig, Connection, Endpoint, EndpointConfig, FourTuple, Path, PathStatus, Runtime, ServerConfig,
    TransportConfig,
};
use weftway_quic::gate;

pub type Failure = Box<dyn Error + Send + Sync>;

/// Both ends of the connection, and what has to stay for as long.
pub struct Pair {
    pub client: Connection,
    pub server: Connection,
    _endpoints: [Endpoint; 2],
    _second: Vec<Path>,
}

/// A transport of two paths.
pub fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_multipath_paths(2);
    transport
}

/// Connects a client with this transport to a server, on the runtimes of both; the second path is open then.
pub async fn connect(client: TransportConfig, runtimes: [Arc<dyn Runtime>; 2]) -> Result<Pair, Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone())?;
    let mut client_config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client_config.transport_config(Arc::new(client));
    let mut server_config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
    server_config.transport_config(Arc::new(transport()));

    let endpoint = |config, runtime| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        Endpoint::new(EndpointConfig::default(), config, socket, runtime)
    };
    let [client_runtime, server_runtime] = runtimes;
    let endpoints = [endpoint(None, client_runtime)?, endpoint(Some(server_config), server_runtime)?];
    let address = SocketAddr::new([127, 0, 0, 1].into(), endpoints[1].local_addr()?.port());
    let connecting = endpoints[0].connect_with(client_config, address, "localhost")?;
    let accepting = async { Ok::<_, Failure>(endpoints[1].accept().await.ok_or("no client")?.await?) };
    let (client, server) = tokio::join!(connecting, accepting);
    let (client, server) = (client?, server?);
    let second = FourTuple::new(address, Some([127, 0, 0, 2].into()));
    let open = |to| client.open_path(to, PathStatus::Available);
    let _second = gate::open_paths([second], open, client.closed(), tokio::time::sleep).await?;
    Ok(Pair { client, server, _endpoints: endpoints, _second })
}
