//! The namespaces of documents: their records, with the counts of the documents, and their companions.
//!
//! The indexed texts of a namespace's documents are messages of its *companion*, a namespace that no user can name. So
//! embedding, indexing, reindexing and verification know messages alone. Outside of the store a companion is one of the
//! [`parts`](NamespaceId::parts) of a namespace, or the origin of a [`DocumentText`].

use redb::ReadableTable;

use super::{
    codec,
    documents::document_key,
    schema::*,
    tables::{Tables, storage},
    write_tables::WriteTransaction,
};
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
};

/// The bit that tells the number of a companion from that of its owner. No database has so many namespaces.
const COMPANION: u32 = 1 << 31;

impl NamespaceId {
    /// The parts in which a namespace is stored: its messages, and the texts of its documents.
    pub(crate) fn parts(self) -> [NamespaceId; 2] {
        [self, self.document_texts()]
    }

    /// The namespace that this is a part of.
    pub(crate) fn whole(self) -> NamespaceId {
        self.owner().unwrap_or(self)
    }

    /// Returns true for the part of a namespace that has the texts of its documents.
    pub(crate) fn has_document_texts(self) -> bool {
        self.owner().is_some()
    }

    /// The companion of this namespace.
    pub(super) fn document_texts(self) -> NamespaceId {
        NamespaceId(self.0 | COMPANION)
    }

    /// The namespace whose companion this one is, if it is a companion.
    pub(super) fn owner(self) -> Option<NamespaceId> {
        (self.0 & COMPANION != 0).then_some(NamespaceId(self.0 & !COMPANION))
    }
}

/// An indexed text of a document, which a recall finds as a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DocumentText<'a> {
    companion: &'a Namespace,
    /// The key of the document.
    pub(crate) key: &'a str,
}

impl<'a> DocumentText<'a> {
    /// The namespaces in which the texts of the documents of these namespaces are found.
    pub(crate) fn namespaces(of: &[Namespace]) -> Vec<Namespace> {
        of.iter().map(Namespace::document_texts).collect()
    }

    /// The text with this id of a message, in one of [`namespaces`](Self::namespaces).
    ///
    /// # Errors
    /// [`Error::Corrupted`](crate::Error::Corrupted) if no text has such an id.
    pub(crate) fn new(companion: &'a Namespace, id: &'a str) -> Result<Self> {
        Ok(DocumentText { companion, key: document_key(id)? })
    }

    /// The namespace of the document.
    pub(crate) fn namespace(self) -> Namespace {
        self.companion.owner().expect("texts are in companions")
    }
}

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
