//! Forgetting: [`Engine::forget`], in commits of bounded size, each with an entry in the audit.
//!
//! A cache must not keep a vector whose text is gone, because nobody could find it any more. So caches forget the texts
//! before the commit, in case the process dies after it, and again after it, in case a flush embedded one meanwhile. With
//! the texts they forget all queries: a query may repeat what was said in other words.
//!
//! The audit and legal holds are here, too.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    ops::Range,
    sync::Arc,
};

use super::{
    core::Core,
    executor::Lane,
    handle::Engine,
    segments::scrub_segments,
    writer::{Commit, then},
};
#[cfg(doc)]
use crate::error::Error;
use crate::{
    calls::block_on,
    error::Result,
    forget::{Audit, AuditEvent, Forget, ForgetTarget, Forgotten, Hold, Receipt, Selection},
    ids::{GenerationId, Namespace, NamespaceId},
    message::Timestamp,
    recall::{NamespaceChange, SegmentChange},
    store::{ForgetPiece, ForgetResult, GenerationState, Transaction},
};

/// The most messages or documents that one commit forgets.
const COMMIT: usize = 4096;
/// Caches are asked to forget texts of about so many bytes at a time.
const TEXT_BYTES: usize = 4 << 20;

/// The changes of the segments of a namespace in a generation.
type ScrubbedSegments = (GenerationId, NamespaceId, Vec<SegmentChange>);

/// A piece that one commit forgot.
struct Committed {
    receipt: Receipt,
    texts: Vec<String>,
    touched: BTreeSet<NamespaceId>,
    segments: Vec<ScrubbedSegments>,
}

impl Engine {
    /// Forgets messages, documents, a session, a namespace or all namespaces under a prefix, and all that was made of
    /// them: vectors, terms, pending entries, places in batches, versions that checkpoints keep, indexed texts, cached
    /// vectors, the states of blocks, the namespaces' entries in the [journal](Self::journal), and the names of sessions and namespaces that become empty. When the call
    /// returns, they are gone from every answer. Their bytes may still be in unused pages of the file until it is
    /// [purged](Self::purge).
    ///
    /// A block state that was made of a forgotten message is never served again. Whether it is made again from the
    /// messages that remain is the block's choice: [`MemoryBlock::after_forget`](crate::MemoryBlock::after_forget).
    ///
    /// Many messages and namespaces are forgotten in several commits, each with an entry in the [audit](Self::audit);
    /// the last one is returned. If the process ends meanwhile, each message is there as a whole or forgotten as a
    /// whole, and the same call forgets the rest. It is no error if there is nothing to forget, also in a namespace that
    /// does not exist: the receipt says that nothing was found.
    /// The call goes on if the future is dropped.
    ///
    /// Cost: as that of a deletion, and a pass over the terms of the namespace for each commit.
    ///
    /// # Errors
    /// [`Error::LegalHold`], and nothing is forgotten; [`Error::Storage`], also if the file of the embedding cache
    /// failed, which may still have vectors of what is forgotten; [`Error::Corrupted`], [`Error::ReadOnly`]. After an
    /// error, the same call forgets what is left.
    pub async fn forget(&self, what: Forget) -> Result<Receipt> {
        self.core().run(Lane::Long, move |core| core.forget(&what)).await
    }
}

impl Core {
    fn forget(&self, what: &Forget) -> Result<Receipt> {
        let (namespace, requested) = (&what.namespace, what.requested());
        self.check_held(what)?;
        // The journal drops those that it does not have yet, also of other namespaces.
        self.finish_notes();
        let mut pieces = self.pieces(what)?;
        let mut sum = Forgotten::default();
        loop {
            let piece = pieces.pop_front().unwrap_or_else(|| ForgetPiece::Namespaces(Vec::new()));
            if let (Selection::Prefix, ForgetPiece::Namespaces(some)) = (&what.selection, &piece) {
                let next = some.last().map(|(last, _)| self.namespaces_to_delete(namespace, Some(last)));
                pieces.extend(next.transpose()?.filter(|next| !next.is_empty()).map(ForgetPiece::Namespaces));
            }
            let receipt = self.forget_piece(namespace, piece, &requested, sum, pieces.is_empty())?;
            if pieces.is_empty() {
                return Ok(receipt);
            }
            sum = receipt.forgotten();
        }
    }

