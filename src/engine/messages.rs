//! Methods of [`Engine`] on messages: put, delete, flush, recall, get.

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::{
    core::Core,
    executor::Lane,
    handle::Engine,
    reports::{FlushReport, PutReport},
    shared::Wake,
    writer::Commit,
};
#[cfg(doc)]
use crate::config::Config;
use crate::{
    calls::{call_span, timed},
    error::{Error, Result},
    ids::Namespace,
    message::{Message, Timestamp},
    read_budget::{self, page},
    recall::{Hits, Query, Scope},
    store::{MessageVersion, Transaction},
};

impl Engine {
    /// Stores messages durably, in order, in one commit. From then on recalls find them by their words. They are
    /// embedded later, and found by meaning from then on: by [`Engine::flush`], or in the background once
    /// [`Config::flush_size`] messages are pending or [`Config::idle_flush`] has passed without a put. A message with a
    /// known id replaces the stored one at its position.
    ///
    /// Puts that wait at the same time share one commit. Cost: one commit, which is one fsync.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`], [`Error::Storage`]. Nothing is stored in either case.
    pub async fn put(&self, namespace: &Namespace, messages: Vec<Message>) -> Result<PutReport> {
        let messages = messages.into_iter().map(|message| (namespace.clone(), message)).collect();
        self.put_all(messages).await
    }

    /// Same as [`Engine::put`], for messages of several namespaces, in one commit.
    ///
    /// # Errors
    /// Those of [`Engine::put`].
    pub async fn put_all(&self, messages: Vec<(Namespace, Message)>) -> Result<PutReport> {
        messages.iter().try_for_each(|(_, message)| message.check())?;
        let span = call_span!(INFO "put", messages = messages.len());
        let apply = move |transaction: &Transaction| {
            let put = transaction.edit_messages().put(&messages)?;
            Ok(PutReport { new: put.new, replaced: put.replaced, unchanged: put.unchanged })
        };
        timed(span, self.core().writer.commit(Commit::Grouped, apply)).await
    }

    /// Same as [`Engine::put`], and memory blocks take the new messages: those of each list and session are a batch of the
    /// session, as if it had flushed them. They take it when a memory of the session is opened next, or flushes.
    ///
    /// # Errors
    /// Those of [`Engine::put`].
    #[doc(hidden)]
    pub async fn put_in_batches(&self, namespace: &Namespace, lists: Vec<Vec<Message>>) -> Result<PutReport> {
        lists.iter().flatten().try_for_each(Message::check)?;
        let span = call_span!(INFO "put", messages = lists.iter().map(Vec::len).sum::<usize>());
        let namespace = namespace.clone();
        let apply = move |transaction: &Transaction| {
            let put = transaction.edit_messages().put_in_batches(&namespace, &lists)?;
            Ok(PutReport { new: put.new, replaced: put.replaced, unchanged: put.unchanged })
        };
        timed(span, self.core().writer.commit(Commit::Grouped, apply)).await
    }

    /// Embeds and indexes all pending messages. Once it returns, all messages put before are found by meaning, too.
    ///
    /// # Errors
    /// [`Error::Embedding`]: the messages that failed stay stored and pending; all others are embedded.
    /// [`Error::EmbedderUnavailable`]: all messages that are not embedded yet stay stored and pending.
    pub async fn flush(&self) -> Result<FlushReport> {
        let (reply, answer) = oneshot::channel();
        self.core().wake(Wake::Flush(Box::new(move |result| drop(reply.send(result)))))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Returns the `k` best messages of a namespace for a query, best first, or all that match if they are fewer.
    /// Messages that are not embedded yet, pending ones and those in sessions' short-term buffers, are found by their
    /// words: [`Hits::pending`] is their number. An unknown namespace or session has no messages. With
    /// [`Config::journal`](field@Config::journal) the recall is noted in the [journal](Engine::journal).
    ///
    /// # Errors
    /// [`Error::InvalidQuery`], [`Error::Embedding`], [`Error::EmbedderUnavailable`], [`Error::Reranking`],
    /// [`Error::Corrupted`].
    pub async fn recall(&self, namespace: &Namespace, query: Query) -> Result<Hits> {
        self.core().recall(namespace, self.within_budget(query)).await
    }

    /// Returns the `k` best messages of several namespaces for a query, best first, as one ranking: a message is judged
    /// against the messages of all namespaces that are asked, nearly as if they were in one namespace.
    /// [`Hit::namespace`](crate::Hit) says where a hit is from.
    ///
    /// The journal notes no such recall. Filters and [`Query::except`] apply to each namespace. A message that nearly duplicates one of another namespace
    /// is moved to the end, as if it were of the same. [`Hits::answerability`] is of all namespaces together. The cost
    /// grows with the number of namespaces, which are loaded one after the other.
    ///
    /// # Errors
    /// Those of [`Engine::recall`]. [`Error::InvalidQuery`] also for a weight that is not a positive number, and for
    /// [`Query::previous`].
    pub async fn recall_in(&self, scope: &Scope, query: Query) -> Result<Hits> {
        self.core().recall_in(scope, self.within_budget(query)).await
    }

    /// Lets a recall keep to the budget of this handle.
    pub(super) fn within_budget(&self, query: Query) -> Query {
        match self.read_budget() {
            Some(budget) => query.read_within(budget),
            None => query,
        }
    }

    /// Returns the message with this id, pending or not.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn get(&self, namespace: &Namespace, id: &str) -> Result<Option<Message>> {
        self.core().refresh(namespace, None).await?;
        let (namespace, id, budget) = (namespace.clone(), id.to_owned(), self.read_budget().cloned());
        let message = move |core: &Core| {
            core.store().in_namespace(&namespace, |snapshot, namespace| {
                snapshot.messages().by_id(namespace, &id, |bytes| read_budget::take(budget.as_ref(), bytes))
            })
        };
        self.core().run(Lane::Store, message).await
    }

