//! What does not go well while files are sent: files that cannot be read or written, two ends that want one place, a
//! name with several addresses, a link that is not there.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::ends::{BOTH, Listening, connect, fetch, here, listening, noise, relay, sending};
use tempfile::TempDir;
use weftway_path::Span;
use weftway_transfer::{Connect, FailedFile, Failure, receive, send};
use weftway_udp::tls::Identity;

/// A folder `things` with files of so many bytes: `0`, `1`, ….
fn files(sizes: &[usize]) -> (TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("things");
    fs::create_dir(&root).unwrap();
    for (at, size) in sizes.iter().enumerate() {
        fs::write(root.join(at.to_string()), noise(*size, at as u64)).unwrap();
    }
    (dir, root)
}

fn names(failed: &[FailedFile]) -> Vec<&str> {
    failed.iter().map(|file| file.path.as_str()).collect()
}

/// Which of the files are in `target`, byte for byte.
fn arrived(root: &Path, target: &Path) -> Vec<String> {
    let copy = target.join("things");
    let mut found: Vec<String> = fs::read_dir(copy)
        .unwrap()
        .map(|item| item.unwrap())
        .filter(|item| item.file_type().unwrap().is_file())
        .map(|item| item.file_name().into_string().unwrap())
        .inspect(|name| {
            let (theirs, ours) =
                (fs::read(target.join("things").join(name)).unwrap(), fs::read(root.join(name)).unwrap());
            assert!(ours.starts_with(&theirs), "{name}");
        })
        .collect();
    found.sort();
    found
}

/// Its name, and what it does to a file.
type Change = (&'static str, fn(&Path));

/// What happens to a file while it is sent.
const CHANGES: [Change; 4] = [
    ("vanishes", |file| fs::remove_file(file).unwrap()),
    ("becomes shorter", |file| fs::File::options().write(true).open(file).unwrap().set_len(1000).unwrap()),
    ("becomes another thing", |file| {
        fs::remove_file(file).unwrap();
        fs::create_dir(file).unwrap();
    }),
    ("grows", |file| {
        use std::io::Write;
        fs::File::options().append(true).open(file).unwrap().write_all(b"more").unwrap();
    }),
];

/// `change` befalls the file `2` once so many bytes have arrived: this file is named, and all others arrive.
fn check_change(what: &str, change: fn(&Path), after: u64) {
    const LARGE: usize = 24 << 20;
    let (_keep, root) = files(&[LARGE, LARGE, LARGE, 10]);
    let (target, pairing, receiver) = listening();
    let mut changed = false;
    let sent = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |progress| {
        if !changed && progress.done >= after {
            changed = true;
            change(&root.join("2"));
        }
        true
    });
    let (sent, received) = (sent.unwrap(), receiver.end().unwrap());
    assert_eq!(names(&sent.failed), ["things/2"], "{what}, {after}: {:?}", sent.failed);
    assert_eq!(names(&received.failed), ["things/2"], "{what}, {after}: {:?}", received.failed);
    // Of a file that grew the bytes arrive that it had.
    let expected: &[&str] = if what == "grows" { &["0", "1", "2", "3"] } else { &["0", "1", "3"] };
    assert_eq!(arrived(&root, target.path()), expected, "{what}, {after}");
    assert_eq!((sent.files, received.files), (expected.len() as u64, expected.len() as u64), "{what}, {after}");
    let bytes = LARGE as u64 * if what == "grows" { 3 } else { 2 } + 10;
    assert_eq!((sent.bytes, received.bytes, sent.had_bytes), (bytes, bytes, 0), "{what}, {after}");
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 1, "{what}, {after}: no partial file is left");
}

#[test]
fn a_file_that_changes_before_its_turn_is_named_and_the_rest_arrives() {
    for (what, change) in CHANGES {
        // The list of files is made, and nothing was said yet.
        check_change(what, change, 0);
    }
}

#[test]
fn a_file_that_changes_while_data_flow_is_named_and_the_rest_arrives() {
    // One that grows after it was hashed arrived as it was then.
    for (what, change) in CHANGES.into_iter().filter(|(what, _)| *what != "grows") {
        check_change(what, change, 1);
    }
}

