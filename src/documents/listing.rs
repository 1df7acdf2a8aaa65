//! Listing the namespaces that have documents.

use std::{borrow::Cow, collections::BTreeSet};

use crate::{
    error::{Error, Result, setters},
    ids::Namespace,
};

/// A label that matches any label.
const WILDCARD: &str = "*";

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
