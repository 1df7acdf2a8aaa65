//! Reads of documents: by key, and by search.

use std::{cmp::Reverse, collections::HashSet};

use super::shared::Shared;
use crate::{
    documents::{Document, DocumentSearch},
    error::Result,
    ids::Namespace,
    message::Timestamp,
    recall::{Query, Scope, TimeUse},
    store::{Snapshot, StoredDocument, document_key},
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
        Ok(match search.text() {
            Some(text) => {
                let found = self.ranked_documents(&namespaces, search, text, now)?;
                found.into_iter().skip(search.offset).collect()
            }
            None => self.newest_documents(&namespaces, search, now)?,
        })
    }

    /// The best documents of namespaces, as many as the search wants: recalls texts, and more of them until enough
    /// documents are found or there are no more texts.
    fn ranked_documents(
        &self,
        namespaces: &[Namespace],
        search: &DocumentSearch,
        text: &str,
        now: Timestamp,
    ) -> Result<Vec<Document>> {
        let companions: Vec<Namespace> = namespaces.iter().map(Namespace::document_texts).collect();
        let scope: Scope = companions.iter().collect();
        // What ranks the turns of a conversation says nothing about documents. Two documents may have the same text.
        let mut query = Query::new(text).neighbors(false).length_prior(false).time(TimeUse::Ignore).keep_duplicates();
        if let Some(filter) = &search.filter {
            query = query.filter(filter.clone());
        }
        let mut texts = (search.wanted() * 2).max(MIN_TEXTS);
        loop {
            let hits = self.recall_in_any(&scope, &query.clone().k(texts))?;
            let is_exhausted = hits.len() < texts;
            // Taken after the recall: what was deleted since is not returned.
            let snapshot = self.store.read()?;
            let (mut seen, mut found) = (HashSet::new(), Vec::new());
            for hit in &hits {
                let (companion, key) = (&hit.namespace, document_key(&hit.message.id)?);
                if found.len() == search.wanted() || !seen.insert((companion, key)) {
                    continue;
                }
                let namespace = companion.as_ref().and_then(Namespace::owner).expect("the scope has companions only");
                let document = document(&snapshot, &namespace, key, now)?;
                let document = document.filter(|document| search.allows(&document.value));
                found.extend(document.map(|document| Document { score: Some(hit.score), ..document }));
            }
            if is_exhausted || found.len() == search.wanted() {
                return Ok(found);
            }
            texts = texts.saturating_mul(WIDENING);
        }
    }

    /// The documents of namespaces that the search wants, the last put first. Those before its offset are not kept, if all are of one
    /// namespace.
    fn newest_documents(
        &self,
        namespaces: &[Namespace],
        search: &DocumentSearch,
        now: Timestamp,
    ) -> Result<Vec<Document>> {
        let snapshot = self.store.read()?;
        let mut found = Vec::new();
        // Those of several namespaces are sorted first.
        let mut unwanted = if namespaces.len() == 1 { search.offset } else { 0 };
        for namespace in namespaces {
            let Some(id) = snapshot.namespaces().id(namespace)? else { continue };
            let wanted = (search.wanted() - unwanted).saturating_add(found.len());
            snapshot.documents().visit(id, now, |key, stored| {
                if unwanted > 0 && search.filter.is_none() {
                    unwanted -= 1;
                    return Ok(true);
                }
                let document = from_stored(namespace, key, stored)?;
                if search.allows(&document.value) {
                    match unwanted.checked_sub(1) {
                        Some(less) => unwanted = less,
                        None => found.push(document),
                    }
                }
                Ok(found.len() < wanted)
            })?;
        }
        // Those of one namespace keep their order.
        if namespaces.len() > 1 {
            found.sort_by_key(|document| Reverse(document.updated_at));
            found.drain(..search.offset.min(found.len()));
        }
        found.truncate(search.limit);
        Ok(found)
    }
}

fn document(snapshot: &Snapshot, namespace: &Namespace, key: &str, now: Timestamp) -> Result<Option<Document>> {
    let Some(id) = snapshot.namespaces().id(namespace)? else { return Ok(None) };
    let stored = snapshot.documents().get(id, key, now)?;
    stored.map(|stored| from_stored(namespace, key, stored)).transpose()
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
