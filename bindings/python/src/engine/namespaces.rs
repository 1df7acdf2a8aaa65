//! Namespaces: lists, deletions, legal holds, settings.

use mnemon::{Forget, Language};
use pyo3::prelude::*;

use super::Engine;
use crate::{
    errors::{raised, wrong_type},
    query::Filter,
    values::{Keyword, List, Real, Space, Text, switch, texts, to_python},
};

#[pymethods]
impl Engine {
    /// Returns the namespaces under a prefix, itself included, or all, in their order, as dicts with their sizes and
    /// languages.
    #[pyo3(signature = (prefix = None))]
    fn namespaces<'py>(&self, py: Python<'py>, prefix: Option<Space>) -> PyResult<Bound<'py, PyAny>> {
        const PAGE: usize = 1000;
        let prefix = prefix.map(|prefix| prefix.0);
        let all = self.shared.call(py, async |engine| {
            let (mut all, mut after) = (Vec::new(), None);
            loop {
                let page = engine.namespaces(prefix.as_ref(), after.as_ref(), PAGE).await?;
                all.extend(page.namespaces);
                after = page.next;
                if after.is_none() {
                    return Ok(all);
                }
            }
        })?;
        to_python(py, &all)
    }

    /// Deletes everything in a namespace. Returns the number of its messages.
    fn delete_namespace(&self, py: Python<'_>, namespace: Space) -> PyResult<u64> {
        let namespace = namespace.0;
        self.shared.call(py, async |engine| engine.delete_namespace(&namespace).await)
    }

    /// Deletes everything in all namespaces under a prefix, itself included. Returns how many namespaces, messages and
    /// documents there were, as a dict.
    fn delete_namespaces<'py>(&self, py: Python<'py>, prefix: Space) -> PyResult<Bound<'py, PyAny>> {
        let prefix = prefix.0;
        to_python(py, &self.shared.call(py, async |engine| engine.delete_namespaces(&prefix).await)?)
    }

    /// Deletes and leaves nothing behind, with a receipt, which is returned as a dict. One of the keywords says what of
    /// the namespace: `ids` of messages, `keys` of documents, a `session`, messages that match a filter (`where`), or
    /// all namespaces `below` this one, itself included. With none of them, the whole namespace; `None` for one of them is
    /// an `InvalidTypeError`.
    #[pyo3(signature = (namespace, *, ids = Keyword::default(), keys = Keyword::default(), session = Keyword::default(),
        r#where = Keyword::default(), below = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn forget<'py>(
        &self,
        py: Python<'py>,
        namespace: Space,
        ids: Keyword<'py>,
        keys: Keyword<'py>,
        session: Keyword<'py>,
        r#where: Keyword<'py>,
        #[pyo3(from_py_with = switch)] below: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.shared.check_not_embedding(py, "forget")?;
        let namespace = namespace.0;
        let whole = "leave it out to forget the whole namespace";
        let (ids, keys) = (ids.value::<List<Text>>("ids", whole)?, keys.value::<List<Text>>("keys", whole)?);
        let (session, matching) = (session.value::<Text>("session", whole)?, r#where.value::<Filter>("where", whole)?);
        let what = match (ids, keys, session, matching, below) {
            (Some(ids), None, None, None, false) => Forget::messages(&namespace, texts(ids)),
            (None, Some(keys), None, None, false) => Forget::documents(&namespace, texts(keys)),
            (None, None, Some(session), None, false) => Forget::session(&namespace, session.0),
            (None, None, None, Some(matching), false) => Forget::matching(&namespace, matching.0),
            (None, None, None, None, true) => Forget::prefix(&namespace),
            (None, None, None, None, false) => Forget::namespace(&namespace),
            _ => return Err(wrong_type(py, "forget takes one of ids, keys, session, where and below")),
        };
        to_python(py, &self.shared.call(py, async |engine| engine.forget(what).await)?)
    }

    /// Returns the receipts of what was forgotten and held, as a dict.
    fn audit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.shared.call(py, async |engine| engine.audit().await)?)
    }

    /// Forbids deletions in a namespace until `release`. Returns the receipt as a dict.
    fn hold<'py>(&self, py: Python<'py>, namespace: Space, reason: Text) -> PyResult<Bound<'py, PyAny>> {
        let namespace = namespace.0;
        to_python(py, &self.shared.call(py, async |engine| engine.hold(&namespace, reason.0).await)?)
    }

    /// Ends the hold of a namespace. Returns the receipt as a dict, or `None` if it was not held.
    fn release<'py>(&self, py: Python<'py>, namespace: Space) -> PyResult<Bound<'py, PyAny>> {
        let namespace = namespace.0;
        to_python(py, &self.shared.call(py, async |engine| engine.release(&namespace).await)?)
    }

    /// Returns the holds as dicts.
    fn holds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.shared.call(py, async |engine| engine.holds().await)?)
    }

    /// Sets the time to live of the messages that are put into a namespace from now on, in minutes: one that is put without
    /// `expires_at` expires so long after its put. `None` ends it. Messages that are stored already stay as they are.
    /// Raises `InvalidArgumentError` for less than a millisecond or more than a thousand years.
    fn set_ttl(&self, py: Python<'_>, namespace: Space, ttl_minutes: Option<Real>) -> PyResult<()> {
        let (namespace, ttl_minutes) = (namespace.0, ttl_minutes.map(|minutes| minutes.0));
        self.shared.call(py, async |engine| engine.set_ttl(&namespace, ttl_minutes).await)
    }

    /// Sets the language of a namespace's words, by its English name.
    fn set_language(&self, py: Python<'_>, namespace: Space, language: Text) -> PyResult<()> {
        self.shared.check_not_embedding(py, "set_language")?;
        let namespace = namespace.0;
        let language: Language = language.parse().map_err(|error| raised(py, error))?;
        self.shared.call(py, async |engine| engine.set_language(&namespace, language).await)
    }
}
