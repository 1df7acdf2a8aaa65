//! Checking the rows, vectors and pending entries of a generation.

use std::collections::{BTreeMap, BTreeSet};

use redb::ReadTransaction;

use super::{messages::Expected, report::VerifyReport};
use crate::{
    error::Result,
    ids::GenerationId,
    store::{
        codec,
        generations::Generations,
        graphs::unseal,
        row_layout::RowMeta,
        schema::*,
        tables::{ReadableTable, Tables},
    },
};

/// Checks the vectors, rows, graphs and pending entries of a generation.
pub(super) fn verify(
    tables: &ReadTransaction,
    report: &mut VerifyReport,
    messages: &BTreeMap<(u32, u64), Expected>,
    generation: GenerationId,
    is_begun: bool,
) -> Result<()> {
    let rows = check_blocks(tables, report, generation)?;
    check_counts(tables, report, generation, &rows)?;
    let graphs = check_graphs(tables, report, generation)?;
    check_free_rows(tables, report, generation, rows.dead, &graphs)?;
    check_row_owners(tables, report, generation, messages, rows.live)?;
    check_pending(tables, report, generation, messages, is_begun)
}

/// The rows that the blocks of a generation contain.
#[derive(Default)]
struct FoundRows {
    /// (namespace, row) → row data.
    live: BTreeMap<(u32, u32), RowMeta>,
    /// (namespace, row).
    dead: BTreeSet<(u32, u32)>,
    /// Namespace → number of rows.
    counts: BTreeMap<u32, u32>,
}

/// Checks that the blocks of each namespace are complete and hold unit vectors.
fn check_blocks(
    tables: &ReadTransaction,
    report: &mut VerifyReport,
    GenerationId(id): GenerationId,
) -> Result<FoundRows> {
    let layout = Generations(tables).layout(GenerationId(id))?;
    let mut rows = FoundRows::default();
    let mut vector = Vec::new();
    for entry in tables.table(VECTORS)?.range((id, 0, 0)..=(id, u32::MAX, u32::MAX))? {
        let (key, block) = entry?;
        let (_, namespace, number) = key.value();
        let named = |what: String| format!("generation {id}, namespace {namespace}, block {number}: {what}");
        let first = layout.first_row(number);
        if rows.counts.get(&namespace).copied().unwrap_or(0) != first {
            report.problem(named("the block before it is missing or short".into()));
        }
        let block = match layout.read(block.value()) {
            Ok(block) => block,
            Err(error) => {
                report.problem(named(error.to_string()));
                continue;
            }
        };
        rows.counts.insert(namespace, first + block.len() as u32);
        for (row, found) in (first..).zip(block) {
            match found.map(|found| (found.meta, found)) {
                Err(error) => report.problem(named(format!("row {row}: {error}"))),
                Ok((None, _)) => drop(rows.dead.insert((namespace, row))),
                Ok((Some(meta), found)) => {
                    vector.clear();
                    found.append_to(&mut vector);
                    let norm: f32 = vector.iter().map(|x| x * x).sum();
                    if norm.is_nan() || (norm != 0.0 && (norm - 1.0).abs() > 1e-2) {
                        report.problem(named(format!("row {row} is no unit vector")));
                    }
                    rows.live.insert((namespace, row), meta);
                    report.vectors += 1;
                }
            }
        }
    }
    Ok(rows)
}

/// Checks the counts of rows of each namespace.
fn check_counts(
    tables: &ReadTransaction,
    report: &mut VerifyReport,
    GenerationId(id): GenerationId,
    rows: &FoundRows,
) -> Result<()> {
    let mut counts: BTreeMap<u32, (u32, u32)> = rows.counts.keys().map(|namespace| (*namespace, (0, 0))).collect();
    for entry in tables.table(COUNTS)?.range((id, 0)..=(id, u32::MAX))? {
        let (key, value) = entry?;
        counts.insert(key.value().1, value.value());
    }
    for (namespace, (count, live)) in counts {
        let found = rows.live.range((namespace, 0)..=(namespace, u32::MAX)).count() as u32;
        if count != rows.counts.get(&namespace).copied().unwrap_or(0) || live != found {
            report.problem(format!(
                "generation {id}, namespace {namespace}: {found} rows are live, but {live} of {count} are counted"
            ));
        }
    }
    Ok(())
}

/// Checks that the rows recorded for each message are its windows, and that each live row belongs to a message.
fn check_row_owners(
    tables: &ReadTransaction,
    report: &mut VerifyReport,
    GenerationId(id): GenerationId,
    messages: &BTreeMap<(u32, u64), Expected>,
    mut rows: BTreeMap<(u32, u32), RowMeta>,
) -> Result<()> {
    for entry in tables.table(VECTOR_ROWS)?.range((id, 0, 0)..=(id, u32::MAX, u64::MAX))? {
        let (key, value) = entry?;
        let (_, namespace, seq) = key.value();
        let (first, count) = value.value();
        // One wrong row is enough to report: a damaged count may be any number.
        for window in 0..count {
            let row = first + window;
            let expected =
                messages.get(&(namespace, seq)).map(|message| RowMeta { window: window as u16, ..message.meta });
            if rows.remove(&(namespace, row)) != expected || expected.is_none() {
                report.problem(format!(
                    "generation {id}, namespace {namespace}: row {row} is not window {window} of message {seq}"
                ));
                break;
            }
        }
    }
    for ((namespace, row), RowMeta { seq, .. }) in rows {
        report.problem(format!(
            "generation {id}, namespace {namespace}: row {row} has a vector of message {seq}, \
             but is not recorded as its row"
        ));
    }
    Ok(())
}

