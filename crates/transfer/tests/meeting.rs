//! Ends that part and meet again, and ends that are alive and not at work.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::ends::forwarder::Forwarder;
use crate::ends::peer::Peer;
use crate::ends::ports;
use crate::ends::{
    BOTH, Listening, assert_same, connect, fetch, here, listening, loopback, noise, receiving, sending, tree,
};
use weftway_path::{Offset, Span};
use weftway_quic::driver::record::Record;
use weftway_transfer::wire::{Message, Role};
use weftway_transfer::{Entry, Failure, Listen, Progress, Report, State, receive, send};
use weftway_udp::tls::{Identity, Pairing};

/// Silence of a living connection after which an end with little patience gives up.
const HASTY: Span = Span::from_millis(700);
/// Silence after which other ends do.
const PATIENT: Span = Span::from_secs(40);

/// A sender that listens on a thread.
struct SenderThatListens {
    address: SocketAddr,
    pairing: Pairing,
    stop: Arc<AtomicBool>,
    notes: Arc<Mutex<Vec<String>>>,
    thread: std::thread::JoinHandle<Result<Report, Failure>>,
}

fn sender_that_listens(root: &Path, stall_after: Span) -> SenderThatListens {
    let identity = Identity::generate().unwrap();
    let pairing = identity.pairing();
    let (told, address) = channel();
    let (stop, notes) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let (root, halt, said) = (root.to_owned(), stop.clone(), notes.clone());
    let thread = std::thread::spawn(move || {
        let mut options = sending(Listen { address: here(), identity }, &[]);
        options.times.stall_after = stall_after;
        send(&root, options, &mut |progress: &Progress| {
            let _ = progress.listening.map(|address| told.send(address));
            said.lock().unwrap().extend(progress.note.clone());
            !halt.load(Ordering::Relaxed)
        })
    });
    SenderThatListens { address: loopback(&address), pairing, stop, notes, thread }
}

/// A sender over `paths`, whose receiver is started again.
fn check_started_again(paths: &[&str]) {
    let (_keep, root) = tree(48 << 20);
    let target = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let (pairing, stored) = (identity.pairing(), identity.store());
    // Both processes listen at this port, of different addresses: that of one that was killed is free again.
    let port = ports::free();
    let at = |host: u8, identity| Listen { address: ([127, 0, 0, host], port).into(), identity };
    let first = Listening::with(target.path(), receiving(at(1, identity), &[]));
    let forwarder = Forwarder::to(([127, 0, 0, 1], port).into());
    let (so_far, mut notes) = (first.done.clone(), Vec::new());
    let mut first = Some(first);
    let mut second = None;
    let mut killed = None;
    let sent = send(&root, connect(forwarder.address, &pairing, paths), &mut |progress| {
        notes.extend(progress.note.clone());
        if so_far.load(Ordering::Relaxed) > 4 << 20
            && let Some(first) = first.take()
        {
            // Nothing that it says is heard, as if it had been killed; then its target is free.
            forwarder.serve(([127, 0, 0, 2], port).into());
            first.stop.store(true, Ordering::Relaxed);
            assert!(matches!(first.end(), Err(Failure::Interrupted)));
            second = Some(Listening::with(target.path(), receiving(at(2, Identity::load(&stored).unwrap()), &[])));
            killed = Some(Instant::now());
        }
        true
    });
    let sent = sent.unwrap();
    second.unwrap().end().unwrap();
    assert_same(&root, target.path());
    assert!(notes.iter().any(|note| note.contains("reset by peer")), "{notes:?}");
    assert!(sent.sent_bytes <= sent.bytes - (4 << 20), "{} of {}", sent.sent_bytes, sent.bytes);
    println!("all was there {:?} after the start", killed.unwrap().elapsed());
}

#[test]
fn a_listening_end_that_is_started_again_is_known_at_once_and_the_transfer_goes_on() {
    check_started_again(&BOTH[..1]);
    check_started_again(&BOTH);
}

#[test]
fn an_end_that_is_interrupted_is_not_awaited() {
    let (_keep, root) = tree(48 << 20);
    let (_target, pairing, receiver) = listening();
    let (stop, done) = (receiver.stop.clone(), receiver.done.clone());
    let failed = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| {
        stop.fetch_or(done.load(Ordering::Relaxed) > 1 << 20, Ordering::Relaxed);
        true
    });
    assert!(matches!(failed, Err(Failure::OtherInterrupted)), "{failed:?}");
    assert!(matches!(receiver.end(), Err(Failure::Interrupted)));
}

