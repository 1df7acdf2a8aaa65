//! The namespaces of a database in the order of their names: pages of a list, totals, and what a prefix still has.

use std::{
    fmt,
    ops::{Bound, ControlFlow},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use super::{
    audit::Holds,
    blocks::Blocks,
    codec,
    edit_sessions::EditSessions,
    namespaces::{self, Namespaces, documents_of},
    removal,
    schema::*,
    tables::{ReadableTable, Tables, WriteTransaction, count},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    lexical::{ChosenLanguage, Language, LanguageOrigin},
    message::ttl_minutes,
};

/// The namespaces, and the messages and documents, that one commit of a deletion has, and one namespace more.
const COMMIT_NAMESPACES: usize = 1000;
const COMMIT_MESSAGES: u64 = 10_000;

/// A namespace that has messages or documents, and its size.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NamespaceInfo {
    /// The name.
    pub namespace: Namespace,
    /// Number of messages, including those in short-term buffers, and those that have expired and are not deleted yet.
    pub messages: u64,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of documents, including those that have expired and are not deleted yet.
    pub documents: u64,
    /// The language in which its texts are analysed.
    pub language: Language,
    /// Where the language is from.
    pub language_origin: LanguageOrigin,
    /// The [time to live](crate::Engine::set_ttl) of its messages in minutes, if it has one.
    pub ttl_minutes: Option<f64>,
}

/// A part of the list of a database's namespaces.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NamespacePage {
    /// The namespaces, in the order of their text's bytes.
    pub namespaces: Vec<NamespaceInfo>,
    /// The position after the last of them; `None` if no namespace follows.
    pub next: Option<NamespaceCursor>,
}

/// Counts of all namespaces under a prefix, or of a whole database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NamespaceTotals {
    /// Number of namespaces that have messages or documents.
    pub namespaces: u64,
    /// Number of their messages.
    pub messages: u64,
    /// Number of their documents, including those that have expired and are not deleted yet.
    pub documents: u64,
}

/// A position in the list of a database's namespaces. Its text parses to the same cursor. It is of use for the database
/// that returned it, also after later changes: no namespace is skipped or listed twice because of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NamespaceCursor {
    /// The number of the namespace in its database, to recognise a cursor of another database.
    number: u32,
    namespace: Namespace,
}

impl NamespaceTotals {
    /// Adds a namespace with these numbers of messages and documents.
    fn add(&mut self, messages: u64, documents: u64) {
        self.namespaces += u64::from(messages > 0 || documents > 0);
        self.messages += messages;
        self.documents += documents;
    }
}

impl fmt::Display for NamespaceCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.namespace)
    }
}

impl FromStr for NamespaceCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once(':').and_then(|(number, namespace)| {
            let namespace = Namespace::new(namespace).ok()?;
            Some(NamespaceCursor { number: number.parse().ok()?, namespace })
        });
        let reason = "it is not a number and a namespace, joined by ':'";
        // A number has one text only.
        let cursor = parts.filter(|cursor| cursor.to_string() == text);
        cursor.ok_or_else(|| Error::InvalidCursor { given: text.to_owned(), reason })
    }
}

