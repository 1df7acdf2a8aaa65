//! All live records of a database as bytes, for tests.

use redb::{Key, ReadableTable, TableDefinition, TableHandle, Value};

use super::{precision, schema::*, tables::Tables, transaction::Snapshot};
use crate::config::Precision;

/// Returns the keys and values of each table, by the name of the table.
pub(crate) fn dump(snapshot: &Snapshot) -> Vec<(String, Vec<u8>)> {
    let tables = snapshot.tables();
    let mut all = Vec::new();
    macro_rules! dump_all {
        ($($table:ident)*) => { $(all.push(table(tables, $table));)* };
    }
    dump_all! {
        META NAMESPACES SESSIONS MESSAGES IDS HISTORY IDLE WINDOWS BATCHES BLOCKS CURSORS CHECKPOINTS OLD_MESSAGES
        OLD_BLOCKS GENERATIONS PENDING VECTOR_ROWS COUNTS VECTORS FREE_ROWS GRAPHS GRAPH_PAGES GRAPH_DELTAS SEGMENTS
        SEGMENT_PARTS LANGUAGES DOCUMENTS DOCUMENT_ORDER DOCUMENT_EXPIRY DOCUMENT_NAMESPACES DROPPED_BLOCKS HOLDS AUDIT
    }
    assert_eq!(all.len(), tables.list_tables().unwrap().count(), "a table is missing in the list");
    all
}

fn table<K: Key + 'static, V: Value + 'static>(
    tables: &impl Tables,
    definition: TableDefinition<'_, K, V>,
) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    for entry in tables.table(definition).unwrap().iter().unwrap() {
        let (key, value) = entry.unwrap();
        bytes.extend_from_slice(K::as_bytes(&key.value()).as_ref());
        bytes.extend_from_slice(V::as_bytes(&value.value()).as_ref());
    }
    (definition.name().to_owned(), bytes)
}

/// Returns the bytes that a vector is stored as.
pub(crate) fn vector_bytes(precision: Precision, vector: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; precision::bytes(precision, vector.len())];
    precision::write(precision, vector, &mut bytes);
    bytes
}
