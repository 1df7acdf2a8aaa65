//! Rows of plain columns: the form in which records leave the file and come back.

use crate::error::{Error, Result};

/// A value in a column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    /// Microseconds since 1970-01-01T00:00:00Z; `i64::MAX` for never.
    Time(i64),
    /// Also of a column of JSON.
    Text(String),
}

/// The kind of a column's values. Every column may be null but those of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int,
    Time,
    Text,
    Json,
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Cell::Bool(value)
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Cell::Int(value.into())
    }
}

/// Sequence numbers and counts, which stay far below 2^63.
impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Cell::Int(value as i64)
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Cell::Text(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Cell::Text(value.to_owned())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Null, Into::into)
    }
}

/// Reads the cells of a row from left to right.
pub(super) struct Reader<'c>(std::slice::Iter<'c, Cell>);

impl<'c> Reader<'c> {
    pub(super) fn new(cells: &'c [Cell]) -> Self {
        Reader(cells.iter())
    }

    pub(super) fn bool(&mut self) -> Result<bool> {
        match self.0.next() {
            Some(Cell::Bool(value)) => Ok(*value),
            _ => Err(unfit()),
        }
    }

    pub(super) fn int<T: TryFrom<i64>>(&mut self) -> Result<T> {
        self.int_or_null()?.ok_or_else(unfit)
    }

    pub(super) fn int_or_null<T: TryFrom<i64>>(&mut self) -> Result<Option<T>> {
        match self.0.next() {
            Some(Cell::Int(value)) => T::try_from(*value).map(Some).map_err(|_| unfit()),
            Some(Cell::Null) => Ok(None),
            _ => Err(unfit()),
        }
    }

    pub(super) fn time(&mut self) -> Result<i64> {
        self.time_or_null()?.ok_or_else(unfit)
    }

    pub(super) fn time_or_null(&mut self) -> Result<Option<i64>> {
        match self.0.next() {
            Some(Cell::Time(value)) => Ok(Some(*value)),
            Some(Cell::Null) => Ok(None),
            _ => Err(unfit()),
        }
    }

    pub(super) fn text(&mut self) -> Result<&'c str> {
        self.text_or_null()?.ok_or_else(unfit)
    }

    pub(super) fn text_or_null(&mut self) -> Result<Option<&'c str>> {
        match self.0.next() {
            Some(Cell::Text(value)) => Ok(Some(value)),
            Some(Cell::Null) => Ok(None),
            _ => Err(unfit()),
        }
    }

    pub(super) fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_str(self.text()?).map_err(|_| unfit())
    }
}

/// The error of a row that this release cannot have written.
pub(super) fn unfit() -> Error {
    Error::corrupted("a row of the shared database has a value that does not fit its column; was it changed by hand?")
}
