//! A batch of operations on documents and messages: first all reads, by key and by search, then all changes in one commit.

use std::{cmp::Reverse, collections::HashSet, sync::Arc};

use serde_json::Value;

use super::{core::Core, executor::Lane, shared::Shared, writer::Commit};
use crate::{
    documents::{Document, DocumentOperation, DocumentOutcome, DocumentSearch, PreparedDocument, check_key, prepare},
    error::{Error, Result},
    filter::is_equal,
    ids::Namespace,
    message::{Message, Timestamp},
    read_budget::{self, ReadBudget},
    recall::{MessageParts, Query, RankingStrategy, Scope, TimeUse},
    store::{BlockKey, DocumentAction, DocumentChange, DocumentText, PutResult, Snapshot, StoredDocument, Transaction},
};

/// The least number of texts that a search with a query looks for first.
const MIN_TEXTS: usize = 32;
/// The factor by which a search looks for more texts, if those found belong to too few documents.
const WIDENING: usize = 4;

/// A batch whose operations were checked.
pub(super) struct DocumentBatch {
    operations: usize,
    /// The reads, with their positions in the batch.
    reads: Vec<(usize, DocumentOperation)>,
    /// The changes, with their positions in the batch.
    changes: Vec<(usize, DocumentChange)>,
    /// The documents and messages that are expected, with their positions in the batch.
    expected: Vec<(usize, Expectation)>,
    /// The changes of messages, with their positions in the batch.
    messages: Vec<(usize, MessageChange)>,
}

enum MessageChange {
    Put(Vec<(Namespace, Message)>),
    PutInBatches(Namespace, Vec<Vec<Message>>),
    Delete(Namespace, Vec<String>),
    DeleteSession(Namespace, String),
}

enum Expectation {
    /// A document has this value.
    Document(Namespace, String, Option<Value>),
    /// There are documents with these keys.
    Documents(Namespace, Vec<String>),
    /// Messages are stored with these texts, and the block that they were handed to has not changed.
    Batch { block: BlockKey, revision: u64, restores: u32, messages: Vec<Message> },
    /// No document has a key that begins so.
    None(Namespace, String),
}

