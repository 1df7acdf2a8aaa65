//! Transactions, and the groups of tables that are reached from them.

use std::sync::Arc;

use redb::ReadTransaction;

use super::{
    anchor,
    audit::{AuditLog, Holds},
    blocks::Blocks,
    checkpoints::Checkpoints,
    documents::Documents,
    edit_documents::EditDocuments,
    edit_messages::EditMessages,
    edit_sessions::EditSessions,
    effects::Effects,
    expiry::Expiry,
    export::Export,
    export_line::{ExportLine, TransferReport},
    filter_fields::FilterFields,
    forget::{EditForget, ForgetTexts},
    generations::Generations,
    graphs::Graphs,
    import,
    journal::Journal,
    lost_rows::LostRows,
    namespaces::Namespaces,
    pending::Pending,
    primary::{ApplyChanges, Names, Versions},
    put_times::PutTimes,
    removal,
    rows::Rows,
    seal_key,
    segments::Segments,
    sessions::{Batches, History, Idle, Messages, Sessions, Window},
    superseded::Superseded,
    tables::WriteTransaction,
    vectors::Vectors,
};
use crate::{
    error::Result,
    ids::{Anchor, Namespace, NamespaceId},
};

/// A write transaction: committed as a whole, or dropped without effect.
pub(crate) struct Transaction<T = WriteTransaction> {
    tables: T,
}

/// A consistent view of the database as of one commit.
pub(crate) type Snapshot = Transaction<Arc<ReadTransaction>>;

impl<T> Transaction<T> {
    pub(super) fn new(tables: T) -> Self {
        Transaction { tables }
    }

    pub(super) fn tables(&self) -> &T {
        &self.tables
    }

    /// Namespaces: numbers, names, languages.
    pub(crate) fn namespaces(&self) -> Namespaces<'_, T> {
        Namespaces(&self.tables)
    }

    /// The numbers of sessions.
    pub(crate) fn sessions(&self) -> Sessions<'_, T> {
        Sessions(&self.tables)
    }

    /// Messages by id and by sequence number.
    pub(crate) fn messages(&self) -> Messages<'_, T> {
        Messages(&self.tables)
    }

    /// Sessions' messages in order.
    pub(crate) fn history(&self) -> History<'_, T> {
        History(&self.tables)
    }

    /// Documents by namespace and key.
    pub(crate) fn documents(&self) -> Documents<'_, T> {
        Documents(&self.tables)
    }

    /// What expires when.
    pub(crate) fn expiry(&self) -> Expiry<'_, T> {
        Expiry(&self.tables)
    }

    /// The fields that filters are evaluated on.
    pub(crate) fn filter_fields(&self) -> FilterFields<'_, T> {
        FilterFields(&self.tables)
    }

    /// The times at which sessions are idle.
    pub(crate) fn idle(&self) -> Idle<'_, T> {
        Idle(&self.tables)
    }

    /// Sessions' windows: the messages that their prompts show.
    pub(crate) fn window(&self) -> Window<'_, T> {
        Window(&self.tables)
    }

    /// The messages that each flush moved.
    pub(crate) fn batches(&self) -> Batches<'_, T> {
        Batches(&self.tables)
    }

    /// The states of memory blocks.
    pub(crate) fn blocks(&self) -> Blocks<'_, T> {
        Blocks(&self.tables)
    }

    /// Sessions' checkpoints.
    pub(crate) fn checkpoints(&self) -> Checkpoints<'_, T> {
        Checkpoints(&self.tables)
    }

    /// Generations and their states.
    pub(crate) fn generations(&self) -> Generations<'_, T> {
        Generations(&self.tables)
    }

    /// Messages that wait to be embedded.
    pub(crate) fn pending(&self) -> Pending<'_, T> {
        Pending(&self.tables)
    }

    /// Which rows belong to which message, and which are free.
    pub(crate) fn rows(&self) -> Rows<'_, T> {
        Rows(&self.tables)
    }

    /// Vectors.
    pub(crate) fn vectors(&self) -> Vectors<'_, T> {
        Vectors(&self.tables)
    }

    /// Graphs: pages and deltas.
    pub(crate) fn graphs(&self) -> Graphs<'_, T> {
        Graphs(&self.tables)
    }

    /// Everything of namespaces that is not derived, as the lines of an export.
    pub(crate) fn export(&self) -> Export<'_, T> {
        Export(&self.tables)
    }

    /// Legal holds.
    pub(crate) fn holds(&self) -> Holds<'_, T> {
        Holds(&self.tables)
    }

    /// The audit.
    pub(crate) fn audit(&self) -> AuditLog<'_, T> {
        AuditLog(&self.tables)
    }

    /// The times at which messages were put.
    pub(crate) fn put_times(&self) -> PutTimes<'_, T> {
        PutTimes(&self.tables)
    }

    /// The messages that others supersede.
    pub(crate) fn superseded(&self) -> Superseded<'_, T> {
        Superseded(&self.tables)
    }

    /// The journal of recalls.
    pub(crate) fn journal(&self) -> Journal<'_, T> {
        Journal(&self.tables)
    }

    /// The texts that forgetting something forgets.
    pub(crate) fn forget_texts(&self) -> ForgetTexts<'_, T> {
        ForgetTexts(&self.tables)
    }

    /// The versions of namespaces, in a file that is a copy of a shared database.
    pub(crate) fn versions(&self) -> Versions<'_, T> {
        Versions(&self.tables)
    }

    /// What a copy had that its shared database lost.
    pub(crate) fn lost_rows(&self) -> LostRows<'_, T> {
        LostRows(&self.tables)
    }

    /// Segments of lexical indexes.
    pub(crate) fn segments(&self) -> Segments<'_, T> {
        Segments(&self.tables)
    }
}

