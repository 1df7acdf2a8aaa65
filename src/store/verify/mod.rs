//! Verification: checks every record against the records that it refers to.

mod documents;
mod graphs;
mod journal;
mod messages;
mod report;
mod sessions;
mod vectors;

use redb::{ReadTransaction, ReadableTableMetadata};

pub use self::report::VerifyReport;
use super::{
    audit::AuditLog,
    generations::records,
    schema::*,
    tables::{Tables, storage},
};
use crate::error::Result;

/// Returns true if there is nothing of any generation.
fn has_no_vectors(tables: &ReadTransaction) -> Result<bool> {
    let of_generations =
        [tables.table(VECTORS)?.is_empty(), tables.table(VECTOR_ROWS)?.is_empty(), tables.table(PENDING)?.is_empty()];
    of_generations.into_iter().try_fold(true, |all, is_empty| Ok(all && is_empty.map_err(storage)?))
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
    for problem in AuditLog(tables).read()?.problems {
        report.problem(format!("the audit: {problem}"));
    }
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
