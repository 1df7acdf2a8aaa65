//! Operations on documents, with their options, and their outcomes.

use std::{borrow::Cow, collections::BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::{
    error::{Error, Result, setters},
    filter::MetadataFilter,
    ids::Namespace,
    message::{Message, Timestamp},
    recall::{MAX_K, check_query_text},
};

/// A label that matches any label.
const WILDCARD: &str = "*";

/// A JSON value that is stored under a key of a namespace.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Document {
    /// The namespace.
    pub namespace: Namespace,
    /// The key, unique in the namespace.
    pub key: String,
    /// The value as it was put.
    pub value: Value,
    /// The time at which the key was first put. A document that is put after it was deleted or had expired is new.
    pub created_at: Timestamp,
    /// The time at which the key was last put.
    pub updated_at: Timestamp,
    /// The time at which the document expires, if it has a time to live, as of before this read.
    pub expires_at: Option<Timestamp>,
    /// The score of the best indexed text for the query of a search; higher is better. It compares documents of one
    /// search. `None` if there was no query.
    pub score: Option<f32>,
}

/// An operation of [`Engine::document_batch`](crate::Engine::document_batch): on documents, and on messages that change
/// together with them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DocumentOperation {
    /// Reads a document.
    Get {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
        /// Lets the document's time to live begin again.
        refresh_ttl: bool,
    },
    /// Searches among the documents of a namespace.
    Search {
        /// The namespace.
        namespace: Namespace,
        /// The search.
        search: DocumentSearch,
    },
    /// Puts a document, or replaces it.
    Put {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
        /// The value.
        value: Value,
        /// The texts to index, and the time to live.
        options: DocumentOptions,
    },
    /// Deletes a document.
    Delete {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
    },
    /// Lists the namespaces that have documents.
    ListNamespaces(DocumentNamespaces),
    /// Lets the batch fail, with [`Error::DocumentChanged`](crate::Error::DocumentChanged), unless a document has this
    /// value when the batch is committed. So a value that was computed from one that was read replaces no other.
    Expect {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: String,
        /// The value, of which numbers are compared as numbers: 5 is 5.0. `None`: there is no document with this key.
        value: Option<Value>,
    },
    /// Lets the batch fail, with [`Error::MessagesChanged`](crate::Error::MessagesChanged), unless messages of a session are
    /// stored with these texts when the batch is committed, and the block that they were handed to is as it was. So nothing is
    /// made of a message that was deleted meanwhile.
    #[doc(hidden)]
    ExpectBatch {
        namespace: Namespace,
        session: String,
        block: String,
        shared: bool,
        revision: u64,
        restores: u32,
        messages: Vec<Message>,
    },
    /// Lets the batch fail, with [`Error::DocumentChanged`](crate::Error::DocumentChanged), unless there are documents with
    /// these keys when the batch is committed, whatever their values.
    #[doc(hidden)]
    ExpectDocuments { namespace: Namespace, keys: Vec<String> },
    /// Lets the batch fail in the same way if a document's key begins with `prefix` when the batch is committed.
    #[doc(hidden)]
    ExpectNone { namespace: Namespace, prefix: String },
    /// Puts messages, as [`Engine::put`](crate::Engine::put) does.
    PutMessages {
        /// The namespace.
        namespace: Namespace,
        /// The messages.
        messages: Vec<Message>,
    },
    /// Same as `PutMessages`, and memory blocks take the new messages, as with `Engine::put_in_batches`.
    #[doc(hidden)]
    PutInBatches { namespace: Namespace, lists: Vec<Vec<Message>> },
    /// Deletes messages, as [`Engine::delete`](crate::Engine::delete) does.
    DeleteMessages {
        /// The namespace.
        namespace: Namespace,
        /// Their ids. Unknown ones are ignored.
        ids: Vec<String>,
    },
    /// Deletes a session, if there is one, as [`Engine::delete_session`](crate::Engine::delete_session) does.
    DeleteSession {
        /// The namespace.
        namespace: Namespace,
        /// The session.
        session: String,
    },
}

impl DocumentOperation {
    /// The namespace that it reads or changes; `None` for a listing of namespaces.
    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        match self {
            DocumentOperation::Get { namespace, .. }
            | DocumentOperation::Search { namespace, .. }
            | DocumentOperation::Put { namespace, .. }
            | DocumentOperation::Delete { namespace, .. }
            | DocumentOperation::Expect { namespace, .. }
            | DocumentOperation::ExpectBatch { namespace, .. }
            | DocumentOperation::ExpectDocuments { namespace, .. }
            | DocumentOperation::ExpectNone { namespace, .. }
            | DocumentOperation::PutMessages { namespace, .. }
            | DocumentOperation::PutInBatches { namespace, .. }
            | DocumentOperation::DeleteMessages { namespace, .. }
            | DocumentOperation::DeleteSession { namespace, .. } => Some(namespace),
            DocumentOperation::ListNamespaces(_) => None,
        }
    }
}

