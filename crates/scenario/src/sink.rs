//! Where a log goes. A listener cannot return an error, so the first one is kept, what follows is
//! not written, and the end of the log reports it.

use std::io::{self, BufWriter, Write};

/// A buffered writer that keeps its first error.
#[derive(Debug)]
pub struct Sink<W: Write> {
    out: BufWriter<W>,
    error: Option<io::Error>,
    broken: bool,
}

impl<W: Write> Sink<W> {
    /// A sink over `out`.
    pub fn new(out: W) -> Self {
        Self { out: BufWriter::new(out), error: None, broken: false }
    }

    /// Writes with `write`, unless that has failed before.
    pub fn with(&mut self, write: impl FnOnce(&mut BufWriter<W>) -> io::Result<()>) {
        if self.broken {
            return;
        }
        if let Err(error) = write(&mut self.out) {
            self.error = Some(error);
            self.broken = true;
        }
    }

    /// Writes out what is buffered; the first error, once. The writer, to look at.
    pub fn finish(&mut self) -> io::Result<&W> {
        self.with(BufWriter::flush);
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.out.get_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many writes.
    struct Disk(u32);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or_else(|| io::Error::other("full"))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_first_error_is_reported_once() {
        let mut sink = Sink::new(Disk(1));
        // Larger than the buffer, so that each reaches the disk.
        let page = [b'x'; 16 << 10];
        sink.with(|out| out.write_all(&page));
        assert!(sink.finish().is_ok());
        sink.with(|out| out.write_all(&page));
        sink.with(|_| panic!("nothing is written after an error"));
        assert_eq!(sink.finish().err().map(|error| error.to_string()), Some("full".to_owned()));
        assert!(sink.finish().is_ok());
    }
}
