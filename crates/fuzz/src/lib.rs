//! Every parser that reads what a peer sent or a file holds, as a function of bytes that must not panic, and inputs that each
//! of them accepts.
//!
//! `tests/parsers.rs` changes these inputs and runs with `./test`; a longer run says how many it has done:
//!
//! ```sh
//! EXECUTIONS=10000000 cargo test --release -p weftway-fuzz -- --nocapture
//! ```
//!
//! With a nightly compiler and cargo-fuzz, `fuzz` in the root of the repository looks for new branches as well:
//! `cargo +nightly fuzz run parsers`. Its first byte says which parser reads the rest.

#[cfg(target_os = "linux")]
mod packets;

use std::path::Path;

use weftway_mux::frame::Frame;
use weftway_mux::{Limits, Mux, Side, StreamId};
use weftway_path::{Instant, Offset};

/// A parser.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Reads bytes. It may refuse them, and must not panic.
    pub run: fn(&[u8]),
    /// What it accepts.
    pub accepted: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "record", run: record, accepted: records },
    Target { name: "mux", run: mux, accepted: frames },
    Target { name: "pairing", run: pairing, accepted: pairings },
    Target { name: "identity", run: identity, accepted: identities },
    Target { name: "message", run: message, accepted: messages },
    Target { name: "link", run: link, accepted: links },
    Target { name: "handshake", run: weftway_relay::fuzzing::handshake, accepted: handshakes },
    Target { name: "datagrams", run: weftway_relay::fuzzing::datagrams, accepted: datagrams },
    Target { name: "pipe", run: weftway_relay::fuzzing::pipe, accepted: pipes },
    Target { name: "names", run: weftway_relay::fuzzing::names, accepted: name_answers },
    Target { name: "name files", run: weftway_relay::fuzzing::name_files, accepted: name_files },
    #[cfg(target_os = "linux")]
    Target { name: "packets", run: packets::run, accepted: packets::accepted },
    Target { name: "classes", run: classes, accepted: class_files },
    Target { name: "networks", run: networks, accepted: network_lists },
    Target { name: "passwords", run: passwords, accepted: password_files },
    Target { name: "ports", run: ports, accepted: port_addresses },
    Target { name: "trace", run: trace, accepted: traces },
    Target { name: "drives", run: drives, accepted: drive_files },
    Target { name: "scheduler", run: scheduler, accepted: schedulers },
    Target { name: "policy", run: policy, accepted: policies },
    Target { name: "scenario", run: scenario, accepted: scenarios },
];

/// Lets the parser that the first byte names read the rest.
pub fn run(bytes: &[u8]) {
    if let Some((first, rest)) = bytes.split_first() {
        (TARGETS[usize::from(*first) % TARGETS.len()].run)(rest);
    }
}

fn text(bytes: &[u8], parse: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        parse(text);
    }
}

fn owned(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn record(bytes: &[u8]) {
    let _ = weftway_quic::driver::record::Record::parse(bytes);
}

fn records() -> Vec<Vec<u8>> {
    use weftway_quic::driver::record::Record;
    let data = [&Record::data_head(Offset::new(70_000))[..], b"data"].concat();
    vec![data, Record::limit(Offset::new(9), Offset::new(3)).to_vec(), Record::question(Offset::new(5)).to_vec()]
}

/// Records of frames, one behind the other: the first two bytes of each say how long it is.
fn mux(bytes: &[u8]) {
    let limits = Limits::default();
    let Ok(mut mux) = Mux::new(Side::Listening, limits, limits) else { return };
    let (mut rest, mut place) = (bytes, 0);
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let (record, behind) = behind.split_at(usize::from(u16::from_be_bytes(*length)).min(behind.len()));
        if mux.receive(Instant::ZERO, Offset::new(place), record).is_err() {
            return;
        }
        (rest, place) = (behind, place + record.len() as u64);
    }
    while mux.poll_ready().is_some() {}
}

