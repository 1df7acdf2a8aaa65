//! The registry of tables: for each its keys, its values, and what everything that walks tables does with it.
//!
//! A new table is one entry here. It is created, copied, backed up and dumped; its entries are deleted with their namespace
//! or generation, and verified to have a namespace; if the primary of a shared database has it, changes are captured, and
//! those of other machines applied.

use redb::{TableDefinition, Value};

use super::{
    codec,
    primary::{
        rows,
        table::{Cell, Reader, Table as PrimaryTable, columns},
    },
};
pub(super) use super::{
    records::*,
    tables::{Apply, Keys, Owner, Primary, Rows, Size, Table, TableVisitor},
};
use crate::error::Result;

/// The bytes that redb stores of a value.
fn stored<V: Value + 'static>(value: V::SelfType<'_>) -> Vec<u8> {
    V::as_bytes(&value).as_ref().to_vec()
}

macro_rules! primary {
    () => {
        Primary::Nothing
    };
    ($primary:expr) => {
        $primary
    };
}

macro_rules! tables {
    ($($(#[$attribute:meta])* $table:ident: $key:ty => $value:ty = $name:literal, $keys:expr $(, $primary:expr)?;)*) => {
        $(
            $(#[$attribute])*
            pub(super) const $table: &Table<$key, $value> =
                &Table { name: $name, definition: TableDefinition::new($name), keys: $keys, primary: primary!($($primary)?) };
        )*

        /// Visits all tables.
        #[allow(unused_doc_comments)]
        pub(super) fn visit_tables(visitor: &mut impl TableVisitor) -> Result<()> {
            $(
                $(#[$attribute])*
                visitor.visit($table)?;
            )*
            Ok(())
        }
    };
}

// In the order in which other machines apply their rows: what refers to something comes after it.
tables! {
    /// `schema` → version, u32 little endian. `next_namespace` → the [`NamespaceRecord`] of the next new namespace, see
    /// `namespaces`. `audit` → the [`AuditHead`]. `seal_key` → 32 random bytes, see `seal_key`.
    /// `anchor` → the last commit, see `anchor`. `journal_cleared` → a count, see `journal`. `origin` → the identity of the shared database whose replica the file is,
    /// see `primary`.
    META: &str => Bytes = "meta", Keys::Global;

    /// Number of a block of commits → the random ids of its 64 commits, 8 bytes each, see `anchor`.
    COMMITS: u64 => Bytes = "commits", Keys::Global;

    /// Namespace → [`NamespaceRecord`].
    NAMESPACES: &str => Bytes = "namespaces", Keys::Name(|name| name), Primary::Head;

    /// (namespace, session) → the session's number in its namespace.
    SESSIONS: (u32, &str) => u32 = "sessions", Keys::Namespace(|id| (id, "")), Primary::Rows(Rows {
        table: PrimaryTable::SESSIONS,
        key: |(id, name)| (Owner::Number(id), vec![name.into()]),
        value: |number| Ok(vec![number.into()]),
        apply: None,
    });

    /// (namespace, sequence number) → `MessageRecord`.
    MESSAGES: (u32, u64) => Bytes = "messages", Keys::Namespace(|id| (id, 0)), Primary::Messages;

    /// (namespace, message id) → sequence number.
    IDS: (u32, &str) => u64 = "ids", Keys::Namespace(|id| (id, ""));

    /// (namespace, session, sequence number) → [`SessionPosition`]: the messages of a session in order, and which are in
    /// its buffer.
    HISTORY: (u32, u32, u64) => u32 = "history", Keys::Namespace(|id| (id, 0, 0)), Primary::Positions;

    /// (namespace, session) → the first sequence number of the session's window, if it is not 0, see `sessions`.
    WINDOWS: (u32, u32) => u64 = "windows", Keys::Namespace(|id| (id, 0)), Primary::Rows(Rows {
        table: PrimaryTable::WINDOWS,
        key: |(id, session)| (Owner::Number(id), vec![session.into()]),
        value: |start| Ok(vec![start.into()]),
        apply: Some(Apply {
            key: |id, _, key| Ok((id, key.int()?)),
            value: |cells| Ok(stored::<u64>(Reader::new(cells).int()?)),
        }),
    });

    /// (namespace, session), both by name → the time, in microseconds, at which the session is idle and its buffer is
    /// flushed. Only sessions that were put to since they were last idle have an entry, so the table is small. By name, so
    /// that the sessions that are due are found without a pass over all namespaces.
    IDLE: (&str, &str) => i64 = "idle", Keys::Name(|name| (name, "")), Primary::Rows(Rows {
        table: PrimaryTable::new("idle_times", columns!["session" Text], columns!["idle_at" Time]).with_chosen_key(),
        key: |(name, session)| (Owner::Name(name.to_owned()), vec![session.into()]),
        value: |time| Ok(vec![Cell::Time(time)]),
        apply: Some(Apply {
            key: |_, name, key| Ok((name, key.text()?)),
            value: |cells| Ok(stored::<i64>(Reader::new(cells).time()?)),
        }),
    });

    /// (namespace, session, batch) → (first, last) sequence number of the messages that one flush moved to long-term
    /// memory.
    BATCHES: (u32, u32, u32) => (u64, u64) = "batches", Keys::Namespace(|id| (id, 0, 0)), Primary::Rows(Rows {
        table: PrimaryTable::BATCHES,
        key: |(id, session, batch)| (Owner::Number(id), vec![session.into(), batch.into()]),
        value: |(first, last)| Ok(vec![first.into(), last.into()]),
        apply: Some(Apply {
            key: |id, _, key| Ok((id, key.int()?, key.int()?)),
            value: |cells| {
                let mut cells = Reader::new(cells);
                Ok(stored::<(u64, u64)>((cells.int()?, cells.int()?)))
            },
        }),
    });

    /// (namespace, session or [`SHARED`], block) → [`BlockRecord`].
    BLOCKS: (u32, u32, &str) => Bytes = "blocks", Keys::Namespace(|id| (id, 0, "")), Primary::Rows(Rows {
        table: PrimaryTable::new("blocks", columns!["session" Int, "block" Text], rows::BLOCK),
        key: |(id, session, block)| (Owner::Number(id), vec![rows::session_cell(session), block.into()]),
        value: |record| Ok(rows::block_cells(codec::decode(record)?)),
        apply: Some(Apply {
            key: |id, _, key| Ok((id, rows::session_number(key)?, key.text()?)),
            value: |cells| Ok(codec::encode(&rows::block(cells)?)),
        }),
    });

    /// (namespace, session, block) → [`CursorRecord`]. Under the block name [`RESTORES`], its `next` is the number of times
    /// the session was restored.
    CURSORS: (u32, u32, &str) => Bytes = "cursors", Keys::Namespace(|id| (id, 0, "")), Primary::Rows(Rows {
        table: PrimaryTable::new("block_positions", columns!["session" Int, "block" Text], rows::CURSOR),
        key: |(id, session, block)| (Owner::Number(id), vec![rows::session_cell(session), block.into()]),
        value: |record| Ok(rows::cursor_cells(codec::decode(record)?)),
        apply: Some(Apply {
            key: |id, _, key| Ok((id, rows::session_number(key)?, key.text()?)),
            value: |cells| Ok(codec::encode(&rows::cursor(&mut Reader::new(cells))?)),
        }),
    });

    /// (namespace, session, block): blocks whose states were dropped, because messages that they were made of were
    /// forgotten, and which have not decided yet whether to make them again.
    DROPPED_BLOCKS: (u32, u32, &str) => () = "dropped_blocks", Keys::Namespace(|id| (id, 0, "")), Primary::Rows(Rows {
        table: PrimaryTable::new("dropped_blocks", columns!["session" Int, "block" Text], &[]),
        key: |(id, session, block)| (Owner::Number(id), vec![rows::session_cell(session), block.into()]),
        value: |()| Ok(Vec::new()),
        apply: Some(Apply {
            key: |id, _, key| Ok((id, rows::session_number(key)?, key.text()?)),
            value: |_| Ok(Vec::new()),
        }),
    });

    /// (namespace, session, checkpoint) → [`CheckpointRecord`].
    CHECKPOINTS: (u32, u32, u32) => Bytes = "checkpoints", Keys::Namespace(|id| (id, 0, 0)), Primary::Rows(Rows {
        table: PrimaryTable::new("checkpoints", columns!["session" Int, "checkpoint" Int], rows::CHECKPOINT),
        key: |(id, session, checkpoint)| (Owner::Number(id), vec![session.into(), checkpoint.into()]),
        value: |record| Ok(rows::checkpoint_cells(codec::decode(record)?)),
        apply: Some(Apply {
            key: |id, _, key| Ok((id, key.int()?, key.int()?)),
            value: |cells| Ok(codec::encode(&rows::checkpoint(cells)?)),
        }),
    });

    /// (namespace, session, sequence number, checkpoint) → `OldMessage`: the message at that checkpoint, if it has changed
    /// since.
    OLD_MESSAGES: (u32, u32, u64, u32) => Bytes = "old_messages",
        Keys::Namespace(|id| (id, 0, 0, 0)), Primary::Rows(Rows {
        table: PrimaryTable::OLD_MESSAGES,
        key: |(id, session, seq, checkpoint)| {
            (Owner::Number(id), vec![session.into(), seq.into(), checkpoint.into()])
        },
        value: |record| rows::old_message_cells(codec::decode(record)?),
        apply: Some(Apply {
            key: |id, _, key| Ok((id, key.int()?, key.int()?, key.int()?)),
            value: |cells| Ok(codec::encode(&rows::old_message(cells)?)),
        }),
    });

    /// (namespace, sequence number, time in microseconds) → `MessageRecord`: what the message was until this time.
    MESSAGE_VERSIONS: (u32, u64, i64) => Bytes = "message_versions",
        Keys::Namespace(|id| (id, 0, i64::MIN)), Primary::Rows(Rows {
        table: PrimaryTable::MESSAGE_VERSIONS,
        key: |(id, seq, until)| (Owner::Number(id), vec![seq.into(), Cell::Int(until)]),
        value: |record| rows::message_cells(codec::decode(record)?, SessionPosition::LongTerm(None)),
        apply: None,
    });

    /// (namespace, session, block, checkpoint) → [`OldBlock`]: the block at that checkpoint, if it has changed since.
    OLD_BLOCKS: (u32, u32, &str, u32) => Bytes = "old_blocks",
        Keys::Namespace(|id| (id, 0, "", 0)), Primary::Rows(Rows {
        table: PrimaryTable::new(
            "old_blocks",
            columns!["session" Int, "block" Text, "checkpoint" Int],
            rows::OLD_BLOCK,
        ),
        key: |(id, session, block, checkpoint)| {
            (Owner::Number(id), vec![rows::session_cell(session), block.into(), checkpoint.into()])
        },
        value: |record| Ok(rows::old_block_cells(codec::decode(record)?)),
        apply: Some(Apply {
            key: |id, _, key| Ok((id, rows::session_number(key)?, key.text()?, key.int()?)),
            value: |cells| Ok(codec::encode(&rows::old_block(cells)?)),
        }),
    });

    /// (namespace, key) → [`DocumentRecord`].
    DOCUMENTS: (u32, &str) => Bytes = "documents", Keys::Namespace(|id| (id, "")), Primary::Rows(Rows {
        table: PrimaryTable::DOCUMENTS,
        key: |(id, key)| (Owner::Number(id), vec![key.into()]),
        value: |record| Ok(rows::document_cells(codec::decode(record)?)),
        apply: None,
    });

    /// (namespace, number of a change) → the key of the document that was last put by this change: the documents of a
    /// namespace in the order of their changes.
    DOCUMENT_ORDER: (u32, u64) => &str = "document_order", Keys::Namespace(|id| (id, 0));

    /// (time in microseconds, namespace by name, key): when documents expire. By name, so that the documents that are due
    /// are found without a pass over all namespaces.
    DOCUMENT_EXPIRY: (i64, &str, &str) => () = "document_expiry", Keys::Global;

    /// (time in microseconds, namespace by name, sequence number): when messages and their versions expire. By name, as with
    /// documents.
    MESSAGE_EXPIRY: (i64, &str, u64) => () = "message_expiry", Keys::Global;

    /// Namespace → the time to live of its messages in microseconds, if it has one.
    TIMES_TO_LIVE: u32 => i64 = "times_to_live", Keys::Namespace(|id| id), Primary::Head;

    /// Namespace → [`DocumentNamespaceRecord`], for the namespaces that ever had a document. Companions are not in
    /// [`NAMESPACES`]: nothing that lists namespaces meets them.
    DOCUMENT_NAMESPACES: &str => Bytes = "document_namespaces", Keys::Name(|name| name), Primary::Head;

    /// Namespace → the language of its text analysis, if it was set or guessed.
    LANGUAGES: u32 => &str = "languages", Keys::Namespace(|id| id), Primary::Head;

    /// Namespace → [`HoldRecord`]: the legal holds, which also cover the namespaces under it.
    HOLDS: &str => Bytes = "holds", Keys::Global, Primary::Rows(Rows {
        table: PrimaryTable::HOLDS,
        key: |held| (Owner::Common, vec![held.into()]),
        value: |record| Ok(rows::hold_cells(codec::decode(record)?)),
        apply: Some(Apply {
            key: |_, _, key| key.text(),
            value: |cells| Ok(codec::encode(&rows::hold(cells)?)),
        }),
    });

    /// Sequence number → [`AuditRecord`], see `audit`.
    AUDIT: u64 => Bytes = "audit", Keys::Global, Primary::Rows(Rows {
        table: PrimaryTable::AUDIT,
        key: |number| (Owner::Common, vec![number.into()]),
        value: |record| Ok(rows::audit_cells(codec::decode(record)?)),
        apply: None,
    });

    /// Namespace, or [`COMMON`] → [`VersionRecord`], in a file that is a replica, see `primary`.
    VERSIONS: &str => Bytes = "versions", Keys::Global;

    /// (namespace, or [`COMMON`], number) → a line of JSON: a row that the replica had and its primary lost, see `primary`.
    LOST: (&str, u64) => Bytes = "lost", Keys::Global;

    /// (namespace, sequence number) → the time, in microseconds, of the commit that put the messages from this number on,
    /// see `put_times`.
    PUT_TIMES: (u32, u64) => i64 = "put_times", Keys::Namespace(|id| (id, 0));

    /// (namespace, sequence number, id): the ids of the messages that this message supersedes, which need not be stored, see
    /// `superseded`.
    SUPERSEDES: (u32, u64, &str) => () = "supersedes", Keys::Namespace(|id| (id, 0, ""));

    /// (namespace, number) → an entry of the journal of recalls, in JSON, see `journal`.
    JOURNAL: (u32, u64) => Bytes = "journal", Keys::Namespace(|id| (id, 0));

    /// Number → the namespace of the entry, which may be gone: the entries of all namespaces, the oldest first.
    JOURNAL_ORDER: u64 => u32 = "journal_order", Keys::Global;

    /// Generation → [`GenerationRecord`].
    GENERATIONS: u32 => Bytes = "generations", Keys::Global;

    /// (generation, namespace, sequence number) → the revision of the message that waits to be embedded.
    PENDING: (u32, u32, u64) => u64 = "pending", Keys::Derived(Size::Small, |g, id| (g, id, 0));

    /// (generation, namespace, sequence number) → (first row, number of rows) of the message's vectors.
    VECTOR_ROWS: (u32, u32, u64) => (u32, u32) = "places", Keys::Derived(Size::Small, |g, id| (g, id, 0));

    /// (generation, namespace) → (number of rows, number of live rows).
    COUNTS: (u32, u32) => (u32, u32) = "counts", Keys::Derived(Size::Small, |g, id| (g, id));

    /// (generation, namespace, block) → a block of rows, see `row_layout`.
    VECTORS: (u32, u32, u32) => Bytes = "vectors", Keys::Derived(Size::Large, |g, id| (g, id, 0));

    /// (generation, namespace, row): rows that may be reused, see `rows`.
    FREE_ROWS: (u32, u32, u32) => () = "free_rows", Keys::Derived(Size::Small, |g, id| (g, id, 0));

    /// (generation, namespace) → [`GraphRecord`], if the namespace has a graph.
    GRAPHS: (u32, u32) => Bytes = "graphs", Keys::Derived(Size::Small, |g, id| (g, id));

    /// (generation, namespace, page) → a part of the graph, see `graphs`.
    GRAPH_PAGES: (u32, u32, u32) => Bytes = "graph_pages", Keys::Derived(Size::Large, |g, id| (g, id, 0));

    /// (generation, namespace, number) → a change of the graph that its pages do not contain yet, see `graphs`.
    GRAPH_DELTAS: (u32, u32, u32) => Bytes = "graph_deltas", Keys::Derived(Size::Large, |g, id| (g, id, 0));

    /// (generation, namespace, number) → (number of rows, number of parts) of a segment of a lexical index, see `segments`.
    SEGMENTS: (u32, u32, u32) => (u32, u32) = "segments", Keys::Derived(Size::Small, |g, id| (g, id, 0));

    /// (generation, namespace, number, part) → a part of a segment's bytes.
    SEGMENT_PARTS: (u32, u32, u32, u32) => Bytes = "segment_parts", Keys::Derived(Size::Large, |g, id| (g, id, 0, 0));

    /// (namespace, number) → a number: the table of the test that every walker meets a new table.
    #[cfg(test)]
    TESTED: (u32, u32) => u64 = "tested", Keys::Namespace(|id| (id, 0)), Primary::Rows(Rows {
        table: PrimaryTable::new("tested", columns!["number" Int], columns!["value" Int]),
        key: |(id, number)| (Owner::Number(id), vec![number.into()]),
        value: |value| Ok(vec![value.into()]),
        apply: Some(Apply {
            key: |id, _, key| Ok((id, key.int()?)),
            value: |cells| Ok(stored::<u64>(Reader::new(cells).int()?)),
        }),
    });
}
