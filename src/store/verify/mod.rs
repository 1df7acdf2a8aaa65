//! Verification: checks every record against the records that it refers to.

mod documents;
mod journal;
mod messages;
mod report;
mod sessions;
mod vectors;

use redb::{Key, ReadTransaction, Value};

pub use self::report::VerifyReport;
use super::{
    audit::AuditLog,
    codec,
    generations::records,
    schema::*,
    tables::{ReadableTable, Tables, has},
};
use crate::{error::Result, ids::NamespaceId};

/// Returns true if there is nothing of any generation.
fn has_no_vectors(tables: &ReadTransaction) -> Result<bool> {
    let of_generations =
        [tables.table(VECTORS)?.is_empty(), tables.table(VECTOR_ROWS)?.is_empty(), tables.table(PENDING)?.is_empty()];
    of_generations.into_iter().try_fold(true, |all, is_empty| Ok(all && is_empty?))
}

/// Verifies the whole database. Cost: a pass over the file, and memory for one entry per message.
pub(super) fn verify(tables: &ReadTransaction) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let messages = messages::verify(tables, &mut report)?;
    let generations = records(&tables.table(GENERATIONS)?)?;
    let serving = generations.iter().filter(|(_, record)| record.state == GenerationState::Serving).count();
    if generations.is_empty() && has_no_vectors(tables)? {
        // As a salvage leaves it that could not read the model: the next opening for writing chooses one.
        report.pending += messages.values().filter(|message| message.needs_vectors).count() as u64;
    } else if serving > 1 || (serving == 0 && !messages.is_empty()) {
        report.problem(format!("{serving} generations serve instead of one"));
    }
    let previous = generations.iter().filter(|(_, record)| record.state == GenerationState::Previous).count();
    if previous > 1 {
        report.problem(format!("{previous} generations are kept as the previous one instead of at most one"));
    }
    sessions::verify(tables, &mut report)?;
    for problem in AuditLog(tables).read(0..0)?.problems {
        report.problem(format!("the audit: {problem}"));
    }
    report.lost = tables.table(LOST)?.len()?;
    verify_owners(tables, &mut report)?;
    documents::verify(tables, &mut report)?;
    journal::verify(tables, &mut report)?;
    for (id, record) in generations {
        if record.state != GenerationState::Retired {
            let is_begun = record.state == GenerationState::Begun;
            vectors::verify(tables, &mut report, &messages, id, is_begun)?;
        }
    }
    Ok(report)
}

/// Verifies that what is stored under the number of a namespace has that namespace: deletions left nothing.
fn verify_owners(tables: &ReadTransaction, report: &mut VerifyReport) -> Result<()> {
    let mut ids: Vec<u32> = Vec::new();
    for entry in tables.table(NAMESPACES)?.iter()? {
        let id = codec::decode::<NamespaceRecord>(entry?.1.value())?.id;
        ids.extend([id, NamespaceId(id).document_texts().0]);
    }
    ids.sort_unstable();
    visit_tables(&mut Owners { tables, ids, report })
}

struct Owners<'a> {
    tables: &'a ReadTransaction,
    /// The numbers of namespaces and companions, ascending.
    ids: Vec<u32>,
    report: &'a mut VerifyReport,
}

impl TableVisitor for Owners<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        let Keys::Namespace(least) = table.keys else { return Ok(()) };
        let open = self.tables.table(table)?;
        for (from, to) in gaps(&self.ids) {
            let has_stray = match to {
                Some(to) => has(&open, least(from)..least(to))?,
                None => has(&open, least(from)..)?,
            };
            if has_stray {
                self.report.problem(format!("table {}: entries of a namespace that does not exist", table.name));
                break;
            }
        }
        Ok(())
    }
}

/// The ranges of numbers that are not among these, which are ascending; the last one has no end.
fn gaps(numbers: &[u32]) -> impl Iterator<Item = (u32, Option<u32>)> {
    let starts = [0].into_iter().chain(numbers.iter().map(|number| number + 1));
    let ends = numbers.iter().copied().map(Some).chain([None]);
    starts.zip(ends).filter(|(start, end)| end.is_none_or(|end| *start < end))
}
