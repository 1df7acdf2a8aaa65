//! Checking namespaces and messages.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use redb::ReadTransaction;

use super::{documents::companions, report::VerifyReport};
use crate::{
    error::Result,
    ids::Namespace,
    store::{
        codec,
        message_record::MessageRecord,
        row_layout::RowMeta,
        schema::*,
        superseded::superseded_by,
        tables::{ReadableTable, Tables},
    },
};

/// The facts about a message that its rows and pending entries are checked against.
pub(super) struct Expected {
    /// Whether the message has text and is not in the buffer.
    pub(super) needs_vectors: bool,
    pub(super) revision: u64,
    /// The expected row data of window 0.
    pub(super) meta: RowMeta,
}

/// Checks namespaces and messages. Returns the expectations for each message, by namespace and sequence number.
pub(super) fn verify(tables: &ReadTransaction, report: &mut VerifyReport) -> Result<BTreeMap<(u32, u64), Expected>> {
    let mut messages = BTreeMap::new();
    let ids = tables.table(IDS)?;
    let sessions = tables.table(SESSIONS)?;
    let history = tables.table(HISTORY)?;
    let expiry = tables.table(MESSAGE_EXPIRY)?;
    let mut expiring: BTreeSet<(i64, (u32, u64))> = BTreeSet::new();
    let mut superseding: BTreeSet<(u32, u64, String)> = BTreeSet::new();
    let mut namespaces: HashMap<u32, (String, NamespaceRecord, u64)> = HashMap::new();
    for entry in tables.table(NAMESPACES)?.iter()? {
        let (name, value) = entry?;
        let record: NamespaceRecord = match codec::decode(value.value()) {
            Ok(record) => record,
            Err(error) => {
                report.problem(format!("namespace {:?}: {error}", name.value()));
                continue;
            }
        };
        if let Err(error) = Namespace::new(name.value()) {
            report.problem(error.to_string());
        }
        if let Some((other, ..)) = namespaces.insert(record.id, (name.value().to_owned(), record, 0)) {
            report.problem(format!("namespaces {other:?} and {:?} have the same number", name.value()));
        }
        report.namespaces += 1;
    }
    for (companion, record) in companions(tables, report)? {
        namespaces.insert(companion.0, (format!("number {}", companion.0), record, 0));
    }
    for entry in tables.table(MESSAGES)?.iter()? {
        let (key, value) = entry?;
        let (namespace, seq) = key.value();
        let record: MessageRecord = match codec::decode(value.value()) {
            Ok(record) => record,
            Err(error) => {
                report.problem(format!("message {seq} of namespace {namespace}: {error}"));
                continue;
            }
        };
        report.messages += 1;
        let named = |what: &str| format!("message {:?} of namespace {namespace}: {what}", record.id);
        match namespaces.get_mut(&namespace) {
            None => report.problem(named("its namespace does not exist")),
            Some((name, namespace, count)) => {
                *count += 1;
                if let Some(expires_at) = record.expires_at {
                    expiring.insert((expires_at, key.value()));
                    if expiry.get((expires_at, name.as_str(), seq))?.is_none() {
                        report.problem(named("its expiry is not noted"));
                    }
                }
                if seq >= namespace.next_seq {
                    report.problem(named("its sequence number was never assigned"));
                }
            }
        }
        if ids.get((namespace, record.id.as_str()))?.map(|seq| seq.value()) != Some(seq) {
            report.problem(named("its id leads elsewhere"));
        }
        let session = sessions.get((namespace, record.session.as_str()))?.map(|session| session.value());
        if session.is_none() {
            report.problem(named("its session has no number"));
        }
        let position = history.get((namespace, session.unwrap_or(0), seq))?.map(|position| position.value());
        if position.is_none() {
            report.problem(named("it is not in the history of its session"));
        }
        superseding.extend(superseded_by(&record).into_iter().map(|id| (namespace, seq, id)));
        let revision = record.revision;
        match record.clone().message() {
            Err(error) => report.problem(named(&error.to_string())),
            Ok(message) => {
                let meta = RowMeta {
                    seq,
                    created_at: message.created_at,
                    session: session.unwrap_or(0),
                    window: 0,
                    role: message.role,
                };
                let needs_vectors =
                    position != Some(SessionPosition::Buffer.number()) && !message.searchable().trim().is_empty();
                messages.insert((namespace, seq), Expected { needs_vectors, revision, meta });
            }
        }
    }
    for entry in tables.table(MESSAGE_VERSIONS)?.iter()? {
        let (key, value) = entry?;
        let (namespace, seq, _) = key.value();
        let named = |what: &str| format!("a version of message {seq} of namespace {namespace}: {what}");
        match codec::decode::<MessageRecord>(value.value())
            .and_then(|record| Ok((record.expires_at, record.message()?)))
        {
            Err(error) => report.problem(named(&error.to_string())),
            Ok((None, _)) => {}
            Ok((Some(expires_at), _)) => {
                expiring.insert((expires_at, (namespace, seq)));
                let name = namespaces.get(&namespace).map_or("", |(name, ..)| name);
                if expiry.get((expires_at, name, seq))?.is_none() {
                    report.problem(named("its expiry is not noted"));
                }
            }
        }
        if !messages.contains_key(&(namespace, seq)) {
            report.problem(named("the message does not exist"));
        }
    }
    // Messages of files before 0.2.0 may say so without being noted: the key in the metadata was the application's.
    for entry in tables.table(SUPERSEDES)?.iter()? {
        let (key, _) = entry?;
        let (namespace, seq, id) = key.value();
        if !superseding.contains(&(namespace, seq, id.to_owned())) {
            report.problem(format!("message {seq} of namespace {namespace} does not supersede {id:?}, as is noted"));
        }
    }
    if expiry.len()? != expiring.len() as u64 {
        report.problem(format!("{} noted expiries of messages instead of {}", expiry.len()?, expiring.len()));
    }
    if ids.len()? != report.messages {
        report.problem(format!("{} ids for {} messages", ids.len()?, report.messages));
    }
    if history.len()? != report.messages {
        report.problem(format!("{} history entries for {} messages", history.len()?, report.messages));
    }
    for (name, record, count) in namespaces.values() {
        if record.messages != *count {
            report
                .problem(format!("namespace {name:?} has {count} messages, but its record counts {}", record.messages));
        }
    }
    Ok(messages)
}
