//! Namespaces: their numbers, names, counters, languages and times to live.
//!
//! A namespace that is removed leaves no trace of its name. Its number, and the numbers of its messages and sessions,
//! are never given to another namespace, also not to a new one with the same name: whoever still holds one of them,
//! such as a block at work or a loaded index, finds nothing.

use super::{
    codec,
    schema::*,
    tables::{ReadableTable, Tables, WriteTable, WriteTransaction, has},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    lexical::{ChosenLanguage, LanguageOrigin},
};

/// The tables of namespaces and of their languages.
pub(crate) struct Namespaces<'t, T>(pub(super) &'t T);

impl<T: Tables> Namespaces<'_, T> {
    /// The id of a namespace, or `None` if nothing was ever put into it.
    pub(crate) fn id(&self, namespace: &Namespace) -> Result<Option<NamespaceId>> {
        Ok(self.record(namespace)?.map(|record| NamespaceId(record.id)))
    }

    /// The id of a namespace, and a number above those of its messages and their revisions.
    pub(crate) fn id_and_next(&self, namespace: &Namespace) -> Result<Option<(NamespaceId, u64)>> {
        Ok(self.record(namespace)?.map(|record| (NamespaceId(record.id), record.next_seq)))
    }

    /// The name of a namespace; of a companion, that of its owner. Cost: a pass over all namespaces.
    pub(crate) fn name(&self, namespace: NamespaceId) -> Result<String> {
        let namespace = namespace.whole();
        for entry in self.0.table(NAMESPACES)?.iter()? {
            let (name, value) = entry?;
            if codec::decode::<NamespaceRecord>(value.value())?.id == namespace.0 {
                return Ok(name.value().to_owned());
            }
        }
        Err(Error::corrupted(format!("namespace {} has no name", namespace.0)))
    }

    /// The language of a namespace.
    ///
    /// # Errors
    /// [`Error::Corrupted`] if the stored one is unknown.
    pub(crate) fn language(&self, namespace: NamespaceId) -> Result<ChosenLanguage> {
        let Some(record) = self.language_record(namespace)? else { return Ok(ChosenLanguage::default()) };
        let (name, origin) = match record.strip_suffix(GUESSED) {
            Some("") => return Ok(ChosenLanguage::default()),
            Some(name) => (name, LanguageOrigin::Guessed),
            None => (&*record, LanguageOrigin::Set),
        };
        let unknown = |_| Error::corrupted(format!("the stored language {name:?} of a namespace is unknown"));
        Ok(ChosenLanguage { language: name.parse().map_err(unknown)?, origin })
    }

    /// The name of the language that was set for a namespace; `None` if none was, or if it was guessed.
    pub(crate) fn language_set_by_hand(&self, namespace: NamespaceId) -> Result<Option<String>> {
        Ok(self.language_record(namespace)?.filter(|record| !record.ends_with(GUESSED)))
    }

    /// Returns true if a guess of the language of a namespace is to be stored: it has no language, and was not deleted
    /// since the guess was made from its messages.
    pub(crate) fn awaits_guess(&self, namespace: NamespaceId) -> Result<bool> {
        let messages = self.0.table(MESSAGES)?;
        let [own, of_documents] = namespace.whole().parts().map(|NamespaceId(id)| has(&messages, (id, 0)..(id + 1, 0)));
        Ok(self.language_record(namespace)?.is_none() && (own? || of_documents?))
    }

    /// The record of the language of a namespace; `None` if it was neither set nor guessed.
    pub(crate) fn language_record(&self, namespace: NamespaceId) -> Result<Option<String>> {
        let table = self.0.table(LANGUAGES)?;
        Ok(table.get(namespace.0)?.map(|value| value.value().to_owned()))
    }

    /// The time to live of the messages of a namespace, in microseconds, if it has one.
    pub(crate) fn time_to_live(&self, NamespaceId(namespace): NamespaceId) -> Result<Option<i64>> {
        Ok(self.0.table(TIMES_TO_LIVE)?.get(namespace)?.map(|ttl| ttl.value()))
    }

    /// The record of a namespace, or `None` if nothing was ever put into it.
    pub(super) fn record(&self, namespace: &Namespace) -> Result<Option<NamespaceRecord>> {
        known(self.0, &self.0.table(NAMESPACES)?, namespace)
    }
}

impl Namespaces<'_, WriteTransaction> {
    /// Returns the id of a namespace, which is created if it does not exist.
    pub(crate) fn create(&self, namespace: &Namespace) -> Result<NamespaceId> {
        Ok(NamespaceId(record_or_new(self.0, &mut self.0.table(NAMESPACES)?, namespace)?.id))
    }

    /// Stores the language of a namespace. The default one is stored too: it says that a guess was tried, and is not tried
    /// again.
    pub(crate) fn set_language(&self, namespace: NamespaceId, language: ChosenLanguage) -> Result<()> {
        let name = language.language.as_str();
        let record = match language.origin {
            LanguageOrigin::Set => name.to_owned(),
            LanguageOrigin::Guessed => format!("{name}{GUESSED}"),
            LanguageOrigin::Default => GUESSED.to_string(),
        };
        self.0.table(LANGUAGES)?.insert(namespace.0, record.as_str())?;
        Ok(())
    }
}

/// The mark after the name of a language that was guessed. Alone: the messages did not tell.
const GUESSED: char = '?';

