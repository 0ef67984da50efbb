//! JSON on one line, with a space after each colon and comma.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;

/// A value as one line of JSON with a space after each colon and comma, as Python writes it.
pub fn json_text(value: &impl Serialize) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Spaced);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        // What has no JSON, as a map whose keys are lists: none of ours.
        Err(error) => error.to_string(),
    }
}

struct Spaced;

impl Spaced {
    fn between<W: ?Sized + io::Write>(writer: &mut W, is_first: bool) -> io::Result<()> {
        writer.write_all(if is_first { b"" } else { b", " })
    }
}

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        Self::between(writer, is_first)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        Self::between(writer, is_first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::json_text;

    #[test]
    fn lines_are_those_of_python() {
        let value = json!({"b": [1, 2.5, null], "a": {"x": "é\n"}, "none": []});
        assert_eq!(json_text(&value), "{\"b\": [1, 2.5, null], \"a\": {\"x\": \"é\\n\"}, \"none\": []}");
    }
}
