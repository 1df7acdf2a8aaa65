//! Turns databases into those of earlier schemas.

/// Removes what schema 4 added to schema 3: the lexical index, and the last byte of a generation, its precision.
pub(crate) fn back_to_schema_3(file: &redb::WriteTransaction) {
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), (u32, u32)>::new("segments")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u32, u32), &[u8]>::new("segment_parts")).unwrap();
    file.delete_table(redb::TableDefinition::<u32, &str>::new("languages")).unwrap();
    let mut generations = file.open_table(redb::TableDefinition::<u32, &[u8]>::new("generations")).unwrap();
    let ids: Vec<u32> =
        redb::ReadableTable::iter(&generations).unwrap().map(|entry| entry.unwrap().0.value()).collect();
    for id in ids {
        let record = redb::ReadableTable::get(&generations, id).unwrap().unwrap().value().to_vec();
        let (precision, old) = record.split_last().unwrap();
        assert_eq!(*precision, 0, "schema 3 had 32 bits alone");
        generations.insert(id, old).unwrap();
    }
    let mut meta = file.open_table(redb::TableDefinition::<&str, &[u8]>::new("meta")).unwrap();
    meta.insert("schema", 3u32.to_le_bytes().as_slice()).unwrap();
}

/// Also removes what schema 3 added to schema 2: free rows and graphs.
pub(crate) fn back_to_schema_2(file: &redb::WriteTransaction) {
    back_to_schema_3(file);
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), ()>::new("free_rows")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32), &[u8]>::new("graphs")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), &[u8]>::new("graph_pages")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), &[u8]>::new("graph_deltas")).unwrap();
    let mut meta = file.open_table(redb::TableDefinition::<&str, &[u8]>::new("meta")).unwrap();
    meta.insert("schema", 2u32.to_le_bytes().as_slice()).unwrap();
}

/// Removes what schema 7 added to schema 6: receipts, holds, dropped blocks, and the numbers of new namespaces. One
/// namespace without messages loses its sessions, as if it had been deleted.
pub(crate) fn back_to_schema_6(path: &std::path::Path, emptied: &str) {
    let file = redb::Database::open(path).unwrap();
    let change = file.begin_write().unwrap();
    change.delete_table(redb::TableDefinition::<u64, &[u8]>::new("audit")).unwrap();
    change.delete_table(redb::TableDefinition::<&str, &[u8]>::new("holds")).unwrap();
    change.delete_table(redb::TableDefinition::<(u32, u32, &str), ()>::new("dropped_blocks")).unwrap();
    {
        let mut meta = change.open_table(redb::TableDefinition::<&str, &[u8]>::new("meta")).unwrap();
        meta.remove("next_namespace").unwrap();
        meta.insert("schema", 6u32.to_le_bytes().as_slice()).unwrap();
        let names = change.open_table(redb::TableDefinition::<&str, &[u8]>::new("namespaces")).unwrap();
        // Behind the four bytes of the header; a small number takes one byte.
        let number = u32::from(redb::ReadableTable::get(&names, emptied).unwrap().unwrap().value()[4]);
        let mut sessions = change.open_table(redb::TableDefinition::<(u32, &str), u32>::new("sessions")).unwrap();
        sessions.retain_in((number, "")..(number + 1, ""), |_, _| false).unwrap();
    }
    change.commit().unwrap();
}