    /// Checks that no legal hold forbids it, before anything is forgotten.
    fn check_held(&self, what: &Forget) -> Result<()> {
        block_on(self.refresh_common())?;
        match what.selection {
            Selection::Prefix => block_on(self.refresh_under(Some(&what.namespace), None))?,
            _ => block_on(self.refresh(&what.namespace, None))?,
        }
        let snapshot = self.shared.store.read()?;
        match what.selection {
            Selection::Prefix => snapshot.holds().check_under(&what.namespace),
            _ => snapshot.holds().check(&what.namespace),
        }
    }

    /// Divides what is to be forgotten into pieces, each for one commit. Of a prefix, returns the first piece.
    fn pieces(&self, what: &Forget) -> Result<VecDeque<ForgetPiece>> {
        let namespace = &what.namespace;
        let chunks = |ids: Vec<String>| -> Vec<HashSet<String>> {
            let mut seen = HashSet::new();
            let ids: Vec<String> = ids.into_iter().filter(|id| seen.insert(id.clone())).collect();
            ids.chunks(COMMIT).map(|some| some.iter().cloned().collect()).collect()
        };
        Ok(match &what.selection {
            Selection::Messages(ids) => {
                chunks(ids.clone()).into_iter().map(|ids| ForgetPiece::Messages(ids, None)).collect()
            }
            Selection::Matching(filter) => {
                let found = self.shared.store.read()?.forget_texts().matching(namespace, filter)?;
                let mut chunks = chunks(found);
                // A version that a checkpoint keeps may match if no message does.
                if chunks.is_empty() {
                    chunks.push(HashSet::new());
                }
                chunks.into_iter().map(|ids| ForgetPiece::Messages(ids, Some(filter.clone()))).collect()
            }
            Selection::Documents(keys) => {
                keys.chunks(COMMIT).map(|keys| ForgetPiece::Documents(keys.to_vec())).collect()
            }
            Selection::Session(session) => {
                let messages = self.store().in_session(namespace, session, |snapshot, namespace, session| {
                    snapshot.history().messages(namespace, session, None)
                })?;
                let ids: Vec<String> = messages.into_iter().map(|(_, message)| message.id).collect();
                let mut pieces: VecDeque<ForgetPiece> = match ids.len() {
                    ..=COMMIT => VecDeque::new(),
                    _ => chunks(ids).into_iter().map(|ids| ForgetPiece::Messages(ids, None)).collect(),
                };
                pieces.push_back(ForgetPiece::Session(session.clone()));
                pieces
            }
            Selection::Namespace => {
                let id = self.store().view(|snapshot| snapshot.namespaces().id(namespace))?;
                id.map(|id| ForgetPiece::Namespaces(vec![(namespace.clone(), id)])).into_iter().collect()
            }
            Selection::Prefix => VecDeque::from([ForgetPiece::Namespaces(self.namespaces_to_delete(namespace, None)?)]),
        })
    }

    /// Forgets a piece in one commit, with its entry in the audit. `before` was forgotten by earlier commits of the
    /// call.
    fn forget_piece(
        &self,
        namespace: &Namespace,
        piece: ForgetPiece,
        requested: &ForgetTarget,
        before: Forgotten,
        complete: bool,
    ) -> Result<Receipt> {
        let cached = self.forget_cached_of(namespace, &piece)?;
        let apply = {
            let (namespace, requested) = (namespace.clone(), requested.clone());
            move |transaction: &Transaction| {
                let mut result = transaction.edit_forget().apply(&namespace, &piece)?;
                let segments = scrub_all(transaction, &result)?;
                result.forgotten.segments = segments.iter().map(|(.., changes)| changes.len() as u64).sum();
                result.forgotten.cached = cached;
                let mut forgotten = before;
                forgotten.add(result.forgotten);
                let nothing_found = complete && forgotten == Forgotten::default();
                let event = AuditEvent::Forget { requested: requested.clone(), forgotten, complete, nothing_found };
                let receipt = transaction.audit().append(event)?;
                let ForgetResult { texts, touched, .. } = result;
                Ok(Committed { receipt, texts, touched, segments })
            }
        };
        let shared = Arc::clone(&self.shared);
        let publish = move |committed: Result<Committed>| {
            let mut committed = committed?;
            for (generation, namespace, changes) in committed.segments.drain(..) {
                if let Some(generation) = shared.generations.get(generation) {
                    generation.publish(NamespaceChange::Segments(namespace, None, changes));
                }
            }
            Ok(committed)
        };
        let Committed { receipt, texts, touched, .. } =
            self.writer.commit(Commit::Grouped, then(apply, publish)).wait()?;
        self.shared.recent_queries.forget(&touched);
        for generation in self.shared.generations.all() {
            // A batch with one of the texts may be embedded just now. One that begins later has none of them.
            drop(generation.batching.lock());
            touched.iter().for_each(|&namespace| generation.unload_if_empty(namespace));
        }
        self.forget_cached(&texts)?;
        Ok(receipt)
    }

