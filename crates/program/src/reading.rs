//! Files of text that people write, in whatever editor; and what comes on standard input.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use crate::failure::{Done, Failure, INTERRUPTED};
use crate::signals;

/// More is no file that somebody wrote; a device such as `/dev/zero` never ends.
const MOST: usize = 256_000_000;

/// Bytes that are read at once.
const PART: u64 = 1 << 16;

/// Time between two looks for an interrupt.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The mark of UTF-8 that some editors write before a text.
const MARK: char = '\u{feff}';

/// Returns true if a file is there. A folder on the way that may not be entered is an error: nobody knows then.
pub fn is_there(file: &Path) -> Done<bool> {
    file.try_exists().map_err(|error| Failure::file(file, &error))
}

/// The text of a file in UTF-8, without the mark that some editors write before it.
pub fn text(file: &Path) -> Done<String> {
    let name = file.display();
    let read = bytes(file)?;
    // Latin letters have a zero byte each in UTF-16, and none in UTF-8.
    if read.starts_with(b"\xff\xfe") || read.starts_with(b"\xfe\xff") || read.contains(&0) {
        let told = format!("{name}: it is not UTF-8, but UTF-16 or no text; save it as UTF-8");
        return Err(Failure::input(told));
    }
    match std::str::from_utf8(&read) {
        Ok(text) => Ok(text.strip_prefix(MARK).unwrap_or(text).replace("\r\n", "\n")),
        Err(error) => {
            let before = read.get(..error.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
            Err(Failure::input(format!("{name}: it is not UTF-8, in line {line}; save it as UTF-8")))
        }
    }
}

/// The next line of standard input, without its end. What follows it is left to whoever reads on.
pub fn first_line() -> Done<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    let file = rustix::stdio::stdin();
    loop {
        wait(file)?;
        match rustix::io::read(file, &mut byte) {
            Ok(1..) if byte != *b"\n" => line.extend(byte),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            _ => break,
        }
    }
    let line = String::from_utf8_lossy(&line);
    Ok(line.strip_prefix(MARK).unwrap_or(&line).to_owned())
}

/// Lines that come on standard input, without waiting for them.
#[derive(Default)]
pub struct Lines {
    rest: Vec<u8>,
    has_ended: bool,
}

impl Lines {
    /// Lines that came since the last call.
    pub fn new_ones(&mut self) -> Vec<String> {
        let (file, mut part) = (rustix::stdio::stdin(), [0; 4096]);
        while !self.has_ended && has_some(file, Timespec { tv_sec: 0, tv_nsec: 0 }) {
            let count = rustix::io::read(file, &mut part).unwrap_or(0);
            self.has_ended = count == 0;
            self.rest.extend(part.get(..count).unwrap_or_default());
        }
        self.cut()
    }

    /// The lines that are whole.
    fn cut(&mut self) -> Vec<String> {
        let whole = self.rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        let lines = String::from_utf8_lossy(&lines);
        lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

fn bytes(file: &Path) -> Done<Vec<u8>> {
    let failed = |error: std::io::Error| Failure::file(file, &error);
    // A pipe with a name is not waited for in `open`, where no interrupt would be seen.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut opened = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(file).map_err(failed)?;
    let mut read = Vec::new();
    loop {
        wait(&opened)?;
        match Read::by_ref(&mut opened).take(PART).read_to_end(&mut read) {
            Ok(0) => return Ok(read),
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(failed(error)),
            // What a pipe had is read, and it is not closed.
            _ => {}
        }
        if read.len() > MOST {
            return Err(Failure::input(format!("{}: it has more than {} MB", file.display(), MOST / 1_000_000)));
        }
    }
}

/// Waits until a file has something to read, or is at its end.
fn wait(file: impl AsFd) -> Done {
    while !has_some(&file, LOOK) {
        if signals::interrupted() {
            return Err(Failure::Status("interrupted".to_owned(), INTERRUPTED));
        }
    }
    Ok(())
}

/// Returns true if a file has something to read, or is at its end or closed, within this time.
fn has_some(file: impl AsFd, within: Timespec) -> bool {
    let mut asked = [PollFd::new(&file, PollFlags::IN)];
    poll(&mut asked, Some(&within)).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8]) -> Done<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        std::fs::write(&file, content).unwrap();
        text(&file)
    }

    #[test]
    fn editors_may_write_marks_and_ends_of_lines_of_their_own() {
        assert_eq!(read("\u{feff}weft1-anything\r\nnext\r\n".as_bytes()).unwrap(), "weft1-anything\nnext\n");
        assert_eq!(read(b"").unwrap(), "");
        let long = "0123456789".repeat(30_000);
        assert_eq!(read(long.as_bytes()).unwrap(), long);
    }

    #[test]
    fn what_is_no_utf_8_is_told_with_its_line() {
        for (content, told) in [
            (b"\xff\xfew\0e\0".as_slice(), "it is not UTF-8, but UTF-16 or no text; save it as UTF-8"),
            (b"a\0b", "UTF-16 or no text"),
            (b"first\nsecond\nthi\xe9rd", "it is not UTF-8, in line 3; save it as UTF-8"),
        ] {
            let Err(Failure::Input(why)) = read(content) else { panic!("it is refused") };
            assert!(why.contains(told), "{why}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_and_a_folder_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for (file, why) in [(folder.path().join("missing"), "No such file"), (folder.path().into(), "Is a directory")] {
            let Err(Failure::File(told)) = text(&file) else { panic!("there is no text") };
            assert!(told.starts_with(&format!("{}: {why}", file.display())), "{told}");
        }
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pipe");
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, &file, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let (name, writer) = (file.clone(), std::time::Duration::from_millis(50));
        let written = std::thread::spawn(move || {
            std::thread::sleep(writer);
            std::fs::write(name, "a line\n")
        });
        assert_eq!(text(&file).unwrap(), "a line\n");
        written.join().unwrap().unwrap();
    }

    #[test]
    fn lines_are_handed_out_when_they_are_whole() {
        let mut lines = Lines { rest: b"round-robin\n\n ecf \nmin".to_vec(), has_ended: false };
        assert_eq!(lines.cut(), ["round-robin", "ecf"]);
        assert_eq!(lines.rest, b"min");
        assert!(lines.cut().is_empty());
    }
}
