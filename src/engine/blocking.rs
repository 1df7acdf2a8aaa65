//! The engine's methods for threads that may wait, made from the async ones.

use std::{
    io::{BufRead, Write},
    ops::{ControlFlow, Range},
    path::Path,
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value};

use super::{
    backup,
    executor::block_on,
    handle::Engine,
    namespace_slot::EngineStats,
    reindex::{Moves, ReindexOptions, ReindexProgress, ReindexReport},
    reports::{FlushReport, IndexStats, LinkReport, PutReport},
    transfer,
};
use crate::{
    cache::CacheStats,
    documents::{DocumentNamespaces, DocumentOperation, DocumentOutcome},
    embed::Embedder,
    error::{Result, impl_debug},
    forget::{Audit, Forget, Hold, Receipt},
    ids::Namespace,
    journal::{JournalEntry, Replay},
    lexical::Language,
    message::{Message, Timestamp},
    recall::{Hits, Query, Scope},
    store::{
        FailedBatch, MessageVersion, NamespaceCursor, NamespacePage, NamespaceTotals, PlacedMessage, PurgeReport,
        SessionInfo, StoredBlock, TransferReport,
    },
};

/// Declares the blocking twins of async methods: each runs the async one on the calling thread. Needs `block_on` in
/// scope.
macro_rules! blocking_methods {
    ($handle:ident: $(fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty;)+) => {
        $(
            #[doc = concat!("Same as [`", stringify!($handle), "::", stringify!($name), "`](crate::", stringify!($handle), "::", stringify!($name), "), on the calling thread.")]
            ///
            /// # Errors
            #[doc = concat!("Those of [`", stringify!($handle), "::", stringify!($name), "`](crate::", stringify!($handle), "::", stringify!($name), ").")]
            pub fn $name(&self, $($argument: $type),*) -> $output {
                block_on(self.0.$name($($argument),*))
            }
        )+
    };
}
pub(crate) use blocking_methods;

impl Engine {
    /// Returns the same methods for threads without an executor. Do not call them from an async task: they block it.
    pub fn blocking(&self) -> BlockingEngine<'_> {
        BlockingEngine(self)
    }
}

/// The methods of [`Engine`], waiting on the calling thread. Made by [`Engine::blocking`].
pub struct BlockingEngine<'a>(&'a Engine);