    /// Has caches forget the texts of a piece. Returns how many entries they had.
    fn forget_cached_of(&self, namespace: &Namespace, piece: &ForgetPiece) -> Result<u64> {
        let snapshot = self.shared.store.read()?;
        let (mut texts, mut bytes, mut cached) = (Vec::new(), 0, 0);
        snapshot.forget_texts().of(namespace, piece, |text| {
            bytes += text.len();
            texts.push(text);
            if bytes >= TEXT_BYTES {
                cached += self.forget_cached(&std::mem::take(&mut texts))?;
                bytes = 0;
            }
            Ok(())
        })?;
        Ok(cached + self.forget_cached(&texts)?)
    }

    /// Removes texts, and all queries, from the embedders' caches, of which the engine's own is one. Returns how many
    /// entries they had.
    fn forget_cached(&self, texts: &[String]) -> Result<u64> {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut cached = 0;
        for generation in self.shared.generations.all() {
            cached += generation.embedder.forget(&texts)?;
        }
        if let Some(cache) = &self.shared.cache {
            cached += cache.forget(&texts)?;
        }
        Ok(cached)
    }
}

/// Rewrites the segments of all namespaces in which something was forgotten.
fn scrub_all(transaction: &Transaction, result: &ForgetResult) -> Result<Vec<ScrubbedSegments>> {
    let mut all = Vec::new();
    for generation in transaction.generations().all()? {
        if generation.state == GenerationState::Retired {
            continue;
        }
        for &namespace in &result.touched {
            let changes = scrub_segments(transaction, generation.id, namespace)?;
            if !changes.is_empty() {
                all.push((generation.id, namespace, changes));
            }
        }
    }
    Ok(all)
}

impl Engine {
    /// Reads the audit, and checks its chain: an entry for each commit that forgot something, for each legal hold that
    /// was set or released, and for each purge. Cost: a pass over the entries.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`]. A broken chain is no error: see [`Audit::problems`].
    pub async fn audit(&self) -> Result<Audit> {
        Ok(self.audit_part(0..u64::MAX).await?.0)
    }

    /// Same as [`Engine::audit`], with those entries alone whose numbers are in `entries`, and how many there are in all. The chain of
    /// all is checked.
    ///
    /// # Errors
    /// Those of [`Engine::audit`].
    #[doc(hidden)]
    pub async fn audit_part(&self, entries: Range<u64>) -> Result<(Audit, u64)> {
        self.core().refresh_common().await?;
        let read = move |core: &Core| {
            core.store().view(|snapshot| Ok((snapshot.audit().read(entries)?, snapshot.audit().entries()?)))
        };
        self.core().run(Lane::Store, read).await
    }

    /// Sets a legal hold on a namespace and on those under it, which need not exist, or changes its reason. From then
    /// on nothing of them is deleted: [`Engine::forget`], all calls that delete messages, documents, sessions or
    /// namespaces, and the restoring of a checkpoint where it would delete a message, fail with [`Error::LegalHold`].
    /// Messages and documents that expire are not returned any more, and are kept. Putting goes on, and a put with a known id
    /// replaces the message or document. Returns the entry in the audit.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::ReadOnly`].
    pub async fn hold(&self, namespace: &Namespace, reason: impl Into<String>) -> Result<Receipt> {
        let (namespace, reason) = (namespace.clone(), reason.into());
        let hold = move |transaction: &Transaction| transaction.holds().put(&namespace, &reason);
        self.core().writer.commit(Commit::Grouped, hold).await
    }

    /// Releases the legal hold that was set on exactly this namespace. What expired meanwhile is deleted.
    /// Returns the entry in the audit, or `None` if there was no such hold.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::ReadOnly`].
    pub async fn release(&self, namespace: &Namespace) -> Result<Option<Receipt>> {
        let namespace = namespace.clone();
        let release = move |transaction: &Transaction| transaction.holds().remove(&namespace);
        let released = self.core().writer.commit(Commit::Grouped, release).await?;
        if released.is_some() {
            self.core().shared.expiry.schedule((), Timestamp::now());
        }
        Ok(released)
    }

    /// Returns the legal holds, ordered by namespace.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn holds(&self) -> Result<Vec<Hold>> {
        self.core().refresh_common().await?;
        self.core().run(Lane::Store, |core| core.shared.store.read()?.holds().all()).await
    }
}
