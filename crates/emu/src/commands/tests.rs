use super::*;

use std::fs;
use std::time::Instant;

/// Number of processes that have `word` among their arguments.
fn processes(word: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let arguments = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    arguments.filter(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())).count()
}

fn soon(what: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !what() && start.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(5));
    }
    what()
}

fn in_a_group(script: &str) -> Option<Running> {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(error) => {
            eprintln!("skipped: {error}");
            return None;
        }
    };
    let argv = ["sh", "-c", script].map(OsString::from).to_vec();
    let command = Command { argv, ..Command::default() };
    Some(spawn_confined(&namespace, &command, Some(Confinement::ProcessGroup)).unwrap())
}

#[test]
fn a_process_group_is_killed_with_the_command() {
    let marker = format!("1000.0{}1", process::id());
    let Some(mut running) = in_a_group(&format!("sleep {marker} & exit 3")) else { return };
    assert_eq!(running.wait(Duration::from_secs(5)), Some(Exit::Code(3)));
    assert!(soon(|| processes(&marker) == 0), "a child outlives the command");
}

#[test]
fn a_process_group_is_killed_when_nobody_waits() {
    let marker = format!("1000.0{}2", process::id());
    let Some(running) = in_a_group(&format!("sleep {marker} & sleep {marker}; true")) else { return };
    assert!(soon(|| processes(&marker) == 2), "both children start");
    drop(running);
    assert!(soon(|| processes(&marker) == 0), "a child outlives the interest in it");
}

#[test]
fn a_shell_counts_signals_from_128() {
    assert_eq!(Exit::Code(3).code(), 3);
    // SIGTERM is 15.
    assert_eq!(Exit::Signal(libc::SIGTERM).code(), 143);
}
