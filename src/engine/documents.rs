//! The handle on the documents of a namespace, and the methods of [`Engine`] on documents.

use serde_json::Value;

use super::{
    blocking::blocking_methods,
    core::Core,
    document_batch::DocumentBatch,
    executor::{Lane, block_on},
    handle::Engine,
    weak::WeakEngine,
};
use crate::{
    documents::{Document, DocumentNamespaces, DocumentOperation, DocumentOptions, DocumentOutcome, DocumentSearch},
    error::{Result, impl_debug},
    ids::Namespace,
};

impl Engine {
    /// Returns a handle on the documents of a namespace.
    pub fn documents(&self, namespace: &Namespace) -> Documents {
        Documents { engine: Handle::Strong(self.clone()), namespace: namespace.clone(), refreshes: false }
    }

    /// Runs operations on documents and messages of any namespaces, and returns their outcomes in order. All changes are
    /// one commit: all of them are stored, or none. Gets, searches and listings show the documents as they were before the
    /// batch. Changes of documents come before those of messages; of several puts and deletes of one key the last counts.
    ///
    /// # Errors
    /// Those of the methods of [`Documents`], of [`Engine::put`] and [`Engine::delete`], and
    /// [`Error::DocumentChanged`](crate::Error::DocumentChanged) for an [`Expect`](DocumentOperation::Expect); the
    /// whole batch fails.
    pub async fn document_batch(&self, operations: Vec<DocumentOperation>) -> Result<Vec<DocumentOutcome>> {
        DocumentBatch::new(operations)?.run(self.core(), self.read_budget()).await
    }

    /// Lists the namespaces that have documents, sorted label by label. Cost: a pass over the namespaces with
    /// documents.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`](crate::Error::InvalidQuery): a label is empty, or `max_depth` is 0.
    pub async fn document_namespaces(&self, request: DocumentNamespaces) -> Result<Vec<Namespace>> {
        match self.document_batch(vec![DocumentOperation::ListNamespaces(request)]).await?.pop() {
            Some(DocumentOutcome::Namespaces(namespaces)) => Ok(namespaces),
            _ => unreachable!("a listing returns namespaces"),
        }
    }
}

/// The documents of a namespace: JSON values under keys, which are found by key, by filters, and by the meaning and
/// words of their texts. Made by [`Engine::documents`].
///
/// Documents are separate from the messages of the namespace: recalls find no document, and searches no message. They
/// are deleted with their namespace.
///
#[cfg_attr(feature = "bundled-model", doc = "```")]
#[cfg_attr(not(feature = "bundled-model"), doc = "```ignore")]
/// # fn main() -> mnemon::Result<()> {
/// use mnemon::{DocumentOptions, DocumentSearch, Engine};
/// use serde_json::json;
/// let engine = Engine::in_memory()?;
/// let documents = engine.documents(&"acme/user-42".parse()?);
/// let value = json!({"drink": "green tea", "since": 2019});
/// documents.blocking().put("likes", value, DocumentOptions::default().index(["drink"]))?;
/// assert_eq!(documents.blocking().get("likes")?.unwrap().value["since"], 2019);
/// let found = documents.blocking().search(DocumentSearch::default().query("tea").limit(1))?;
/// assert_eq!(found[0].key, "likes");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Documents {
    engine: Handle,
    namespace: Namespace,
    refreshes: bool,
}

/// The engine of a handle on documents.
#[derive(Clone)]
enum Handle {
    Strong(Engine),
    /// Does not keep the engine open.
    Weak(WeakEngine),
}

impl_debug!(Documents { namespace });

impl Documents {
    /// Returns the namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Lets each get and search through this handle refresh the time to live of the documents that it returns. Each
    /// such read is a commit if one of them has a time to live; an engine that is open for reading refreshes nothing.
    pub fn refresh_on_read(mut self) -> Self {
        self.refreshes = true;
        self
    }

    /// Puts a document, or replaces it as a whole. It is durable when the call returns, and found by its words; it is
    /// found by meaning once its texts are embedded, as with [`Engine::put`]. Texts that it had before are not embedded
    /// again. Without a time to live in `options`, it never expires.
    ///
    /// # Errors
    /// [`Error::InvalidDocument`](crate::Error::InvalidDocument), and nothing is stored: a key that is empty, longer
    /// than 512 bytes or has a control character; a value that is null, has more than 1 MiB as JSON or is nested deeper
    /// than 100 levels; a path that is none, or more than 1,000 texts; a time to live that is not within one
    /// millisecond to a thousand years. [`Error::Storage`](crate::Error::Storage).
    pub async fn put(&self, key: impl Into<String>, value: Value, options: DocumentOptions) -> Result<()> {
        let (namespace, key) = (self.namespace.clone(), key.into());
        self.run(DocumentOperation::Put { namespace, key, value, options }).await.map(drop)
    }

    /// Returns the document with this key, unless it has expired.
    ///
    /// # Errors
    /// [`Error::Corrupted`](crate::Error::Corrupted), [`Error::Storage`](crate::Error::Storage).
    pub async fn get(&self, key: &str) -> Result<Option<Document>> {
        let (namespace, key) = (self.namespace.clone(), key.to_owned());
        match self.run(DocumentOperation::Get { namespace, key, refresh_ttl: self.refreshes }).await? {
            DocumentOutcome::Got(document) => Ok(document),
            _ => unreachable!("a get returns a document or none"),
        }
    }

