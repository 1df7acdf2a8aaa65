//! Salvage: what can be read of a damaged database, in a new one.
//!
//! A damaged page reads as an empty one, so that the rest of its table is found. What refers to a record that is gone
//! is left out and named.

use std::{collections::BTreeSet, io, path::Path};

use redb::{ReadTransaction, ReadableDatabase};
use serde::{Deserialize, Serialize};

use super::{
    audit::AuditLog,
    codec,
    database::{Kind, Store, create_tables},
    export::Writer,
    export_line::*,
    generations::records,
    handle::Handle,
    message_record::MessageRecord,
    open,
    schema::*,
    tables::{ReadableTable, Tables, storage},
    upgrade,
};
use crate::{
    config::Config,
    error::{Error, Result},
    forget::{AuditEvent, no_hash},
    ids::{Namespace, NamespaceId},
    message::Timestamp,
};

/// The result of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Number of namespaces in the new database.
    pub namespaces: u64,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of messages.
    pub messages: u64,
    /// Number of documents.
    pub documents: u64,
    /// Number of legal holds, with those that were set because one could not be read.
    pub holds: u64,
    /// Number of entries of the audit.
    pub audit_entries: u64,
    /// What could not be read, a line each: damaged pages, and records that are missing.
    pub lost: Vec<String>,
}

/// Copies what can be read of a damaged database into a new one, in a file that gets its name at the end.
///
/// # Errors
/// Those of [`DatabaseFile::salvage`](crate::DatabaseFile::salvage).
pub(crate) fn salvage(damaged: &Path, new: &Path, config: &Config) -> Result<SalvageReport> {
    if new.exists() {
        return Err(Error::FileExists { path: new.to_path_buf() });
    }
    if let Err(error @ (Error::DatabaseLocked { .. } | Error::DatabaseNotFound { .. })) =
        Store::open_unchanged(damaged, config)
    {
        return Err(error);
    }
    let mut report = SalvageReport { lost: open::damaged_pages(damaged, config)?, ..SalvageReport::default() };
    let opened = open::leniently(damaged, config)?;
    let from = opened.database.begin_read().map_err(storage)?;
    let access = open::access(damaged)?;
    let (file, created) = open::create(new, config)?;
    create_tables(&created)?;
    let to = Store::prepare(Handle::writing(created, false), file.temporary(), config, Kind::File)?;
    if let Ok(generations) = from.table(GENERATIONS).and_then(|table| records(&table)) {
        let serving = generations.into_iter().find(|(_, record)| record.state == GenerationState::Serving);
        if let Some((_, record)) = serving {
            let (identity, precision) = (record.identity(), record.precision()?);
            to.write(|transaction| transaction.generations().create_serving(&identity, precision))?;
        }
    }
    let namespaces = namespaces(&from, &mut report.lost)?;
    if to.read()?.generations().serving()?.is_none() && !namespaces.is_empty() {
        report.lost.push("which model the database has; whoever next opens the new one for writing chooses it".into());
    }
    for (name, record) in &namespaces {
        copy_namespace(&from, &to, name, record, &mut report)?;
    }
    copy_audit_and_holds(&from, &to, &namespaces, &mut report)?;
    drop(to);
    file.set_access(&access).and_then(|()| file.name()).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::FileExists { path: new.to_path_buf() },
        _ => open::failed(new, error),
    })?;
    Ok(report)
}

/// The beginning of the names of namespaces whose names are lost.
const NAMELESS: &str = "salvaged-";

/// The namespaces by name, and those whose names are lost.
fn namespaces(from: &ReadTransaction, lost: &mut Vec<String>) -> Result<Vec<(Namespace, NamespaceRecord)>> {
    let mut namespaces = Vec::new();
    if let Ok(table) = from.table(NAMESPACES) {
        for entry in table.iter()?.flatten() {
            namespaces.push((Namespace::new(entry.0.value())?, codec::decode::<NamespaceRecord>(entry.1.value())?));
        }
    }
    let known: BTreeSet<u32> = namespaces.iter().map(|(_, record)| record.id).collect();
    let mut nameless = BTreeSet::new();
    for entry in from.table(MESSAGES)?.iter()? {
        let id = entry?.0.value().0;
        if !NamespaceId(id).has_document_texts() && !known.contains(&id) {
            nameless.insert(id);
        }
    }
    for id in nameless {
        let name = Namespace::new(format!("{NAMELESS}{id}"))?;
        lost.push(format!("the name of a namespace; it is {name} now"));
        namespaces.push((name, NamespaceRecord { id, next_seq: 0, next_session: 0, messages: 0 }));
    }
    Ok(namespaces)
}

