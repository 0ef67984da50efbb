//! Reading files of text.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Mark that some editors write before a text in UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// More is no file that somebody wrote or recorded; a device such as `/dev/zero` never ends.
const MOST: u64 = 256_000_000;

/// The text of a file in UTF-8, or why there is none.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes));
    file.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MOST {
        return Err(format!("it has more than {} MB", MOST / 1_000_000));
    }
    let text = decoded(&bytes)?;
    Ok(without_mark(text).to_owned())
}

/// The text without the mark at its start.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

fn decoded(bytes: &[u8]) -> Result<&str, String> {
    // Latin letters have a zero byte each in UTF-16, and none in UTF-8.
    let wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) || bytes.contains(&0);
    match str::from_utf8(bytes) {
        _ if wide => Err("it is not valid UTF-8, but UTF-16 or no text; save it as UTF-8".to_owned()),
        Ok(text) => Ok(text),
        Err(error) => {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            Err(format!("it is not valid UTF-8, in line {line}; save it as UTF-8"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_utf_8_is_read_without_its_mark_and_all_else_is_told_from_it() {
        let wide = |text: &str, order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        assert_eq!(decoded("\u{feff}a = 1".as_bytes()).map(without_mark), Ok("a = 1"));
        for text in ["\u{feff}a = 1", "a = 1"] {
            for bytes in [wide(text, u16::to_le_bytes), wide(text, u16::to_be_bytes)] {
                assert!(decoded(&bytes).is_err_and(|why| why.contains("UTF-16")), "{bytes:?}");
            }
        }
        assert!(decoded(b"a = 1\nb = \"\xe9\"").is_err_and(|why| why.contains("line 2")));
    }

    #[test]
    #[cfg(unix)]
    fn a_file_without_an_end_is_no_text() {
        assert_eq!(read(Path::new("/dev/zero")), Err("it has more than 256 MB".to_owned()));
    }
}
