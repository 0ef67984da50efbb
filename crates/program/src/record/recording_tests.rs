use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::super::{estimate, report, serving};
use super::*;

/// A listening end of this process.
struct Listening {
    peer: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    fn start(peer: &str, cap: u64) -> Self {
        let opened = places::listening(peer).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (peer, is_over) = (opened.local_addr().unwrap().to_string(), Arc::clone(&stop));
        let serve = move || serving::serve(&opened, cap, b"secret", |_| (), || is_over.load(Ordering::SeqCst));
        Self { peer, stop, thread: Some(std::thread::spawn(serve)) }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end();
    }
}

fn recorder(peer: &str, seconds: u32) -> Recorder {
    let paths = ["127.0.0.1", "127.0.0.2"].map(str::to_owned);
    let cap = 2 * report::probe_bytes(seconds, places::IPV6_HEADER) + 1_000_000;
    Recorder::new(&paths, peer, Plan { paths: 2, seconds, load: false, cap }).unwrap()
}

/// A recorder that waits for two seconds for an end that is gone.
fn hasty(peer: &str) -> Recorder {
    Recorder { silence_ns: 2 * SECOND_NS, ..recorder(peer, 60) }
}

/// Records until something is done to the other end, once so many seconds are recorded; also the most that was told.
fn until(recorder: Recorder, seconds: u32, mut end: impl FnMut()) -> (Recorded, u32) {
    let (mut told, mut is_over) = (0, false);
    let recorded = recorder.run(|done| {
        told = told.max(done);
        if told >= seconds && !is_over {
            is_over = true;
            end();
        }
    });
    (recorded.unwrap(), told)
}

fn steps(recorded: &Recorded) -> usize {
    let paths = estimate::paths(recorded);
    let counts: Vec<_> = paths.iter().flat_map(estimate::Path::directions).map(|(_, one)| one.steps.len()).collect();
    assert!(counts.len() == 4 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    counts[0]
}

fn name(folder: &tempfile::TempDir) -> (String, PathBuf) {
    let name = folder.path().join("recorded");
    (name.to_string_lossy().into_owned(), folder.path().join("recorded.up.csv"))
}

#[test]
fn two_links_are_recorded() {
    let host = Listening::start("127.0.0.1:0", 100_000_000);
    let recorded = recorder(&host.peer, 1).run(|_| ()).unwrap();
    assert_eq!((recorded.missing.as_deref(), recorded.steps(), steps(&recorded)), (None, 2, 2));
    let folder = tempfile::tempdir().unwrap();
    let made = report::write(&recorded, &name(&folder).0, None).unwrap();
    for row in report::records(&made) {
        assert!(row["rate_mbps"].as_f64().unwrap() > 0.0 && row["rtt_ms"].as_f64().unwrap() < 1000.0, "{row}");
    }
}

#[test]
fn load_fills_the_links_until_the_cap_is_spent() {
    let host = Listening::start("127.0.0.1:0", 100_000_000);
    let paths = ["127.0.0.1", "127.0.0.2"].map(str::to_owned);
    let plan = Plan { paths: 2, seconds: 60, load: true, cap: 40_000_000 };
    let recorded = Recorder::new(&paths, &host.peer, plan).unwrap().run(|_| ()).unwrap();
    assert!(recorded.spent.is_some() && recorded.end_ns - recorded.begin_ns < 30 * SECOND_NS);
}

/// The other end is gone, or it is another one, that began anew or that grants less: what was measured is kept, and no
/// time in which nobody was there is in any number.
#[test]
fn a_recording_whose_other_end_ends_is_cut_short_and_says_so() {
    let again = [
        (None, "has not answered for 2 s"),
        (Some(100_000_000), "began anew, and what it had got before is lost"),
        (Some(1000), "refused to go on: it grants at most 1.0 kB a path and direction"),
    ];
    let run = |(cap, why): (Option<u64>, &str)| {
        let mut host = Listening::start("127.0.0.1:0", 100_000_000);
        let peer = host.peer.clone();
        let mut next = None;
        let recorder = if cap.is_none() { hasty(&peer) } else { recorder(&peer, 60) };
        let (recorded, told) = until(recorder, 3, || {
            host.end();
            next = cap.map(|cap| Listening::start(&peer, cap));
        });
        let missing = recorded.missing.clone().unwrap();
        assert!(missing.starts_with(&format!("{peer} {why}")), "{missing}");
        let steps = steps(&recorded);
        assert!((2..=7).contains(&steps), "{steps} steps");
        assert!(cap.is_some() || told == 3, "what is not heard is not recorded");
        let folder = tempfile::tempdir().unwrap();
        let (name, drive) = name(&folder);
        let made = report::write(&recorded, &name, None).unwrap();
        assert_eq!(made.cut.as_ref(), Some(&missing));
        assert_eq!(std::fs::read_to_string(drive).unwrap().lines().count(), 1 + steps);
    };
    std::thread::scope(|scope| again.map(|one| scope.spawn(move || run(one))).map(|thread| thread.join().unwrap()));
}

#[test]
fn an_other_end_that_ends_before_anything_is_measured_is_named() {
    let mut host = Listening::start("127.0.0.1:0", 100_000_000);
    let peer = host.peer.clone();
    let recorder = hasty(&peer);
    let mut turns = 0;
    let recorded = recorder.run(|_| {
        turns += 1;
        // By then it was greeted.
        if turns == 20 {
            host.end();
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let Err(Failure::Run(why)) = report::write(&recorded.unwrap(), &name(&folder).0, None) else { panic!("it failed") };
    assert!(why.contains("has not answered for 2 s; it was over before the first half second"), "{why}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_paths_without_an_answer_are_named() {
    for (paths, told) in [
        (2, "over any path within 5 s; is `weft record --listen` running there, and is its UDP port open?"),
        (3, "over a and b within 5 s; the other paths have answers: has this link a route to it?"),
    ] {
        let Failure::Run(why) = no_answer(&["a", "b"], "p", paths) else { panic!("another may not") };
        assert_eq!(why, format!("no answer from p {told}"));
    }
}

/// Nobody has asked for them, and the recording takes no more memory than its time allows.
#[test]
fn more_records_than_there_can_be_are_refused() {
    let mut recorder = recorder("127.0.0.1:9", 1);
    let some = vec![arrivals::Record::probe(1, 92, 3); RECORDS_PER_PACKET];
    for _ in 0..1000 {
        let mut body = arrivals::packed(0, 0, &some);
        body[1..5].copy_from_slice(&(recorder.lines[0].records.len() as u32).to_be_bytes());
        recorder.take(&Packet { kind: Kind::Records, path: 0, session: recorder.session, body: &body });
    }
    assert_eq!(recorder.lines[0].records.len(), 61 * RECORDS_PER_S / RECORDS_PER_PACKET * RECORDS_PER_PACKET);
    assert_eq!(recorder.missing().as_deref(), Some("127.0.0.1:9 sent more records than there can be"));
}

#[test]
fn what_makes_no_path_is_refused() {
    let peers = places::addresses("127.0.0.1").unwrap();
    for (path, told) in [
        ("nowhere0", "--path nowhere0: there is no such interface; there is lo"),
        ("192.0.2.77", "--path 192.0.2.77: no address of this machine; `weft doctor` lists them"),
        ("::1", "--path ::1: the peer, 127.0.0.1, has no address of that family (IPv6)"),
    ] {
        let Err(Failure::Input(why)) = places::at(path, &peers) else { panic!("{path} is refused") };
        assert!(why.starts_with(told), "{why}");
    }
}