    /// Deletes the document with this key, with its indexed texts. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage).
    pub async fn delete(&self, key: &str) -> Result<bool> {
        let (namespace, key) = (self.namespace.clone(), key.to_owned());
        match self.run(DocumentOperation::Delete { namespace, key }).await? {
            DocumentOutcome::Deleted(existed) => Ok(existed),
            _ => unreachable!("a delete says whether there was a document"),
        }
    }

    /// Returns the documents that a search finds. A document has the score of its best text.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`](crate::Error::InvalidQuery): with a query, `limit` and `offset` are more than
    /// [`MAX_K`](crate::MAX_K) together; those of [`Engine::recall`].
    pub async fn search(&self, mut search: DocumentSearch) -> Result<Vec<Document>> {
        search.refresh_ttl |= self.refreshes;
        match self.run(DocumentOperation::Search { namespace: self.namespace.clone(), search }).await? {
            DocumentOutcome::Found(documents) => Ok(documents),
            _ => unreachable!("a search returns documents"),
        }
    }

    /// Returns the stored vectors of documents, in the order of the keys: those of the indexed texts of each document, in any
    /// order, as [`Engine::vectors`] has those of a message.
    ///
    /// # Errors
    /// Those of [`Engine::vectors`].
    pub async fn vectors(&self, keys: Vec<String>) -> Result<Vec<Vec<Vec<f32>>>> {
        let none = vec![Vec::new(); keys.len()];
        let Handle::Strong(engine) = &self.engine else { return Ok(none) };
        engine.core().refresh(&self.namespace, None).await?;
        let namespace = self.namespace.clone();
        let read = move |core: &Core| {
            core.store().in_namespace(&namespace, |snapshot, id| {
                let Some(generation) = snapshot.generations().serving()? else { return Ok(None) };
                let [_, texts] = id.parts();
                let vectors = |key: &String| {
                    let found =
                        snapshot.vectors().of_seqs(&generation, texts, &snapshot.documents().texts(id, key)?)?;
                    Ok(found.concat())
                };
                keys.iter().map(vectors).collect::<Result<_>>().map(Some)
            })
        };
        Ok(engine.core().run(Lane::Store, read).await?.unwrap_or(none))
    }

    /// Returns the same methods for threads without an executor. Do not call them from an async task: they block it.
    pub fn blocking(&self) -> BlockingDocuments<'_> {
        BlockingDocuments(self)
    }

    /// Returns a handle that does not keep the engine open, for code that the engine itself owns, such as a memory
    /// block. Once the engine is being closed, its calls return [`Error::Closed`](crate::Error::Closed).
    pub(crate) fn weak(&self) -> Documents {
        let engine = match &self.engine {
            Handle::Strong(engine) => Handle::Weak(WeakEngine::new(engine.core())),
            Handle::Weak(engine) => Handle::Weak(engine.clone()),
        };
        Documents { engine, ..self.clone() }
    }

    /// Same as [`Engine::document_batch`].
    pub(crate) async fn batch(&self, operations: Vec<DocumentOperation>) -> Result<Vec<DocumentOutcome>> {
        match &self.engine {
            Handle::Strong(engine) => engine.document_batch(operations).await,
            Handle::Weak(engine) => engine.document_batch(DocumentBatch::new(operations)?).await,
        }
    }

    /// Returns the ids of the messages of a namespace that `is_wanted` accepts, sorted. A weak handle has none.
    pub(crate) async fn message_ids(
        &self,
        namespace: &Namespace,
        is_wanted: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<Vec<String>> {
        let Handle::Strong(engine) = &self.engine else { return Ok(Vec::new()) };
        engine.core().refresh(namespace, None).await?;
        let namespace = namespace.clone();
        let read = move |core: &Core| {
            core.store().in_namespace(&namespace, |snapshot, id| snapshot.messages().ids(id, is_wanted))
        };
        engine.core().run(Lane::Store, read).await
    }

    async fn run(&self, operation: DocumentOperation) -> Result<DocumentOutcome> {
        let mut outcomes = self.batch(vec![operation]).await?;
        Ok(outcomes.pop().expect("each operation has an outcome"))
    }
}

/// The methods of [`Documents`], waiting on the calling thread. Made by [`Documents::blocking`].
pub struct BlockingDocuments<'a>(&'a Documents);

impl_debug!(BlockingDocuments<'_>, self { namespace: self.0.namespace });

impl BlockingDocuments<'_> {
    blocking_methods! {
        Documents:
        fn put(key: impl Into<String>, value: Value, options: DocumentOptions) -> Result<()>;
        fn get(key: &str) -> Result<Option<Document>>;
        fn delete(key: &str) -> Result<bool>;
        fn search(search: DocumentSearch) -> Result<Vec<Document>>;
        fn vectors(keys: Vec<String>) -> Result<Vec<Vec<Vec<f32>>>>;
    }
}
