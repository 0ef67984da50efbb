//! Links with tiers and caps, over sockets of this machine: 127.0.0.1 and 127.0.0.2 are two links.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use weftway_path::Span;
use weftway_relay::{Accounts, Classes, Policy, PortAddress};
use weftway_transfer::{
    ClientRules, Connect, Link, LinkProgress, Links, Listen, Progress, ProxyOptions, RelayOptions, Report, Scheduling,
    SendOptions, Times, proxy, relay, send,
};
use weftway_udp::tls::Identity;

use crate::ends::running::{PATIENCE, Running};
use crate::ends::{self, Listening, noise};

/// These links, which count in `usage`.
fn links(texts: &[&str], usage: &Path) -> Links {
    let all = texts.iter().map(|text| Link::parse(text).unwrap()).collect();
    Links { all, usage: Some(usage.to_owned()) }
}

fn often() -> Times {
    Times { tell_every: Span::from_millis(5), ..Times::default() }
}

fn scheduling(scheduler: &str) -> Scheduling {
    Scheduling { scheduler: scheduler.to_owned(), ..Scheduling::default() }
}

/// What the second link carried; none where it was not opened.
fn second(paths: &[weftway_transfer::PathProgress]) -> Option<LinkProgress> {
    paths.iter().find(|path| path.path == "127.0.0.2").and_then(|path| path.policy.clone())
}

struct Sent {
    report: Report,
    notes: Vec<String>,
}

/// Sends so many bytes to an end that listens.
fn send_over(bytes: usize, texts: &[&str], scheduler: &str, usage: &Path) -> Sent {
    let (target, source) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = source.path().join("file");
    std::fs::write(&file, noise(bytes, 1)).unwrap();
    let identity = Identity::generate().unwrap();
    let pairing = identity.pairing();
    let receiver = Listening::at(target.path(), identity);
    let other = Connect::to(vec![receiver.address], pairing);
    let mut notes = Vec::new();
    let options = SendOptions {
        links: links(texts, usage),
        scheduling: scheduling(scheduler),
        times: often(),
        ..SendOptions::new(other)
    };
    let report = send(&file, options, &mut |progress: &Progress| {
        notes.extend(progress.note.clone());
        true
    });
    let report = report.unwrap();
    receiver.end().unwrap();
    assert_eq!(std::fs::read(target.path().join("file")).unwrap().len(), bytes);
    Sent { report, notes }
}

/// 16 MB in turn over both links, of which the second may carry 2 MB a day, until these are used up: how many programs
/// that takes depends on how soon the link opens and how fast the other one is.
#[test]
fn a_cap_stops_at_its_byte_and_outlives_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let usage = folder.path().join("usage.json");
    let links = ["127.0.0.1", "127.0.0.2,cap=2MB/day,price=4/GB"];
    let (mut told, mut carried) = (String::new(), 0);
    for _ in 0..30 {
        let Sent { report, notes } = send_over(16_000_000, &links, "round-robin", &usage);
        if let Some(link) = second(&report.paths) {
            carried += link.carried;
            assert!((link.cost.unwrap() - link.carried as f64 * 4e-9).abs() < 1e-9, "{link:?}");
        }
        let counted: serde_json::Value = serde_json::from_slice(&std::fs::read(&usage).unwrap()).unwrap();
        let counted = counted["127.0.0.2"]["day_bytes"].as_u64().unwrap();
        assert!((carried..=2_000_000).contains(&counted), "{counted} counted, {carried} carried");
        told += &notes.join("; ");
        if told.contains("is closed") {
            break;
        }
    }
    assert!(carried >= 1_500_000, "{carried}");
    assert!(told.contains("127.0.0.2 is closed: it has used up its 2 MB per day (UTC)"), "{told}");

    let again = send_over(4_000_000, &links, "round-robin", &usage);
    let once_more = second(&again.report.paths).map_or(0, |link| link.carried);
    assert!(carried + once_more <= 2_000_000, "{carried} before, {once_more} more");
}

/// With no link beside it: a small cap carries what fits, and what is used up is named at once.
#[test]
fn a_link_with_a_small_cap_carries_data_alone_until_it_is_used_up() {
    let folder = tempfile::tempdir().unwrap();
    let usage = folder.path().join("usage.json");
    for cap in ["500kB", "3MB"] {
        send_over(100_000, &[&format!("127.0.0.2,cap={cap}/day")], "round-robin", &folder.path().join(cap));
    }
    send_over(500_000, &["127.0.0.2,cap=1MB/day"], "round-robin", &usage);
    let identity = Identity::generate().unwrap();
    let other = Connect::to(vec![(Ipv4Addr::LOCALHOST, 9).into()], identity.pairing());
    let (source, asked) = (folder.path().join("file"), Instant::now());
    std::fs::write(&source, noise(600_000, 1)).unwrap();
    let links = links(&["127.0.0.2,cap=200kB/day"], &usage);
    let options = SendOptions { links, times: often(), ..SendOptions::new(other) };
    let error = send(&source, options, &mut |_| true).unwrap_err();
    assert!(error.to_string().contains("no link may carry anything"), "{error}");
    assert!(asked.elapsed() < PATIENCE);
}

