//! Turns databases into those of earlier schemas. Before schema 4 vectors had 32 bits: see `Db::with_precision`.

/// Removes what schemas 11 and 12 added to schema 10: the expiry and the versions of messages, and what replicas lost. There must
/// be no message that expires, and the file is no replica.
pub(crate) fn back_to_schema_10(file: &redb::WriteTransaction) {
    file.delete_table(redb::TableDefinition::<(&str, u64), &[u8]>::new("lost")).unwrap();
    file.delete_table(redb::TableDefinition::<(i64, &str, u64), ()>::new("message_expiry")).unwrap();
    file.delete_table(redb::TableDefinition::<u32, i64>::new("times_to_live")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u64, i64), &[u8]>::new("message_versions")).unwrap();
    set_schema(file, 10);
}

/// Makes the blocks of vectors as large as those of schema 9.
fn back_to_schema_9(file: &redb::WriteTransaction) {
    back_to_schema_10(file);
    const HEADER: usize = 4;
    const SMALL_BLOCKS: u8 = 16;
    let mut generations = file.open_table(redb::TableDefinition::<u32, &[u8]>::new("generations")).unwrap();
    let records: Vec<(u32, Vec<u8>)> = redb::ReadableTable::iter(&generations)
        .unwrap()
        .map(|entry| entry.map(|(id, record)| (id.value(), record.value().to_vec())).unwrap())
        .collect();
    let mut vectors = file.open_table(redb::TableDefinition::<(u32, u32, u32), &[u8]>::new("vectors")).unwrap();
    for (id, mut record) in records {
        let layout = record.last_mut().unwrap();
        if *layout & SMALL_BLOCKS == 0 {
            continue;
        }
        *layout -= SMALL_BLOCKS;
        let precision = *layout;
        generations.insert(id, &*record).unwrap();
        let name_length = usize::from(record[HEADER]);
        let dimension = usize::from(record[HEADER + 1 + name_length]);
        assert!(name_length < 251 && dimension < 251, "bincode writes these numbers as one byte");
        let row_bytes = 24 + [4 * dimension, 4 + dimension, 2 * dimension][usize::from(precision)];
        let rows_per_block = (65_020 / row_bytes).max(1);
        let mut namespaces = std::collections::BTreeMap::<u32, (Vec<u8>, Vec<u8>)>::new();
        let blocks: Vec<((u32, u32, u32), Vec<u8>)> = redb::ReadableTable::range(&vectors, (id, 0, 0)..(id + 1, 0, 0))
            .unwrap()
            .map(|entry| entry.map(|(key, block)| (key.value(), block.value().to_vec())).unwrap())
            .collect();
        for (key, block) in blocks {
            let (header, rows) = block.split_at(HEADER);
            namespaces.entry(key.1).or_insert_with(|| (header.to_vec(), Vec::new())).1.extend(rows);
            vectors.remove(key).unwrap();
        }
        for (namespace, (header, rows)) in namespaces {
            for (number, rows) in (0..).zip(rows.chunks(rows_per_block * row_bytes)) {
                vectors.insert((id, namespace, number), &*[&header, rows].concat()).unwrap();
            }
        }
    }
    drop((generations, vectors));
    set_schema(file, 9);
}

/// Removes what schema 4 added to schema 3: the lexical index, and the last byte of a generation, its precision.
pub(crate) fn back_to_schema_3(file: &redb::WriteTransaction) {
    back_to_schema_9(file);
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
    back_to_schema_9(file);
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
