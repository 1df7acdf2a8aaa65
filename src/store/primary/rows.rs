//! Records as rows, and rows as records, with the columns of their values.

use super::{
    super::{
        message_record::{MessageRecord, OldMessage},
        records::*,
    },
    table::{Cell, Column, Reader, Table, columns, unfit},
};
use crate::{error::Result, message::Role};

/// The tables whose rows have consequences, or whose access the primary restricts.
impl Table {
    pub(crate) const SESSIONS: Table =
        Table::new("sessions", columns!["name" Text], columns!["number" Int]).with_chosen_key();
    pub(crate) const MESSAGES: Table = Table::new("messages", columns!["seq" Int], MESSAGE);
    /// The indexed texts of documents, which are messages of the namespace's companion.
    pub(crate) const DOCUMENT_TEXTS: Table = Table::new("document_texts", columns!["seq" Int], MESSAGE);
    pub(crate) const WINDOWS: Table = Table::new("windows", columns!["session" Int], columns!["start" Int]);
    pub(crate) const BATCHES: Table =
        Table::new("batches", columns!["session" Int, "batch" Int], columns!["first_seq" Int, "last_seq" Int]);
    pub(crate) const OLD_MESSAGES: Table =
        Table::new("old_messages", columns!["session_number" Int, "seq" Int, "checkpoint" Int], MESSAGE);
    pub(crate) const MESSAGE_VERSIONS: Table =
        Table::new("message_versions", columns!["seq" Int, "until_micros" Int], MESSAGE);
    pub(crate) const DOCUMENTS: Table = Table::new("documents", columns!["key" Text], DOCUMENT).with_chosen_key();
    pub(crate) const HOLDS: Table = Table::new("holds", columns!["held" Text], HOLD).common();
    pub(crate) const AUDIT: Table = Table::new("audit", columns!["number" Int], AUDIT).common();
}

/// The session number in the columns of what all sessions of a namespace share.
const ALL_SESSIONS: i64 = -1;

pub(in crate::store) fn session_cell(session: u32) -> Cell {
    Cell::Int(if session == SHARED { ALL_SESSIONS } else { session.into() })
}

pub(in crate::store) fn session_number(reader: &mut Reader<'_>) -> Result<u32> {
    match reader.int::<i64>()? {
        ALL_SESSIONS => Ok(SHARED),
        number => number.try_into().map_err(|_| unfit()),
    }
}

pub(in crate::store) const MESSAGE: &[Column] = columns![
    "id" Text, "session" Text, "role" Text, "name" Text, "content" Text, "parts" Json, "created_at" Time, "metadata" Json,
    "revision" Int, "buffered" Bool, "batch" Int, "expires_at" Time
];

pub(in crate::store) fn message_cells(record: MessageRecord, position: SessionPosition) -> Result<Vec<Cell>> {
    let MessageRecord { id, session, role: number, name, content, is_json, created_at, metadata, revision, expires_at } =
        record;
    let (content, parts) = if is_json { (Cell::Null, content.into()) } else { (content.into(), Cell::Null) };
    let (is_buffered, batch) = match position {
        SessionPosition::Buffer => (true, None),
        SessionPosition::LongTerm(batch) => (false, batch),
    };
    Ok(vec![
        id.into(),
        session.into(),
        role(number)?.as_str().into(),
        name.into(),
        content,
        parts,
        created_at.map_or(Cell::Null, Cell::Time),
        metadata.into(),
        revision.into(),
        is_buffered.into(),
        batch.into(),
        expires_at.map_or(Cell::Null, Cell::Time),
    ])
}

pub(in crate::store) fn message(cells: &[Cell]) -> Result<(MessageRecord, SessionPosition)> {
    let mut reader = Reader::new(cells);
    let (id, session) = (reader.text()?.to_owned(), reader.text()?.to_owned());
    let role: Role = reader.text()?.parse().map_err(|_| unfit())?;
    let name = reader.text_or_null()?.map(str::to_owned);
    let (content, is_json) = match (reader.text_or_null()?, reader.text_or_null()?) {
        (Some(content), None) => (content, false),
        (None, Some(parts)) => (parts, true),
        _ => return Err(unfit()),
    };
    let (content, created_at) = (content.to_owned(), reader.time_or_null()?);
    let metadata = reader.text_or_null()?.map(str::to_owned);
    let revision = reader.int()?;
    let position = match (reader.bool()?, reader.int_or_null()?) {
        (true, None) => SessionPosition::Buffer,
        (false, batch) => SessionPosition::LongTerm(batch),
        _ => return Err(unfit()),
    };
    let (role, expires_at) = (role_number(role), reader.time_or_null()?);
    let record =
        MessageRecord { id, session, role, name, content, is_json, created_at, metadata, revision, expires_at };
    Ok((record, position))
}

pub(in crate::store) fn old_message_cells(OldMessage { record, position }: OldMessage) -> Result<Vec<Cell>> {
    message_cells(record, SessionPosition::read(position))
}

pub(in crate::store) fn old_message(cells: &[Cell]) -> Result<OldMessage> {
    let (record, position) = message(cells)?;
    Ok(OldMessage { record, position: position.number() })
}

