//! Fields of what a program tells. One that is missing counts as empty: the program may be of another version.

use serde_json::Value;

use crate::text::printable;

/// A text, without what a terminal would obey.
pub fn text(of: &Value, name: &str) -> String {
    printable(of[name].as_str().unwrap_or(""), "")
}

/// A text that is not empty, if there is one.
pub fn some_text(of: &Value, name: &str) -> Option<String> {
    Some(text(of, name)).filter(|text| !text.is_empty())
}

/// A count.
pub fn count(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or(0)
}

/// A number, if it is known.
pub fn number(of: &Value, name: &str) -> Option<f64> {
    of[name].as_f64()
}

/// Several things.
pub fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Counts, each with its name, of those that are not 0.
pub fn counts(of: &Value, name: &str) -> Vec<(String, u64)> {
    let counts = of[name].as_object().into_iter().flatten();
    counts.filter_map(|(name, count)| Some((printable(name, ""), count.as_u64().filter(|&count| count > 0)?))).collect()
}
