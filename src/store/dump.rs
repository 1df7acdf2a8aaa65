//! All live records of a database as bytes, for tests.

use redb::{Key, Value};

use super::{
    precision,
    schema::*,
    tables::{ReadableTable, Tables},
    transaction::Snapshot,
};
use crate::{config::Precision, error::Result};

/// Returns the keys and values of each table, by the name of the table.
pub(crate) fn dump(snapshot: &Snapshot) -> Vec<(String, Vec<u8>)> {
    let mut dump = Dump { snapshot, all: Vec::new() };
    visit_tables(&mut dump).unwrap();
    assert_eq!(dump.all.len(), snapshot.tables().list_tables().unwrap().count(), "a table is missing in the list");
    dump.all
}

struct Dump<'s> {
    snapshot: &'s Snapshot,
    all: Vec<(String, Vec<u8>)>,
}

impl TableVisitor for Dump<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        let mut bytes = Vec::new();
        for entry in self.snapshot.tables().table(table)?.iter().unwrap() {
            let (key, value) = entry.unwrap();
            bytes.extend_from_slice(K::as_bytes(&key.value()).as_ref());
            bytes.extend_from_slice(V::as_bytes(&value.value()).as_ref());
        }
        self.all.push((table.name.to_owned(), bytes));
        Ok(())
    }
}

/// Returns the bytes that a vector is stored as.
pub(crate) fn vector_bytes(precision: Precision, vector: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; precision::bytes(precision, vector.len())];
    precision::write(precision, vector, &mut bytes);
    bytes
}
