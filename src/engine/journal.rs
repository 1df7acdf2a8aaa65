//! The journal: recalls are noted in memory and stored by the writer, and asked again.
//!
//! A recall never waits for the journal. What it notes is stored at once if nothing was stored for a second, else with
//! the next note after that second, when many are waiting, when the journal is read, or when the engine is closed.

use std::sync::{Arc, mpsc};

use super::{
    core::Core,
    executor::Lane,
    handle::Engine,
    notes::Note,
    writer::{Commit, then},
};
#[cfg(doc)]
use crate::{config::Config, error::Error, journal::HitChange};
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
    journal::{JournalEntry, RecallState, Replay},
    recall::{Hits, Query, Seen},
    store::Transaction,
};

/// A recall that has begun.
pub(super) struct Begun {
    namespace: NamespaceId,
    state: RecallState,
    /// The number of times that entries of the journal had been removed because something was forgotten.
    cleared: u64,
}

impl Engine {
    /// Returns up to `limit` entries of the journal of a namespace, the newest first; with `before`, those with a lower
    /// [number](JournalEntry::number), for the next page. There are none unless
    /// [`Config::journal`](field@Config::journal) is set.
    ///
    /// An entry has the question, the ids of the hits and the terms of their scores. [`Engine::forget`] removes the
    /// entries of the namespaces in which it forgets something, because a question may repeat what was said.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn journal(&self, namespace: &Namespace, limit: usize, before: Option<u64>) -> Result<Vec<JournalEntry>> {
        let namespace = namespace.clone();
        self.core().run(Lane::Store, move |core| core.journal(&namespace, limit, before)).await
    }

    /// Asks the question of an entry again, with the same options, and compares what is found today with what was found
    /// then. Times such as "last week" stay those of then: [`Query::now`] is the time of the entry, unless it was set.
    /// The recall is not noted in the journal, and takes the time that it needs.
    ///
    /// A message that is stored and no hit any more is [`HitChange::Outranked`]; one that was deleted is
    /// [`HitChange::Gone`]. The scores of all messages change a little with each message that is put or deleted, because
    /// they are scaled by statistics of the namespace.
    ///
    /// # Errors
    /// Those of [`Engine::recall`]. [`Error::InvalidQuery`] also if the entry has options that this release does not
    /// know.
    pub async fn replay(&self, entry: &JournalEntry) -> Result<Replay> {
        let query = self.within_budget(entry.query()?.without_metadata());
        let seen = self.core().refresh_for(&entry.namespace, &query).await?;
        let entry = entry.clone();
        self.core().run(Lane::Recalls, move |core| core.replay(&entry, &query, seen)).await
    }
}

impl Core {
    /// Begins a recall that is to be noted. `None` if it is not: the journal is off, or the namespace does not exist.
    pub(super) fn begin_note(&self, namespace: &Namespace) -> Result<Option<Begun>> {
        if self.shared.config.journal == 0 || self.shared.store.is_read_only() {
            return Ok(None);
        }
        let snapshot = self.shared.store.read()?;
        let cleared = snapshot.journal().cleared()?;
        let found = snapshot.namespaces().id_and_next(namespace)?;
        let model = || self.shared.generations.serving().embedder.identity().to_string();
        Ok(found.map(|(namespace, next_seq)| Begun {
            namespace,
            state: RecallState { model: model(), next_seq },
            cleared,
        }))
    }

    /// Notes a recall.
    pub(super) fn note(
        &self,
        Begun { namespace, state, cleared }: Begun,
        name: &Namespace,
        query: &Query,
        found: &Hits,
    ) {
        let Some(entry) = JournalEntry::new(name, query, state, found).to_json() else {
            tracing::warn!(%name, "a recall is not noted in the journal: its question and its hits are too long");
            return;
        };
        if self.shared.notes.push(Note { namespace, entry, cleared }) {
            self.store_notes(|| {});
        }
    }

    /// Hands the notes to the writer. `done` is called when they are stored, or have failed.
    fn store_notes(&self, done: impl FnOnce() + Send + 'static) {
        let (notes, most) = (self.shared.notes.take(), self.shared.config.journal as u64);
        let apply = move |transaction: &Transaction| {
            for Note { namespace, entry, cleared } in &notes {
                transaction.journal().append(*namespace, entry, *cleared, most)?;
            }
            Ok(())
        };
        let shared = Arc::clone(&self.shared);
        let finish = move |stored: Result<()>| {
            if let Err(error) = stored {
                tracing::warn!(%error, "recalls are missing in the journal");
            }
            shared.notes.stored();
            done();
            Ok(())
        };
        self.writer.commit(Commit::Grouped, then(apply, finish));
    }

    /// Stores the notes, if there are any, and returns at once.
    pub(super) fn finish_notes(&self) {
        if !self.shared.notes.is_empty() {
            self.store_notes(|| {});
        }
    }

    fn journal(&self, namespace: &Namespace, limit: usize, before: Option<u64>) -> Result<Vec<JournalEntry>> {
        if !self.shared.notes.are_stored() {
            let (done, stored) = mpsc::sync_channel(1);
            self.store_notes(move || done.send(()).unwrap_or_default());
            // An error only says that the engine is being closed.
            let _ = stored.recv();
        }
        let entries =
            self.store().in_namespace(namespace, |snapshot, id| snapshot.journal().page(id, limit, before))?;
        Ok(entries.into_iter().filter_map(|(number, json)| JournalEntry::from_json(number, &json)).collect())
    }

    fn replay(&self, entry: &JournalEntry, query: &Query, seen: Option<Seen>) -> Result<Replay> {
        let found = self.answer(&entry.namespace, query, seen)?;
        let model = self.shared.generations.serving().embedder.identity().to_string();
        let snapshot = self.shared.store.read()?;
        let namespace = snapshot.namespaces().id(&entry.namespace)?;
        Replay::compare(entry, &found, &model, |id| match namespace {
            Some(namespace) => snapshot.messages().last_number(namespace, id),
            None => Ok(None),
        })
    }
}
