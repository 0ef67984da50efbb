//! What both ends of a pipe tell each other on its stream: a line of JSON each.

use serde::{Deserialize, Serialize};

use crate::pipe::tally::{Became, Came};

/// The longest line: the delays of a second, each with its number.
const LONGEST: usize = 16 << 10;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// What the sender's clock shows, in microseconds: the first line of each end.
    Clock(u64),
    /// So many datagrams came at the sender.
    Came(Came),
    /// This became of the receiver's.
    Became(Became),
    /// Datagrams of a source are marked so from now on: its number, and that of the mark.
    Mark(u16, u8),
}

impl Word {
    /// Adds the line to others.
    pub fn put(&self, to: &mut Vec<u8>) {
        // Numbers and texts are always written.
        if serde_json::to_writer(&mut *to, self).is_ok() {
            to.push(b'\n');
        }
    }
}

/// The other end has said what makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadWord;

/// Lines that arrive.
#[derive(Debug, Default)]
pub struct Words {
    bytes: Vec<u8>,
    /// The bytes before are understood.
    at: usize,
}

impl Words {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line.
    pub fn next(&mut self) -> Result<Option<Word>, BadWord> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            self.bytes.drain(..self.at);
            self.at = 0;
            return if self.bytes.len() > LONGEST { Err(BadWord) } else { Ok(None) };
        };
        let word = serde_json::from_slice(&rest[..end]).map_err(|_| BadWord)?;
        self.at += end + 1;
        Ok(Some(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let all = [
            Word::Clock(7),
            Word::Came(Came { second: 1, datagrams: 2, bytes: 3 }),
            Word::Mark(300, 46),
            Word::Became(Became { second: 1, delivered: 2, late: 0, delays: vec![(5, 2)] }),
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|word| word.put(&mut bytes));
        let first = "{\"clock\":7}\n{\"came\":{\"second\":1,\"datagrams\":2,\"bytes\":3}}\n";
        assert!(bytes.starts_with(first.as_bytes()), "{}", String::from_utf8_lossy(&bytes));
        for size in 1..bytes.len() {
            let (mut words, mut found) = (Words::default(), Vec::new());
            for part in bytes.chunks(size) {
                words.push(part);
                while let Some(word) = words.next().unwrap() {
                    found.push(word);
                }
            }
            assert_eq!(found, all);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["\n", "{}\n", "{\"clock\":-1}\n", "{\"other\":1}\n", "{\"clock\":1}x\n", "\u{1}\n"] {
            let mut words = Words::default();
            words.push(text.as_bytes());
            assert_eq!(words.next(), Err(BadWord), "{text}");
        }
        let mut words = Words::default();
        words.push(&[b' '; LONGEST]);
        assert_eq!(words.next(), Ok(None));
        words.push(b"  ");
        assert_eq!(words.next(), Err(BadWord));
    }
}