impl_debug!(BlockingEngine<'_>, self { model: self.0.model().name });

impl BlockingEngine<'_> {
    blocking_methods! {
        Engine:
        fn put(namespace: &Namespace, messages: Vec<Message>) -> Result<PutReport>;
        fn put_all(messages: Vec<(Namespace, Message)>) -> Result<PutReport>;
        fn put_in_batches(namespace: &Namespace, lists: Vec<Vec<Message>>) -> Result<PutReport>;
        fn flush() -> Result<FlushReport>;
        fn link() -> Result<LinkReport>;
        fn recall(namespace: &Namespace, query: Query) -> Result<Hits>;
        fn recall_in(scope: &Scope, query: Query) -> Result<Hits>;
        fn journal(namespace: &Namespace, limit: usize, before: Option<u64>) -> Result<Vec<JournalEntry>>;
        fn replay(entry: &JournalEntry) -> Result<Replay>;
        fn get(namespace: &Namespace, id: &str) -> Result<Option<Message>>;
        fn versions(namespace: &Namespace, id: &str) -> Result<Vec<MessageVersion>>;
        fn version_page(namespace: &Namespace, id: &str, after: Option<Timestamp>, limit: usize, bytes: usize) -> Result<Vec<MessageVersion>>;
        fn set_metadata(namespace: &Namespace, id: &str, metadata: Map<String, Value>) -> Result<bool>;
        fn pending() -> Result<u64>;
        fn delete(namespace: &Namespace, ids: Vec<String>) -> Result<u64>;
        fn sessions(namespace: &Namespace) -> Result<Vec<SessionInfo>>;
        fn session_page(namespace: &Namespace, after: Option<&str>, limit: usize) -> Result<Vec<SessionInfo>>;
        fn blocks(namespace: &Namespace) -> Result<Vec<StoredBlock>>;
        fn block_names(namespace: &Namespace) -> Result<Vec<(Option<String>, String)>>;
        fn block(namespace: &Namespace, session: Option<&str>, name: &str) -> Result<Option<StoredBlock>>;
        fn failed_batches(prefix: Option<&Namespace>) -> Result<Vec<FailedBatch>>;
        fn retry_failed_batches(prefix: Option<&Namespace>) -> Result<Vec<FailedBatch>>;
        fn history(namespace: &Namespace, session: &str) -> Result<Vec<Message>>;
        fn history_page(namespace: &Namespace, session: &str, before: Option<&str>, limit: usize) -> Result<Vec<Message>>;
        fn history_before(namespace: &Namespace, session: &str, before: Option<&str>, limit: usize, bytes: usize) -> Result<Option<Vec<PlacedMessage>>>;
        fn history_after(namespace: &Namespace, session: &str, after: Option<u64>, limit: usize, bytes: usize) -> Result<Vec<PlacedMessage>>;
        fn vectors(namespace: &Namespace, ids: Vec<String>) -> Result<Vec<Vec<Vec<f32>>>>;
        fn copy_session(namespace: &Namespace, from: &str, to: &str) -> Result<u64>;
        fn delete_session(namespace: &Namespace, session: &str) -> Result<()>;
        fn delete_namespace(namespace: &Namespace) -> Result<u64>;
        fn namespaces(prefix: Option<&Namespace>, after: Option<&NamespaceCursor>, limit: usize) -> Result<NamespacePage>;
        fn count_namespaces(prefix: Option<&Namespace>) -> Result<NamespaceTotals>;
        fn delete_namespaces(prefix: &Namespace) -> Result<NamespaceTotals>;
        fn delete_namespaces_within(prefix: &Namespace, time: Duration) -> Result<(NamespaceTotals, bool)>;
        fn forget(what: Forget) -> Result<Receipt>;
        fn audit() -> Result<Audit>;
        fn audit_part(entries: Range<u64>) -> Result<(Audit, u64)>;
        fn hold(namespace: &Namespace, reason: impl Into<String>) -> Result<Receipt>;
        fn release(namespace: &Namespace) -> Result<Option<Receipt>>;
        fn holds() -> Result<Vec<Hold>>;
        fn set_ttl(namespace: &Namespace, ttl_minutes: Option<f64>) -> Result<()>;
        fn set_language(namespace: &Namespace, language: Language) -> Result<()>;
        fn index_stats(namespace: &Namespace) -> Result<IndexStats>;
        fn drop_previous() -> Result<bool>;
        fn remove_if_unused() -> Result<bool>;
        fn document_batch(operations: Vec<DocumentOperation>) -> Result<Vec<DocumentOutcome>>;
        fn document_namespaces(request: DocumentNamespaces) -> Result<Vec<Namespace>>;
    }

    /// Same as [`Engine::stats`], on the calling thread.
    pub fn stats(&self) -> EngineStats {
        self.0.core().stats()
    }

    /// Same as [`Engine::cache_stats`], on the calling thread.
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.0.core().shared.cache_stats()
    }

    /// Same as [`Engine::reindex`], on the calling thread, so that `progress` may borrow.
    ///
    /// # Errors
    /// Those of [`Engine::reindex`].
    pub fn reindex(
        &self,
        embedder: Arc<dyn Embedder>,
        options: ReindexOptions,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
    ) -> Result<ReindexReport> {
        self.0.core().run_here(|core| core.reindex_and_sweep(embedder, Moves::All, &options, &mut progress))
    }

    /// Same as [`Engine::rollback`], on the calling thread, so that `progress` may borrow.
    ///
    /// # Errors
    /// Those of [`Engine::rollback`].
    pub fn rollback(
        &self,
        embedder: Arc<dyn Embedder>,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
    ) -> Result<ReindexReport> {
        self.0.core().run_here(|core| core.rollback(embedder, &mut progress))
    }

    /// Same as [`Engine::link`], on the calling thread. `progress` gets the counts so far, after each step.
    ///
    /// # Errors
    /// Those of [`Engine::link`].
    pub fn link_with(&self, progress: impl FnMut(LinkReport)) -> Result<LinkReport> {
        self.0.core().run_here(|core| core.link(progress))
    }

    /// Same as [`Engine::backup`], on the calling thread.
    ///
    /// # Errors
    /// Those of [`Engine::backup`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        self.0.core().run_here(|core| core.shared.store.backup(path.as_ref(), &core.shared.config))
    }

    /// Same as [`Engine::purge`], on the calling thread.
    ///
    /// # Errors
    /// Those of [`Engine::purge`].
    pub fn purge(&self) -> Result<PurgeReport> {
        self.0.core().run_here(backup::purge)
    }

    /// Same as [`Engine::export`], on the calling thread, so that `output` may be borrowed.
    ///
    /// # Errors
    /// Those of [`Engine::export`].
    pub fn export(&self, namespace: &Namespace, output: impl Write) -> Result<TransferReport> {
        self.0.core().run_here(|core| transfer::export_now(core, Some(namespace), output))
    }

    /// Same as [`Engine::export_all`], on the calling thread, so that `output` may be borrowed.
    ///
    /// # Errors
    /// Those of [`Engine::export_all`].
    pub fn export_all(&self, output: impl Write) -> Result<TransferReport> {
        self.0.core().run_here(|core| transfer::export_now(core, None, output))
    }

    /// Same as [`Engine::import`], on the calling thread, so that `input` may be borrowed.
    ///
    /// # Errors
    /// Those of [`Engine::import`].
    pub fn import(&self, input: impl BufRead) -> Result<TransferReport> {
        self.0.core().run_here(|core| transfer::import(core, None, input))
    }

    /// Same as [`Engine::import_as`], on the calling thread, so that `input` may be borrowed.
    ///
    /// # Errors
    /// Those of [`Engine::import_as`].
    pub fn import_as(&self, namespace: &Namespace, input: impl BufRead) -> Result<TransferReport> {
        self.0.core().run_here(|core| transfer::import(core, Some(namespace.clone()), input))
    }

    /// Loads a namespace and does all background work of its index now, on the calling thread. Recalls are correct
    /// without this call; after it, they are as fast as they get. For benchmarks and evaluation.
    ///
    /// # Errors
    /// [`Error::Corrupted`](crate::Error::Corrupted), [`Error::Storage`](crate::Error::Storage).
    pub fn optimize(&self, namespace: &Namespace) -> Result<()> {
        self.0.core().run_here(|core| core.optimize(namespace))
    }
}
