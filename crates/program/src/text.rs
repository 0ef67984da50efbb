//! Texts for people: amounts, numbers of things, and names without what a terminal would obey.

/// In place of a number that there is not.
pub const NOTHING: &str = "–";

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A text of the other end or a file's name, without characters that a terminal would obey, but those `kept`.
pub fn printable(text: &str, kept: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for one in text.chars() {
        if is_printable(one) || kept.contains(one) {
            shown.push(one);
        } else {
            shown.push_str(&escaped(one));
        }
    }
    shown
}

/// Returns true for letters, marks, numbers, signs and the space. Controls, other spaces, and characters that direct or
/// join others are none of these.
pub fn is_printable(one: char) -> bool {
    if matches!(one, '"' | '\'' | '\\') {
        return true;
    }
    // The standard library escapes what is not printable. A mark that extends a letter it escapes at the beginning
    // alone.
    let text: String = ['a', one].iter().collect();
    text.escape_debug().eq(text.chars())
}

fn escaped(one: char) -> String {
    match one {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        _ => match u32::from(one) {
            code @ ..=0xff => format!("\\x{code:02x}"),
            code @ ..=0xffff => format!("\\u{code:04x}"),
            code => format!("\\U{code:08x}"),
        },
    }
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

/// Number and noun: 1 client, 2 clients.
pub fn number_of(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A bar for each value, the highest for `most`.
pub fn bars(values: &[f64], most: f64) -> String {
    let last = BARS.len() - 1;
    values.iter().map(|value| BARS[((BARS.len() as f64 * value / most) as usize).min(last)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_as_an_escape() {
        assert_eq!(printable("a\x1b[2J\u{9b}é\\ \"x'", ""), "a\\x1b[2J\\x9bé\\ \"x'");
        assert_eq!(printable("\u{202e}\u{a0}\u{feff}\u{e0001}\n", ""), "\\u202e\\xa0\\ufeff\\U000e0001\\n");
        assert_eq!(printable("one\n\ttwo\r", "\n\t"), "one\n\ttwo\\r");
        assert_eq!(printable("e\u{301}, 木, 🚀", ""), "e\u{301}, 木, 🚀");
        assert_eq!(printable("\u{301}", ""), "\u{301}");
    }

    #[test]
    fn amounts_round_into_the_next_unit() {
        let said = [0, 999, 1000, 999_949, 999_950, 2_000_000, 999_950_000, 8_200_000_000].map(amount);
        assert_eq!(said, ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "2.0 MB", "1.0 GB", "8.2 GB"]);
    }

    #[test]
    fn one_of_them_has_no_s() {
        assert_eq!([0, 1, 2].map(|count| number_of(count, "client")), ["0 clients", "1 client", "2 clients"]);
    }

    #[test]
    fn the_highest_bar_stands_for_the_most() {
        assert_eq!(bars(&[0.0, 4.0, 8.0, 9.0], 8.0), "▁▅██");
    }
}