/// Copies the audit, entry by entry, and the legal holds. If a hold is lost, or may be, everything is held that it may
/// have been of: whoever set it can release what needs no hold, and nobody can take back what was forgotten.
fn copy_audit_and_holds(
    from: &ReadTransaction,
    to: &Store,
    namespaces: &[(Namespace, NamespaceRecord)],
    report: &mut SalvageReport,
) -> Result<()> {
    // Files of earlier schemas have neither.
    let had_holds = !matches!(upgrade::version(from), Ok(Some(1..=6)));
    let (mut entries, mut wanted) = (Vec::new(), 0);
    if let Ok(table) = from.table(AUDIT) {
        wanted = table.len()?;
        for entry in table.iter()?.flatten() {
            entries.extend(codec::decode::<AuditRecord>(entry.1.value()).ok().map(|record| (entry.0.value(), record)));
        }
    }
    let head = AuditLog(from).head().unwrap_or_default();
    let after_last = entries.last().map_or(0, |(number, _)| number + 1);
    wanted = wanted.max(head.entries).max(after_last);
    let is_audit_whole = entries.len() as u64 == wanted && (wanted > 0 || from.table(AUDIT).is_ok());
    if had_holds && !is_audit_whole {
        let missing = wanted - entries.len() as u64;
        report.lost.push(match missing {
            0 => "the audit".into(),
            _ => format!("{missing} entries of the audit; `verify` and the audit's own check go on to name the gap"),
        });
    }
    let mut active = BTreeSet::new();
    for (_, record) in &entries {
        match serde_json::from_str(&record.entry) {
            Ok(EventOf { event: AuditEvent::Hold { hold } }) => _ = active.insert(hold),
            Ok(EventOf { event: AuditEvent::Release { hold } }) => _ = active.remove(&hold),
            _ => {}
        }
    }
    let (mut holds, mut is_hold_lost) = (Vec::new(), had_holds && !is_audit_whole);
    if let Ok(table) = from.table(HOLDS) {
        for entry in table.iter()?.flatten() {
            let record = codec::decode::<HoldRecord>(entry.1.value()).ok();
            holds.extend(record.map(|record| (entry.0.value().to_owned(), record)));
        }
        // The table knows how many it has.
        is_hold_lost = holds.len() as u64 != table.len()?;
    }
    is_hold_lost |= active.iter().any(|id| !holds.iter().any(|(_, record)| record.id == *id));
    let mut unclear = BTreeSet::new();
    if is_hold_lost {
        report.lost.push("a legal hold, or several; all namespaces are held, and releasing is for who set it".into());
        unclear.extend(namespaces.iter().map(|(name, _)| name.as_str().split('/').next().unwrap_or_default()));
    } else if !holds.is_empty() {
        // One of the holds may be of a namespace whose name is lost.
        unclear.extend(namespaces.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with(NAMELESS)));
    }
    unclear.retain(|name| !holds.iter().any(|(held, _)| held == name));
    to.write(|transaction| {
        let tables = transaction.tables();
        for (number, record) in &entries {
            tables.table(AUDIT)?.insert(*number, codec::encode(record).as_slice())?;
        }
        if wanted > 0 {
            // A gap stays one: the chain has its old length.
            let last = || entries.last().map_or_else(no_hash, |(_, record)| record.hash.clone());
            let end = if head.entries == wanted { head.hash.clone() } else { last() };
            AuditLog(tables).set_head(&AuditHead { entries: wanted, hash: end })?;
        }
        for (name, record) in &holds {
            tables.table(HOLDS)?.insert(name.as_str(), codec::encode(record).as_slice())?;
        }
        for name in &unclear {
            transaction
                .holds()
                .put(&Namespace::new(*name)?, "a legal hold could not be read when the file was salvaged")?;
        }
        Ok(())
    })?;
    report.holds = (holds.len() + unclear.len()) as u64;
    report.audit_entries = (entries.len() + unclear.len()) as u64;
    Ok(())
}

/// The event of an entry of the audit.
#[derive(Deserialize)]
struct EventOf {
    event: AuditEvent,
}

