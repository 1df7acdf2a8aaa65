//! A search among the documents of a namespace.

use serde_json::Value;

use crate::{
    error::{Error, Result, setters},
    filter::MetadataFilter,
    recall::{MAX_K, check_query_text},
};

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
        DocumentSearch { query: None, filter: None, below: false, limit: 10, offset: 0, refresh_ttl: false }
    }
}

setters!(DocumentSearch { below: bool, limit: usize, offset: usize, refresh_ttl: bool });

impl DocumentSearch {
    /// Sets [`query`](field@DocumentSearch::query).
    pub fn query(mut self, query: impl Into<String>) -> Self {
        self.query = Some(query.into());
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
        if self.text().is_some() && self.wanted() > MAX_K {
            return Err(Error::query(format!(
                "limit and offset together are {}, the maximum with a query is {MAX_K}",
                self.wanted()
            )));
        }
        Ok(())
    }
}
