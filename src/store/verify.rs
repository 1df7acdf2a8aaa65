//! Checking every record against every other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use redb::{ReadableTable, ReadableTableMetadata};

use super::{
    codec, graph,
    read::{Snapshot, all_generations},
    rows::{Layout, RowMeta},
    schema::*,
    storage,
};
use crate::{
    error::Result,
    ids::{GenerationId, Namespace},
};

/// What is stored, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Namespaces found.
    pub namespaces: u64,
    /// Messages found.
    pub messages: u64,
    /// Vectors found, over all generations.
    pub vectors: u64,
    /// Messages that wait to be embedded, over all generations.
    pub pending: u64,
    /// What is wrong, a line each. Empty: the database is sound.
    pub problems: Vec<String>,
}

/// What rows and pending entries are checked against.
struct Expected {
    /// It has text, and is not in the buffer.
    needs_vectors: bool,
    revision: u64,
    /// Of window 0.
    meta: RowMeta,
}

/// The more there is wrong, the less each line says.
const MAX_PROBLEMS: usize = 100;

impl VerifyReport {
    pub(super) fn problem(&mut self, what: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(what);
        }
    }
}

/// Reads everything. Cost: one pass over the file, and memory for one entry a message.
pub(super) fn verify(snapshot: &Snapshot) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let mut messages: BTreeMap<(u32, u64), Expected> = BTreeMap::new();
    check_messages(snapshot, &mut report, &mut messages)?;
    let generations = all_generations(&snapshot.table(GENERATIONS)?)?;
    let serving = generations.iter().filter(|(_, record)| record.state == GenerationState::Serving).count();
    if serving > 1 || (serving == 0 && !messages.is_empty()) {
        report.problem(format!("{serving} generations serve, not one"));
    }
    let previous = generations.iter().filter(|(_, record)| record.state == GenerationState::Previous).count();
    if previous > 1 {
        report.problem(format!("{previous} generations are kept as the previous one"));
    }
    check_sessions(snapshot, &mut report)?;
    for (id, record) in generations {
        if record.state != GenerationState::Retired {
            let is_begun = record.state == GenerationState::Begun;
            check_generation(snapshot, &mut report, &messages, (id, record.layout()?), is_begun)?;
        }
    }
    Ok(report)
}

fn check_messages(
    snapshot: &Snapshot,
    report: &mut VerifyReport,
    messages: &mut BTreeMap<(u32, u64), Expected>,
) -> Result<()> {
    let ids = snapshot.table(IDS)?;
    let sessions = snapshot.table(SESSIONS)?;
    let history = snapshot.table(HISTORY)?;
    let mut spaces: HashMap<u32, (String, NamespaceRecord, u64)> = HashMap::new();
    for entry in snapshot.table(NAMESPACES)?.iter().map_err(storage)? {
        let (name, value) = entry.map_err(storage)?;
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
        if let Some((other, ..)) = spaces.insert(record.id, (name.value().to_owned(), record, 0)) {
            report.problem(format!("namespaces {other:?} and {:?} have one number", name.value()));
        }
        report.namespaces += 1;
    }
    for entry in snapshot.table(MESSAGES)?.iter().map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let (space, seq) = key.value();
        let record: MessageRecord = match codec::decode(value.value()) {
            Ok(record) => record,
            Err(error) => {
                report.problem(format!("message {seq} of namespace {space}: {error}"));
                continue;
            }
        };
        report.messages += 1;
        let named = |what: &str| format!("message {:?} of namespace {space}: {what}", record.id);
        match spaces.get_mut(&space) {
            None => report.problem(named("its namespace is unknown")),
            Some((_, space, count)) => {
                *count += 1;
                if seq >= space.next_seq {
                    report.problem(named("its number was not given out"));
                }
            }
        }
        if ids.get((space, record.id.as_str())).map_err(storage)?.map(|seq| seq.value()) != Some(seq) {
            report.problem(named("its id leads elsewhere"));
        }
        let session = sessions.get((space, record.session.as_str())).map_err(storage)?.map(|session| session.value());
        if session.is_none() {
            report.problem(named("its session has no number"));
        }
        let place = history.get((space, session.unwrap_or(0), seq)).map_err(storage)?.map(|place| place.value());
        if place.is_none() {
            report.problem(named("it is not in the history of its session"));
        }
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
                let needs_vectors = place != Some(Place::Buffer.number()) && !message.searchable().trim().is_empty();
                messages.insert((space, seq), Expected { needs_vectors, revision, meta });
            }
        }
    }
    if ids.len().map_err(storage)? != report.messages {
        report.problem(format!("{} ids for {} messages", ids.len().map_err(storage)?, report.messages));
    }
    if history.len().map_err(storage)? != report.messages {
        report.problem(format!(
            "{} entries of histories for {} messages",
            history.len().map_err(storage)?,
            report.messages
        ));
    }
    for (name, record, count) in spaces.values() {
        if record.messages != *count {
            report.problem(format!("namespace {name:?} has {count} messages, but counts {}", record.messages));
        }
    }
    Ok(())
}