/// The record of a namespace or of a companion, or `None` if nothing was ever put into it.
pub(super) fn known(
    tables: &impl Tables,
    namespaces: &impl ReadableTable<&'static str, Bytes>,
    namespace: &Namespace,
) -> Result<Option<NamespaceRecord>> {
    let Some(owner) = namespace.owner() else {
        tables.note_lookup(namespace.as_str());
        return record(namespaces, namespace);
    };
    tables.note_lookup(owner.as_str());
    let record = document_record(&tables.table(DOCUMENT_NAMESPACES)?, &owner)?;
    Ok(record.map(|record| record.texts))
}

fn record(table: &impl ReadableTable<&'static str, Bytes>, namespace: &Namespace) -> Result<Option<NamespaceRecord>> {
    let value = table.get(namespace.as_str())?;
    value.map(|value| codec::decode(value.value())).transpose()
}

/// The record of a namespace, which is created if it does not exist.
pub(super) fn record_or_new(
    tables: &WriteTransaction,
    table: &mut WriteTable<'_, &'static str, Bytes>,
    namespace: &Namespace,
) -> Result<NamespaceRecord> {
    if let Some(record) = record(table, namespace)? {
        return Ok(record);
    }
    let mut meta = tables.table(META)?;
    let mut record = next(&meta)?;
    set_next(&mut meta, &NamespaceRecord { id: record.id + 1, ..record.clone() })?;
    // Another machine may have removed one of the same name.
    if let Some(removed) = tables.table(VERSIONS)?.get(namespace.as_str())? {
        let VersionRecord { next_seq, next_session, .. } = codec::decode(removed.value())?;
        record.next_seq = record.next_seq.max(next_seq);
        record.next_session = record.next_session.max(next_session);
    }
    write_record(table, namespace, &record)?;
    Ok(record)
}

/// The record that the next new namespace gets. All numbers in it are higher than those that were ever used by
/// namespaces that are removed.
pub(super) fn next(meta: &impl ReadableTable<&'static str, Bytes>) -> Result<NamespaceRecord> {
    match meta.get(NEXT_NAMESPACE)? {
        Some(record) => codec::decode(record.value()),
        None => Ok(NamespaceRecord { id: 0, next_seq: 0, next_session: 0, messages: 0 }),
    }
}

/// Sets the record that the next new namespace gets.
pub(super) fn set_next(meta: &mut WriteTable<'_, &'static str, Bytes>, record: &NamespaceRecord) -> Result<()> {
    meta.insert(NEXT_NAMESPACE, codec::encode(record).as_slice())?;
    Ok(())
}

const NEXT_NAMESPACE: &str = "next_namespace";

/// The record of a namespace or of a companion, which is created if it does not exist. A companion's owner is created
/// too.
pub(super) fn known_or_new(
    tables: &WriteTransaction,
    namespaces: &mut WriteTable<'_, &'static str, Bytes>,
    namespace: &Namespace,
) -> Result<NamespaceRecord> {
    let Some(owner) = namespace.owner() else { return record_or_new(tables, namespaces, namespace) };
    match known(tables, namespaces, namespace)? {
        Some(record) => Ok(record),
        None => Ok(no_texts(NamespaceId(record_or_new(tables, namespaces, &owner)?.id))),
    }
}

/// Stores the record of a namespace or of a companion.
pub(super) fn write_known(
    tables: &WriteTransaction,
    namespaces: &mut WriteTable<'_, &'static str, Bytes>,
    namespace: &Namespace,
    record: &NamespaceRecord,
) -> Result<()> {
    match (namespace.owner(), NamespaceId(record.id).owner()) {
        (Some(owner), Some(id)) => update_documents(tables, &owner, id, |owner| owner.texts = record.clone()),
        _ => write_record(namespaces, namespace, record),
    }
}

/// Stores the record of a namespace.
pub(super) fn write_record(
    table: &mut WriteTable<'_, &'static str, Bytes>,
    namespace: &Namespace,
    record: &NamespaceRecord,
) -> Result<()> {
    table.insert(namespace.as_str(), codec::encode(record).as_slice())?;
    Ok(())
}

/// The record of a namespace, or `None` if it never had a document.
pub(super) fn document_record(
    table: &impl ReadableTable<&'static str, Bytes>,
    namespace: &Namespace,
) -> Result<Option<DocumentNamespaceRecord>> {
    let value = table.get(namespace.as_str())?;
    value.map(|value| codec::decode(value.value())).transpose()
}

/// The number of documents of a namespace, including those that have expired and are not deleted yet.
pub(super) fn documents_of(table: &impl ReadableTable<&'static str, Bytes>, namespace: &Namespace) -> Result<u64> {
    Ok(document_record(table, namespace)?.map_or(0, |record| record.counts.documents))
}

/// Changes the record of the namespace with this number. It is created if it does not exist.
pub(super) fn update_documents(
    tables: &WriteTransaction,
    namespace: &Namespace,
    id: NamespaceId,
    change: impl FnOnce(&mut DocumentNamespaceRecord),
) -> Result<()> {
    let mut table = tables.table(DOCUMENT_NAMESPACES)?;
    let mut record = document_record(&table, namespace)?
        .unwrap_or_else(|| DocumentNamespaceRecord { counts: DocumentCounts::default(), texts: no_texts(id) });
    change(&mut record);
    table.insert(namespace.as_str(), codec::encode(&record).as_slice())?;
    Ok(())
}

/// The record of the companion of a namespace without texts.
pub(super) fn no_texts(owner: NamespaceId) -> NamespaceRecord {
    NamespaceRecord { id: owner.document_texts().0, next_seq: 0, next_session: 0, messages: 0 }
}
