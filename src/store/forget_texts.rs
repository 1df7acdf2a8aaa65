//! The texts that forgetting something forgets, so that caches forget them too.

use std::collections::HashSet;

use redb::ReadableTable;

use super::{
    checkpoints::Checkpoints,
    codec,
    documents::text_ids,
    message_record::{MessageRecord, OldMessage},
    messages,
    namespaces::Namespaces,
    schema::*,
    sessions::Sessions,
    tables::{Tables, storage},
};
use crate::{
    error::Result,
    filter::MetadataFilter,
    ids::{Namespace, NamespaceId},
};

/// What one commit forgets in a namespace.
#[derive(Clone, Debug)]
pub(crate) enum ForgetPiece {
    /// Messages by their ids. With a filter, also the versions of messages that match it and are kept for checkpoints.
    Messages(HashSet<String>, Option<MetadataFilter>),
    /// Documents by their keys.
    Documents(Vec<String>),
    /// A session with all that it still has.
    Session(String),
    /// Whole namespaces.
    Namespaces(Vec<(Namespace, NamespaceId)>),
}

impl ForgetPiece {
    /// Returns true if a version of a message that is kept for a checkpoint is to be forgotten.
    pub(super) fn selects_old(&self, record: &MessageRecord) -> Result<bool> {
        Ok(match self {
            ForgetPiece::Messages(ids, filter) => {
                ids.contains(&record.id)
                    || match filter {
                        Some(filter) => filter.matches_fields(&record.clone().message()?),
                        None => false,
                    }
            }
            ForgetPiece::Session(session) => record.session == *session,
            ForgetPiece::Namespaces(_) => true,
            ForgetPiece::Documents(_) => false,
        })
    }
}

/// The tables with the texts of messages and documents.
pub(crate) struct ForgetTexts<'t, T>(pub(super) &'t T);

impl<T: Tables> ForgetTexts<'_, T> {
    /// Calls `visit` with each text that a piece forgets.
    pub(crate) fn of(
        &self,
        namespace: &Namespace,
        piece: &ForgetPiece,
        mut visit: impl FnMut(String) -> Result<()>,
    ) -> Result<()> {
        self.records(namespace, piece, |record| visit(record.message()?.searchable()))
    }

    /// Calls `visit` with each message, version of a message, and text of a document that a piece forgets.
    pub(super) fn records(
        &self,
        namespace: &Namespace,
        piece: &ForgetPiece,
        mut visit: impl FnMut(MessageRecord) -> Result<()>,
    ) -> Result<()> {
        if let ForgetPiece::Namespaces(namespaces) = piece {
            for &(_, id) in namespaces {
                id.parts().into_iter().try_for_each(|part| self.all(part, &mut visit))?;
                self.old(id, piece, &mut visit)?;
            }
            return Ok(());
        }
        let Some(id) = Namespaces(self.0).id(namespace)? else { return Ok(()) };
        let messages = self.0.table(MESSAGES)?;
        let mut read = |id: NamespaceId, seq| match MessageRecord::read(&messages, id.0, seq)? {
            Some(record) => visit(record),
            None => Ok(()),
        };
        match piece {
            ForgetPiece::Messages(ids, _) => {
                let table = self.0.table(IDS)?;
                for message in ids {
                    if let Some(seq) = messages::seq(&table, id.0, message)? {
                        read(id, seq)?;
                    }
                }
            }
            ForgetPiece::Documents(keys) => {
                let (table, companion) = (self.0.table(IDS)?, id.document_texts());
                for key in keys {
                    text_ids(&table, companion, key)?.into_values().try_for_each(|seq| read(companion, seq))?;
                }
            }
            ForgetPiece::Session(session) => {
                if let Some(number) = Sessions(self.0).number(id, session)? {
                    let all = (id.0, number, 0)..=(id.0, number, u64::MAX);
                    for entry in self.0.table(HISTORY)?.range(all).map_err(storage)? {
                        read(id, entry.map_err(storage)?.0.value().2)?;
                    }
                }
            }
            ForgetPiece::Namespaces(_) => unreachable!("handled above"),
        }
        self.old(id, piece, &mut visit)
    }

    /// The ids of the messages of a namespace that match a filter, and the ids of a session's messages without one.
    pub(crate) fn matching(&self, namespace: &Namespace, filter: &MetadataFilter) -> Result<Vec<String>> {
        let Some(id) = Namespaces(self.0).id(namespace)? else { return Ok(Vec::new()) };
        let mut ids = Vec::new();
        for entry in self.0.table(MESSAGES)?.range((id.0, 0)..=(id.0, u64::MAX)).map_err(storage)? {
            let message = codec::decode::<MessageRecord>(entry.map_err(storage)?.1.value())?.message()?;
            if filter.matches_fields(&message) {
                ids.push(message.id);
            }
        }
        Ok(ids)
    }

    fn all(&self, NamespaceId(id): NamespaceId, visit: &mut impl FnMut(MessageRecord) -> Result<()>) -> Result<()> {
        for entry in self.0.table(MESSAGES)?.range((id, 0)..=(id, u64::MAX)).map_err(storage)? {
            visit(codec::decode(entry.map_err(storage)?.1.value())?)?;
        }
        Ok(())
    }

    fn old(
        &self,
        namespace: NamespaceId,
        piece: &ForgetPiece,
        visit: &mut impl FnMut(MessageRecord) -> Result<()>,
    ) -> Result<()> {
        Checkpoints(self.0).visit_old_messages(namespace, |_, OldMessage { record, .. }| {
            match piece.selects_old(&record)? {
                true => visit(record),
                false => Ok(()),
            }
        })
    }
}
