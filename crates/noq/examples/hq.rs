//! HTTP/0.9 over QUIC (`hq-interop`) with a gate and several paths: one end for trying noq with another stack.
//!
//! ```text
//! hq schedulers                                   names of those that a gate takes
//! hq certificate CERTIFICATE KEY                  makes both files
//! hq serve ADDRESS CERTIFICATE KEY [OPTION …]     one connection for each --scheduler, in turn
//! hq fetch ADDRESS CERTIFICATE [OPTION …] STEP …  one connection
//! ```
//!
//! Options: `--scheduler NAME`, `--paths N` (at once), `--idle MS` (of a path, until it is closed). Steps: `get=BYTES`,
//! `put=BYTES`; `path=IP` and `backup=IP` open a path from a local address; `close-in=BYTES` uploads, and closes the
//! path that was opened last in the middle.
//!
//! Data are 64-bit numbers, 0, 1, 2 …, little-endian. The answer to `PUT` is the number of right bytes. For each
//! connection a line of JSON says how it ended and how many frames of each kind each path carried, sent and received.

use std::error::Error;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::rustls::pki_types::pem::PemObject;
use noq::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use noq::rustls::{self, RootCertStore};
use noq::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, FourTuple, Path, PathEvent, PathId,
    PathStatus, RecvStream, SendStream, ServerConfig, TokioRuntime, TransportConfig,
};
use tokio_stream::StreamExt;
use weftway_quic::gate::{self, Gate, Role};

type Failure = Box<dyn Error + Send + Sync>;

const ALPN: &[u8] = b"hq-interop";
const MOST: usize = 256 << 20;
/// Frames of data that a path has carried when it is closed in the middle.
const USED: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Options {
    words: Vec<String>,
    schedulers: Vec<String>,
    transport: TransportConfig,
}

fn options() -> Result<Options, Failure> {
    let (mut given, mut arguments) = (Options::default(), std::env::args().skip(1));
    given.transport.max_concurrent_multipath_paths(4);
    while let Some(word) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{word} needs a value"));
        match &*word {
            "--scheduler" => given.schedulers.push(value()?),
            "--paths" => drop(given.transport.max_concurrent_multipath_paths(value()?.parse()?)),
            "--idle" => {
                let idle = Duration::from_millis(value()?.parse()?);
                given.transport.default_path_max_idle_timeout(Some(idle));
                given.transport.default_path_keep_alive_interval(Some(idle / 5));
            }
            _ => given.words.push(word),
        }
    }
    if given.schedulers.is_empty() {
        given.schedulers.push("min-rtt".into());
    }
    Ok(given)
}

fn content(bytes: usize) -> Vec<u8> {
    let mut all: Vec<u8> = (0..bytes.div_ceil(8) as u64).flat_map(u64::to_le_bytes).collect();
    all.truncate(bytes);
    all
}

/// A connection, its gate, and every path that it ever had.
struct Watched {
    connection: Connection,
    gate: Gate,
    paths: Arc<Mutex<Vec<Path>>>,
}

impl Watched {
    fn new(connection: Connection, gate: Gate) -> Self {
        // The counts of a path are there as long as somebody holds it.
        let mut events = connection.path_events();
        let already = (0..9u32).filter_map(|id| connection.path(id.into()));
        let paths = Arc::new(Mutex::new(already.collect::<Vec<_>>()));
        let (held, watched, roles) = (Arc::clone(&paths), connection.clone(), gate.clone());
        tokio::spawn(async move {
            while let Some(Ok(event)) = events.next().await {
                match event {
                    PathEvent::Established { id, .. } => {
                        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                        if held.iter().all(|path| path.id() != id) {
                            held.extend(watched.path(id));
                        }
                    }
                    // noq leaves to the application whether it does as the peer wishes.
                    PathEvent::RemoteStatus { id, status, .. } => {
                        let _ = watched.path(id).map(|path| path.set_status(status));
                        set_role(&roles, id, status);
                    }
                    _ => {}
                }
            }
        });
        Self { connection, gate, paths }
    }

