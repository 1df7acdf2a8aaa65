//! The records of namespaces with documents: the counts of the documents, and the companion with their texts.

use redb::ReadableTable;

use super::{
    codec,
    schema::*,
    tables::{Tables, storage},
    write_tables::WriteTransaction,
};
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
};

/// The record of a namespace, or `None` if it never had a document.
pub(super) fn record(
    table: &impl ReadableTable<&'static str, Bytes>,
    namespace: &Namespace,
) -> Result<Option<DocumentNamespaceRecord>> {
    let value = table.get(namespace.as_str()).map_err(storage)?;
    value.map(|value| codec::decode(value.value())).transpose()
}

/// The number of documents of a namespace, including those that have expired and are not deleted yet.
pub(super) fn documents_of(table: &impl ReadableTable<&'static str, Bytes>, namespace: &Namespace) -> Result<u64> {
    Ok(record(table, namespace)?.map_or(0, |record| record.counts.documents))
}

/// Changes the record of the namespace with this number. It is created if it does not exist.
pub(super) fn update(
    tables: &WriteTransaction,
    namespace: &Namespace,
    id: NamespaceId,
    change: impl FnOnce(&mut DocumentNamespaceRecord),
) -> Result<()> {
    let mut table = tables.table(DOCUMENT_NAMESPACES)?;
    let mut record = record(&table, namespace)?
        .unwrap_or_else(|| DocumentNamespaceRecord { counts: DocumentCounts::default(), texts: no_texts(id) });
    change(&mut record);
    table.insert(namespace.as_str(), codec::encode(&record).as_slice()).map_err(storage)?;
    Ok(())
}

/// The record of the companion of a namespace without texts.
pub(super) fn no_texts(owner: NamespaceId) -> NamespaceRecord {
    NamespaceRecord { id: owner.document_texts().0, next_seq: 0, next_session: 0, messages: 0 }
}
