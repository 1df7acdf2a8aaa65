//! Checking the numbers, batches, blocks and checkpoints of sessions.

use std::collections::{BTreeMap, BTreeSet};

use redb::ReadTransaction;

use super::{documents::companions, report::VerifyReport};
use crate::{
    error::Result,
    store::{
        codec,
        message_record::OldMessage,
        namespaces::Namespaces,
        schema::*,
        sessions::{Idle, Sessions},
        tables::{ReadableTable, Tables},
    },
};

/// Checks session numbers, batches, blocks and checkpoints.
pub(super) fn verify(tables: &ReadTransaction, report: &mut VerifyReport) -> Result<()> {
    let mut namespaces: BTreeMap<u32, NamespaceRecord> = BTreeMap::new();
    for entry in tables.table(NAMESPACES)?.iter()? {
        // A record that does not decode was already reported.
        if let Ok(record) = codec::decode::<NamespaceRecord>(entry?.1.value()) {
            namespaces.insert(record.id, record);
        }
    }
    // A companion that cannot be read was already reported, too.
    let readable = companions(tables, &mut VerifyReport::default())?;
    namespaces.extend(readable.into_iter().map(|(companion, record)| (companion.0, record)));
    let mut sessions: BTreeSet<(u32, u32)> = BTreeSet::new();
    for entry in tables.table(SESSIONS)?.iter()? {
        let (key, number) = entry?;
        let ((namespace, name), number) = (key.value(), number.value());
        let is_assigned = namespaces.get(&namespace).is_some_and(|namespace| number < namespace.next_session);
        if !is_assigned || !sessions.insert((namespace, number)) {
            report.problem(format!(
                "session {name:?} of namespace {namespace}: number {number} is used twice, or was never assigned"
            ));
        }
    }
    let known = |report: &mut VerifyReport, what: &str, namespace: u32, session: u32| {
        if !sessions.contains(&(namespace, session)) {
            report.problem(format!("{what} of session {session} of namespace {namespace}: there is no such session"));
        }
    };
    for entry in tables.table(WINDOWS)?.iter()? {
        let (namespace, session) = entry?.0.value();
        known(report, "a window", namespace, session);
    }
    for (namespace, session, _) in Idle(tables).all()? {
        let id = Namespaces(tables).id(&namespace)?;
        if id.map_or(Ok(None), |id| Sessions(tables).number(id, &session))?.is_none() {
            report.problem(format!("session {session:?} of {namespace:?} is to become idle: there is no such session"));
        }
    }
    let mut next_batches: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for entry in tables.table(BATCHES)?.iter()? {
        let (key, ends) = entry?;
        let ((namespace, session, number), (first, last)) = (key.value(), ends.value());
        known(report, "a batch", namespace, session);
        let next = next_batches.entry((namespace, session)).or_default();
        let is_assigned = namespaces.get(&namespace).is_some_and(|namespace| last < namespace.next_seq);
        if number != *next || !is_assigned || (first > last && (first, last) != (1, 0)) {
            report.problem(format!("batch {number} of session {session} of namespace {namespace}: {first} to {last}"));
        }
        *next = number + 1;
    }
    for entry in tables.table(HISTORY)?.iter()? {
        let (key, position) = entry?;
        let (namespace, session, seq) = key.value();
        if let SessionPosition::LongTerm(Some(batch)) = SessionPosition::read(position.value())
            && batch >= next_batches.get(&(namespace, session)).copied().unwrap_or(0)
        {
            report.problem(format!(
                "message {seq} of namespace {namespace} belongs to batch {batch}, which does not exist"
            ));
        }
    }
    for entry in tables.table(BLOCKS)?.iter()? {
        let (key, value) = entry?;
        let (namespace, session, name) = key.value();
        if session != SHARED {
            known(report, "a block", namespace, session);
        }
        let state = codec::decode::<BlockRecord>(value.value()).map(|record| record.state);
        if !state.as_ref().is_ok_and(|state| serde_json::from_str::<serde_json::Value>(state).is_ok()) {
            report.problem(format!(
                "block {name:?} of session {session} of namespace {namespace} has a state that does not decode"
            ));
        }
    }
    for entry in tables.table(CURSORS)?.iter()? {
        let (key, value) = entry?;
        let (namespace, session, name) = key.value();
        known(report, "a cursor", namespace, session);
        let next = next_batches.get(&(namespace, session)).copied().unwrap_or(0);
        match codec::decode::<CursorRecord>(value.value()) {
            Ok(cursor) if name == RESTORES || cursor.next <= next => {}
            Ok(cursor) => report.problem(format!(
                "block {name:?} of session {session} of namespace {namespace} is at batch {} of only {next}",
                cursor.next
            )),
            Err(error) => report.problem(format!("the cursor of block {name:?} of namespace {namespace}: {error}")),
        }
    }
    let mut checkpoints: BTreeSet<(u32, u32, u32)> = BTreeSet::new();
    for entry in tables.table(CHECKPOINTS)?.iter()? {
        let (key, value) = entry?;
        let (namespace, session, number) = key.value();
        known(report, "a checkpoint", namespace, session);
        checkpoints.insert(key.value());
        if let Err(error) = codec::decode::<CheckpointRecord>(value.value()) {
            report.problem(format!("checkpoint {number} of session {session} of namespace {namespace}: {error}"));
        }
    }
    let mut old = |namespace: u32, session: u32, checkpoint: u32, what: String, decoded: Result<()>| {
        if !checkpoints.contains(&(namespace, session, checkpoint)) {
            report.problem(format!(
                "{what} of session {session} of namespace {namespace} is kept for checkpoint {checkpoint}, \
                 which does not exist"
            ));
        }
        if let Err(error) = decoded {
            report.problem(format!("{what} of namespace {namespace}, as kept for checkpoint {checkpoint}: {error}"));
        }
    };
    for entry in tables.table(OLD_MESSAGES)?.iter()? {
        let (key, value) = entry?;
        let (namespace, session, seq, checkpoint) = key.value();
        let decoded = codec::decode::<OldMessage>(value.value()).and_then(|old| old.record.message()).map(drop);
        old(namespace, session, checkpoint, format!("message {seq}"), decoded);
    }
    for entry in tables.table(OLD_BLOCKS)?.iter()? {
        let (key, value) = entry?;
        let (namespace, session, name, checkpoint) = key.value();
        old(
            namespace,
            session,
            checkpoint,
            format!("block {name:?}"),
            codec::decode::<OldBlock>(value.value()).map(drop),
        );
    }
    Ok(())
}
