//! Texts for people: amounts, numbers of things, and names without what a terminal would obey.

/// A text of the other end or a file's name, without characters that a terminal would obey, but those `kept`.
pub fn printable(text: &str, kept: &str) -> String {
    let shown = |one: char| if one.is_control() && !kept.contains(one) { one.escape_default().to_string() } else { one.into() };
    text.chars().map(shown).collect()
}

/// Bytes, as people say them: what rounds to 1000 of a unit is one of the next.
pub fn amount(bytes: u64) -> String {
    for (unit, size) in [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)] {
        if (bytes as f64 / size * 1e3 * 10.0).round() / 10.0 >= 1e3 {
            return format!("{:.1} {unit}", bytes as f64 / size);
        }
    }
    format!("{bytes} B")
}

/// So many of them: 1 client, 2 clients.
pub fn number_of(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
