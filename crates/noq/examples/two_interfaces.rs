//! Two links with one socket each, the health of both, and a price: the second link costs money. It is a backup until the
//! first is slow, and closed for good when its budget is used up.
//!
//! `two_interfaces [FIRST-ADDRESS SECOND-ADDRESS]`, by default two of the loopback; the server is in the same program.

use std::error::Error;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use noq::rustls::RootCertStore;
use noq::rustls::pki_types::PrivatePkcs8KeyDer;
use noq::{ClientConfig, Endpoint, EndpointConfig, FourTuple, PathStatus, ServerConfig, TransportConfig};
use weftway_noq::Interfaces;
use weftway_noq::gate::{self, Gate, Role};

/// Bytes that leave through a link that costs money before it is closed: 8 MB, at a price of 4 /GB some 0.03.
const BUDGET: u64 = 8_000_000;
const PRICE_PER_GB: f64 = 4.0;

/// Smoothed round trip at which the first link counts as slow.
const SLOW: Duration = Duration::from_millis(150);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut given = std::env::args().skip(1);
    let first: IpAddr = given.next().map_or(Ok([127, 0, 0, 1].into()), |text| text.parse())?;
    let second: IpAddr = given.next().map_or(Ok([127, 0, 0, 2].into()), |text| text.parse())?;

    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone())?;
    let mut transport = TransportConfig::default();
    transport.max_concurrent_multipath_paths(2);
    let mut server_config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
    server_config.transport_config(Arc::new(transport.clone()));
    let server = Endpoint::server(server_config, "0.0.0.0:0".parse()?)?;
    let address = SocketAddr::new(first, server.local_addr()?.port());

    // A socket for each link; a gate for the connection.
    let runtime = noq::default_runtime().ok_or("no runtime")?;
    let sockets = [UdpSocket::bind((first, 0))?, UdpSocket::bind((second, 0))?];
    let socket = Box::new(Interfaces::new(sockets, &*runtime)?);
    let client = Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, runtime)?;
    let (transport, gate) = Gate::new("min-rtt")?.connection(&transport);
    let mut client_config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client_config.transport_config(transport);

    let connecting = client.connect_with(client_config, address, "localhost")?;
    let accepting = async { Ok::<_, Box<dyn Error>>(server.accept().await.ok_or("no client")?.await?) };
    let (connection, accepted) = tokio::join!(connecting, accepting);
    let (connection, accepted) = (connection?, accepted?);
    let open = |to| connection.open_path(to, PathStatus::Available);
    let to = FourTuple::new(address, Some(second));
    let paid = gate::open_paths([to], open, connection.closed(), tokio::time::sleep).await?.remove(0);

    let receiver = tokio::spawn(async move {
        accepted.accept_uni().await?.read_to_end(64 << 20).await.map_err(Box::<dyn Error + Send + Sync>::from)
    });
    let mut stream = connection.open_uni().await?;
    let (mut is_closed, mut paid_bytes) = (false, 0);
    for _ in 0..64 {
        stream.write_all(&vec![0; 1 << 20]).await?;
        // Health: round trips, windows, rates and losses of each path that has been proven.
        let paths = gate.paths();
        let [free, costly] = &paths[..] else { continue };
        let role = if free.srtt.as_nanos() > SLOW.as_nanos() as u64 { Role::Active } else { Role::Backup };
        if role != costly.role && !is_closed {
            // noq does not tell a gate of it: both are told.
            paid.set_status(if role == Role::Backup { PathStatus::Backup } else { PathStatus::Available })?;
            gate.set_role(costly.id, role);
        }
        paid_bytes = costly.sent.bytes.get();
        if paid_bytes > BUDGET && !is_closed {
            paid.close()?;
            is_closed = true;
        }
    }
    stream.finish()?;
    let read = receiver.await?.map_err(|error| error.to_string())?.len();
    for path in gate.paths() {
        println!("{:?}: srtt {}, rate {}, {} packets lost", path.id, path.srtt, path.delivery_rate, path.lost.packets);
    }
    println!("paid: {:.4}", paid_bytes as f64 * 1e-9 * PRICE_PER_GB);
    println!("{read} bytes arrived; {:?}", gate.counts());
    Ok(())
}
