//! Files over sockets of this machine: 127.0.0.1 and 127.0.0.2 are two paths.

#[path = "../../sim/tests/logs/cddl.rs"]
mod cddl;

use std::collections::HashSet;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use crate::ends::{
    BOTH, Listening, assert_same, connect, fetch, here, listening, loopback, noise, ports, receiving, relay, sending,
    tree,
};
use serde_json::Value;
use weftway_path::Span;
use weftway_transfer::{Failure, Listen, Progress, Scheduling, SendOptions, receive, send};
use weftway_udp::tls::Identity;

#[test]
fn a_directory_arrives_over_two_paths() {
    let (_keep, root) = tree(48 << 20);
    let (target, pairing, receiver) = listening();
    let sent = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| true).unwrap();
    let received = receiver.end().unwrap();
    assert_same(&root, target.path());
    let bytes: u64 = (48 << 20) + (0..20).map(|at| 100 * at).sum::<u64>();
    assert_eq!((sent.bytes, sent.sent_bytes, received.bytes, received.files), (bytes, bytes, bytes, 22));
    let skipped: Vec<_> = sent.skipped.iter().map(|skipped| (&*skipped.path, &*skipped.kind)).collect();
    assert_eq!((skipped, sent.failed.len(), received.failed.len()), (vec![("photos/link", "symbolic link")], 0, 0));
    let carried: Vec<u64> = received.paths.iter().map(|path| path.bytes).collect();
    assert_eq!(carried.iter().sum::<u64>(), bytes, "each byte counts once");
    assert!(carried.len() == 2 && carried.iter().all(|&bytes| bytes > 100_000), "{carried:?}");
}

#[test]
fn a_transfer_is_logged_as_qlog() {
    let (keep, root) = tree(8 << 20);
    let (_target, pairing, receiver) = listening();
    let mut options = connect(receiver.address, &pairing, &BOTH);
    options.qlog = Some(keep.path().join("log.sqlog"));
    let sent = send(&root, options, &mut |_| true).unwrap();
    receiver.end().unwrap();

    let text = fs::read_to_string(keep.path().join("log.sqlog")).unwrap();
    let records: Vec<Value> = text
        .split('\x1e')
        .skip(1)
        .map(|text| serde_json::from_str(text.strip_suffix('\n').unwrap()).unwrap())
        .collect();
    let schema = cddl::Schema::new(include_str!("../../sim/tests/logs/qlog.cddl"));
    schema.check(&records[0], "QlogFileSeq").unwrap();
    records[1..].iter().for_each(|event| schema.check(event, "Event").unwrap_or_else(|why| panic!("{why}: {event}")));
    let named = |name: &'static str| records.iter().filter(move |event| event["name"] == name);
    // A packet with data each, on the path where the report has it, and all data in one of them at least.
    let mut covered = vec![false; usize::try_from(sent.sent_bytes).unwrap()];
    for event in named("quic:packet_sent") {
        let frame = &event["data"]["frames"][0];
        let (from, bytes) = (frame["offset"].as_u64().unwrap(), frame["raw"]["payload_length"].as_u64().unwrap());
        covered[from as usize..(from + bytes) as usize].fill(true);
        assert_eq!(
            event["data"]["raw"]["length"].as_u64().unwrap() - bytes,
            46,
            "what a full packet has beside its record"
        );
    }
    assert!(covered.iter().all(|covered| *covered));
    let offsets = named("quic:packet_sent").map(|event| event["data"]["frames"][0]["offset"].as_u64());
    let (all, distinct) = (offsets.clone().count(), offsets.collect::<HashSet<_>>().len());
    let again = (all - distinct) as u64;
    for path in &sent.paths {
        let on_it = named("quic:packet_sent").filter(|event| event["tuple"] == path.path.as_str()).count() as u64;
        // Data that a probe repeats are counted and not logged. A copy that waits in a queue until its data have
        // arrived is logged, and does not leave.
        let expected = path.packets - path.retransmissions..=path.packets + again;
        assert!(expected.contains(&on_it), "{on_it} of {path:?}, {again} copies");
        assert!(named("quic:recovery_metrics_updated").any(|event| event["tuple"] == path.path.as_str()));
    }
    let acked = named("quic:packet_received").count() as u64;
    assert!(acked * 10 > sent.paths.iter().map(|path| path.packets).sum::<u64>() * 9, "{acked}");
}

/// Sends until `bytes` have arrived, and stops there.
fn send_some(root: &Path, options: SendOptions, bytes: u64) -> Failure {
    send(root, options, &mut |progress| progress.done < bytes).unwrap_err()
}

