//! Checking the graphs of a generation.

use std::collections::{BTreeMap, BTreeSet};

use redb::ReadTransaction;

use super::report::VerifyReport;
use crate::{
    error::Result,
    ids::GenerationId,
    store::{
        codec,
        graphs::unseal,
        schema::*,
        tables::{Tables, storage},
    },
};

/// Checks the stored graphs of a generation. Returns the namespaces that have one.
pub(super) fn verify(
    tables: &ReadTransaction,
    report: &mut VerifyReport,
    GenerationId(id): GenerationId,
) -> Result<BTreeSet<u32>> {
    let mut records = BTreeMap::new();
    for entry in tables.table(GRAPHS)?.range((id, 0)..=(id, u32::MAX)).map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let namespace = key.value().1;
        let record = codec::decode::<GraphRecord>(value.value());
        if let Err(error) = &record {
            report.problem(format!("generation {id}, namespace {namespace}: the record of its graph: {error}"));
        }
        records.insert(namespace, record.ok());
    }
    let mut deltas: BTreeMap<u32, u32> = BTreeMap::new();
    for (table, what) in [(GRAPH_PAGES, "page"), (GRAPH_DELTAS, "delta")] {
        for entry in tables.table(table)?.range((id, 0, 0)..=(id, u32::MAX, u32::MAX)).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
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