/// The outcome of a [`DocumentOperation`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DocumentOutcome {
    /// The document of a get, if there is one.
    Got(Option<Document>),
    /// The documents that a search found.
    Found(Vec<Document>),
    /// A document was put.
    Put,
    /// A document was deleted; false if there was none.
    Deleted(bool),
    /// The namespaces of a listing.
    Namespaces(Vec<Namespace>),
    /// A document has the expected value.
    Expected,
    /// Messages were put.
    MessagesPut {
        /// The number of messages with new ids.
        new: u64,
        /// The number of messages that replaced a different message with the same id.
        replaced: u64,
        /// The number of messages that were stored already with the same content.
        unchanged: u64,
    },
    /// So many messages were deleted.
    MessagesDeleted(u64),
    /// A session was deleted; false if there was none.
    SessionDeleted(bool),
}

/// The options of [`Documents::put`](crate::Documents::put): the texts to index, and the time to live.
///
/// ```
/// let options = mnemon::DocumentOptions::default().index(["title", "sections[*].text"]).ttl_minutes(30.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DocumentOptions {
    /// The paths to the texts to index, up to 32. Default: `$`, the whole value as JSON.
    ///
    /// A path is `$`, or field names joined by `.`, each followed by any number of `[0]` (an item of an array), `[-1]`
    /// (the last) or `[*]` (each, as a text of its own). `*` in the place of a name is each field or item; `{a,b.c}` at
    /// the end is several fields. A path that leads nowhere gives no text; numbers and booleans are written as JSON,
    /// and so are objects and arrays.
    pub index: Vec<String>,
    /// The vectors of the texts, one for each text that the paths lead to, in their order; those that are blank have none.
    /// They are scaled to length 1. Only in a database of [`GivenVectors`](crate::models::GivenVectors); empty: there the
    /// texts are found by their words alone. Default: empty.
    pub vectors: Vec<Vec<f32>>,
    /// The time to live in minutes: the document expires so long after this put, or after the last read that refreshed
    /// it. From one millisecond to a thousand years. `None`: it never expires. Default: `None`.
    pub ttl_minutes: Option<f64>,
}

impl Default for DocumentOptions {
    fn default() -> Self {
        DocumentOptions { index: vec!["$".to_owned()], vectors: Vec::new(), ttl_minutes: None }
    }
}

impl DocumentOptions {
    /// Sets [`index`](field@DocumentOptions::index).
    pub fn index<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.index = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`vectors`](field@DocumentOptions::vectors).
    pub fn vectors<V: Into<Vec<f32>>>(mut self, vectors: impl IntoIterator<Item = V>) -> Self {
        self.vectors = vectors.into_iter().map(Into::into).collect();
        self
    }

    /// Indexes nothing: a search with a query does not find the document.
    pub fn not_indexed(mut self) -> Self {
        self.index.clear();
        self
    }

    /// Sets [`ttl_minutes`](field@DocumentOptions::ttl_minutes).
    pub fn ttl_minutes(mut self, minutes: f64) -> Self {
        self.ttl_minutes = Some(minutes);
        self
    }
}

/// A search among the documents of a namespace, by a query or without one.
///
/// ```
/// let search = mnemon::DocumentSearch::default().query("what does she like to drink?").limit(3);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DocumentSearch {
    /// Finds the documents whose indexed texts answer this best, best first, by meaning and by words. Documents without
    /// indexed text are not found. `None` or empty: finds all documents, the last put first. At most
    /// [`MAX_QUERY_BYTES`](crate::MAX_QUERY_BYTES).
    pub query: Option<String>,
    /// The vector of the query, which is then not embedded, of the dimension of the database. Without a query, documents are
    /// ranked by their cosines alone, which are their scores; documents whose texts are pending are not found.
    /// In a database of [`GivenVectors`](crate::models::GivenVectors) a query without one finds documents by words. Default:
    /// `None`.
    pub vector: Option<Vec<f32>>,
    /// Finds only documents whose values this filter matches. Default: all.
    ///
    /// With a query, the first filter with a path reads its values in all indexed documents of the namespace. Later
    /// ones are evaluated in memory, as [`Query::filter`](crate::Query::filter) is.
    pub filter: Option<MetadataFilter>,
    /// Searches the namespaces below this one too, as LangGraph does: `acme` stands for `acme`, `acme/user-42` and all
    /// others that begin with the label `acme`. With a query the documents are ranked as if all were in one namespace;
    /// the cost grows with the namespaces. Default: false.
    pub below: bool,
    /// The greatest number of documents to return. Default: 10.
    pub limit: usize,
    /// The number of documents to leave out at the beginning. Default: 0.
    pub offset: usize,
    /// Lets the time to live of the returned documents begin again. Default: false.
    pub refresh_ttl: bool,
}