#[test]
fn a_sender_that_is_stopped_goes_on_where_it_was() {
    let (_keep, root) = tree(48 << 20);
    let (target, pairing, receiver) = listening();
    let stopped = send_some(&root, connect(receiver.address, &pairing, &BOTH), 4 << 20);
    assert!(matches!(stopped, Failure::Interrupted), "{stopped}");
    let again = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| true).unwrap();
    receiver.end().unwrap();
    assert_same(&root, target.path());
    // Everything that was told as arrived is kept, and no more is sent again than one stop left open.
    assert!(again.sent_bytes <= again.bytes - (4 << 20), "{} of {}", again.sent_bytes, again.bytes);
}

#[test]
fn a_receiver_that_is_stopped_goes_on_where_it_was() {
    let (_keep, root) = tree(48 << 20);
    let target = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let (pairing, stored) = (identity.pairing(), identity.store());
    let receiver = Listening::at(target.path(), identity);
    let (stop, done) = (receiver.stop.clone(), receiver.done.clone());
    let failed = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| {
        if done.load(Ordering::Relaxed) > 4 << 20 {
            stop.store(true, Ordering::Relaxed);
        }
        true
    });
    assert!(matches!(failed, Err(Failure::OtherInterrupted)), "{failed:?}");
    assert!(matches!(receiver.end(), Err(Failure::Interrupted)));
    let receiver = Listening::at(target.path(), Identity::load(&stored).unwrap());
    let again = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| true).unwrap();
    receiver.end().unwrap();
    assert_same(&root, target.path());
    assert!(again.sent_bytes <= again.bytes - (4 << 20), "{} of {}", again.sent_bytes, again.bytes);
}

#[test]
fn a_second_transfer_sends_nothing() {
    let (_keep, root) = tree(1 << 20);
    let target = tempfile::tempdir().unwrap();
    for sent in [true, false] {
        let identity = Identity::generate().unwrap();
        let pairing = identity.pairing();
        let receiver = Listening::at(target.path(), identity);
        let report = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| true).unwrap();
        receiver.end().unwrap();
        assert_eq!(report.sent_bytes > 0, sent);
        assert_same(&root, target.path());
    }
}

#[test]
fn the_receiver_may_be_the_one_that_connects() {
    let (_keep, root) = tree(24 << 20);
    let target = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let pairing = identity.pairing();
    let (told, address) = channel();
    let sender = std::thread::spawn({
        let root = root.clone();
        move || {
            let other = Listen { address: here(), identity };
            send(&root, sending(other, &[]), &mut |progress: &Progress| {
                let _ = progress.listening.map(|address| told.send(address));
                true
            })
        }
    });
    let received = receive(target.path(), fetch(loopback(&address), &pairing, &BOTH), &mut |_| true).unwrap();
    let sent = sender.join().unwrap().unwrap();
    assert_same(&root, target.path());
    assert_eq!(received.sent_bytes, sent.sent_bytes);
    let carried: Vec<u64> = sent.paths.iter().map(|path| path.bytes).collect();
    assert!(carried.len() == 2 && carried.iter().all(|&bytes| bytes > 0), "{carried:?}");
}

#[test]
fn who_has_not_the_token_or_finds_another_certificate_gets_one_clear_error() {
    let (_keep, root) = tree(1000);
    let target = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let (right, other) = (identity.pairing(), Identity::generate().unwrap().pairing());
    let receiver = Listening::at(target.path(), identity);
    // The right certificate with another token, and another certificate with the right token.
    let (mut wrong_token, mut wrong_certificate) = (right.clone(), other.clone());
    (wrong_token.token, wrong_certificate.token) = (other.token, right.token.clone());
    let refused = send(&root, connect(receiver.address, &wrong_token, &[]), &mut |_| true).unwrap_err();
    assert!(matches!(&refused, Failure::Refused(why) if why.starts_with("wrong token")), "{refused}");
    let strange = send(&root, connect(receiver.address, &wrong_certificate, &[]), &mut |_| true).unwrap_err();
    assert!(matches!(strange, Failure::OtherIdentity(_)), "{strange}");
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 1, "only the hidden directory");
    // The receiver still listens.
    send(&root, connect(receiver.address, &right, &[]), &mut |_| true).unwrap();
    receiver.end().unwrap();
    assert_same(&root, target.path());
}

