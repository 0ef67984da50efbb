//! A row under way: every column is put with the type of its values, which it has where it has no value, too.

use serde_json::Value;

use super::Row;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A text.
    Text,
    /// A whole number.
    Integer,
    /// Any number.
    Float,
    /// Yes or no.
    Boolean,
}

/// Type of a column.
pub(super) trait Cell {
    const TYPE: ColumnType;

    fn json(self) -> Value;
}

impl Cell for &str {
    const TYPE: ColumnType = ColumnType::Text;

    fn json(self) -> Value {
        self.into()
    }
}

impl Cell for u64 {
    const TYPE: ColumnType = ColumnType::Integer;

    fn json(self) -> Value {
        self.into()
    }
}

impl Cell for bool {
    const TYPE: ColumnType = ColumnType::Boolean;

    fn json(self) -> Value {
        self.into()
    }
}

/// Six decimals: enough to compare, and no noise to look at. What is no number is null.
impl Cell for f64 {
    const TYPE: ColumnType = ColumnType::Float;

    fn json(self) -> Value {
        if self.is_finite() { ((self * 1e6).round() / 1e6).into() } else { Value::Null }
    }
}

impl<C: Cell> Cell for Option<C> {
    const TYPE: ColumnType = C::TYPE;

    fn json(self) -> Value {
        self.map_or(Value::Null, C::json)
    }
}

/// Names, values and types, in the order of the columns.
#[derive(Default)]
pub(super) struct Columns {
    row: Row,
    types: Vec<ColumnType>,
}

impl Columns {
    /// Adds a column.
    pub(super) fn put<C: Cell>(&mut self, name: &str, value: C) {
        if self.row.insert(name.to_owned(), value.json()).is_none() {
            self.types.push(C::TYPE);
        }
    }

    /// The values.
    pub(super) fn row(self) -> Row {
        self.row
    }

    /// The types.
    pub(super) fn types(self) -> Vec<(String, ColumnType)> {
        self.row.into_iter().map(|(name, _)| name).zip(self.types).collect()
    }
}