/// What is kept of sessions beside their messages.
fn check_sessions(snapshot: &Snapshot, report: &mut VerifyReport) -> Result<()> {
    let mut spaces: BTreeMap<u32, NamespaceRecord> = BTreeMap::new();
    for entry in snapshot.table(NAMESPACES)?.iter().map_err(storage)? {
        // One that does not decode is named above.
        if let Ok(record) = codec::decode::<NamespaceRecord>(entry.map_err(storage)?.1.value()) {
            spaces.insert(record.id, record);
        }
    }
    let mut sessions: BTreeSet<(u32, u32)> = BTreeSet::new();
    for entry in snapshot.table(SESSIONS)?.iter().map_err(storage)? {
        let (key, number) = entry.map_err(storage)?;
        let ((space, name), number) = (key.value(), number.value());
        let given = spaces.get(&space).is_some_and(|space| number < space.next_session);
        if !given || !sessions.insert((space, number)) {
            report.problem(format!(
                "session {name:?} of namespace {space}: number {number} is another's, or was not given"
            ));
        }
    }
    let known = |report: &mut VerifyReport, what: &str, space: u32, session: u32| {
        if !sessions.contains(&(space, session)) {
            report.problem(format!("{what} of session {session} of namespace {space}, which is not there"));
        }
    };
    let mut next_batches: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for entry in snapshot.table(BATCHES)?.iter().map_err(storage)? {
        let (key, ends) = entry.map_err(storage)?;
        let ((space, session, number), (first, last)) = (key.value(), ends.value());
        known(report, "a batch", space, session);
        let next = next_batches.entry((space, session)).or_default();
        let is_given = spaces.get(&space).is_some_and(|space| last < space.next_seq);
        if number != *next || !is_given || (first > last && (first, last) != (1, 0)) {
            report.problem(format!("batch {number} of session {session} of namespace {space}: {first} to {last}"));
        }
        *next = number + 1;
    }
    for entry in snapshot.table(HISTORY)?.iter().map_err(storage)? {
        let (key, place) = entry.map_err(storage)?;
        let (space, session, seq) = key.value();
        if let Place::LongTerm(Some(batch)) = Place::read(place.value())
            && batch >= next_batches.get(&(space, session)).copied().unwrap_or(0)
        {
            report.problem(format!("message {seq} of namespace {space} is of batch {batch}, which is not there"));
        }
    }
    for entry in snapshot.table(BLOCKS)?.iter().map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let (space, session, name) = key.value();
        if session != SHARED {
            known(report, "a block", space, session);
        }
        let state = codec::decode::<BlockRecord>(value.value()).map(|record| record.state);
        if !state.as_ref().is_ok_and(|state| serde_json::from_str::<serde_json::Value>(state).is_ok()) {
            report.problem(format!("block {name:?} of session {session} of namespace {space} is no block's state"));
        }
    }
    for entry in snapshot.table(CURSORS)?.iter().map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let (space, session, name) = key.value();
        known(report, "a cursor", space, session);
        let next = next_batches.get(&(space, session)).copied().unwrap_or(0);
        match codec::decode::<CursorRecord>(value.value()) {
            Ok(cursor) if name == RESTORES || cursor.next <= next => {}
            Ok(cursor) => report.problem(format!(
                "block {name:?} of session {session} of namespace {space} is at batch {} of {next}",
                cursor.next
            )),
            Err(error) => report.problem(format!("the cursor of block {name:?} of namespace {space}: {error}")),
        }
    }
    let mut checkpoints: BTreeSet<(u32, u32, u32)> = BTreeSet::new();
    for entry in snapshot.table(CHECKPOINTS)?.iter().map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let (space, session, number) = key.value();
        known(report, "a checkpoint", space, session);
        checkpoints.insert(key.value());
        if let Err(error) = codec::decode::<CheckpointRecord>(value.value()) {
            report.problem(format!("checkpoint {number} of session {session} of namespace {space}: {error}"));
        }
    }
    let mut old = |space: u32, session: u32, checkpoint: u32, what: String, decoded: Result<()>| {
        if !checkpoints.contains(&(space, session, checkpoint)) {
            report.problem(format!("{what} is kept for checkpoint {checkpoint} of session {session} of namespace {space}, which is not there"));
        }
        if let Err(error) = decoded {
            report.problem(format!("{what}, kept for a checkpoint of namespace {space}: {error}"));
        }
    };
    for entry in snapshot.table(OLD_MESSAGES)?.iter().map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let (space, session, seq, checkpoint) = key.value();
        let decoded = codec::decode::<OldMessage>(value.value()).and_then(|old| old.record.message()).map(drop);
        old(space, session, checkpoint, format!("message {seq}"), decoded);
    }
    for entry in snapshot.table(OLD_BLOCKS)?.iter().map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let (space, session, name, checkpoint) = key.value();
        old(space, session, checkpoint, format!("block {name:?}"), codec::decode::<OldBlock>(value.value()).map(drop));
    }
    Ok(())
}

