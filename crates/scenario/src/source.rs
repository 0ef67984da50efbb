//! Where every value was written. The scenario file and each `--set` lie one behind the other in
//! one range of positions, so that a position alone says in which of them it is.

use std::ops::Range;

/// A range of positions over all sources.
pub(super) type Site = Range<usize>;

/// The place of the file as a whole.
pub(super) const NOWHERE: Site = usize::MAX..usize::MAX;

/// Place of a mistake, as a person looks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The scenario file, or `--set`.
    pub source: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Number of characters that are meant; at least 1.
    pub width: usize,
    /// The line's text.
    pub text: String,
}

/// All texts that a scenario was made from.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources(Vec<Source>);

#[derive(Clone, Debug)]
struct Source {
    name: String,
    text: String,
    start: usize,
}

impl Sources {
    /// The text that was added first: the file's own.
    pub fn first(&self) -> &str {
        self.0.first().map_or("", |source| &source.text)
    }

    /// Appends a text; its first character gets the position that is returned.
    pub fn add(&mut self, name: &str, text: &str) -> usize {
        let start = self.0.last().map_or(0, |last| last.start + last.text.len() + 1);
        self.0.push(Source { name: name.to_owned(), text: text.to_owned(), start });
        start
    }

    /// The place of the first line of `site`.
    pub fn place(&self, site: &Site) -> Option<Place> {
        if *site == NOWHERE {
            return None;
        }
        let source = self.0.iter().rev().find(|source| source.start <= site.start)?;
        Some(source.place(site.start - source.start, site.end.saturating_sub(source.start)))
    }
}

impl Source {
    fn place(&self, from: usize, to: usize) -> Place {
        let from = floor_char(&self.text, from);
        let begin = self.text[..from].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[from..].find('\n').map_or(self.text.len(), |at| from + at);
        let to = floor_char(&self.text, to.min(end)).max(from);
        Place {
            source: self.name.clone(),
            line: 1 + self.text[..begin].matches('\n').count(),
            column: 1 + self.text[begin..from].chars().count(),
            width: self.text[from..to].chars().count().max(1),
            text: self.text[begin..end].trim_end().to_owned(),
        }
    }
}

/// The last character boundary at or before `at`.
fn floor_char(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_lines_and_columns_in_characters() {
        let mut sources = Sources::default();
        sources.add("a.toml", "x = 1\né = \"ß\"\n");
        let start = sources.add("--set", "x=2");
        // The second line starts at byte 6; é and ß take two bytes each.
        let place = sources.place(&(11..15)).unwrap();
        assert_eq!((place.line, place.column, place.width), (2, 5, 3));
        assert_eq!(place.text, "é = \"ß\"");
        let place = sources.place(&(start + 2..start + 3)).unwrap();
        assert_eq!((place.source.as_str(), place.line, place.column), ("--set", 1, 3));
    }
}
