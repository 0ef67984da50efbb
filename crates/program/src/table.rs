//! Plain tables: columns of text, the first to the left and numbers to the right.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const BETWEEN: &str = "  ";

/// A table with a line of names.
pub struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The last column is to the left.
    last_is_left: bool,
    /// The column that gives way where there is no room for all.
    giving_way: Option<usize>,
}

impl Table {
    /// A table with these columns, the first to the left, all others to the right.
    pub fn new<const N: usize>(names: [&str; N]) -> Self {
        let names = names.map(str::to_owned).to_vec();
        Self { names, rows: Vec::new(), last_is_left: false, giving_way: None }
    }

    /// Puts the last column to the left.
    pub fn with_last_to_the_left(mut self) -> Self {
        self.last_is_left = true;
        self
    }

    /// Names a column of which the end of a text is shown where there is no room for all of it.
    pub fn with_giving_way(mut self, column: usize) -> Self {
        self.giving_way = Some(column);
        self
    }

    /// Adds a row; cells that are missing are empty.
    pub fn add<const N: usize>(&mut self, row: [String; N]) {
        self.rows.push(row.to_vec());
    }

    /// The lines of the table; the first has the names.
    pub fn lines(&self) -> Vec<String> {
        self.lines_within(usize::MAX)
    }

    /// The lines of the table, none of them wider than this.
    pub fn lines_within(&self, most: usize) -> Vec<String> {
        let mut widths: Vec<usize> = (0..self.names.len()).map(|column| self.width(column)).collect();
        let whole = widths.iter().sum::<usize>() + BETWEEN.len() * widths.len().saturating_sub(1);
        if let Some(column) = self.giving_way {
            widths[column] = widths[column].saturating_sub(whole.saturating_sub(most)).max(1);
        }
        let all = std::iter::once(&self.names).chain(&self.rows);
        all.map(|row| cut(self.line(row, &widths).trim_end(), most)).collect()
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).chain([&self.names[column]]);
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, &width) in widths.iter().enumerate() {
            if column > 0 {
                line.push_str(BETWEEN);
            }
            let cell = row.get(column).map_or("", String::as_str);
            let cell = if self.giving_way == Some(column) { end(cell, width) } else { cell };
            let space = " ".repeat(width.saturating_sub(cell.width()));
            let is_left = column == 0 || self.last_is_left && column + 1 == widths.len();
            let (before, after) = if is_left { ("", space.as_str()) } else { (space.as_str(), "") };
            line.extend([before, cell, after]);
        }
        line
    }
}

/// The end of a text, as much as there is room for.
fn end(text: &str, width: usize) -> &str {
    let mut room = width;
    let from = text.char_indices().rev().take_while(|&(_, one)| takes(&mut room, one)).last();
    from.map_or("", |(at, _)| &text[at..])
}

/// A line that is not wider than this. Where it was, its last character says so.
pub fn cut(line: &str, width: usize) -> String {
    if line.width() <= width {
        return line.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let kept: String = line.chars().take_while(|&one| takes(&mut room, one)).collect();
    if width == 0 { kept } else { kept + "…" }
}

/// A text on as many lines as it needs, broken between words where that is possible.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        for one in word.chars() {
            if line.width() + one.width().unwrap_or(0) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(one);
        }
    }
    lines.push(line);
    lines
}

/// Returns true if there is room for a character, and takes the room.
fn takes(room: &mut usize, one: char) -> bool {
    let left = room.checked_sub(one.width().unwrap_or(0));
    *room = left.unwrap_or(*room);
    left.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["path", "Mbit/s", "minute", ""]).with_giving_way(2);
        table.add(["wlan0".into(), "12.5".into(), "▁▂▃▄▅▆▇█".into(), "down".into()]);
        table.add(["木".into(), "3.0".into()]);
        table
    }

    #[test]
    fn numbers_are_to_the_right() {
        let lines = ["path   Mbit/s    minute", "wlan0    12.5  ▁▂▃▄▅▆▇█  down", "木        3.0"];
        assert_eq!(table().lines(), lines);
        let mut left = Table::new(["one", "links"]).with_last_to_the_left();
        left.add(["a".into(), "b".into()]);
        assert_eq!(left.lines(), ["one  links", "a    b"]);
    }

    #[test]
    fn one_column_gives_way_and_its_end_is_shown() {
        assert_eq!(table().lines_within(25)[1], "wlan0    12.5  ▅▆▇█  down");
        assert_eq!(table().lines_within(20)[1], "wlan0    12.5  █  d…");
        assert_eq!(table().lines_within(0)[1], "");
    }

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}