#[test]
fn a_link_that_is_never_to_be_used_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let usage = folder.path().join("usage.json");
    let sent = send_over(1_000_000, &["127.0.0.1", "127.0.0.2,tier=never"], "round-robin", &usage);
    assert_eq!(sent.report.paths.iter().map(|path| path.path.as_str()).collect::<Vec<_>>(), ["127.0.0.1"]);
}

#[test]
fn a_backup_carries_no_data_while_the_primary_works() {
    let folder = tempfile::tempdir().unwrap();
    let links = ["127.0.0.1", "127.0.0.2,tier=backup"];
    let sent = send_over(8_000_000, &links, "round-robin", &folder.path().join("usage.json"));
    let data = sent.report.paths.iter().find(|path| path.path == "127.0.0.2").unwrap().bytes;
    assert!(data * 50 <= 8_000_000, "{:?}", sent.report.paths);
}

#[test]
fn an_end_that_listens_has_no_policy_of_its_own() {
    let listen = Listen { address: ends::here(), identity: Identity::generate().unwrap() };
    let folder = tempfile::tempdir().unwrap();
    let links = links(&["127.0.0.1,tier=backup"], &folder.path().join("usage.json"));
    let options = SendOptions { links, ..SendOptions::new(listen) };
    let failed = send(folder.path(), options, &mut |_| true).unwrap_err().to_string();
    assert!(failed.contains("for the end that connects"), "{failed}");
}

/// A server that sends so many bytes to whoever comes.
fn source(bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(&vec![7; bytes]);
        }
    });
    address
}

/// A proxy over links with a policy, and its relay, which takes turns over them with what it sends.
struct Through {
    _relay: Running,
    proxy: Running,
    port: SocketAddr,
}

impl Through {
    fn over(texts: &'static [&'static str], usage: &Path) -> Self {
        let identity = Identity::generate().unwrap();
        let pairing = identity.pairing();
        let local: IpAddr = Ipv4Addr::LOCALHOST.into();
        let listen = Listen { address: SocketAddr::new(local, 0), identity };
        let options =
            RelayOptions { scheduling: scheduling("round-robin"), times: often(), ..RelayOptions::new(listen) };
        let allowed = Policy::parse(&["127.0.0.0/8"], &[""; 0]).unwrap();
        let relay = Running::start(move |watch| relay(allowed, ClientRules::default(), None, options, watch));
        let address = relay.until("the relay", |progress| progress.listening.is_some()).listening.unwrap();
        let links = links(texts, usage);
        let options = ProxyOptions { links, times: often(), ..ProxyOptions::new(Connect::to(vec![address], pairing)) };
        let at = PortAddress::Tcp(SocketAddr::new(local, 0));
        let open = Accounts::default();
        let proxy = Running::start(move |watch| proxy(&[at], Classes::default(), open, options, watch));
        let port = proxy.until("the proxy", |progress| !progress.ports.is_empty()).ports[0].parse().unwrap();
        proxy.until("both paths", |progress| progress.paths.iter().filter(|path| path.up).count() == 2);
        Self { _relay: relay, proxy, port }
    }

    /// Downloads so many bytes: what the second link has carried so far.
    fn download(&self, bytes: usize) -> LinkProgress {
        let SocketAddr::V4(target) = source(bytes) else { unreachable!("an IPv4 address") };
        let mut stream = TcpStream::connect(self.port).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = vec![5, 1, 0, 5, 1, 0, 1];
        request.extend(target.ip().octets());
        request.extend(target.port().to_be_bytes());
        stream.write_all(&request).unwrap();
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).unwrap();
        let mut data = Vec::new();
        stream.read_to_end(&mut data).unwrap();
        assert_eq!(data.len(), bytes);
        let deadline = Instant::now() + Duration::from_millis(300);
        let mut last = self.proxy.told.recv_timeout(PATIENCE).unwrap();
        while let Ok(progress) = self.proxy.told.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            last = progress;
        }
        second(&last.paths).unwrap()
    }
}

/// It is the relay that sends, and the proxy whose link has the cap. How much of it one download takes before it ends
/// depends on how soon credit is given: so several follow each other.
#[test]
fn a_cap_counts_both_directions_through_a_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let through = Through::over(&["127.0.0.1", "127.0.0.2,cap=3MB/month"], &folder.path().join("usage.json"));
    let carried = (0..40).map(|_| through.download(16_000_000).carried).find(|&carried| carried >= 2_000_000);
    assert!(carried.is_some(), "it is not used up");
    let carried = through.download(16_000_000).carried;
    assert!(carried <= 3_000_000, "{carried}");
}

#[test]
fn the_relay_keeps_to_the_tiers_of_its_clients_links() {
    let folder = tempfile::tempdir().unwrap();
    let through = Through::over(&["127.0.0.1", "127.0.0.2,tier=backup"], &folder.path().join("usage.json"));
    let carried = through.download(24_000_000);
    assert!(carried.carried * 50 <= 24_000_000, "{carried:?}");
}
