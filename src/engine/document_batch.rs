//! A batch of operations on documents: first all reads, then all changes in one commit.

use std::sync::Arc;

use serde_json::Value;

use super::{core::Core, executor::Lane};
use crate::{
    documents::{DocumentOperation, DocumentOutcome, PreparedDocument, check_key, prepare},
    error::{Error, Result},
    ids::Namespace,
    message::Timestamp,
    store::{DocumentAction, DocumentChange, Transaction},
};

/// A batch whose operations were checked.
pub(super) struct DocumentBatch {
    operations: usize,
    /// The reads, with their positions in the batch.
    reads: Vec<(usize, DocumentOperation)>,
    /// The changes, with their positions in the batch.
    changes: Vec<(usize, DocumentChange)>,
    /// The documents whose values are expected, with their positions in the batch.
    expected: Vec<(usize, Expectation)>,
}

/// A document and the value that it must have.
type Expectation = (Namespace, String, Option<Value>);

impl DocumentBatch {
    pub(super) fn new(operations: Vec<DocumentOperation>) -> Result<Self> {
        let mut batch =
            DocumentBatch { operations: operations.len(), reads: vec![], changes: vec![], expected: vec![] };
        for (at, operation) in operations.into_iter().enumerate() {
            match operation {
                DocumentOperation::Put { namespace, key, value, options } => {
                    check_key(&key)?;
                    let PreparedDocument { value, texts, ttl } = prepare(&value, &options)?;
                    let action = DocumentAction::Put { value, texts, ttl };
                    batch.changes.push((at, DocumentChange { namespace, key, action }));
                }
                DocumentOperation::Delete { namespace, key } => {
                    let action = DocumentAction::Delete;
                    batch.changes.push((at, DocumentChange { namespace, key, action }));
                }
                DocumentOperation::Expect { namespace, key, value } => {
                    batch.expected.push((at, (namespace, key, value)));
                }
                read => {
                    match &read {
                        DocumentOperation::Search { search, .. } => search.check()?,
                        DocumentOperation::ListNamespaces(request) => request.check()?,
                        _ => {}
                    }
                    batch.reads.push((at, read));
                }
            }
        }
        Ok(batch)
    }

    pub(super) async fn run(self, core: &Arc<Core>) -> Result<Vec<DocumentOutcome>> {
        let DocumentBatch { operations, reads, changes, expected } = self;
        let mut outcomes = vec![None; operations];
        let mut refreshes = Vec::new();
        if !reads.is_empty() {
            for (_, read) in &reads {
                match read {
                    DocumentOperation::Search { namespace, search } if search.below => {
                        core.refresh_under(Some(namespace), None).await?;
                    }
                    DocumentOperation::ListNamespaces(_) => core.refresh_under(None, None).await?,
                    read => {
                        if let Some(namespace) = read.namespace() {
                            core.refresh(namespace, None).await?;
                        }
                    }
                }
            }
            let has_query = |(_, read): &(usize, DocumentOperation)| matches!(read, DocumentOperation::Search { search, .. } if search.text().is_some());
            let lane = if reads.iter().any(has_query) { Lane::Recalls } else { Lane::Store };
            let (read, expiring) = core.run(lane, move |core| read_all(core, &reads)).await?;
            read.into_iter().for_each(|(at, outcome)| outcomes[at] = Some(outcome));
            refreshes = expiring;
        }
        if !(refreshes.is_empty() && changes.is_empty() && expected.is_empty()) {
            let refreshed = refreshes.len();
            let (positions, changes): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
            let all: Vec<DocumentChange> = refreshes.into_iter().chain(changes).collect();
            let is_put: Vec<bool> =
                all[refreshed..].iter().map(|change| matches!(change.action, DocumentAction::Put { .. })).collect();
            expected.iter().for_each(|(at, _)| outcomes[*at] = Some(DocumentOutcome::Expected));
            let apply = move |transaction: &mut Transaction| {
                expected.iter().try_for_each(|(_, expectation)| check(transaction, expectation))?;
                transaction.edit_documents().apply(&all)
            };
            let existed = core.write(apply).await?;
            for ((at, is_put), existed) in positions.into_iter().zip(is_put).zip(existed.into_iter().skip(refreshed)) {
                outcomes[at] = Some(if is_put { DocumentOutcome::Put } else { DocumentOutcome::Deleted(existed) });
            }
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.expect("each operation is a read or a change")).collect())
    }
}

/// Checks that a document has the expected value.
///
/// # Errors
/// [`Error::DocumentChanged`].
fn check(transaction: &Transaction, (namespace, key, expected): &Expectation) -> Result<()> {
    let id = transaction.namespaces().id(namespace)?;
    let found = id.map_or(Ok(None), |id| transaction.documents().get(id, key, Timestamp::now()))?;
    let value = found.map(|found| found.parse(key)).transpose()?;
    match value == *expected {
        true => Ok(()),
        false => Err(Error::DocumentChanged { namespace: namespace.to_string(), key: key.clone() }),
    }
}

type Read = (Vec<(usize, DocumentOutcome)>, Vec<DocumentChange>);

/// Runs reads. Returns their outcomes with their positions, and the refreshes that they ask for.
fn read_all(core: &Core, reads: &[(usize, DocumentOperation)]) -> Result<Read> {
    let (mut outcomes, mut refreshes) = (Vec::new(), Vec::new());
    let now = Timestamp::now();
    for (at, read) in reads {
        let (outcome, refreshes_ttl) = match read {
            DocumentOperation::Get { namespace, key, refresh_ttl } => {
                (DocumentOutcome::Got(core.shared.document(namespace, key, now)?), *refresh_ttl)
            }
            DocumentOperation::Search { namespace, search } => {
                (DocumentOutcome::Found(core.shared.search_documents(namespace, search, now)?), search.refresh_ttl)
            }
            DocumentOperation::ListNamespaces(request) => {
                let all = core.shared.store.read()?.documents().namespaces(None, now)?;
                (DocumentOutcome::Namespaces(request.choose(&all)?), false)
            }
            DocumentOperation::Put { .. } | DocumentOperation::Delete { .. } | DocumentOperation::Expect { .. } => {
                unreachable!("the operation is no read")
            }
        };
        if refreshes_ttl && !core.shared.store.is_read_only() {
            let documents = match &outcome {
                DocumentOutcome::Got(document) => document.as_slice(),
                DocumentOutcome::Found(documents) => documents,
                _ => &[],
            };
            let expiring = documents.iter().filter(|document| document.expires_at.is_some());
            refreshes.extend(expiring.map(|document| DocumentChange {
                namespace: document.namespace.clone(),
                key: document.key.clone(),
                action: DocumentAction::Refresh,
            }));
        }
        outcomes.push((*at, outcome));
    }
    Ok((outcomes, refreshes))
}