pub(in crate::store) const BLOCK: &[Column] = columns!["state" Json, "revision" Int];

pub(in crate::store) fn block_cells(BlockRecord { state, revision }: BlockRecord) -> Vec<Cell> {
    vec![state.into(), revision.into()]
}

pub(in crate::store) fn block(cells: &[Cell]) -> Result<BlockRecord> {
    let mut reader = Reader::new(cells);
    Ok(BlockRecord { state: reader.text()?.to_owned(), revision: reader.int()? })
}

pub(in crate::store) const CURSOR: &[Column] = columns!["next_batch" Int, "failed" Json, "shared" Bool];

pub(in crate::store) fn cursor_cells(CursorRecord { next, failed, shared }: CursorRecord) -> Vec<Cell> {
    let failed = serde_json::to_string(&failed).expect("numbers and texts always serialize");
    vec![next.into(), failed.into(), shared.into()]
}

pub(in crate::store) fn cursor(reader: &mut Reader<'_>) -> Result<CursorRecord> {
    Ok(CursorRecord { next: reader.int()?, failed: reader.json()?, shared: reader.bool()? })
}

pub(in crate::store) const OLD_BLOCK: &[Column] = columns![
    "state" Json, "revision" Int, "next_batch" Int, "failed" Json, "shared" Bool
];

pub(in crate::store) fn old_block_cells(OldBlock { block, cursor }: OldBlock) -> Vec<Cell> {
    let mut cells = block.map_or_else(|| vec![Cell::Null, Cell::Null], block_cells);
    cells.extend(cursor_cells(cursor));
    cells
}

pub(in crate::store) fn old_block(cells: &[Cell]) -> Result<OldBlock> {
    let mut reader = Reader::new(cells);
    let block = match (reader.text_or_null()?, reader.int_or_null()?) {
        (Some(state), Some(revision)) => Some(BlockRecord { state: state.to_owned(), revision }),
        (None, None) => None,
        _ => return Err(unfit()),
    };
    Ok(OldBlock { block, cursor: cursor(&mut reader)? })
}

pub(in crate::store) const CHECKPOINT: &[Column] = columns![
    "label" Text, "created_at" Time, "next_seq" Int, "buffered" Json, "next_batch" Int, "messages" Int
];

pub(in crate::store) fn checkpoint_cells(record: CheckpointRecord) -> Vec<Cell> {
    let CheckpointRecord { label, created_at, next_seq, buffered, next_batch, messages } = record;
    let buffered = serde_json::to_string(&buffered).expect("numbers always serialize");
    vec![label.into(), Cell::Time(created_at), next_seq.into(), buffered.into(), next_batch.into(), messages.into()]
}

pub(in crate::store) fn checkpoint(cells: &[Cell]) -> Result<CheckpointRecord> {
    let mut reader = Reader::new(cells);
    Ok(CheckpointRecord {
        label: reader.text()?.to_owned(),
        created_at: reader.time()?,
        next_seq: reader.int()?,
        buffered: reader.json()?,
        next_batch: reader.int()?,
        messages: reader.int()?,
    })
}

pub(in crate::store) const DOCUMENT: &[Column] = columns![
    "value" Json, "created_at" Time, "updated_at" Time, "change" Int, "ttl_micros" Int, "expires_at" Time
];

pub(in crate::store) fn document_cells(record: DocumentRecord) -> Vec<Cell> {
    let DocumentRecord { value, created_at, updated_at, change, ttl, expires_at } = record;
    let expires_at = expires_at.map_or(Cell::Null, Cell::Time);
    let ttl = ttl.map_or(Cell::Null, Cell::Int);
    vec![value.into(), Cell::Time(created_at), Cell::Time(updated_at), change.into(), ttl, expires_at]
}

pub(in crate::store) fn document(cells: &[Cell]) -> Result<DocumentRecord> {
    let mut reader = Reader::new(cells);
    Ok(DocumentRecord {
        value: reader.text()?.to_owned(),
        created_at: reader.time()?,
        updated_at: reader.time()?,
        change: reader.int()?,
        ttl: reader.int_or_null()?,
        expires_at: reader.time_or_null()?,
    })
}

pub(in crate::store) const HOLD: &[Column] = columns!["id" Text, "reason" Text, "since" Time];

pub(in crate::store) fn hold_cells(HoldRecord { id, reason, since }: HoldRecord) -> Vec<Cell> {
    vec![id.into(), reason.into(), Cell::Time(since)]
}

pub(in crate::store) fn hold(cells: &[Cell]) -> Result<HoldRecord> {
    let mut reader = Reader::new(cells);
    Ok(HoldRecord { id: reader.text()?.to_owned(), reason: reader.text()?.to_owned(), since: reader.time()? })
}

pub(in crate::store) const AUDIT: &[Column] = columns!["entry" Json, "hash" Text];

pub(in crate::store) fn audit_cells(AuditRecord { entry, hash }: AuditRecord) -> Vec<Cell> {
    vec![entry.into(), hash.into()]
}

pub(in crate::store) fn audit(cells: &[Cell]) -> Result<AuditRecord> {
    let mut reader = Reader::new(cells);
    Ok(AuditRecord { entry: reader.text()?.to_owned(), hash: reader.text()?.to_owned() })
}