/// The manifest that a sender tells.
fn manifest(peer: &mut Peer) -> Vec<Entry> {
    let mut entries = Vec::new();
    loop {
        match peer.hear() {
            Message::Entries { entries: some } => entries.extend(some),
            Message::Manifest { .. } => return entries,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_receiver_that_says_nothing_is_given_up() {
    let (_keep, root) = tree(1000);
    // It says nothing after the manifest, or takes no data.
    for says_ready in [false, true] {
        let sender = sender_that_listens(&root, HASTY);
        let mut peer = Peer::greeting(sender.address, &sender.pairing, Role::Receive);
        manifest(&mut peer);
        if says_ready {
            peer.say(&Message::Ready);
        }
        peer.wait_for_the_end();
        // The sender listens on.
        let target = tempfile::tempdir().unwrap();
        receive(target.path(), fetch(sender.address, &sender.pairing, &[]), &mut |_| true).unwrap();
        sender.thread.join().unwrap().unwrap();
        assert_same(&root, target.path());
        let notes = sender.notes.lock().unwrap();
        assert!(notes.iter().any(|note| note.contains("still listening")), "{notes:?}");
    }
}

fn entry(path: &str, size: u64) -> Entry {
    Entry { path: path.to_owned(), size, mode: 0o644, mtime: 0, dir: false, allocated: size, hash: None }
}

#[test]
fn a_receiver_that_was_told_nonsense_listens_on() {
    let (target, pairing, receiver) = listening();
    let nonsense: [&[Message]; 4] = [
        &[Message::Entries { entries: vec![entry("../evil", 1)] }, Message::Manifest { entries: 1 }],
        &[Message::Entries { entries: vec![entry("a", 1), entry("a", 1)] }, Message::Manifest { entries: 2 }],
        &[Message::Entries { entries: vec![entry("a", 1)] }, Message::Manifest { entries: 2 }],
        &[Message::Hashes { files: vec![(0, "no hash".to_owned())] }],
    ];
    for messages in nonsense {
        let mut peer = Peer::greeting(receiver.address, &pairing, Role::Send);
        messages.iter().for_each(|message| peer.say(message));
        peer.wait_for_the_end();
    }
    let (_keep, root) = tree(1000);
    send(&root, connect(receiver.address, &pairing, &[]), &mut |_| true).unwrap();
    receiver.end().unwrap();
    assert_same(&root, target.path());
}

#[test]
fn a_hash_that_is_told_twice_is_refused() {
    let (_target, pairing, receiver) = listening();
    let mut peer = Peer::greeting(receiver.address, &pairing, Role::Send);
    peer.say(&Message::Entries { entries: vec![entry("f", 1000)] });
    peer.say(&Message::Manifest { entries: 1 });
    while peer.hear() != Message::Ready {}
    let hash = (0, blake3::hash(b"").to_string());
    peer.say(&Message::Hashes { files: vec![hash.clone(), hash] });
    peer.wait_for_the_end();
    receiver.stop.store(true, Ordering::Relaxed);
    let notes = receiver.notes.clone();
    assert!(matches!(receiver.end(), Err(Failure::Interrupted)), "it listens on");
    assert!(notes.lock().unwrap().iter().any(|note| note.contains("the hash of file 0 twice")));
}

#[test]
fn a_sender_that_says_nothing_is_given_up() {
    let bytes = noise(1000, 7);
    // It says nothing at all, sends no data, or no hash.
    for steps in 0..3 {
        let (target, identity) = (tempfile::tempdir().unwrap(), Identity::generate().unwrap());
        let pairing = identity.pairing();
        let mut options = receiving(Listen { address: here(), identity }, &[]);
        options.times.stall_after = HASTY;
        let receiver = Listening::with(target.path(), options);
        let mut peer = Peer::greeting(receiver.address, &pairing, Role::Send);
        if steps > 0 {
            peer.say(&Message::Entries { entries: vec![entry("f", 1000)] });
            peer.say(&Message::Manifest { entries: 1 });
            while peer.hear() != Message::Ready {}
        }
        if steps > 1 {
            let record = [&Record::data_head(Offset::ZERO)[..], &bytes].concat();
            peer.send(&record);
        }
        peer.wait_for_the_end();
        assert!(!target.path().join("f").exists());
        receiver.stop.store(true, Ordering::Relaxed);
        let notes = receiver.notes.clone();
        assert!(matches!(receiver.end(), Err(Failure::Interrupted)), "it listens on");
        assert!(notes.lock().unwrap().iter().any(|note| note.contains("still listening")), "{steps}");
    }
}

#[test]
fn who_says_that_all_is_there_is_believed_when_all_was_confirmed() {
    let (_keep, root) = tree(100_000);
    let sender = sender_that_listens(&root, PATIENT);
    let mut peer = Peer::greeting(sender.address, &sender.pairing, Role::Receive);
    let files = manifest(&mut peer).iter().filter(|entry| !entry.dir).count() as u64;
    peer.say(&Message::Ready);
    peer.say(&Message::Done { files });
    // It takes no data, and ends the connection as one does that has all.
    peer.flush();
    std::thread::sleep(Duration::from_millis(200));
    peer.close(0);
    sender.stop.store(true, Ordering::Relaxed);
    let outcome = sender.thread.join().unwrap();
    assert!(matches!(outcome, Err(Failure::Interrupted)), "{outcome:?}");
}

#[test]
fn what_was_kept_and_is_not_the_senders_is_fetched_again_by_itself() {
    // More than may be under way: the sender is stopped before everything is there, however seldom it is asked.
    const BYTES: u64 = 40 << 20;
    for connects in [Role::Send, Role::Receive] {
        let (_keep, root) = tree(BYTES as usize);
        let target = tempfile::tempdir().unwrap();
        let identity = Identity::generate().unwrap();
        let (pairing, stored) = (identity.pairing(), identity.store());
        let receiver = Listening::at(target.path(), identity);
        let stopped = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |progress| progress.done < 2 << 20);
        assert!(matches!(stopped, Err(Failure::Interrupted)));
        receiver.stop.store(true, Ordering::Relaxed);
        let _ = receiver.end();
        // A disk errs.
        let parts: Vec<_> = fs::read_dir(target.path().join(".weft-partial")).unwrap().map(Result::unwrap).collect();
        let part = parts.iter().map(fs::DirEntry::path).find(|path| path.extension().is_some()).unwrap();
        fs::File::options().write(true).open(part).unwrap().write_all_at(b"QQQQ", 5000).unwrap();

        let (sent, received) = if connects == Role::Send {
            let receiver = Listening::at(target.path(), Identity::load(&stored).unwrap());
            let sent = send(&root, connect(receiver.address, &pairing, &BOTH), &mut |_| true);
            (sent, receiver.end())
        } else {
            let sender = sender_that_listens(&root, PATIENT);
            let options = fetch(sender.address, &sender.pairing, &BOTH);
            let received = receive(target.path(), options, &mut |_| true);
            (sender.thread.join().unwrap(), received)
        };
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_same(&root, target.path());
        assert_eq!((sent.failed.len(), received.failed.len(), sent.sent_bytes), (0, 0, BYTES));
    }
}

#[test]
fn a_receiver_hears_its_user_while_it_looks_at_many_files() {
    const FILES: u64 = 4000;
    let keep = tempfile::tempdir().unwrap();
    let root = keep.path().join("photos");
    for folder in 0..FILES / 1000 {
        fs::create_dir_all(root.join(folder.to_string())).unwrap();
        for file in 0..1000 {
            fs::write(root.join(format!("{folder}/{file}")), "").unwrap();
        }
    }
    let sender = sender_that_listens(&root, PATIENT);
    let target = tempfile::tempdir().unwrap();
    // It knows all names, and does not know yet what is there.
    let mut looks = 0;
    let failure = receive(target.path(), fetch(sender.address, &sender.pairing, &BOTH), &mut |progress| {
        looks += u32::from(progress.files == FILES && matches!(progress.state, State::Agreeing));
        looks == 0
    });
    assert!(matches!(failure, Err(Failure::Interrupted)), "{failure:?}");
    let made = fs::read_dir(target.path().join("photos/3")).map_or(0, Iterator::count);
    assert!(made < 1000, "the last folder is not filled");
    receive(target.path(), fetch(sender.address, &sender.pairing, &BOTH), &mut |_| true).unwrap();
    sender.thread.join().unwrap().unwrap();
    assert_same(&root, target.path());
}
