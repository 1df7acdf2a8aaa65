//! What a replica had that its primary never had or has lost, found when the primary's rows replace the replica's.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{
    super::{lost_rows::LostRows, tables::WriteTransaction},
    capture,
    change::{Change, Parted},
    table::{Cell, Column, Kind, Row, Table as PrimaryTable},
};
use crate::error::Result;

/// What only the replica had, and what it had deleted.
#[derive(Default)]
pub(super) struct Lost {
    rows: Vec<Row>,
    /// Rows of the primary that the replica had deleted.
    deleted: Vec<Row>,
}

impl Lost {
    /// Compares the rows of a replica, before they are replaced, with those of its primary.
    pub(super) fn of(tables: &WriteTransaction, change: &Change, parted: &Parted) -> Result<Self> {
        let here = capture::rows_of(tables, &change.namespace)?;
        let find = |rows: &[Row]| -> HashMap<(PrimaryTable, Vec<Cell>), Vec<Cell>> {
            rows.iter().filter_map(|row| Some(((row.table, row.key.clone()), row.value.clone()?))).collect()
        };
        let (there, compared) = (find(&change.rows), Compared { change, counters: parted.counters });
        let is_lost = |row: &Row| {
            let Some(value) = &row.value else { return false };
            compared.is_lost(row, value, there.get(&(row.table, row.key.clone())))
        };
        let rows = here.iter().filter(|row| is_lost(row)).cloned().collect();
        let here = find(&here);
        let is_deleted = |row: &Row| !here.contains_key(&(row.table, row.key.clone())) && compared.was_there(row);
        let deleted = change.rows.iter().filter(|row| is_deleted(row)).cloned().collect();
        Ok(Lost { rows, deleted })
    }

    /// Notes the entries, and says so in the log.
    pub(super) fn note(self, tables: &WriteTransaction, change: &Change) -> Result<()> {
        let Lost { rows, deleted } = self;
        let (namespace, lost, undone) = (&change.namespace, rows.len(), deleted.len());
        if lost + undone == 0 {
            return Ok(());
        }
        tracing::warn!(
            namespace,
            lost,
            undone,
            "the shared database has another history than the replica, as after a fail-over or a restore that lost writes; the \
             replica was replaced. `mnemon verify --lost` lists what only the replica had, and what it had deleted"
        );
        let rows = rows.iter().map(|row| line(namespace, row, false));
        LostRows(tables).append(namespace, rows.chain(deleted.iter().map(|row| line(namespace, row, true))))
    }
}

/// What is compared with the rows of a replica.
struct Compared<'c> {
    change: &'c Change,
    /// Those of [`Parted`].
    counters: Option<(u64, u64)>,
}

impl Compared<'_> {
    /// Returns true if a row of the replica is of a change that the primary does not have. A row that the primary alone
    /// changed, or deleted, since the two parted is not lost.
    fn is_lost(&self, row: &Row, value: &[Cell], there: Option<&Vec<Cell>>) -> bool {
        let head = &self.change.head;
        let number = |value: &[Cell], name: &str| int(row.table.value(), value, name);
        match row.table {
            PrimaryTable::MESSAGES => match there {
                None => first(&row.key) >= self.counters.map_or(head.next_seq, |(next_seq, _)| next_seq),
                Some(there) => {
                    let is_other = cell(row.table.value(), value, "id") != cell(row.table.value(), there, "id");
                    let is_newer = number(value, "revision") >= number(there, "revision");
                    is_other || (is_newer && content(value) != content(there))
                }
            },
            PrimaryTable::DOCUMENTS => {
                let last = head.documents.as_ref().map_or(0, |documents| documents.last_change);
                let change = number(value, "change");
                match (there, self.counters) {
                    (Some(there), _) if value == there => false,
                    (_, Some((_, last))) => change > last,
                    (Some(there), None) => change >= number(there, "change"),
                    (None, None) => change > last,
                }
            }
            PrimaryTable::HOLDS | PrimaryTable::AUDIT => there.is_none_or(|there| there != value),
            table if table.name() == "blocks" => {
                there.is_none_or(|there| there != value && number(value, "revision") >= number(there, "revision"))
            }
            _ => false,
        }
    }

    /// Returns true for a row of the primary that is as it was when the two parted, if that is known.
    fn was_there(&self, row: &Row) -> bool {
        let (Some(value), Some((next_seq, last_change))) = (&row.value, self.counters) else { return false };
        match row.table {
            PrimaryTable::MESSAGES => first(&row.key) < next_seq,
            PrimaryTable::DOCUMENTS => int(row.table.value(), value, "change") <= last_change,
            _ => false,
        }
    }
}

/// The columns of a message that people know: all but its revision, and whether and in which batch it was flushed.
fn content(value: &[Cell]) -> Vec<&Cell> {
    let columns = PrimaryTable::MESSAGES.value().iter();
    let is_known = |name: &str| !["revision", "buffered", "batch"].contains(&name);
    columns.zip(value).filter(|((name, _), _)| is_known(name)).map(|(_, cell)| cell).collect()
}

fn first(key: &[Cell]) -> u64 {
    if let Some(Cell::Int(number)) = key.first() { *number as u64 } else { 0 }
}

fn cell<'v>(columns: &[Column], value: &'v [Cell], name: &str) -> Option<&'v Cell> {
    value.get(columns.iter().position(|(column, _)| *column == name)?)
}

fn int(columns: &[Column], value: &[Cell], name: &str) -> u64 {
    if let Some(Cell::Int(number)) = cell(columns, value, name) { *number as u64 } else { 0 }
}

/// An entry. Of a row that the replica had deleted, it names the key and the id alone.
fn line(namespace: &str, row: &Row, is_deleted: bool) -> String {
    let mut line = Map::new();
    line.insert("namespace".into(), namespace.into());
    line.insert("table".into(), row.table.name().into());
    line.insert("lost".into(), if is_deleted { "deletion" } else { "row" }.into());
    let value = row.value.as_deref().unwrap_or_default();
    let columns = row.table.key().iter().zip(&row.key).chain(row.table.value().iter().zip(value));
    for (at, ((name, kind), cell)) in columns.enumerate() {
        if !is_deleted || at < row.key.len() || *name == "id" {
            line.insert((*name).into(), value_of(*kind, cell));
        }
    }
    Value::Object(line).to_string()
}

fn value_of(kind: Kind, cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Bool(value) => json!(value),
        Cell::Int(value) => json!(value),
        Cell::Time(micros) => json!(crate::message::Timestamp::from_micros(*micros)),
        Cell::Text(text) if kind == Kind::Json => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        Cell::Text(text) => json!(text),
    }
}