fn frames() -> Vec<Vec<u8>> {
    let id = StreamId::new(Side::Connecting, 0);
    let record = |frames: &[Frame<'_>]| {
        let mut record = Vec::new();
        frames.iter().for_each(|frame| frame.put(&mut record));
        [&(record.len() as u16).to_be_bytes()[..], &record].concat()
    };
    let begins = record(&[Frame::Stream { id, at: 0, fin: false, bytes: b"abc" }]);
    let ends = record(&[Frame::Stream { id, at: 3, fin: true, bytes: b"d" }]);
    vec![[begins.clone(), ends].concat(), begins]
}

fn pairing(bytes: &[u8]) {
    text(bytes, |text| drop(weftway_udp::tls::Pairing::parse(text)));
}

fn pairings() -> Vec<Vec<u8>> {
    let identity = weftway_udp::tls::Identity::generate();
    identity.map(|identity| identity.pairing().line().into_bytes()).into_iter().collect()
}

fn identity(bytes: &[u8]) {
    text(bytes, |text| drop(weftway_udp::tls::Identity::load(text)));
}

fn identities() -> Vec<Vec<u8>> {
    weftway_udp::tls::Identity::generate().map(|identity| identity.store().into_bytes()).into_iter().collect()
}

fn message(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    while let Ok(Some(_)) = weftway_transfer::wire::decode(&mut bytes, weftway_transfer::wire::MAX_MESSAGE) {}
}

fn messages() -> Vec<Vec<u8>> {
    use weftway_transfer::wire::{Message, encode};
    let entry = weftway_transfer::Entry {
        path: "a/b".to_owned(),
        size: 70_000,
        mode: 0o644,
        mtime: 1,
        dir: false,
        allocated: 70_000,
        hash: None,
    };
    let messages = [
        Message::Entries { entries: vec![entry] },
        Message::Have { files: vec![(0, 5)] },
        Message::Done { files: 1 },
        Message::Spent { connection: 1, paths: vec![(0, 9)] },
    ];
    vec![messages.iter().filter_map(|message| encode(message).ok()).flatten().collect()]
}

fn link(bytes: &[u8]) {
    text(bytes, |text| drop(weftway_transfer::Link::parse(text)));
}

fn links() -> Vec<Vec<u8>> {
    owned(&["wwan0,tier=backup,cap=5 GB/month", "192.168.1.7", "eth0,price=2 EUR/GB,limit=10 Mbit/s"])
}

fn handshakes() -> Vec<Vec<u8>> {
    let socks = [5, 1, 0, 5, 1, 0, 3, 9].iter().copied().chain(*b"localhost").chain([0, 80]).collect();
    vec![socks, b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec()]
}

/// Two whole ones, and one of two pieces; each behind its length.
fn datagrams() -> Vec<Vec<u8>> {
    let whole = [&[8, 1, 192, 0, 2, 7, 0, 53, b'x'][..], &[8, 0x13, 3, b'a', b'.', b'b', 0, 53, b'x']].concat();
    let pieces = [&[8, 15, 0, 1, 0x02, 1, 192, 0, 2][..], &[8, 15, 0, 1, 0x12, 7, 0, 53, b'x']].concat();
    vec![whole, pieces]
}

/// A ping, data and lines: the first byte of each says how long it is, and its highest bit that it is a datagram.
fn pipes() -> Vec<Vec<u8>> {
    let of = |kind: u8, bytes: &[u8]| [&[kind | bytes.len() as u8], bytes].concat();
    let (datagram, line) = (|bytes: &[u8]| of(0x80, bytes), |text: &str| of(0, text.as_bytes()));
    let clock = line("{\"clock\":5000000}\n");
    let data = datagram(&[0, 0x4c, 0x4b, 0x40, 7, 1, 2, 3]);
    let ping = datagram(&[1, 0, 0, 0, 0, 0, 1, 2, 3]);
    let came = line("{\"came\":{\"second\":5,\"datagrams\":1,\"bytes\":3}}\n");
    let became = line("{\"became\":{\"second\":0,\"delivered\":1,\"late\":0,\"delays\":[[40,1]]}}\n");
    vec![[&clock[..], &data, &ping, &came, &became].concat(), b"media.example:9000-9010".to_vec()]
}

