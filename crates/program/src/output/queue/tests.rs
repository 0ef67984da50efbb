use std::fs::{File, OpenOptions};
use std::io::Read;
use std::thread::{JoinHandle, spawn};

use rustix::pipe::{fcntl_setpipe_size, pipe};

use super::*;

/// The least pipe that Linux makes.
const PIPE: usize = 4096;

fn small_pipe() -> (OwnedFd, OwnedFd) {
    let (read, written) = pipe().unwrap();
    fcntl_setpipe_size(&written, PIPE).unwrap();
    (read, written)
}

/// Reads to the end in a thread.
fn read_all(file: OwnedFd) -> JoinHandle<String> {
    spawn(move || {
        let mut text = String::new();
        File::from(file).read_to_string(&mut text).unwrap();
        text
    })
}

/// A queue before a file.
fn queue(file: OwnedFd) -> Queue {
    Queue::new(file).unwrap()
}

fn wait_until(holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// So many lines are read of a pipe whose writer stays open.
fn read_lines(file: OwnedFd, count: usize) -> Vec<String> {
    use std::io::BufRead;
    std::io::BufReader::new(File::from(file)).lines().take(count).map(Result::unwrap).collect()
}

#[test]
fn beside_traffic_a_pipe_that_nobody_reads_takes_whole_lines_and_the_others_are_counted() {
    let (read, written) = small_pipe();
    let queue = queue(written);
    queue.set_beside_traffic(true);
    // The pipe is full, so that nothing of what follows is taken meanwhile.
    queue.write("before\n".repeat(PIPE / 7 + 1).as_bytes());
    wait_until(|| queue.shared.lock().taken == PIPE as u64);
    let waiting = queue.shared.lock().put - PIPE as u64;
    for number in 0..10_000 {
        queue.write(format!("line {number:04}\n").as_bytes());
    }
    queue.set_beside_traffic(false);
    // The last line that is kept begins within the queue's bytes.
    let kept = (MOST_BYTES - waiting).div_ceil(10) as usize;
    assert_eq!(queue.dropped(), 10_000 - kept as u64);
    let mut found = read_lines(read, PIPE / 7 + 1 + kept);
    let expected: Vec<String> = (0..kept).map(|number| format!("line {number:04}")).collect();
    assert_eq!(found.split_off(PIPE / 7 + 1), expected);
}

#[test]
fn after_traffic_a_reader_gets_a_result_that_is_longer_than_the_queue() {
    let (read, written) = small_pipe();
    let queue = queue(written);
    let reader = spawn(move || read_lines(read, 50_000));
    let result: Vec<String> = (0..50_000).map(|number| format!("{number:09}")).collect();
    for line in &result {
        assert!(queue.write(format!("{line}\n").as_bytes()));
    }
    queue.finish(Instant::now()).unwrap();
    assert_eq!(reader.join().unwrap(), result);
    assert_eq!(queue.dropped(), 0);
}

#[test]
fn the_end_waits_for_a_reader_that_takes_nothing_only_so_long() {
    let (_read, written) = small_pipe();
    let mut queue = queue(written);
    queue.patience = Duration::from_millis(50);
    queue.write(&[b'x'; 100_000]);
    queue.finish(Instant::now()).unwrap();
    // Its patience is over once, and not again for each line.
    queue.patience = Duration::from_secs(3600);
    assert!(!queue.write(b"y\n"));
    assert_eq!(queue.dropped(), 1);
}

#[test]
fn a_reader_that_went_away_is_no_error_before_the_end() {
    let (read, written) = pipe().unwrap();
    drop(read);
    let queue = queue(written);
    assert!(queue.write(b"nobody reads this\n"));
    wait_until(|| queue.shared.lock().error.is_some());
    assert!(!queue.is_free() && !queue.write_if_free(b"nor this\n"));
    assert!(!queue.write(b"nor this\n"));
    assert_eq!(queue.dropped(), 3);
    assert_eq!(queue.finish(Instant::now()), Err(Errno::EPIPE));
}

#[test]
fn a_full_disk_is_an_error_at_the_end_only_where_the_last_line_is_missing() {
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else { return };
    let queue = queue(full.into());
    queue.write(b"no room\n");
    assert_eq!(queue.finish(Instant::now()), Err(Errno::ENOSPC));
    assert_eq!((queue.dropped(), queue.is_free()), (1, true));
    assert_eq!(queue.newly_dropped(), None, "it would be dropped, too");
    // The disk has room again.
    queue.shared.lock().error = None;
    assert_eq!((queue.newly_dropped(), queue.newly_dropped()), (Some(1), None));
    queue.finish(Instant::now()).unwrap();
}

#[test]
fn a_line_is_written_only_if_no_other_waits() {
    let (read, written) = small_pipe();
    let queue = queue(written);
    assert!(queue.write_if_free(&[b'a'; PIPE + 1]));
    assert!(!queue.write_if_free(b"b\n"));
    assert_eq!((queue.dropped(), queue.newly_dropped()), (1, None));
    let reader = read_all(read);
    wait_until(|| queue.is_free());
    assert_eq!(queue.newly_dropped(), Some(1));
    assert!(queue.write_if_free(b"c\n"));
    queue.finish(Instant::now()).unwrap();
    drop(reader);
}

#[test]
fn what_is_written_at_once_is_broken_off_by_an_interrupt_and_told_a_closed_pipe() {
    let (read, written) = pipe().unwrap();
    assert_eq!(write_now(written.as_fd(), b"all of it\n", || false), Ok(true));
    drop(read);
    assert_eq!(write_now(written.as_fd(), b"nobody\n", || false), Err(Errno::EPIPE));
}