impl Snapshot {
    /// Returns the number and the id of the last commit.
    pub(crate) fn anchor(&self) -> Result<Anchor> {
        anchor::read(&self.tables)
    }

    /// Returns true if the database has this commit. Of one that is not among the last 65,536, the number counts alone.
    pub(crate) fn has_commit(&self, commit: Anchor) -> Result<bool> {
        anchor::has(&self.tables, commit)
    }

    /// Returns the key that seals the memory in prompts. `None` if the database has no key yet.
    pub(crate) fn seal_key(&self) -> Result<Option<[u8; 32]>> {
        seal_key::read(&self.tables)
    }
}

impl Transaction {
    /// Replaces the key that seals the memory in prompts.
    pub(crate) fn set_seal_key(&self, key: [u8; 32]) -> Result<()> {
        seal_key::set(&self.tables, key)
    }

    /// Deletes up to `blocks` blocks of a retired generation, which include parts of graphs and segments, and small entries
    /// in the rest of the time that so many blocks take. Returns true if there may be more to delete.
    pub(crate) fn sweep(&self, blocks: usize) -> Result<bool> {
        removal::sweep(&self.tables, blocks)
    }

    /// Takes the effects of the changes so far.
    pub(crate) fn take_effects(&self) -> Effects {
        std::mem::take(&mut *self.tables.effects())
    }

    /// Changes of messages.
    pub(crate) fn edit_messages(&self) -> EditMessages<'_> {
        EditMessages(&self.tables)
    }

    /// Changes of documents.
    pub(crate) fn edit_documents(&self) -> EditDocuments<'_> {
        EditDocuments(&self.tables)
    }

    /// Forgetting.
    pub(crate) fn edit_forget(&self) -> EditForget<'_> {
        EditForget(&self.tables)
    }

    /// Changes of sessions as a whole.
    pub(crate) fn edit_sessions(&self) -> EditSessions<'_> {
        EditSessions(&self.tables)
    }

    /// Changes that other machines made.
    pub(crate) fn apply_changes(&self) -> ApplyChanges<'_> {
        ApplyChanges(&self.tables)
    }

    /// Stores the lines of an export, each with its number. With `into`, its only namespace becomes this one.
    ///
    /// # Errors
    /// [`Error::InvalidImport`](crate::Error::InvalidImport);
    /// [`Error::NamespaceNotEmpty`](crate::Error::NamespaceNotEmpty); the errors of `lines`.
    pub(crate) fn import(
        &self,
        into: Option<&Namespace>,
        lines: impl Iterator<Item = Result<(u64, ExportLine)>>,
    ) -> Result<TransferReport> {
        import::import(&self.tables, into, lines)
    }

    pub(super) fn commit(self) -> Result<()> {
        anchor::write(&self.tables)?;
        self.tables.commit()
    }
}

impl Names {
    /// The name of the namespace with this number, if it is there.
    pub(crate) fn of(&self, snapshot: &Snapshot, NamespaceId(id): NamespaceId) -> Result<Option<String>> {
        self.get(snapshot.tables(), id)
    }
}
