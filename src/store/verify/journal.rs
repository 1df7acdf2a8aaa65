//! Checking the times of puts, and the journal of recalls.

use std::collections::BTreeMap;

use redb::ReadTransaction;

use super::report::VerifyReport;
use crate::{
    error::Result,
    store::{
        codec,
        schema::*,
        tables::{ReadableTable, Tables},
    },
};

/// Checks that the times of puts and the entries of the journal belong to namespaces, and that the entries decode.
pub(super) fn verify(tables: &ReadTransaction, report: &mut VerifyReport) -> Result<()> {
    let mut next_seqs: BTreeMap<u32, u64> = BTreeMap::new();
    for entry in tables.table(NAMESPACES)?.iter()? {
        // A record that does not decode was already reported.
        if let Ok(record) = codec::decode::<NamespaceRecord>(entry?.1.value()) {
            next_seqs.insert(record.id, record.next_seq);
        }
    }
    for entry in tables.table(PUT_TIMES)?.iter()? {
        let (namespace, seq) = entry?.0.value();
        if next_seqs.get(&namespace).is_none_or(|next| seq >= *next) {
            report.problem(format!("the time of a put of namespace {namespace}: no message was ever number {seq}"));
        }
    }
    let order = tables.table(JOURNAL_ORDER)?;
    for entry in tables.table(JOURNAL)?.iter()? {
        let (key, value) = entry?;
        let (namespace, number) = key.value();
        let is_ordered = order.get(number)?.is_some_and(|owner| owner.value() == namespace);
        if !is_ordered || !next_seqs.contains_key(&namespace) {
            report.problem(format!("entry {number} of the journal: it is not in the order, or has no namespace"));
        }
        if let Err(error) = codec::decode::<String>(value.value()) {
            report.problem(format!("entry {number} of the journal: {error}"));
        }
    }
    Ok(())
}