#[test]
fn two_ends_that_want_the_same_are_told() {
    let (_target, pairing, receiver) = listening();
    let other = tempfile::tempdir().unwrap();
    let same = receive(other.path(), fetch(receiver.address, &pairing, &[]), &mut |_| true).unwrap_err();
    assert!(same.to_string().contains("this end is `weft recv`, the other `weft recv`"), "{same}");
    receiver.stop.store(true, Ordering::Relaxed);
    assert!(matches!(receiver.end(), Err(Failure::Interrupted)));
}

#[test]
fn random_truncated_and_replayed_datagrams_do_no_harm() {
    let (_keep, root) = tree(8 << 20);
    let (target, pairing, receiver) = listening();
    let (address, stop) = (receiver.address, Arc::new(AtomicBool::new(false)));
    let noisy = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let socket = UdpSocket::bind("127.0.0.3:0").unwrap();
            let mut count = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let mut bytes = noise(1 + count as usize * 37 % 1400, count);
                // Each form of header in turn, QUIC version 1 among them.
                bytes[0] = bytes[0] & 0x3f | [0x40, 0xc0, 0x80, 0x00][count as usize % 4];
                if bytes.len() > 5 && count.is_multiple_of(2) {
                    bytes[1..5].copy_from_slice(&1_u32.to_be_bytes());
                }
                let _ = socket.send_to(&bytes, address);
                count += 1;
                if count.is_multiple_of(50) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
            count
        }
    });
    send(&root, connect(address, &pairing, &BOTH), &mut |_| true).unwrap();
    receiver.end().unwrap();
    stop.store(true, Ordering::Relaxed);
    println!("{} datagrams were thrown at the port", noisy.join().unwrap());
    assert_same(&root, target.path());
}

#[test]
fn schedulers_and_controllers_that_cannot_run_are_refused_before_anything_is_sent() {
    let (_keep, root) = tree(10);
    let pairing = Identity::generate().unwrap().pairing();
    for (scheduler, cc) in [("min-rtx", "cubic"), ("min-rtt", "cubik")] {
        let mut options = connect(here(), &pairing, &[]);
        options.scheduling = Scheduling { scheduler: scheduler.into(), cc: cc.into(), ..Scheduling::default() };
        let error = send(&root, options, &mut |_| true).unwrap_err();
        assert!(matches!(error, Failure::Spec(_)), "{error}");
    }
}

#[test]
fn a_port_where_nobody_listens_is_told() {
    let (_keep, root) = tree(10);
    let pairing = Identity::generate().unwrap().pairing();
    let free = ([127, 0, 0, 1], ports::free()).into();
    let mut options = connect(free, &pairing, &[]);
    options.times.give_up_after = Span::from_secs(1);
    let error = send(&root, options, &mut |_| true).unwrap_err();
    assert!(matches!(error, Failure::NoAnswer(_)), "{error}");
}

#[test]
fn another_scheduler_may_take_over() {
    let (_keep, root) = tree(24 << 20);
    let (target, pairing, receiver) = listening();
    let (say, switch) = channel();
    let (mut options, mut notes) = (connect(receiver.address, &pairing, &BOTH), Vec::new());
    options.scheduling = Scheduling { scheduler: "min-rtt".into(), switch: Some(switch), ..Scheduling::default() };
    for name in ["redundant", "no-such-scheduler", "round-robin"] {
        say.send(name.to_owned()).unwrap();
    }
    let report = send(&root, options, &mut |progress: &Progress| {
        notes.extend(progress.note.clone());
        true
    })
    .unwrap();
    receiver.end().unwrap();
    assert_same(&root, target.path());
    assert_eq!(notes[0], "redundant schedules from now on");
    assert!(notes[1].ends_with("redundant goes on"), "{notes:?}");
    assert_eq!(report.scheduler.as_deref(), Some("round-robin"), "{notes:?}");
}