/// Checks that each message that needs vectors has them or is pending, and no other message.
fn check_pending(
    tables: &ReadTransaction,
    report: &mut VerifyReport,
    GenerationId(id): GenerationId,
    messages: &BTreeMap<(u32, u64), Expected>,
    is_begun: bool,
) -> Result<()> {
    let (pending, vector_rows) = (tables.table(PENDING)?, tables.table(VECTOR_ROWS)?);
    for entry in pending.range((id, 0, 0)..=(id, u32::MAX, u64::MAX))? {
        let (key, revision) = entry?;
        let (_, namespace, seq) = key.value();
        report.pending += 1;
        let is_right = |message: &&Expected| message.revision == revision.value() && message.needs_vectors;
        if messages.get(&(namespace, seq)).filter(is_right).is_none() {
            report.problem(format!(
                "generation {id}, namespace {namespace}: message {seq} is pending, \
                 but has another revision or needs no vectors"
            ));
        }
    }
    for ((namespace, seq), message) in messages {
        let has_vectors = vector_rows.get((id, *namespace, *seq))?.is_some();
        let is_pending = pending.get((id, *namespace, *seq))?.is_some();
        // A generation that has begun does not have all of its pending entries yet.
        let may_be_unseeded = is_begun && !has_vectors && !is_pending;
        if !may_be_unseeded && (has_vectors || is_pending) != message.needs_vectors || (has_vectors && is_pending) {
            report.problem(format!(
                "generation {id}, namespace {namespace}: message {seq} has vectors: {has_vectors}, \
                 is pending: {is_pending}"
            ));
        }
    }
    Ok(())
}

/// Checks that free rows are dead, and that dead rows are free in namespaces without a graph.
fn check_free_rows(
    tables: &ReadTransaction,
    report: &mut VerifyReport,
    GenerationId(id): GenerationId,
    mut dead: BTreeSet<(u32, u32)>,
    graphs: &BTreeSet<u32>,
) -> Result<()> {
    for entry in tables.table(FREE_ROWS)?.range((id, 0, 0)..=(id, u32::MAX, u32::MAX))? {
        let (_, namespace, row) = entry?.0.value();
        if !dead.remove(&(namespace, row)) {
            report.problem(format!("generation {id}, namespace {namespace}: row {row} is free, but not dead"));
        }
    }
    for (namespace, row) in dead.into_iter().filter(|(namespace, _)| !graphs.contains(namespace)) {
        report.problem(format!("generation {id}, namespace {namespace}: row {row} is dead, but not free"));
    }
    Ok(())
}

/// Checks the stored graphs of a generation. Returns the namespaces that have one.
fn check_graphs(
    tables: &ReadTransaction,
    report: &mut VerifyReport,
    GenerationId(id): GenerationId,
) -> Result<BTreeSet<u32>> {
    let mut records = BTreeMap::new();
    for entry in tables.table(GRAPHS)?.range((id, 0)..=(id, u32::MAX))? {
        let (key, value) = entry?;
        let namespace = key.value().1;
        let record = codec::decode::<GraphRecord>(value.value());
        if let Err(error) = &record {
            report.problem(format!("generation {id}, namespace {namespace}: the record of its graph: {error}"));
        }
        records.insert(namespace, record.ok());
    }
    let mut deltas: BTreeMap<u32, u32> = BTreeMap::new();
    for (table, what) in [(GRAPH_PAGES, "page"), (GRAPH_DELTAS, "delta")] {
        for entry in tables.table(table)?.range((id, 0, 0)..=(id, u32::MAX, u32::MAX))? {
            let (key, value) = entry?;
            let (_, namespace, number) = key.value();
            let mut problem =
                |error: String| report.problem(format!("generation {id}, namespace {namespace}: {error}"));
            if let Err(error) = unseal(value.value(), what, number) {
                problem(error.to_string());
            }
            match records.get(&namespace) {
                None => problem(format!("{what} {number} of a graph that has no record")),
                Some(Some(record)) if what == "delta" => {
                    if !(record.first_delta..record.next_delta).contains(&number) {
                        problem(format!("delta {number} of its graph was deleted, or was never stored"));
                    }
                    *deltas.entry(namespace).or_default() += 1;
                }
                Some(_) => {}
            }
        }
    }
    for (namespace, record) in &records {
        let found = deltas.get(namespace).copied().unwrap_or(0);
        if let Some(GraphRecord { first_delta, next_delta }) = record
            && next_delta.checked_sub(*first_delta) != Some(found)
        {
            report.problem(format!(
                "generation {id}, namespace {namespace}: {found} deltas of its graph, not {first_delta} to {next_delta}"
            ));
        }
    }
    Ok(records.into_keys().collect())
}