    /// Returns what a message was before each change of its text, role or name, oldest first, with the times of the changes.
    /// There are versions of the changes that an engine made with [`Config::keep_versions`](field@Config::keep_versions);
    /// a change of metadata or `created_at` alone makes none. Both are those of the time of the change. Empty for an unknown message.
    /// A message that is moved to another session keeps its versions; one that is deleted, and put or restored again, and a
    /// copy of a session begin without.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn versions(&self, namespace: &Namespace, id: &str) -> Result<Vec<MessageVersion>> {
        self.core().refresh(namespace, None).await?;
        let (namespace, id, budget) = (namespace.clone(), id.to_owned(), self.read_budget().cloned());
        let versions = move |core: &Core| {
            core.store().in_namespace(&namespace, |snapshot, namespace| {
                snapshot.messages().versions(namespace, &id, i64::MIN, |bytes| {
                    read_budget::take(budget.as_ref(), bytes).map(|()| true)
                })
            })
        };
        self.core().run(Lane::Store, versions).await
    }

    /// Same as [`Engine::versions`], for those that end after a time, up to `limit` of them and about so many bytes, and at least one.
    ///
    /// # Errors
    /// Those of [`Engine::versions`].
    #[doc(hidden)]
    pub async fn version_page(
        &self,
        namespace: &Namespace,
        id: &str,
        after: Option<Timestamp>,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<MessageVersion>> {
        self.core().refresh(namespace, None).await?;
        let (namespace, id, budget) = (namespace.clone(), id.to_owned(), self.read_budget().cloned());
        let after = after.map_or(i64::MIN, |after| after.as_micros().saturating_add(1));
        let versions = move |core: &Core| {
            core.store().in_namespace(&namespace, |snapshot, namespace| {
                snapshot.messages().versions(namespace, &id, after, page(limit, bytes, budget))
            })
        };
        self.core().run(Lane::Store, versions).await
    }

    /// Returns the stored vectors of messages, in the order of the ids: those of each message, one for each of its
    /// [windows](crate::Embedder::windows), of length 1 and rounded to the database's precision. A message that is unknown,
    /// pending, in a session's buffer or without text has none. Cost: a read of a block of vectors for each message.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn vectors(&self, namespace: &Namespace, ids: Vec<String>) -> Result<Vec<Vec<Vec<f32>>>> {
        self.core().refresh(namespace, None).await?;
        let namespace = namespace.clone();
        let vectors = move |core: &Core| {
            let nothing = vec![Vec::new(); ids.len()];
            let found = core.store().in_namespace(&namespace, |snapshot, namespace| {
                let Some(generation) = snapshot.generations().serving()? else { return Ok(Vec::new()) };
                // No message has the greatest number.
                let seqs = ids.iter().map(|id| Ok(snapshot.messages().seq(namespace, id)?.unwrap_or(u64::MAX)));
                snapshot.vectors().of_seqs(&generation, namespace, &seqs.collect::<Result<Vec<_>>>()?)
            })?;
            Ok(if found.is_empty() { nothing } else { found })
        };
        self.core().run(Lane::Store, vectors).await
    }

    /// Replaces the metadata of a message, which is not embedded again. Returns false if there is no such message.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`]: the message would be too large, or the metadata is nested too deeply;
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn set_metadata(&self, namespace: &Namespace, id: &str, metadata: Map<String, Value>) -> Result<bool> {
        if self.core().known_namespace(namespace).await?.is_none() {
            return Ok(false);
        }
        let (namespace, id) = (namespace.clone(), id.to_owned());
        let set = move |transaction: &Transaction| transaction.edit_messages().set_metadata(&namespace, &id, &metadata);
        self.core().writer.commit(Commit::Grouped, set).await
    }

    /// Returns the number of pending messages: stored, and not embedded yet. Cost: a pass over their keys.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn pending(&self) -> Result<u64> {
        let pending = |core: &Core| {
            let serving = core.shared.generations.serving().generation.id;
            core.store().view(|snapshot| snapshot.pending().count(serving))
        };
        self.core().run(Lane::Store, pending).await
    }

    /// Deletes the messages with these ids, and their vectors. Unknown ids are ignored. Returns the number of messages
    /// deleted. A checkpoint that has one of them keeps it, and states that blocks made of them stay;
    /// [`Engine::forget`] removes these too.
    ///
    /// # Errors
    /// [`Error::LegalHold`], [`Error::Storage`].
    pub async fn delete(&self, namespace: &Namespace, ids: Vec<String>) -> Result<u64> {
        if self.core().known_namespace(namespace).await?.is_none() {
            return Ok(0);
        }
        let namespace = namespace.clone();
        let delete = move |transaction: &Transaction| transaction.edit_messages().delete(&namespace, &ids);
        self.core().writer.commit(Commit::Grouped, delete).await
    }
}