impl TryFrom<String> for NamespaceCursor {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<NamespaceCursor> for String {
    fn from(cursor: NamespaceCursor) -> String {
        cursor.to_string()
    }
}

impl<T: Tables> Namespaces<'_, T> {
    /// The next `limit` namespaces that have messages or documents, of those under a prefix or of all.
    ///
    /// # Errors
    /// [`Error::InvalidCursor`]: another database returned the cursor. [`Error::InvalidQuery`]: the limit is 0.
    pub(crate) fn page(
        &self,
        prefix: Option<&Namespace>,
        after: Option<&NamespaceCursor>,
        limit: usize,
    ) -> Result<NamespacePage> {
        if limit == 0 {
            return Err(Error::query("a page of 0 namespaces has no end; ask for 1 or more"));
        }
        if let Some(cursor) = after
            && self.record(&cursor.namespace)?.is_none_or(|record| record.id != cursor.number)
            && !self.was_removed(cursor.number)?
        {
            return Err(Error::InvalidCursor { given: cursor.to_string(), reason: "another database returned it" });
        }
        let (sessions, documents) = (self.0.table(SESSIONS)?, self.0.table(DOCUMENT_NAMESPACES)?);
        let mut page = NamespacePage { namespaces: Vec::new(), next: None };
        let mut last = None;
        self.walk(prefix, after.map(|cursor| &cursor.namespace), |namespace, record| {
            let documents = documents_of(&documents, &namespace)?;
            if record.messages == 0 && documents == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            if page.namespaces.len() == limit {
                page.next = last.take();
                return Ok(ControlFlow::Break(()));
            }
            if page.namespaces.len() + 1 == limit {
                last = Some(NamespaceCursor { number: record.id, namespace: namespace.clone() });
            }
            let sessions = count(&sessions, (record.id, "")..(record.id + 1, ""))?;
            let ChosenLanguage { language, origin } = self.language(NamespaceId(record.id))?;
            page.namespaces.push(NamespaceInfo {
                namespace,
                messages: record.messages,
                sessions,
                documents,
                language,
                language_origin: origin,
                ttl_minutes: self.time_to_live(NamespaceId(record.id))?.map(ttl_minutes),
            });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(page)
    }

    /// Returns true if a namespace had this number and was removed. Cost: a pass over all namespaces.
    fn was_removed(&self, number: u32) -> Result<bool> {
        let mut was_removed = number < namespaces::next(&self.0.table(META)?)?.id;
        self.walk(None, None, |_, record| {
            was_removed &= record.id != number;
            Ok(if was_removed { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(was_removed)
    }

    /// The totals under a prefix, or of all namespaces. Cost: a pass over their records.
    pub(crate) fn totals(&self, prefix: Option<&Namespace>) -> Result<NamespaceTotals> {
        let documents = self.0.table(DOCUMENT_NAMESPACES)?;
        let mut totals = NamespaceTotals::default();
        self.walk(prefix, None, |namespace, record| {
            totals.add(record.messages, documents_of(&documents, &namespace)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(totals)
    }

    /// The namespaces under a prefix that have messages.
    pub(crate) fn under(&self, prefix: &Namespace) -> Result<Vec<(Namespace, NamespaceId)>> {
        let mut found = Vec::new();
        self.walk(Some(prefix), None, |namespace, record| {
            if record.messages > 0 {
                found.push((namespace, NamespaceId(record.id)));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// The names of all namespaces, those in which nothing is left too.
    #[cfg(feature = "postgres")]
    pub(crate) fn names(&self) -> Result<Vec<Namespace>> {
        let mut found = Vec::new();
        self.walk(None, None, |namespace, _| {
            found.push(namespace);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// All namespaces under a prefix, itself included.
    pub(crate) fn all_under(&self, prefix: Option<&Namespace>) -> Result<Vec<(Namespace, NamespaceId)>> {
        let mut found = Vec::new();
        self.walk(prefix, None, |namespace, record| {
            found.push((namespace, NamespaceId(record.id)));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// The next namespaces under a prefix, as many as one commit deletes.
    pub(crate) fn next_to_delete(
        &self,
        prefix: &Namespace,
        after: Option<&Namespace>,
    ) -> Result<Vec<(Namespace, NamespaceId)>> {
        let documents = self.0.table(DOCUMENT_NAMESPACES)?;
        let (mut next, mut messages) = (Vec::new(), 0);
        self.walk(Some(prefix), after, |namespace, record| {
            messages += record.messages + documents_of(&documents, &namespace)?;
            next.push((namespace, NamespaceId(record.id)));
            let is_full = next.len() >= COMMIT_NAMESPACES || messages >= COMMIT_MESSAGES;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(next)
    }

    /// Visits the namespaces under a prefix, or all, in the order of their names, those after a name only.
    fn walk(
        &self,
        prefix: Option<&Namespace>,
        after: Option<&Namespace>,
        mut visit: impl FnMut(Namespace, NamespaceRecord) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        // "a b" is between "a" and "a/b", so the prefix itself is apart from the names that begin with it.
        if let Some(prefix) = prefix
            && after.is_none_or(|after| after < prefix)
            && let Some(record) = self.record(prefix)?
            && visit(prefix.clone(), record)?.is_break()
        {
            return Ok(());
        }
        // '0' follows '/'.
        let (first, end) =
            prefix.map_or((String::new(), None), |prefix| (format!("{prefix}/"), Some(format!("{prefix}0"))));
        let after = after.map(Namespace::as_str).filter(|after| *after >= &*first);
        if end.as_deref().is_some_and(|end| after.is_some_and(|after| after >= end)) {
            return Ok(());
        }
        let start = after.map_or(Bound::Included(&*first), Bound::Excluded);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for entry in self.0.table(NAMESPACES)?.range::<&str>((start, end))? {
            let (name, value) = entry?;
            if visit(Namespace::new(name.value())?, codec::decode(value.value())?)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Namespaces<'_, WriteTransaction> {
    /// Deletes these namespaces with everything in them. Returns how many of them had messages or documents, and how
    /// many of each.
    ///
    /// # Errors
    /// [`Error::LegalHold`].
    pub(crate) fn delete(&self, namespaces: &[(Namespace, NamespaceId)]) -> Result<NamespaceTotals> {
        let mut totals = NamespaceTotals::default();
        for (namespace, _) in namespaces {
            // Looked up again: another machine may have removed it, and made another of this name.
            let Some(id) = self.id(namespace)? else { continue };
            let documents = documents_of(&self.0.table(DOCUMENT_NAMESPACES)?, namespace)?;
            Holds(self.0).check(namespace)?;
            let messages = EditSessions(self.0).delete_all(namespace)?;
            Blocks(self.0).remove_shared(id)?;
            removal::remove_if_empty(self.0, namespace)?;
            totals.add(messages, documents);
        }
        Ok(totals)
    }
}
