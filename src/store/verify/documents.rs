//! Checking documents, and the companion namespaces that hold their texts.

use std::collections::BTreeMap;

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata};

use super::report::VerifyReport;
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
    store::{
        codec,
        documents::StoredDocument,
        namespaces::Namespaces,
        schema::*,
        tables::{Tables, storage},
    },
};

/// Checks each document against its place in the order, its expiry and its namespace's count, and each indexed text
/// against its document.
pub(super) fn verify(tables: &ReadTransaction, report: &mut VerifyReport) -> Result<()> {
    let (documents, order) = (tables.table(DOCUMENTS)?, tables.table(DOCUMENT_ORDER)?);
    let (expiry, counts) = (tables.table(DOCUMENT_EXPIRY)?, tables.table(DOCUMENT_COUNTS)?);
    let mut names = BTreeMap::new();
    let mut counted = 0;
    for entry in counts.iter().map_err(storage)? {
        let (name, value) = entry.map_err(storage)?;
        let (name, (id, count)) = (name.value(), value.value());
        counted += count;
        let known = Namespace::new(name).map(|name| Namespaces(tables).id(&name));
        if !matches!(known, Ok(Ok(Some(NamespaceId(known)))) if known == id) {
            report.problem(format!("documents of namespace {name:?}: it has another number or does not exist"));
        }
        names.insert(id, name.to_owned());
    }
    let mut expiring = 0;
    for entry in documents.iter().map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let (namespace, key) = key.value();
        let named = |what: &str| format!("document {key:?} of namespace {namespace}: {what}");
        let Some(name) = names.get(&namespace) else {
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
        if serde_json::from_str::<serde_json::Value>(&record.value).is_err() {
            report.problem(named("its value is no JSON"));
        }
        if order.get((namespace, record.change)).map_err(storage)?.is_none_or(|other| other.value() != key) {
            report.problem(named("it is not in the order of changes"));
        }
        if let Some(expires_at) = record.expires_at {
            expiring += 1;
            if expiry.get((expires_at, name.as_str(), key)).map_err(storage)?.is_none() {
                report.problem(named("its expiry is not noted"));
            }
        }
    }
    let found = documents.len().map_err(storage)?;
    for (what, expected, other) in [
        ("places in the order of changes", found, order.len().map_err(storage)?),
        ("counted documents", found, counted),
        ("noted expiries", expiring, expiry.len().map_err(storage)?),
    ] {
        if expected != other {
            report.problem(format!("{other} {what} instead of {expected}"));
        }
    }
    for entry in tables.table(SESSIONS)?.iter().map_err(storage)? {
        let (key, _) = entry.map_err(storage)?;
        let (namespace, key) = key.value();
        if let Some(owner) = NamespaceId(namespace).owner()
            && documents.get((owner.0, key)).map_err(storage)?.is_none()
        {
            report.problem(format!("texts of document {key:?} of namespace {}: it does not exist", owner.0));
        }
    }
    Ok(())
}

/// The companion namespaces and their records. Reports those that cannot be read.
pub(super) fn companions(
    tables: &ReadTransaction,
    report: &mut VerifyReport,
) -> Result<Vec<(NamespaceId, NamespaceRecord)>> {
    let mut found = Vec::new();
    for entry in tables.table(DOCUMENT_TEXTS)?.iter().map_err(storage)? {
        let (id, value) = entry.map_err(storage)?;
        let companion = NamespaceId(id.value());
        match codec::decode::<NamespaceRecord>(value.value()) {
            Ok(record) if record.id == companion.0 && companion.owner().is_some() => found.push((companion, record)),
            Ok(_) => report.problem(format!("the record of namespace {} is another's", companion.0)),
            Err(error) => report.problem(format!("namespace {}: {error}", companion.0)),
        }
    }
    Ok(found)
}