    fn report(&self, ended: &str) -> String {
        let paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let path = |path: &Path| {
            let (sent, received) = (path.stats().frame_tx, path.stats().frame_rx);
            let counts = [
                ("stream", sent.stream, received.stream),
                ("path_ack", sent.path_acks, received.path_acks),
                ("path_abandon", sent.path_abandon, received.path_abandon),
                ("path_status_backup", sent.path_status_backup, received.path_status_backup),
                ("path_status_available", sent.path_status_available, received.path_status_available),
                ("max_path_id", sent.max_path_id, received.max_path_id),
            ];
            let counts = counts.map(|(name, sent, received)| format!(r#", "{name}": [{sent}, {received}]"#));
            format!(r#"{{"id": {}{}}}"#, path.id(), counts.concat())
        };
        format!(
            r#"{{"scheduler": {:?}, "ended": {ended:?}, "multipath": {}, "faults": {}, "asked": {}, "paths": [{}]}}"#,
            self.gate.name(),
            self.connection.is_multipath_enabled(),
            self.gate.counts().faults,
            self.gate.counts().decisions,
            paths.iter().map(path).collect::<Vec<_>>().join(", "),
        )
    }

    async fn open(&self, server: SocketAddr, local: IpAddr, status: PathStatus) -> Result<Path, Failure> {
        let to = FourTuple::new(server, Some(local));
        let open = |to| self.connection.open_path(to, PathStatus::Available);
        let mut opened = gate::open_paths([to], open, self.connection.closed(), tokio::time::sleep).await?;
        let path = opened.pop().ok_or("no path was opened")?;
        if status == PathStatus::Backup {
            // noq 1.4 does not tell the peer which status a path has from the beginning.
            path.set_status(status)?;
            set_role(&self.gate, path.id(), status);
        }
        Ok(path)
    }

    /// Sends a request with `bytes` of data after it, and reads the answer.
    async fn ask(&self, line: String, bytes: usize) -> Result<Vec<u8>, Failure> {
        let (mut send, mut receive) = self.connection.open_bi().await?;
        send.write_all(line.as_bytes()).await?;
        send.write_all(&content(bytes)).await?;
        send.finish()?;
        Ok(receive.read_to_end(MOST).await?)
    }

    async fn get(&self, bytes: usize) -> Result<(), Failure> {
        if self.ask(format!("GET /{bytes}\r\n"), 0).await? == content(bytes) {
            return Ok(());
        }
        Err(format!("get {bytes}: other bytes arrived").into())
    }

    async fn put(&self, bytes: usize) -> Result<(), Failure> {
        let right = self.ask(format!("PUT /{bytes}\r\n"), bytes).await?;
        if right == bytes.to_string().as_bytes() {
            return Ok(());
        }
        Err(format!("put {bytes}: {} bytes are right there", String::from_utf8_lossy(&right)).into())
    }
}

/// Closes a path when data have left on it.
async fn close_used(path: &Path) -> Result<(), Failure> {
    while path.stats().frame_tx.stream < USED {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(path.close()?)
}

fn set_role(gate: &Gate, id: PathId, status: PathStatus) {
    let role = if status == PathStatus::Backup { Role::Backup } else { Role::Active };
    // noq prints the number of a path, and does not give it.
    if let Ok(number) = id.to_string().parse() {
        gate.set_role(gate::PathId::new(number), role);
    }
}

async fn answer(mut send: SendStream, mut receive: RecvStream) -> Result<(), Failure> {
    let asked = receive.read_to_end(MOST).await?;
    let end = asked.iter().position(|&byte| byte == b'\n').ok_or("a request is a line")?;
    let (line, body) = asked.split_at(end + 1);
    let (verb, bytes) =
        std::str::from_utf8(line)?.trim_end().split_once(" /").ok_or("a request is GET /N or PUT /N")?;
    let data = content(bytes.parse::<usize>()?.min(MOST));
    let right = || data.iter().zip(body).take_while(|(expected, got)| expected == got).count();
    send.write_all(&if verb == "GET" { data.clone() } else { right().to_string().into_bytes() }).await?;
    send.finish()?;
    Ok(())
}

fn endpoint(address: SocketAddr, server: Option<ServerConfig>) -> Result<Endpoint, Failure> {
    let runtime = Arc::new(TokioRuntime);
    Ok(Endpoint::new(EndpointConfig::default(), server, UdpSocket::bind(address)?, runtime)?)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

async fn serve(given: &Options, address: &str, certificate: &str, key: &str) -> Result<(), Failure> {
    let gates = given.schedulers.iter().map(|name| Gate::new(name)).collect::<Result<Vec<_>, _>>()?;
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let mut crypto = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    crypto.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
    let endpoint = endpoint(address.parse()?, Some(config.clone()))?;
    println!("listening on port {}", endpoint.local_addr()?.port());
    for pattern in gates {
        let (transport, gate) = pattern.connection(&given.transport);
        config.transport_config(transport);
        let incoming = endpoint.accept().await.ok_or("the endpoint is closed")?;
        let watched = Watched::new(incoming.accept_with(Arc::new(config.clone()))?.await?, gate);
        let ended: ConnectionError = loop {
            match watched.connection.accept_bi().await {
                Ok((send, receive)) => drop(tokio::spawn(answer(send, receive))),
                Err(ended) => break ended,
            }
        };
        println!("{}", watched.report(&ended.to_string()));
    }
    endpoint.wait_idle().await;
    Ok(())
}

async fn carry_out(watched: &Watched, server: SocketAddr, steps: &[String]) -> Result<(), Failure> {
    let mut last = None;
    for step in steps {
        let (verb, value) = step.split_once('=').ok_or_else(|| format!("{step}: a step is VERB=VALUE"))?;
        match verb {
            "get" => watched.get(value.parse()?).await?,
            "put" => watched.put(value.parse()?).await?,
            "close-in" => {
                let path = last.take().ok_or("no path was opened")?;
                tokio::try_join!(watched.put(value.parse()?), close_used(&path))?;
            }
            "path" => last = Some(watched.open(server, value.parse()?, PathStatus::Available).await?),
            "backup" => last = Some(watched.open(server, value.parse()?, PathStatus::Backup).await?),
            _ => return Err(format!("{step}: no such step").into()),
        }
    }
    Ok(())
}

async fn fetch(given: &Options, address: &str, certificate: &str, steps: &[String]) -> Result<(), Failure> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(certificate)? {
        roots.add(certificate?)?;
    }
    let mut crypto = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    crypto.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    let (transport, gate) = Gate::new(&given.schedulers[0])?.connection(&given.transport);
    config.transport_config(transport);
    let (endpoint, server) = (endpoint("0.0.0.0:0".parse()?, None)?, address.parse()?);
    let connection = endpoint.connect_with(config, server, "localhost")?.await?;
    let watched = Watched::new(connection, gate);
    let done = tokio::time::timeout(PATIENCE, carry_out(&watched, server, steps)).await;
    let done = done.unwrap_or_else(|_| Err("too late".into()));
    let ended = match (&done, watched.connection.close_reason()) {
        (Ok(()), _) => "right".into(),
        (Err(_), Some(reason)) => reason.to_string(),
        (Err(error), None) => error.to_string(),
    };
    println!("{}", watched.report(&ended));
    watched.connection.close(0u32.into(), b"done");
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    done
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let given = options()?;
    match &given.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["schedulers"] => {
            let taken = |name: &&str| Gate::new(name).is_ok();
            weftway_sched::all().iter().map(|entry| entry.name).filter(taken).for_each(|name| println!("{name}"));
        }
        ["certificate", certificate, key] => {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
            std::fs::write(certificate, made.cert.pem())?;
            std::fs::write(key, made.signing_key.serialize_pem())?;
        }
        ["serve", address, certificate, key] => serve(&given, address, certificate, key).await?,
        ["fetch", address, certificate, ..] => fetch(&given, address, certificate, &given.words[3..]).await?,
        _ => return Err("hq schedulers, certificate, serve or fetch".into()),
    }
    Ok(())
}