/// An alias and an address of `a.example` (RFC 1035, section 4), to the question that the parser has in mind.
fn name_answers() -> Vec<Vec<u8>> {
    let header = [0, 0, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0];
    let question = b"\x01a\x07example\0\0\x01\0\x01";
    let alias = b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01b\xc0\x0e";
    let address = b"\xc0\x27\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";
    vec![[&header[..], question, alias, address].concat()]
}

fn name_files() -> Vec<Vec<u8>> {
    owned(&["nameserver fe80::1%1\nsearch a.example\noptions ndots:2\n", "192.0.2.1 a.example a # b\n"])
}

fn classes(bytes: &[u8]) {
    text(bytes, |text| drop(weftway_relay::Classes::parse(text)));
}

fn class_files() -> Vec<Vec<u8>> {
    owned(&["[[rule]]\nname = \"calls\"\ntransport = \"udp\"\nport = [3478, \"5000-5010\"]\nclass = \"realtime\"\n"])
}

fn passwords(bytes: &[u8]) {
    text(bytes, |text| drop(weftway_relay::Accounts::parse(text)));
}

fn password_files() -> Vec<Vec<u8>> {
    owned(&["ada:secret\n\nbob:a:b\n"])
}

fn ports(bytes: &[u8]) {
    text(bytes, |text| drop(text.parse::<weftway_relay::PortAddress>()));
}

fn port_addresses() -> Vec<Vec<u8>> {
    owned(&["127.0.0.1:1080", "[::1]:1080", "unix:/run/weft.sock"])
}

fn networks(bytes: &[u8]) {
    text(bytes, |text| {
        let networks: Vec<_> = text.split(' ').collect();
        drop(weftway_relay::Policy::parse(&networks, &networks));
    });
}

fn network_lists() -> Vec<Vec<u8>> {
    owned(&["192.168.1.0/24 fd00::/8", "10.0.0.1"])
}

fn trace(bytes: &[u8]) {
    text(bytes, |text| drop(weftway_link::Trace::parse(text)));
}

fn traces() -> Vec<Vec<u8>> {
    owned(&["1\n1\n5\n12\n"])
}

fn drives(bytes: &[u8]) {
    text(bytes, |text| drop(weftway_scenario::drive::Drives::parse(text)));
}

fn drive_files() -> Vec<Vec<u8>> {
    owned(&["run,at_s,lte_mbps,wifi_mbps\n1,0,10,20\n1,0.5,11,0\n2,0,3,4\n"])
}

fn scheduler(bytes: &[u8]) {
    text(bytes, |text| {
        if let Ok((entry, spec)) = weftway_sched::parse(text) {
            // A policy's file would be opened.
            if !text.contains("policy") {
                drop(entry.make(&spec.given));
            }
        }
    });
}

fn schedulers() -> Vec<Vec<u8>> {
    owned(&["min-rtt", "earliest-delivery:copies=off", "ecf:beta=4"])
}

fn policy(bytes: &[u8]) {
    drop(weftway_sched::learned::policy_file::PolicyFile::parse(bytes));
}

fn policies() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../../policies/dqn-bbr1.safetensors").to_vec(),
        include_bytes!("../../../policies/lee-yoo-streaming.safetensors").to_vec(),
    ]
}

/// Without files: a name of one is looked for where there is none.
fn scenario(bytes: &[u8]) {
    text(bytes, |text| {
        drop(weftway_scenario::Scenario::parse(text, "fuzzed.toml", Path::new("/nowhere"), &[]));
    });
}

fn scenarios() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../../scenarios/wifi-lte.toml").to_vec(),
        include_bytes!("../../../scenarios/gaming.toml").to_vec(),
        include_bytes!("../../../scenarios/live-video.toml").to_vec(),
    ]
}