#[test]
fn what_cannot_be_read_is_named_at_both_ends_and_the_rest_arrives() {
    use std::os::unix::ffi::OsStrExt;
    let (_keep, root) = files(&[10, 20, 30]);
    fs::create_dir(root.join("closed")).unwrap();
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    for name in ["1", "closed"] {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let reads_everything = fs::File::open(root.join("1")).is_ok();
    let (target, pairing, receiver) = listening();
    let sent = send(&root, connect(receiver.address, &pairing, &[]), &mut |_| true);
    let received = receiver.end();
    // A file that is named itself and cannot be read: nothing is sent.
    let alone = send(&root.join("1"), connect(here(), &pairing, &[]), &mut |_| !reads_everything);
    for name in ["1", "closed"] {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!(sent.failed, received.failed);
    if reads_everything {
        println!("this user can read every file: only a name that is no text is left out");
        assert_eq!(names(&sent.failed), ["things/caf\u{fffd}"], "{:?}", sent.failed);
        assert_eq!(arrived(&root, target.path()), ["0", "1", "2"]);
    } else {
        assert_eq!(names(&sent.failed), ["things/1", "things/caf\u{fffd}", "things/closed"], "{:?}", sent.failed);
        assert_eq!(arrived(&root, target.path()), ["0", "2"]);
        assert!(matches!(alone, Err(Failure::Manifest(_))), "{alone:?}");
    }
}

#[test]
fn what_cannot_be_written_is_named_at_both_ends_and_the_rest_arrives() {
    let (_keep, root) = files(&[3000, 2000, 1000]);
    let target = tempfile::tempdir().unwrap();
    fs::create_dir_all(target.path().join("things/1")).unwrap();
    let identity = Identity::generate().unwrap();
    let pairing = identity.pairing();
    let receiver = Listening::at(target.path(), identity);
    let sent = send(&root, connect(receiver.address, &pairing, &[]), &mut |_| true).unwrap();
    let received = receiver.end().unwrap();
    let failed =
        [FailedFile { path: "things/1".to_owned(), reason: "the target has a directory of this name".to_owned() }];
    assert_eq!((&*sent.failed, &*received.failed), (&failed[..], &failed[..]));
    assert_eq!((sent.sent_bytes, sent.bytes, received.bytes), (4000, 4000, 4000), "what has no place is not sent");
    assert_eq!(arrived(&root, target.path()), ["0", "2"]);
}

#[test]
fn a_second_receiver_of_one_target_is_refused() {
    let (target, pairing, receiver) = listening();
    let second = receive(target.path(), fetch(receiver.address, &pairing, &[]), &mut |_| true).unwrap_err();
    assert!(second.to_string().contains(&format!("process {}", std::process::id())), "{second}");
    let (_keep, root) = files(&[1000]);
    send(&root, connect(receiver.address, &pairing, &[]), &mut |_| true).unwrap();
    receiver.end().unwrap();
    assert_eq!(arrived(&root, target.path()), ["0"]);
}

#[test]
fn a_second_sender_is_told_that_the_other_end_is_busy_and_the_first_goes_on() {
    const SIZE: u64 = 64 << 20;
    let ((_keep, root), (_other, small)) = (files(&[SIZE as usize]), files(&[100]));
    let (target, pairing, receiver) = listening();
    // The first may not bring more than 8 MiB a second, until the second ones were told: it is at work for eight
    // seconds.
    let told = Arc::new(AtomicBool::new(false));
    let first = std::thread::spawn({
        let (root, options, told) = (root.clone(), connect(receiver.address, &pairing, &BOTH), told.clone());
        move || {
            let begin = Instant::now();
            send(&root, options, &mut |progress| {
                let may_be_done = |since: Duration| (since.as_secs_f64() * f64::from(8 << 20)) as u64;
                while progress.done > may_be_done(begin.elapsed()) && !told.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                true
            })
        }
    });
    while receiver.done.load(Ordering::Relaxed) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Other files, and the same ones: two people may run the same command. Of these the receiver first waits for a
    // second whether the first sender is still heard.
    for path in [&small, &root] {
        let second = send(path, connect(receiver.address, &pairing, &[]), &mut |_| true);
        assert!(matches!(second, Err(Failure::Busy)), "{second:?}");
        assert!(!first.is_finished());
    }
    told.store(true, Ordering::Relaxed);
    let first = first.join().unwrap().unwrap();
    let received = receiver.end().unwrap();
    assert_eq!((first.sent_bytes, received.files), (SIZE, 1));
    assert_eq!(arrived(&root, target.path()), ["0"]);
}

#[test]
fn a_sender_that_vanished_makes_room_for_its_next_run() {
    let (_keep, root) = files(&[64 << 20]);
    let (target, pairing, receiver) = listening();
    // After some datagrams nothing of it gets through any more, as if it had been killed.
    let (gone, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (address, stop, forwarder) = relay(receiver.address, {
        let gone = gone.clone();
        move |_, _| {
            if count.fetch_add(1, Ordering::Relaxed) == 2000 {
                gone.store(true, Ordering::Relaxed);
            }
            !gone.load(Ordering::Relaxed)
        }
    });
    let killed = send(&root, connect(address, &pairing, &["127.0.0.1"]), &mut |_| !gone.load(Ordering::Relaxed));
    assert!(matches!(killed, Err(Failure::Interrupted)), "{killed:?}");
    let begin = Instant::now();
    let again = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| true).unwrap();
    receiver.end().unwrap();
    stop.store(true, Ordering::Relaxed);
    forwarder.join().unwrap();
    assert!(again.sent_bytes < 64 << 20, "{} bytes", again.sent_bytes);
    assert_eq!(arrived(&root, target.path()), ["0"]);
    println!("it was let in after {:?}", begin.elapsed());
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    let (_keep, root) = files(&[1000]);
    // Nobody listens at the first one, and the second is of a family to which the path does not lead.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    for paths in [&[][..], &["127.0.0.1"]] {
        let (target, pairing, receiver) = listening();
        let addresses = vec![silent.local_addr().unwrap(), ([0_u16, 0, 0, 0, 0, 0, 0, 1], 9).into(), receiver.address];
        let sent = send(&root, sending(Connect::to(addresses, pairing), paths), &mut |_| true).unwrap();
        assert_eq!(sent.peer, receiver.address.to_string());
        receiver.end().unwrap();
        assert_eq!(arrived(&root, target.path()), ["0"]);
    }
    let pairing = Identity::generate().unwrap().pairing();
    let addresses = vec![([0_u16, 0, 0, 0, 0, 0, 0, 1], 9).into()];
    let none = send(&root, sending(Connect::to(addresses, pairing), &["127.0.0.1"]), &mut |_| true);
    assert!(none.unwrap_err().to_string().contains("IPv6 addresses only"));
}

#[test]
fn an_address_that_can_only_be_listened_at_is_refused_at_once() {
    let (_keep, root) = files(&[1000]);
    let pairing = Identity::generate().unwrap().pairing();
    let cases =
        [(([0, 0, 0, 0], 9), "0.0.0.0:9: no machine has this address"), (([127, 0, 0, 1], 0), "port 0 is none")];
    for (address, why) in cases {
        let refused = send(&root, connect(address.into(), &pairing, &[]), &mut |_| true).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

#[test]
fn a_link_that_is_not_there_yet_is_told_and_the_others_are_used() {
    let (_keep, root) = files(&[1 << 20]);
    let (target, pairing, receiver) = listening();
    let mut notes = Vec::new();
    let paths = ["127.0.0.1", "no-such-link", "192.0.2.77"];
    let sent = send(&root, connect(receiver.address, &pairing, &paths), &mut |progress| {
        notes.extend(progress.note.clone());
        true
    });
    let carried: Vec<(String, u64)> = sent.unwrap().paths.into_iter().map(|path| (path.path, path.bytes)).collect();
    receiver.end().unwrap();
    assert_eq!(arrived(&root, target.path()), ["0"]);
    assert!(notes.len() == 1 && paths[1..].iter().all(|path| notes[0].contains(path)), "{notes:?}");
    assert_eq!(carried.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), paths);
    assert_eq!(carried.iter().map(|(_, bytes)| bytes).sum::<u64>(), carried[0].1);
}

/// Forwards datagrams between a client and `server`; those of the client are on their way for so long.
fn far(server: std::net::SocketAddr, delay: Duration) -> (std::net::SocketAddr, Arc<AtomicBool>) {
    let (inside, outside) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = inside.local_addr().unwrap();
    inside.set_nonblocking(true).unwrap();
    outside.set_nonblocking(true).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let halt = stop.clone();
    std::thread::spawn(move || {
        let (mut waiting, mut client, mut buffer) = (std::collections::VecDeque::new(), None, vec![0; 1 << 16]);
        while !halt.load(Ordering::Relaxed) {
            while let Ok((length, from)) = inside.recv_from(&mut buffer) {
                client = Some(from);
                waiting.push_back((Instant::now() + delay, buffer[..length].to_vec()));
            }
            while waiting.front().is_some_and(|(at, _)| *at <= Instant::now()) {
                let _ = waiting.pop_front().map(|(_, datagram)| outside.send_to(&datagram, server));
            }
            while let Ok((length, _)) = outside.recv_from(&mut buffer) {
                let _ = client.map(|client| inside.send_to(&buffer[..length], client));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    });
    (address, stop)
}

#[test]
fn a_round_trip_of_more_than_three_seconds_connects() {
    let (_keep, root) = files(&[1000]);
    let (target, pairing, receiver) = listening();
    let (address, stop) = far(receiver.address, Duration::from_millis(3300));
    let mut options = connect(address, &pairing, &["127.0.0.1"]);
    options.times.give_up_after = Span::from_secs(20);
    send(&root, options, &mut |_| true).unwrap();
    // What the sender says last is still on its way: without it the receiver would wait for three round trips.
    receiver.end().unwrap();
    stop.store(true, Ordering::Relaxed);
    assert_eq!(arrived(&root, target.path()), ["0"]);
}