/// Copies a namespace as an export would. If that does not fit together, its messages and documents alone.
fn copy_namespace(
    from: &ReadTransaction,
    to: &Store,
    name: &Namespace,
    record: &NamespaceRecord,
    report: &mut SalvageReport,
) -> Result<()> {
    let id = NamespaceId(record.id);
    let messages = messages(from, id)?;
    let mut whole = gather(from, |writer| writer.namespace(name, record))?;
    let placed = whole.report.messages as usize == messages.len();
    let stored = if placed { store(to, &mut whole) } else { Ok(false) };
    let stored = match stored {
        Ok(true) => whole,
        _ => {
            let mut bare = gather(from, |writer| bare(writer, name, record, messages.clone()))?;
            bare.lost
                .push(format!("namespace {name}: which messages were in buffers, batches and checkpoints, and blocks"));
            store(to, &mut bare)?;
            bare
        }
    };
    report.namespaces += stored.report.namespaces;
    report.sessions += stored.report.sessions;
    report.messages += stored.report.messages;
    report.documents += stored.report.documents;
    report.lost.extend(stored.lost);
    Ok(())
}

/// The lines of a namespace, and what they lack.
struct Gathered {
    lines: Vec<ExportLine>,
    report: TransferReport,
    lost: Vec<String>,
}

type Collect<'w> = &'w mut dyn FnMut(&ExportLine) -> Result<()>;

fn gather<'t>(
    from: &'t ReadTransaction,
    write: impl FnOnce(&mut Writer<'t, ReadTransaction, Collect<'_>>) -> Result<()>,
) -> Result<Gathered> {
    let mut lines = Vec::new();
    let mut collect = |line: &ExportLine| {
        lines.push(line.clone());
        Ok(())
    };
    let mut writer = Writer {
        tables: from,
        write: &mut collect as Collect<'_>,
        now: Timestamp::now(),
        report: TransferReport::default(),
        messages: 0,
        lost: Some(Vec::new()),
    };
    write(&mut writer)?;
    let end = End { messages: writer.messages, documents: writer.report.documents };
    writer.line(ExportLine::End(end))?;
    let (report, lost) = (writer.report, writer.lost.unwrap_or_default());
    Ok(Gathered { lines, report, lost })
}

/// Stores lines, unless they do not fit together.
fn store(to: &Store, gathered: &mut Gathered) -> Result<bool> {
    if gathered.report.namespaces == 0 {
        return Ok(true);
    }
    let lines = std::mem::take(&mut gathered.lines);
    match to.write(|transaction| transaction.import(None, (1..).zip(lines).map(Ok))) {
        Ok(_) => Ok(true),
        Err(Error::InvalidImport { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The messages of a namespace in their order.
fn messages(from: &ReadTransaction, namespace: NamespaceId) -> Result<Vec<(u64, MessageRecord)>> {
    let table = from.table(MESSAGES)?;
    let range = table.range((namespace.0, 0)..=(namespace.0, u64::MAX))?;
    range
        .map(|entry| {
            let (key, value) = entry?;
            Ok((key.value().1, codec::decode(value.value())?))
        })
        .collect()
}

/// Writes sessions with their messages alone, and documents.
fn bare(
    writer: &mut Writer<'_, ReadTransaction, Collect<'_>>,
    name: &Namespace,
    record: &NamespaceRecord,
    messages: Vec<(u64, MessageRecord)>,
) -> Result<()> {
    let next_seq = messages.last().map_or(0, |(seq, _)| seq + 1).max(record.next_seq);
    writer.report.namespaces += 1;
    let namespace = name.as_str().to_owned();
    writer.line(ExportLine::Namespace(NamespaceLine { namespace, next_seq, language: None, ttl_micros: None }))?;
    let mut sessions: Vec<&str> = messages.iter().map(|(_, record)| record.session.as_str()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    for session in sessions {
        writer.report.sessions += 1;
        let line = SessionLine { session: session.to_owned(), window: 0, idle_at: None, restores: 0 };
        writer.line(ExportLine::Session(line))?;
        for (seq, record) in messages.iter().filter(|(_, record)| record.session == session) {
            writer.report.messages += 1;
            writer.message(record.clone(), Place::new(*seq, SessionPosition::LongTerm(None), None))?;
        }
    }
    writer.documents(NamespaceId(record.id))
}
