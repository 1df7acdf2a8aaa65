//! Rows of plain columns, the form in which records leave the file and come back, and the tables that have them.

use sha2::{Digest, Sha256};

use crate::{
    error::{Error, Result},
    ids::hex,
};

/// A table. Its rows belong to namespaces, or to none: see [`Table::is_common`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Table {
    name: &'static str,
    key: &'static [Column],
    value: &'static [Column],
    is_common: bool,
    has_chosen_key: bool,
}

/// A column's name and the kind of its values.
pub(crate) type Column = (&'static str, Kind);

/// What is stored under a key, `None` if nothing is any more.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) table: Table,
    pub(crate) key: Vec<Cell>,
    pub(crate) value: Option<Vec<Cell>>,
}

macro_rules! columns {
    ($($name:literal $kind:ident),*) => { &[$(($name, $crate::store::primary::table::Kind::$kind)),*] };
}
pub(in crate::store) use columns;

impl Table {
    /// A table whose rows belong to namespaces.
    pub(in crate::store) const fn new(name: &'static str, key: &'static [Column], value: &'static [Column]) -> Self {
        Table { name, key, value, is_common: false, has_chosen_key: false }
    }

    /// The table, whose rows belong to no namespace.
    pub(super) const fn common(self) -> Self {
        Table { is_common: true, ..self }
    }

    /// The table with keys that are names which users chose.
    pub(in crate::store) const fn with_chosen_key(self) -> Self {
        Table { has_chosen_key: true, ..self }
    }

    /// Returns true if the rows belong to no namespace, but to all.
    pub(crate) fn is_common(self) -> bool {
        self.is_common
    }

    /// Returns true if the key is a name that users chose. A deleted row must not keep it: its key is
    /// [`hidden_name`](super::hidden_name).
    pub(crate) fn has_chosen_key(self) -> bool {
        self.has_chosen_key
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// The columns that, after the namespace, name a row. A session is named by its number where one is not text; -1 is
    /// all sessions of the namespace.
    pub(crate) fn key(self) -> &'static [Column] {
        self.key
    }

    /// The other columns.
    pub(crate) fn value(self) -> &'static [Column] {
        self.value
    }
}

/// What the key of a hidden name begins with. No name begins so as it is stored, because U+0001 is escaped there.
pub(crate) const HIDDEN: &str = "\u{1}x";

/// The key of a deleted row in a table whose keys are names that users chose: a hash under the key that all machines have.
/// A machine that has the row finds the name by it, and nobody else reads it.
pub(crate) fn hidden_name(key: &[u8; 32], table: &str, namespace: &str, name: &str) -> String {
    let hashed = format!("{table}/{}/{namespace}{name}", namespace.chars().count());
    let hash: [u8; 32] = Sha256::new().chain_update(key).chain_update(hashed).finalize().into();
    format!("{HIDDEN}{}", &hex(&hash)[..32])
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
pub(in crate::store) struct Reader<'c>(std::slice::Iter<'c, Cell>);

impl<'c> Reader<'c> {
    pub(in crate::store) fn new(cells: &'c [Cell]) -> Self {
        Reader(cells.iter())
    }

    pub(in crate::store) fn bool(&mut self) -> Result<bool> {
        match self.0.next() {
            Some(Cell::Bool(value)) => Ok(*value),
            _ => Err(unfit()),
        }
    }

    pub(in crate::store) fn int<T: TryFrom<i64>>(&mut self) -> Result<T> {
        self.int_or_null()?.ok_or_else(unfit)
    }

    pub(in crate::store) fn int_or_null<T: TryFrom<i64>>(&mut self) -> Result<Option<T>> {
        match self.0.next() {
            Some(Cell::Int(value)) => T::try_from(*value).map(Some).map_err(|_| unfit()),
            Some(Cell::Null) => Ok(None),
            _ => Err(unfit()),
        }
    }

    pub(in crate::store) fn time(&mut self) -> Result<i64> {
        self.time_or_null()?.ok_or_else(unfit)
    }

    pub(in crate::store) fn time_or_null(&mut self) -> Result<Option<i64>> {
        match self.0.next() {
            Some(Cell::Time(value)) => Ok(Some(*value)),
            Some(Cell::Null) => Ok(None),
            _ => Err(unfit()),
        }
    }

    pub(in crate::store) fn text(&mut self) -> Result<&'c str> {
        self.text_or_null()?.ok_or_else(unfit)
    }

    pub(in crate::store) fn text_or_null(&mut self) -> Result<Option<&'c str>> {
        match self.0.next() {
            Some(Cell::Text(value)) => Ok(Some(value)),
            Some(Cell::Null) => Ok(None),
            _ => Err(unfit()),
        }
    }

    pub(in crate::store) fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_str(self.text()?).map_err(|_| unfit())
    }
}

/// The error of a row that this release cannot have written.
pub(in crate::store) fn unfit() -> Error {
    Error::corrupted("a row of the shared database has a value that does not fit its column; was it changed by hand?")
}
