//! Checking documents, and the companion namespaces that hold their texts.

use std::collections::BTreeMap;

use redb::ReadTransaction;

use super::report::VerifyReport;
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
    store::{
        codec,
        documents::{StoredDocument, document_key},
        namespaces::Namespaces,
        schema::*,
        tables::{ReadableTable, Tables},
    },
};

/// Checks each document against its place in the order, its expiry and its namespace's counts, and each indexed text
/// against its document.
pub(super) fn verify(tables: &ReadTransaction, report: &mut VerifyReport) -> Result<()> {
    let (documents, order) = (tables.table(DOCUMENTS)?, tables.table(DOCUMENT_ORDER)?);
    let expiry = tables.table(DOCUMENT_EXPIRY)?;
    let mut namespaces = BTreeMap::new();
    // Records that cannot be read were already reported.
    for (name, record) in records(tables, &mut VerifyReport::default())? {
        match Namespace::new(&name).map(|name| Namespaces(tables).id(&name)) {
            Ok(Ok(Some(id))) if id.document_texts().0 == record.texts.id => {
                namespaces.insert(id.0, (name, record.counts, DocumentCounts::default()));
            }
            _ => report.problem(format!("documents of namespace {name:?}: it has another number or does not exist")),
        }
    }
    for entry in documents.iter()? {
        let (key, value) = entry?;
        let (namespace, key) = key.value();
        let named = |what: &str| format!("document {key:?} of namespace {namespace}: {what}");
        let Some((name, _, found)) = namespaces.get_mut(&namespace) else {
            report.problem(named("its namespace has no documents"));
            continue;
        };
        let decoded = codec::decode::<DocumentRecord>(value.value());
        let record = match decoded.and_then(|record| StoredDocument::try_from(record.clone()).map(|_| record)) {
            Ok(record) => record,
            Err(error) => {
                report.problem(named(&error.to_string()));
                continue;
            }
        };
        found.documents += 1;
        found.last_change = found.last_change.max(record.change);
        if serde_json::from_str::<serde_json::Value>(&record.value).is_err() {
            report.problem(named("its value is no JSON"));
        }
        if order.get((namespace, record.change))?.is_none_or(|other| other.value() != key) {
            report.problem(named("it is not in the order of changes"));
        }
        if let Some(expires_at) = record.expires_at {
            found.expiring += 1;
            if expiry.get((expires_at, name.as_str(), key))?.is_none() {
                report.problem(named("its expiry is not noted"));
            }
        }
    }
    let mut expiring = 0;
    for (name, counts, found) in namespaces.values() {
        expiring += found.expiring;
        // The last document that was changed may be deleted.
        let is_right = DocumentCounts { last_change: found.last_change, ..*counts } == *found;
        if !is_right || counts.last_change < found.last_change {
            report.problem(format!("documents of namespace {name:?}: {found:?}, but its record counts {counts:?}"));
        }
    }
    for (what, expected, other) in [
        ("places in the order of changes", documents.len()?, order.len()?),
        ("noted expiries", expiring, expiry.len()?),
    ] {
        if expected != other {
            report.problem(format!("{other} {what} instead of {expected}"));
        }
    }
    for entry in tables.table(IDS)?.range((NamespaceId(0).document_texts().0, "")..)? {
        let (key, _) = entry?;
        let (companion, id) = key.value();
        let owner = NamespaceId(companion).owner().expect("the numbers of companions are the highest");
        let has_document = |key| Ok(documents.get((owner.0, key))?.is_some());
        if !document_key(id).and_then(has_document).unwrap_or(false) {
            report.problem(format!("text {id:?} of namespace {}: its document does not exist", owner.0));
        }
    }
    Ok(())
}

/// The companion namespaces and their records. Reports those that cannot be read.
pub(super) fn companions(
    tables: &ReadTransaction,
    report: &mut VerifyReport,
) -> Result<Vec<(NamespaceId, NamespaceRecord)>> {
    let companions = records(tables, report)?.into_iter();
    Ok(companions.map(|(_, DocumentNamespaceRecord { texts, .. })| (NamespaceId(texts.id), texts)).collect())
}

/// The names of the namespaces with documents and their records. Reports those that cannot be read.
fn records(tables: &ReadTransaction, report: &mut VerifyReport) -> Result<Vec<(String, DocumentNamespaceRecord)>> {
    let mut found = Vec::new();
    for entry in tables.table(DOCUMENT_NAMESPACES)?.iter()? {
        let (name, value) = entry?;
        let name = name.value().to_owned();
        match codec::decode::<DocumentNamespaceRecord>(value.value()) {
            Ok(record) if NamespaceId(record.texts.id).owner().is_some() => found.push((name, record)),
            Ok(record) => {
                report.problem(format!("documents of namespace {name:?}: number {} is no companion", record.texts.id));
            }
            Err(error) => report.problem(format!("documents of namespace {name:?}: {error}")),
        }
    }
    Ok(found)
}
