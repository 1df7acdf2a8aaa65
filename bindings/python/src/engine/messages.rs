//! Messages and sessions, and what is recalled.

use mnemon::Scope;
use pyo3::{prelude::*, types::PyDict};

use super::Engine;
use crate::{
    journal::{JournalEntry, entry_of, replay_dict},
    message::{Message, MessageLike, metadata, unwrapped, wrapped},
    query::{Hits, QueryLike},
    values::{Count, Fields, List, Pair, Real, Space, Text, count, datetime, texts, to_python},
    vectors::{Vectors, vector_of_query, vectors_of},
};

#[pymethods]
impl Engine {
    /// Stores messages; they are durable when this returns. Returns how many were new, replaced and unchanged.
    fn put<'py>(&self, py: Python<'py>, namespace: Space, messages: List<MessageLike>) -> PyResult<Bound<'py, PyAny>> {
        let (namespace, messages) = (namespace.0, unwrapped(messages));
        let put = async |engine: &mnemon::Engine| engine.put(&namespace, self.shared.secrets.messages(messages)?).await;
        to_python(py, &self.shared.call(py, put)?)
    }

    /// Stores messages of several namespaces, pairs of a namespace and a message, in one commit.
    fn put_all<'py>(&self, py: Python<'py>, messages: List<Pair<Space, MessageLike>>) -> PyResult<Bound<'py, PyAny>> {
        let put = async |engine: &mnemon::Engine| {
            let without_secrets =
                |Pair(space, message): Pair<Space, MessageLike>| Ok((space.0, self.shared.secrets.message(message.0)?));
            engine.put_all(messages.0.into_iter().map(without_secrets).collect::<mnemon::Result<_>>()?).await
        };
        to_python(py, &self.shared.call(py, put)?)
    }

    /// Embeds all pending messages now. Returns how many were embedded.
    fn flush(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.check_not_embedding(py, "flush")?;
        Ok(self.shared.call(py, async |engine| engine.flush().await)?.embedded)
    }

    /// Links the vectors of all namespaces that are large enough for a graph, which otherwise is done in the background
    /// once they are queried: after very many messages were stored, and before closing. Returns the number of vectors in
    /// graphs.
    fn link(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.shared.call(py, async |engine| engine.link().await)?.linked)
    }

    /// Returns the number of messages that wait to be embedded.
    fn pending(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.call(py, async |engine| engine.pending().await)
    }

    /// Returns the messages of a namespace that answer a query best. `query` is a `Query` or text; `k`, if given,
    /// replaces the query's.
    #[pyo3(signature = (namespace, query, *, k = None))]
    fn recall(&self, py: Python<'_>, namespace: Space, query: QueryLike, k: Option<Count<usize>>) -> PyResult<Hits> {
        let (namespace, query) = (namespace.0, query.with_k(k));
        Hits::new(py, self.shared.call(py, async move |engine| engine.recall(&namespace, query).await)?)
    }

    /// Returns the messages of several namespaces that answer a query best: of `namespaces`, and of all namespaces
    /// `under` prefixes. `weights` says how much likelier than others (1) the namespaces under a prefix have the
    /// answer.
    #[pyo3(signature = (query, *, namespaces = List::default(), under = List::default(), weights = List::default(), k = None))]
    fn recall_in(
        &self,
        py: Python<'_>,
        query: QueryLike,
        namespaces: List<Space>,
        under: List<Space>,
        weights: List<Pair<Space, Real>>,
        k: Option<Count<usize>>,
    ) -> PyResult<Hits> {
        let mut scope = Scope::new();
        for name in &namespaces.0 {
            scope = scope.namespace(&name.0);
        }
        for prefix in &under.0 {
            scope = scope.under(&prefix.0);
        }
        for Pair(prefix, weight) in &weights.0 {
            scope = scope.weight(&prefix.0, weight.0 as f32);
        }
        let query = query.with_k(k);
        Hits::new(py, self.shared.call(py, async move |engine| engine.recall_in(&scope, query).await)?)
    }

    /// Returns up to `limit` entries of the journal of a namespace, the newest first; `before` a number, for the next
    /// page. There are none unless `Config(journal=...)` says how many recalls the database keeps.
    #[pyo3(signature = (namespace, *, limit = 100, before = None))]
    fn journal(
        &self,
        py: Python<'_>,
        namespace: Space,
        #[pyo3(from_py_with = count)] limit: usize,
        before: Option<Count<u64>>,
    ) -> PyResult<Vec<JournalEntry>> {
        let (namespace, before) = (namespace.0, before.map(|before| before.0));
        let entries = self.shared.call(py, async |engine| engine.journal(&namespace, limit, before).await)?;
        Ok(entries.into_iter().map(JournalEntry).collect())
    }

    /// Asks the question of an entry of the journal again and returns what became of each hit, as a dict. A message
    /// that is stored and no hit any more is `"outranked"`, one that was deleted is `"gone"`. The recall is not noted.
    fn replay<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = entry_of)] entry: Py<JournalEntry>,
    ) -> PyResult<Bound<'py, PyDict>> {
        replay_dict(py, &self.shared.call(py, async |engine| engine.replay(&entry.get().0).await)?)
    }

    /// Returns the message with this id, or `None`.
    fn get(&self, py: Python<'_>, namespace: Space, id: Text) -> PyResult<Option<Message>> {
        let namespace = namespace.0;
        Ok(self.shared.call(py, async |engine| engine.get(&namespace, &id).await)?.map(Message))
    }

    /// Returns what a message was before each change of its text, role or name, and the time of the change, as pairs, oldest
    /// first. `Config(keep_versions=True)` keeps them; a change of the metadata alone makes none. Empty for an unknown message.
    fn versions<'py>(
        &self,
        py: Python<'py>,
        namespace: Space,
        id: Text,
    ) -> PyResult<Vec<(Message, Bound<'py, PyAny>)>> {
        let namespace = namespace.0;
        let versions = self.shared.call(py, async |engine| engine.versions(&namespace, &id).await)?;
        let pair = |version: mnemon::MessageVersion| Ok((Message(version.message), datetime(py, version.until)?));
        versions.into_iter().map(pair).collect()
    }

    /// Replaces the metadata of a message. Returns false if there is no such message.
    fn set_metadata(&self, py: Python<'_>, namespace: Space, id: Text, metadata: Fields<'_>) -> PyResult<bool> {
        let (namespace, metadata) = (namespace.0, self::metadata(&metadata)?);
        let set = async |engine: &mnemon::Engine| {
            engine.set_metadata(&namespace, &id, self.shared.secrets.metadata(metadata)).await
        };
        self.shared.call(py, set)
    }

    /// Deletes messages by their ids. Returns how many there were.
    fn delete(&self, py: Python<'_>, namespace: Space, ids: List<Text>) -> PyResult<u64> {
        let (namespace, ids) = (namespace.0, texts(ids));
        self.shared.call(py, async |engine| engine.delete(&namespace, ids).await)
    }

    /// Returns the sessions of a namespace, ordered by their ids, as dicts: `limit` at most, those `after` an id.
    #[pyo3(signature = (namespace, *, limit = None, after = None))]
    fn sessions<'py>(
        &self,
        py: Python<'py>,
        namespace: Space,
        limit: Option<Count<usize>>,
        after: Option<Text>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (namespace, limit) = (namespace.0, limit.map_or(usize::MAX, |limit| limit.0));
        to_python(
            py,
            &self.shared.call(py, async |engine| engine.session_page(&namespace, after.as_deref(), limit).await)?,
        )
    }

    /// Returns what the memory blocks of a namespace's sessions have made, as dicts.
    fn blocks<'py>(&self, py: Python<'py>, namespace: Space) -> PyResult<Bound<'py, PyAny>> {
        let namespace = namespace.0;
        to_python(py, &self.shared.call(py, async |engine| engine.blocks(&namespace).await)?)
    }

    /// Returns the messages of a session, in order: the last `limit`, of those that come before the message with the id
    /// `before`. A limit reads no more than it returns. Raises `InvalidQueryError` if the session has no such message.
    #[pyo3(signature = (namespace, session, *, limit = None, before = None))]
    fn history(
        &self,
        py: Python<'_>,
        namespace: Space,
        session: Text,
        limit: Option<Count<usize>>,
        before: Option<Text>,
    ) -> PyResult<Vec<Message>> {
        let (namespace, limit) = (namespace.0, limit.map_or(usize::MAX, |limit| limit.0));
        let page =
            async |engine: &mnemon::Engine| engine.history_page(&namespace, &session, before.as_deref(), limit).await;
        Ok(wrapped(self.shared.call(py, page)?))
    }

    /// Returns the stored vectors of messages, a row for each id: `numpy.asarray` of it has 32-bit floats and the shape
    /// (ids, dimension), and copies nothing. They have length 1 and the precision of the database; that of a long message
    /// is the mean of its parts. The row of a message that has none is zero: one that is unknown, pending, in a session's
    /// buffer, or without text.
    fn vectors(&self, py: Python<'_>, namespace: Space, ids: List<Text>) -> PyResult<Vectors> {
        let (namespace, ids) = (namespace.0, texts(ids));
        self.shared.call(py, async |engine| {
            let dimension = engine.model().dimension;
            Ok(Vectors::means(engine.vectors(&namespace, ids).await?, dimension))
        })
    }

    /// Copies a session under another name. Returns the number of its messages.
    fn copy_session(&self, py: Python<'_>, namespace: Space, source: Text, target: Text) -> PyResult<u64> {
        let namespace = namespace.0;
        self.shared.call(py, async |engine| engine.copy_session(&namespace, &source, &target).await)
    }

    /// Deletes a session with its messages.
    fn delete_session(&self, py: Python<'_>, namespace: Space, session: Text) -> PyResult<()> {
        let namespace = namespace.0;
        self.shared.call(py, async |engine| engine.delete_session(&namespace, &session).await)
    }

    /// Returns the vectors of texts, by the engine's model; of a text that is too long for the model, the mean of its
    /// parts.
    fn embed_documents(&self, py: Python<'_>, texts: List<Text>) -> PyResult<Vectors> {
        let texts = self::texts(texts);
        self.shared.run_apart(py, move |engine| vectors_of(&*engine.embedder(), &texts))
    }

    /// Returns the vector of a query, by the engine's model; of one that is too long, the mean of its parts.
    fn embed_query(&self, py: Python<'_>, text: Text) -> PyResult<Vec<f32>> {
        self.shared.run_apart(py, move |engine| vector_of_query(&*engine.embedder(), &text))
    }
}
