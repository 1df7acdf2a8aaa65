//! Turns databases into those of earlier schemas. Before schema 4 vectors had 32 bits: see `Db::with_precision`.

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
    drop(generations);
    set_schema(file, 3);
}

/// Also removes what schema 3 added to schema 2: free rows and graphs.
pub(crate) fn back_to_schema_2(file: &redb::WriteTransaction) {
    back_to_schema_3(file);
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), ()>::new("free_rows")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32), &[u8]>::new("graphs")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), &[u8]>::new("graph_pages")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), &[u8]>::new("graph_deltas")).unwrap();
    set_schema(file, 2);
}

/// Also removes what schema 2 added to schema 1: what a session has besides its messages.
pub(crate) fn back_to_schema_1(file: &redb::WriteTransaction) {
    back_to_schema_2(file);
    file.delete_table(redb::TableDefinition::<(u32, u32, &str), &[u8]>::new("blocks")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, &str), &[u8]>::new("cursors")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u64), u32>::new("history")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), (u64, u64)>::new("batches")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), &[u8]>::new("checkpoints")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u64, u32), &[u8]>::new("old_messages")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, &str, u32), &[u8]>::new("old_blocks")).unwrap();
    set_schema(file, 1);
}

/// Removes what schema 6 added to schema 5: documents, and when sessions became idle.
pub(crate) fn back_to_schema_5(file: &redb::WriteTransaction) {
    file.delete_table(redb::TableDefinition::<(&str, &str), i64>::new("idle")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32), u64>::new("windows")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, &str), &[u8]>::new("documents")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u64), &str>::new("document_order")).unwrap();
    file.delete_table(redb::TableDefinition::<(i64, &str, &str), ()>::new("document_expiry")).unwrap();
    file.delete_table(redb::TableDefinition::<&str, &[u8]>::new("document_namespaces")).unwrap();
    set_schema(file, 5);
}

/// Schema 4 had no previous generation, and the tables of schema 5.
pub(crate) fn back_to_schema_4(file: &redb::WriteTransaction) {
    back_to_schema_5(file);
    set_schema(file, 4);
}

fn set_schema(file: &redb::WriteTransaction, number: u32) {
    let mut meta = file.open_table(redb::TableDefinition::<&str, &[u8]>::new("meta")).unwrap();
    meta.insert("schema", number.to_le_bytes().as_slice()).unwrap();
}