impl Default for DocumentSearch {
    fn default() -> Self {
        DocumentSearch {
            query: None,
            vector: None,
            filter: None,
            below: false,
            limit: 10,
            offset: 0,
            refresh_ttl: false,
        }
    }
}

setters!(DocumentSearch { below: bool, limit: usize, offset: usize, refresh_ttl: bool });

impl DocumentSearch {
    /// Sets [`query`](field@DocumentSearch::query).
    pub fn query(mut self, query: impl Into<String>) -> Self {
        self.query = Some(query.into());
        self
    }

    /// Sets [`vector`](field@DocumentSearch::vector).
    pub fn vector(mut self, vector: impl Into<Vec<f32>>) -> Self {
        self.vector = Some(vector.into());
        self
    }

    /// Sets [`filter`](field@DocumentSearch::filter).
    pub fn filter(mut self, filter: MetadataFilter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// The query, unless it is blank.
    pub(crate) fn text(&self) -> Option<&str> {
        self.query.as_deref().filter(|query| !query.trim().is_empty())
    }

    /// Returns true if documents are ranked by how well they answer a query.
    pub(crate) fn is_ranked(&self) -> bool {
        self.text().is_some() || self.vector.is_some()
    }

    /// The number of documents to find.
    pub(crate) fn wanted(&self) -> usize {
        self.offset.saturating_add(self.limit)
    }

    /// Returns true if the filter, if there is one, matches this value.
    pub(crate) fn allows(&self, value: &Value) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(value))
    }

    pub(crate) fn check(&self) -> Result<()> {
        if let Some(path) = self.filter.as_ref().and_then(MetadataFilter::message_path) {
            let reason = "is a field of messages, and documents have none; for a field of this name write";
            return Err(Error::filter(format!("{path} {reason} [\"{path}\"]")));
        }
        check_query_text(self.text().unwrap_or_default())?;
        if self.is_ranked() && self.wanted() > MAX_K {
            return Err(Error::query(format!(
                "limit and offset together are {}, the maximum with a query is {MAX_K}",
                self.wanted()
            )));
        }
        Ok(())
    }
}

/// A request for the namespaces that have documents.
///
/// ```
/// let request = mnemon::DocumentNamespaces::default().prefix(["users", "*"]).max_depth(2);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DocumentNamespaces {
    /// The labels that a namespace begins with. `*` matches any label. Default: none.
    pub prefix: Vec<String>,
    /// The labels that a namespace ends with. `*` matches any label. Default: none.
    pub suffix: Vec<String>,
    /// Shortens longer namespaces to this many labels, at least 1. Those that are equal then are returned once.
    /// Default: `None`.
    pub max_depth: Option<usize>,
    /// The greatest number of namespaces to return. Default: 100.
    pub limit: usize,
    /// The number of namespaces to leave out at the beginning. Default: 0.
    pub offset: usize,
}

impl Default for DocumentNamespaces {
    fn default() -> Self {
        DocumentNamespaces { prefix: Vec::new(), suffix: Vec::new(), max_depth: None, limit: 100, offset: 0 }
    }
}

setters!(DocumentNamespaces { limit: usize, offset: usize });

impl DocumentNamespaces {
    /// Sets [`prefix`](field@DocumentNamespaces::prefix).
    pub fn prefix<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.prefix = labels.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`suffix`](field@DocumentNamespaces::suffix).
    pub fn suffix<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.suffix = labels.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`max_depth`](field@DocumentNamespaces::max_depth).
    pub fn max_depth(mut self, labels: usize) -> Self {
        self.max_depth = Some(labels);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.prefix.iter().chain(&self.suffix).any(String::is_empty) {
            return Err(Error::query("a label of a prefix or suffix is empty; write \"*\" for any label"));
        }
        if self.max_depth == Some(0) {
            return Err(Error::query("max_depth is 0: no namespace has no label; give at least 1"));
        }
        Ok(())
    }

    /// Chooses from all namespaces that have documents, and sorts the chosen ones label by label.
    pub(crate) fn choose(&self, all: &[Namespace]) -> Result<Vec<Namespace>> {
        let labels = all.iter().map(|namespace| namespace.labels().collect::<Vec<_>>());
        let matching = labels.filter(|labels| {
            begins_with(labels.iter(), self.prefix.iter()) && begins_with(labels.iter().rev(), self.suffix.iter().rev())
        });
        let shortened: BTreeSet<Vec<Cow<'_, str>>> = matching
            .map(|mut labels| {
                labels.truncate(self.max_depth.unwrap_or(usize::MAX));
                labels
            })
            .collect();
        let page = shortened.into_iter().skip(self.offset).take(self.limit);
        page.map(Namespace::from_labels).collect()
    }
}

fn begins_with<'a>(
    mut labels: impl Iterator<Item = &'a Cow<'a, str>>,
    mut pattern: impl Iterator<Item = &'a String>,
) -> bool {
    pattern.all(|wanted| labels.next().is_some_and(|label| wanted == WILDCARD || wanted == label))
}