impl DocumentBatch {
    pub(super) fn new(operations: Vec<DocumentOperation>) -> Result<Self> {
        let mut batch = DocumentBatch {
            operations: operations.len(),
            reads: vec![],
            changes: vec![],
            expected: vec![],
            messages: vec![],
        };
        for (at, operation) in operations.into_iter().enumerate() {
            match operation {
                DocumentOperation::Put { namespace, key, value, options } => {
                    check_key(&key)?;
                    let PreparedDocument { value, texts, vectors, ttl } = prepare(&value, &options)?;
                    let action = DocumentAction::Put { value, texts, vectors, ttl };
                    batch.changes.push((at, DocumentChange { namespace, key, action }));
                }
                DocumentOperation::Delete { namespace, key } => {
                    let action = DocumentAction::Delete;
                    batch.changes.push((at, DocumentChange { namespace, key, action }));
                }
                DocumentOperation::Expect { namespace, key, value } => {
                    batch.expected.push((at, Expectation::Document(namespace, key, value)));
                }
                DocumentOperation::ExpectBatch { namespace, session, block, shared, revision, restores, messages } => {
                    let block = BlockKey { namespace, session, name: block, shared };
                    batch.expected.push((at, Expectation::Batch { block, revision, restores, messages }));
                }
                DocumentOperation::ExpectDocuments { namespace, keys } => {
                    batch.expected.push((at, Expectation::Documents(namespace, keys)));
                }
                DocumentOperation::ExpectNone { namespace, prefix } => {
                    batch.expected.push((at, Expectation::None(namespace, prefix)));
                }
                DocumentOperation::PutMessages { namespace, messages } => {
                    messages.iter().try_for_each(Message::check)?;
                    let messages = messages.into_iter().map(|message| (namespace.clone(), message)).collect();
                    batch.messages.push((at, MessageChange::Put(messages)));
                }
                DocumentOperation::PutInBatches { namespace, lists } => {
                    lists.iter().flatten().try_for_each(Message::check)?;
                    batch.messages.push((at, MessageChange::PutInBatches(namespace, lists)));
                }
                DocumentOperation::DeleteMessages { namespace, ids } => {
                    batch.messages.push((at, MessageChange::Delete(namespace, ids)));
                }
                DocumentOperation::DeleteSession { namespace, session } => {
                    batch.messages.push((at, MessageChange::DeleteSession(namespace, session)));
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

    /// Runs the batch. Its reads fail if they return more bytes than the budget has left.
    pub(super) async fn run(self, core: &Arc<Core>, read_budget: Option<&ReadBudget>) -> Result<Vec<DocumentOutcome>> {
        let DocumentBatch { operations, reads, changes, expected, messages } = self;
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
            let has_query = |(_, read): &(usize, DocumentOperation)| matches!(read, DocumentOperation::Search { search, .. } if search.is_ranked());
            let lane = if reads.iter().any(has_query) { Lane::Recalls } else { Lane::Store };
            let budget = read_budget.cloned();
            let (read, expiring) = core.run(lane, move |core| read_all(core, &reads, budget.as_ref())).await?;
            read.into_iter().for_each(|(at, outcome)| outcomes[at] = Some(outcome));
            refreshes = expiring;
        }
        if !(refreshes.is_empty() && changes.is_empty() && expected.is_empty() && messages.is_empty()) {
            let refreshed = refreshes.len();
            let (positions, changes): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
            let all: Vec<DocumentChange> = refreshes.into_iter().chain(changes).collect();
            let is_put: Vec<bool> =
                all[refreshed..].iter().map(|change| matches!(change.action, DocumentAction::Put { .. })).collect();
            expected.iter().for_each(|(at, _)| outcomes[*at] = Some(DocumentOutcome::Expected));
            let mut emptied = Vec::new();
            for (_, change) in &messages {
                if let MessageChange::Delete(namespace, _) | MessageChange::DeleteSession(namespace, _) = change {
                    emptied.extend(core.known_namespace(namespace).await?);
                }
            }
            let apply = move |transaction: &Transaction| {
                expected.iter().try_for_each(|(_, expected)| expected.check(transaction))?;
                let existed = transaction.edit_documents().apply(&all)?;
                let changed = messages.iter().map(|(at, change)| Ok((*at, change.apply(transaction)?)));
                Ok((existed, changed.collect::<Result<Vec<_>>>()?))
            };
            let (existed, changed) = core.writer.commit(Commit::Grouped, apply).await?;
            for ((at, is_put), existed) in positions.into_iter().zip(is_put).zip(existed.into_iter().skip(refreshed)) {
                outcomes[at] = Some(if is_put { DocumentOutcome::Put } else { DocumentOutcome::Deleted(existed) });
            }
            changed.into_iter().for_each(|(at, outcome)| outcomes[at] = Some(outcome));
            core.unload_if_empty(&emptied);
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.expect("each operation is a read or a change")).collect())
    }
}

impl Expectation {
    /// # Errors
    /// [`Error::DocumentChanged`], [`Error::MessagesChanged`].
    fn check(&self, transaction: &Transaction) -> Result<()> {
        let find = |namespace: &Namespace, key: &str| {
            let id = transaction.namespaces().id(namespace)?;
            id.map_or(Ok(None), |id| transaction.documents().get(id, key, Timestamp::now()))
        };
        let changed = |namespace: &Namespace, key: &String| Error::DocumentChanged {
            namespace: namespace.to_string(),
            key: key.clone(),
        };
        match self {
            Expectation::Document(namespace, key, expected) => {
                let value = find(namespace, key)?.map(|found| found.parse(key)).transpose()?;
                // A client in JavaScript reads 5.0 and sends 5.
                let is_expected = match (&value, expected) {
                    (Some(value), Some(expected)) => is_equal(value, expected),
                    (value, expected) => value.is_none() && expected.is_none(),
                };
                is_expected.then_some(()).ok_or_else(|| changed(namespace, key))
            }
            Expectation::Documents(namespace, keys) => {
                keys.iter().try_for_each(|key| find(namespace, key)?.map(drop).ok_or_else(|| changed(namespace, key)))
            }
            Expectation::Batch { block, revision, restores, messages } => {
                let now = transaction.blocks().get(block)?;
                let is_unchanged = now.revision == *revision && now.restores == *restores && !now.is_dropped;
                let are_stored = match now.namespace.filter(|_| is_unchanged) {
                    Some(namespace) => transaction.messages().are_stored(namespace, messages)?,
                    None => false,
                };
                let changed = || Error::MessagesChanged { namespace: block.namespace.to_string() };
                are_stored.then_some(()).ok_or_else(changed)
            }
            Expectation::None(namespace, prefix) => {
                let id = transaction.namespaces().id(namespace)?;
                let found =
                    id.map_or(Ok(None), |id| transaction.documents().first_key(id, prefix, Timestamp::now()))?;
                found.map_or(Ok(()), |key| Err(changed(namespace, &key)))
            }
        }
    }
}

impl MessageChange {
    fn apply(&self, transaction: &Transaction) -> Result<DocumentOutcome> {
        match self {
            MessageChange::Put(messages) => transaction.edit_messages().put(messages).map(put_outcome),
            MessageChange::PutInBatches(namespace, lists) => {
                transaction.edit_messages().put_in_batches(namespace, lists).map(put_outcome)
            }
            MessageChange::Delete(namespace, ids) => {
                transaction.edit_messages().delete(namespace, ids).map(DocumentOutcome::MessagesDeleted)
            }
            MessageChange::DeleteSession(namespace, session) => {
                let messages = transaction.edit_sessions().delete(namespace, session)?;
                Ok(DocumentOutcome::SessionDeleted(messages.is_some()))
            }
        }
    }
}

fn put_outcome(PutResult { new, replaced, unchanged, .. }: PutResult) -> DocumentOutcome {
    DocumentOutcome::MessagesPut { new, replaced, unchanged }
}

type Read = (Vec<(usize, DocumentOutcome)>, Vec<DocumentChange>);

/// Runs reads. Returns their outcomes with their positions, and the refreshes that they ask for. All but searches that rank see one
/// moment, so that they show all of another batch or nothing.
fn read_all(core: &Core, reads: &[(usize, DocumentOperation)], budget: Option<&ReadBudget>) -> Result<Read> {
    let (mut outcomes, mut refreshes) = (Vec::new(), Vec::new());
    let (now, snapshot) = (Timestamp::now(), core.shared.store.read()?);
    let reader = DocumentReader { snapshot: &snapshot, now, budget };
    for (at, read) in reads {
        let (outcome, refreshes_ttl) = match read {
            DocumentOperation::Get { namespace, key, refresh_ttl } => {
                (DocumentOutcome::Got(reader.get(namespace, key)?), *refresh_ttl)
            }
            DocumentOperation::Search { namespace, search } => {
                let found = core.shared.search_documents(&reader, namespace, search)?;
                (DocumentOutcome::Found(found), search.refresh_ttl)
            }
            DocumentOperation::ListNamespaces(request) => {
                let all = snapshot.documents().namespaces(None, now)?;
                (DocumentOutcome::Namespaces(request.choose(&all)?), false)
            }
            _ => unreachable!("the operation is no read"),
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

impl Shared {
    /// Returns the documents that a search finds. One that ranks sees later changes, too.
    fn search_documents(
        &self,
        reader: &DocumentReader,
        namespace: &Namespace,
        search: &DocumentSearch,
    ) -> Result<Vec<Document>> {
        if search.limit == 0 {
            return Ok(Vec::new());
        }
        let namespaces = match search.below {
            true => reader.snapshot.documents().namespaces(Some(namespace), reader.now)?,
            false => vec![namespace.clone()],
        };
        if !search.is_ranked() {
            return reader.newest(&namespaces, search);
        }
        self.ranked_documents(&namespaces, search, reader)
    }

    /// The best documents of namespaces, as many as the search wants: recalls texts, and more of them until enough
    /// documents are found or there are no more texts.
    fn ranked_documents(
        &self,
        namespaces: &[Namespace],
        search: &DocumentSearch,
        DocumentReader { now, budget, .. }: &DocumentReader,
    ) -> Result<Vec<Document>> {
        let scope: Scope = DocumentText::namespaces(namespaces).iter().collect();
        // What ranks the turns of a conversation says nothing about documents. Two documents may have the same text.
        let text = search.text().unwrap_or_default();
        let query = Query::new(text).neighbors(false).length_prior(false).time(TimeUse::Ignore).keep_duplicates();
        let parts = MessageParts::WithoutContent;
        let query = Query { defers_filter: true, parts, vector: search.vector.clone(), ..query };
        let query = if text.is_empty() { query.strategy(RankingStrategy::Dense) } else { query };
        let query = search.filter.iter().cloned().fold(query, Query::filter);
        let mut texts = (search.wanted() * 2).max(MIN_TEXTS);
        loop {
            let hits = self.recall_in_any(&scope, &query.clone().k(texts))?;
            let is_exhausted = hits.len() < texts;
            // Taken after the recall: what was deleted since is not returned.
            let (snapshot, part) = (self.store.read()?, budget.map(ReadBudget::part));
            let reader = DocumentReader { snapshot: &snapshot, now: *now, budget: part.as_ref() };
            let (mut seen, mut found, mut left_out) = (HashSet::new(), Vec::new(), 0);
            for hit in &hits {
                let origin = hit.namespace.as_ref().expect("a recall over several namespaces names them");
                let text = DocumentText::new(origin, &hit.message.id)?;
                if found.len() == search.limit || !seen.insert(text) {
                    continue;
                }
                // By its vector alone, a text without one is not found.
                if query.text.is_empty() && hit.score == 0.0 && !has_vector(&snapshot, origin, &hit.message.id)? {
                    continue;
                }
                let Some((stored, document)) = reader.allowed(&text.namespace(), text.key, search)? else { continue };
                if left_out < search.offset {
                    left_out += 1;
                    continue;
                }
                read_budget::take(reader.budget, stored)?;
                found.push(Document { score: Some(hit.score), ..document });
            }
            if is_exhausted || found.len() == search.limit {
                part.iter().for_each(ReadBudget::keep);
                return Ok(found);
            }
            texts = texts.saturating_mul(WIDENING);
        }
    }
}

/// Reads documents of one moment.
struct DocumentReader<'a> {
    snapshot: &'a Snapshot,
    now: Timestamp,
    /// The bytes that the documents which are returned may take.
    budget: Option<&'a ReadBudget>,
}

impl DocumentReader<'_> {
    fn get(&self, namespace: &Namespace, key: &str) -> Result<Option<Document>> {
        let Some(stored) = self.stored(namespace, key)? else { return Ok(None) };
        read_budget::take(self.budget, stored.bytes())?;
        from_stored(namespace, key, stored).map(Some)
    }

    /// Returns a document that the filter of a search allows, with its bytes, which are not taken yet.
    fn allowed(&self, namespace: &Namespace, key: &str, search: &DocumentSearch) -> Result<Option<(usize, Document)>> {
        let Some(stored) = self.stored(namespace, key)? else { return Ok(None) };
        let bytes = stored.bytes();
        let document = from_stored(namespace, key, stored)?;
        Ok(search.allows(&document.value).then_some((bytes, document)))
    }

    fn stored(&self, namespace: &Namespace, key: &str) -> Result<Option<StoredDocument>> {
        let Some(id) = self.snapshot.namespaces().id(namespace)? else { return Ok(None) };
        self.snapshot.documents().get(id, key, self.now)
    }

    /// Returns the documents of namespaces that the search wants, the last put first. Those of several namespaces are sorted by their
    /// times before their values are read, and of one namespace those before the offset are not kept.
    fn newest(&self, namespaces: &[Namespace], search: &DocumentSearch) -> Result<Vec<Document>> {
        let mut unwanted = if namespaces.len() == 1 { search.offset } else { 0 };
        let mut found = Vec::new();
        for namespace in namespaces {
            let Some(id) = self.snapshot.namespaces().id(namespace)? else { continue };
            let wanted = (search.wanted() - unwanted).saturating_add(found.len());
            self.snapshot.documents().visit(id, self.now, |key, stored| {
                let updated_at = stored.updated_at;
                if search.filter.is_none() || search.allows(&stored.parse(key)?) {
                    match unwanted.checked_sub(1) {
                        Some(less) => unwanted = less,
                        None => found.push((updated_at, namespace, key.to_owned())),
                    }
                }
                Ok(found.len() < wanted)
            })?;
        }
        // Those of one namespace keep their order.
        if namespaces.len() > 1 {
            found.sort_by_key(|(updated_at, ..)| Reverse(*updated_at));
            found.drain(..search.offset.min(found.len()));
        }
        found.truncate(search.limit);
        let read = found.into_iter().filter_map(|(_, namespace, key)| self.get(namespace, &key).transpose());
        read.collect()
    }
}

/// Returns whether a message has a vector that is not zero.
fn has_vector(snapshot: &Snapshot, namespace: &Namespace, id: &str) -> Result<bool> {
    let Some(generation) = snapshot.generations().serving()? else { return Ok(false) };
    let Some(namespace) = snapshot.namespaces().id(namespace)? else { return Ok(false) };
    let Some(seq) = snapshot.messages().seq(namespace, id)? else { return Ok(false) };
    let vectors = snapshot.vectors().of_seqs(&generation, namespace, &[seq])?;
    Ok(vectors.iter().flatten().flatten().any(|&component| component != 0.0))
}

fn from_stored(namespace: &Namespace, key: &str, stored: StoredDocument) -> Result<Document> {
    Ok(Document {
        namespace: namespace.clone(),
        key: key.to_owned(),
        value: stored.parse(key)?,
        created_at: stored.created_at,
        updated_at: stored.updated_at,
        expires_at: stored.expires_at,
        score: None,
    })
}
