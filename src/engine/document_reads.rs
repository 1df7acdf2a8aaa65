//! Reads of documents: by key, and by search.

use std::{cmp::Reverse, collections::HashSet};

use super::shared::Shared;
use crate::{
    documents::{Document, DocumentSearch},
    error::{Error, Result},
    ids::Namespace,
    message::Timestamp,
    recall::{Query, TimeUse},
    store::{Snapshot, StoredDocument},
};

/// The least number of texts that a search with a query looks for first.
const MIN_TEXTS: usize = 32;
/// The factor by which a search looks for more texts, if those found belong to too few documents.
const WIDENING: usize = 4;

impl Shared {
    /// Returns the document with this key, unless it has expired.
    pub(super) fn document(&self, namespace: &Namespace, key: &str, now: Timestamp) -> Result<Option<Document>> {
        document(&self.store.read()?, namespace, key, now)
    }

    /// Returns the documents that a search finds.
    pub(super) fn search_documents(
        &self,
        namespace: &Namespace,
        search: &DocumentSearch,
        now: Timestamp,
    ) -> Result<Vec<Document>> {
        if search.limit == 0 {
            return Ok(Vec::new());
        }
        let namespaces = match search.below {
            true => self.store.read()?.documents().namespaces(Some(namespace), now)?,
            false => vec![namespace.clone()],
        };
        let mut found = Vec::new();
        for namespace in &namespaces {
            found.extend(match search.text() {
                Some(text) => self.ranked_documents(namespace, search, text, now)?,
                None => self.newest_documents(namespace, search, now)?,
            });
        }
        // Those of one namespace keep their order.
        if namespaces.len() > 1 && search.text().is_some() {
            found.sort_by(|a, b| b.score.unwrap_or_default().total_cmp(&a.score.unwrap_or_default()));
        } else if namespaces.len() > 1 {
            found.sort_by_key(|document| Reverse(document.updated_at));
        }
        Ok(found.into_iter().skip(search.offset).take(search.limit).collect())
    }

    /// The best documents of a namespace, as many as the search wants: recalls texts, and more of them until enough
    /// documents are found or there are no more texts.
    fn ranked_documents(
        &self,
        namespace: &Namespace,
        search: &DocumentSearch,
        text: &str,
        now: Timestamp,
    ) -> Result<Vec<Document>> {
        let companion = namespace.document_texts();
        // What ranks the turns of a conversation says nothing about documents. Two documents may have the same text.
        let query = Query::new(text).neighbors(false).length_prior(false).time(TimeUse::Ignore).keep_duplicates();
        let mut texts = (search.wanted() * 2).max(MIN_TEXTS);
        loop {
            let hits = self.recall_any(&companion, &query.clone().k(texts))?;
            let is_exhausted = hits.len() < texts;
            // Taken after the recall: what was deleted since is not returned.
            let snapshot = self.store.read()?;
            let (mut seen, mut found) = (HashSet::new(), Vec::new());
            for hit in &hits {
                // The session of a text is the key of its document.
                let key = &hit.message.session;
                if found.len() == search.wanted() || !seen.insert(key) {
                    continue;
                }
                let document = document(&snapshot, namespace, key, now)?;
                let document = document.filter(|document| search.allows(&document.value));
                found.extend(document.map(|document| Document { score: Some(hit.score), ..document }));
            }
            if is_exhausted || found.len() == search.wanted() {
                return Ok(found);
            }
            texts = texts.saturating_mul(WIDENING);
        }
    }

    /// The first documents of a namespace, the last put first, as many as the search wants.
    fn newest_documents(
        &self,
        namespace: &Namespace,
        search: &DocumentSearch,
        now: Timestamp,
    ) -> Result<Vec<Document>> {
        let snapshot = self.store.read()?;
        let Some(id) = snapshot.namespaces().id(namespace)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        snapshot.documents().visit(id, now, |key, stored| {
            let document = from_stored(namespace, key, stored)?;
            if search.allows(&document.value) {
                found.push(document);
            }
            Ok(found.len() < search.wanted())
        })?;
        Ok(found)
    }
}

fn document(snapshot: &Snapshot, namespace: &Namespace, key: &str, now: Timestamp) -> Result<Option<Document>> {
    let Some(id) = snapshot.namespaces().id(namespace)? else { return Ok(None) };
    let stored = snapshot.documents().get(id, key, now)?;
    stored.map(|stored| from_stored(namespace, key, stored)).transpose()
}

fn from_stored(namespace: &Namespace, key: &str, stored: StoredDocument) -> Result<Document> {
    let value = serde_json::from_str(&stored.value)
        .map_err(|error| Error::corrupted(format!("document {key:?} holds bad JSON: {error}")))?;
    Ok(Document {
        namespace: namespace.clone(),
        key: key.to_owned(),
        value,
        created_at: stored.created_at,
        updated_at: stored.updated_at,
        expires_at: stored.expires_at,
        score: None,
    })
}