/// Forwards datagrams to `server`, each client from a port of its own, which is another one after `rebind` packets:
/// what a NAT does that was started again.
fn nat(server: SocketAddr, rebind: usize) -> (SocketAddr, Arc<AtomicBool>, JoinHandle<usize>) {
    let inside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = inside.local_addr().unwrap();
    inside.set_nonblocking(true).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let halt = stop.clone();
    let thread = std::thread::spawn(move || {
        let outside = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let (mut socket, mut client, mut count, mut changes) = (outside(), None, 0, 0);
        let mut buffer = vec![0; 1 << 16];
        while !halt.load(Ordering::Relaxed) {
            let mut idle = true;
            while let Ok((length, from)) = inside.recv_from(&mut buffer) {
                (client, idle, count) = (Some(from), false, count + 1);
                if count % rebind == 0 {
                    (socket, changes) = (outside(), changes + 1);
                }
                let _ = socket.send_to(&buffer[..length], server);
            }
            while let Ok((length, _)) = socket.recv_from(&mut buffer) {
                idle = false;
                let _ = client.map(|client| inside.send_to(&buffer[..length], client));
            }
            if idle {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        changes
    });
    (address, stop, thread)
}

#[test]
fn a_nat_that_takes_another_port_costs_nothing_but_time() {
    let (_keep, root) = tree(24 << 20);
    for sends in [true, false] {
        let target = tempfile::tempdir().unwrap();
        let identity = Identity::generate().unwrap();
        let pairing = identity.pairing();
        let (told, address) = channel();
        let listener = std::thread::spawn({
            let (root, target) = (root.clone(), target.path().to_owned());
            move || {
                let listen = Listen { address: here(), identity };
                let mut watch = |progress: &Progress| {
                    let _ = progress.listening.map(|address| told.send(address));
                    true
                };
                if sends {
                    receive(&target, receiving(listen, &[]), &mut watch)
                } else {
                    send(&root, sending(listen, &[]), &mut watch)
                }
            }
        });
        let (address, stop, forwarder) = nat(loopback(&address), if sends { 1500 } else { 40 });
        let paths = ["127.0.0.1"];
        let result = if sends {
            send(&root, connect(address, &pairing, &paths), &mut |_| true)
        } else {
            receive(target.path(), fetch(address, &pairing, &paths), &mut |_| true)
        };
        result.unwrap();
        listener.join().unwrap().unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(forwarder.join().unwrap() >= 1, "the port changed: {sends}");
        assert_same(&root, target.path());
    }
}

/// Lets through everything until so many bytes came, and then no data any more, until the client opens another
/// connection: the first one is alive, and nothing comes on. Beside it how much was held back.
fn narrow(after: usize) -> (impl FnMut(SocketAddr, &[u8]) -> bool + Send, Arc<AtomicU64>) {
    let held = Arc::new(AtomicU64::new(0));
    let (so_far, mut count, mut again) = (held.clone(), 0, false);
    let pass = move |_, datagram: &[u8]| {
        count += datagram.len();
        // A long header (RFC 9000 §17.2): a handshake.
        let is_handshake = datagram[0] & 0x80 != 0;
        again |= is_handshake && so_far.load(Ordering::Relaxed) > 0;
        let holds = count > after && !again && !is_handshake && datagram.len() > 1000;
        so_far.fetch_add(u64::from(holds), Ordering::Relaxed);
        !holds
    };
    (pass, held)
}

#[test]
fn a_connection_that_brings_nothing_any_more_is_replaced_by_another() {
    let (_keep, root) = tree(24 << 20);
    let (target, pairing, receiver) = listening();
    let (pass, held) = narrow(9 << 20);
    let (address, stop, forwarder) = relay(receiver.address, pass);
    let mut options = connect(address, &pairing, &["127.0.0.1"]);
    options.times.stall_after = Span::from_secs(2);
    let mut notes = Vec::new();
    let sent = send(&root, options, &mut |progress| {
        notes.extend(progress.note.clone());
        true
    });
    let sent = sent.unwrap();
    receiver.end().unwrap();
    stop.store(true, Ordering::Relaxed);
    forwarder.join().unwrap();
    assert!(held.load(Ordering::Relaxed) > 0, "data were held back");
    assert_same(&root, target.path());
    assert_eq!(notes.len(), 1, "{notes:?}");
    // Some 9 MB arrive before.
    assert!(sent.sent_bytes < sent.bytes - (4 << 20), "{} of {}", sent.sent_bytes, sent.bytes);
}

/// The first path leads nowhere, and there is no time to find that out before the second is tried.
#[test]
fn the_path_that_answers_first_opens_the_connection() {
    let (_keep, root) = tree(1 << 20);
    let (target, pairing, receiver) = listening();
    let (address, stop, forwarder) = relay(receiver.address, |from, _| from.ip().to_string() == BOTH[1]);
    let mut options = connect(address, &pairing, &BOTH);
    options.times.give_up_after = Span::from_secs(2);
    let sent = send(&root, options, &mut |_| true);
    let brought: Vec<u64> = sent.unwrap().paths.iter().map(|path| path.bytes).collect();
    receiver.end().unwrap();
    stop.store(true, Ordering::Relaxed);
    forwarder.join().unwrap();
    assert_same(&root, target.path());
    assert!(brought[0] == 0 && brought[1] > 1 << 20, "{brought:?}");
}