fn check_generation(
    snapshot: &Snapshot,
    report: &mut VerifyReport,
    messages: &BTreeMap<(u32, u64), Expected>,
    (GenerationId(id), layout): (GenerationId, Layout),
    is_begun: bool,
) -> Result<()> {
    // Rows found alive: (namespace, row) → meta.
    let mut rows: BTreeMap<(u32, u32), RowMeta> = BTreeMap::new();
    let mut dead: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut ends: BTreeMap<u32, u32> = BTreeMap::new();
    let mut vector = Vec::new();
    for entry in snapshot.table(VECTORS)?.range((id, 0, 0)..=(id, u32::MAX, u32::MAX)).map_err(storage)? {
        let (key, block) = entry.map_err(storage)?;
        let (_, space, number) = key.value();
        let named = |what: String| format!("generation {id}, namespace {space}, block {number}: {what}");
        let first = number * layout.rows_per_block();
        if ends.get(&space).copied().unwrap_or(0) != first {
            report.problem(named("the block before it is missing or short".into()));
        }
        let block = match layout.read(block.value()) {
            Ok(block) => block,
            Err(error) => {
                report.problem(named(error.to_string()));
                continue;
            }
        };
        ends.insert(space, first + block.len() as u32);
        for (row, found) in block.enumerate() {
            let row = first + row as u32;
            match found {
                Err(error) => report.problem(named(format!("row {row}: {error}"))),
                Ok(found) => match found.meta {
                    None => drop(dead.insert((space, row))),
                    Some(meta) => {
                        vector.clear();
                        found.append_to(&mut vector);
                        let norm: f32 = vector.iter().map(|x| x * x).sum();
                        if norm.is_nan() || (norm != 0.0 && (norm - 1.0).abs() > 1e-2) {
                            report.problem(named(format!("row {row} is no unit vector")));
                        }
                        rows.insert((space, row), meta);
                        report.vectors += 1;
                    }
                },
            }
        }
    }
    let mut counts: BTreeMap<u32, (u32, u32)> = ends.keys().map(|space| (*space, (0, 0))).collect();
    for entry in snapshot.table(COUNTS)?.range((id, 0)..=(id, u32::MAX)).map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        counts.insert(key.value().1, value.value());
    }
    for (space, (next, alive)) in counts {
        let found = rows.range((space, 0)..=(space, u32::MAX)).count() as u32;
        if next != ends.get(&space).copied().unwrap_or(0) || alive != found {
            report.problem(format!(
                "generation {id}, namespace {space}: {found} rows alive, but {alive} of {next} counted"
            ));
        }
    }
    let graphs = graph::verify(snapshot, report, GenerationId(id))?;
    check_free_rows(snapshot, report, id, dead, &graphs)?;
    let places = snapshot.table(PLACES)?;
    for entry in places.range((id, 0, 0)..=(id, u32::MAX, u64::MAX)).map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let (_, space, seq) = key.value();
        let (first, count) = value.value();
        // The first that is wrong is enough: a damaged count may be anything.
        for window in 0..count {
            let expected = messages.get(&(space, seq)).map(|message| RowMeta { window: window as u16, ..message.meta });
            if rows.remove(&(space, first + window)) != expected || expected.is_none() {
                report.problem(format!(
                    "generation {id}, namespace {space}: row {} is not window {window} of message {seq}",
                    first + window
                ));
                break;
            }
        }
    }
    for ((space, row), meta) in rows {
        report.problem(format!(
            "generation {id}, namespace {space}: row {row} is of message {}, which does not know it",
            meta.seq
        ));
    }
    let pending = snapshot.table(PENDING)?;
    for entry in pending.range((id, 0, 0)..=(id, u32::MAX, u64::MAX)).map_err(storage)? {
        let (key, revision) = entry.map_err(storage)?;
        let (_, space, seq) = key.value();
        report.pending += 1;
        if messages
            .get(&(space, seq))
            .is_none_or(|message| message.revision != revision.value() || !message.needs_vectors)
        {
            report.problem(format!("generation {id}, namespace {space}: message {seq} is pending, but not so stored"));
        }
    }
    for ((space, seq), message) in messages {
        let placed = places.get((id, *space, *seq)).map_err(storage)?.is_some();
        let waiting = pending.get((id, *space, *seq)).map_err(storage)?.is_some();
        let is_to_come = is_begun && !placed && !waiting;
        if !is_to_come && (placed || waiting) != message.needs_vectors || (placed && waiting) {
            report.problem(format!(
                "generation {id}, namespace {space}: message {seq} has vectors: {placed}, is pending: {waiting}"
            ));
        }
    }
    Ok(())
}

/// Free rows are dead; the dead are free where there is no graph.
fn check_free_rows(
    snapshot: &Snapshot,
    report: &mut VerifyReport,
    id: u32,
    mut dead: BTreeSet<(u32, u32)>,
    graphs: &BTreeSet<u32>,
) -> Result<()> {
    for entry in snapshot.table(FREE_ROWS)?.range((id, 0, 0)..=(id, u32::MAX, u32::MAX)).map_err(storage)? {
        let (_, space, row) = entry.map_err(storage)?.0.value();
        if !dead.remove(&(space, row)) {
            report.problem(format!("generation {id}, namespace {space}: row {row} is free, but not dead"));
        }
    }
    for (space, row) in dead.into_iter().filter(|(space, _)| !graphs.contains(space)) {
        report.problem(format!("generation {id}, namespace {space}: row {row} is dead, but not free"));
    }
    Ok(())
}
