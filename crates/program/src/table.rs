//! Plain tables: columns of text, the first to the left and numbers to the right.

/// A table with a line of names.
pub struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns, the first to the left, all others to the right.
    pub fn new<const N: usize>(names: [&str; N]) -> Self {
        Self { names: names.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// Adds a row; cells that are missing are empty.
    pub fn add<const N: usize>(&mut self, row: [String; N]) {
        self.rows.push(row.to_vec());
    }

    /// The lines of the table.
    pub fn lines(&self) -> Vec<String> {
        std::iter::once(&self.names).chain(&self.rows).map(|row| row.join("  ")).collect()
    }
}
