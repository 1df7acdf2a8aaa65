//! The languages of namespaces: set by a call, or guessed from a namespace's first messages.
//!
//! A guess is made before messages are embedded, on the thread that embeds, and stored. Invariant: a language that was set
//! is never replaced by a guess.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::oneshot;

use super::{
    handle::Engine,
    loaded_generation::LoadedGeneration,
    segments::LexicalRebuild,
    shared::{Shared, Wake},
    stored_graph::Workers,
    writer::Commit,
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    lexical::{ChosenLanguage, Language, LanguageGuesser, LanguageOrigin},
    recall::{NamespaceChange, SegmentChange},
    store::Transaction,
};

impl Engine {
    /// Sets the language in which the text of a namespace is analysed for its terms, and creates the namespace if it is
    /// new. If the language changes, all stored messages are analysed again, in one commit: some microseconds per
    /// message.
    ///
    /// A language that is set stays. Otherwise the language is [`Language::English`], until it is guessed once: before
    /// messages are embedded, when the first messages of users and assistants have 200 letters or more. It stays English
    /// where the messages do not tell, because they are in a language without a stemmer or in several.
    /// [`Engine::namespaces`] says what it is.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn set_language(&self, namespace: &Namespace, language: Language) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        let namespace = namespace.clone();
        // Between two flushes, on the thread that embeds: no batch is analysed in two languages.
        let work = move |shared: &Arc<Shared>, workers: &Workers| {
            let _ = reply.send(shared.set_language(&namespace, language, workers));
        };
        self.core().wake(Wake::Between(Box::new(work)))?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

impl Shared {
    /// Sets the language of a namespace, which is made if it is new.
    pub(super) fn set_language(&self, namespace: &Namespace, language: Language, workers: &Workers) -> Result<()> {
        let namespace = match self.store.read()?.namespaces().id(namespace)? {
            Some(known) => known,
            None => {
                let namespace = namespace.clone();
                let create = move |transaction: &Transaction| transaction.namespaces().create(&namespace);
                workers.writer.commit(Commit::Grouped, create).wait()?
            }
        };
        let language = ChosenLanguage { language, origin: LanguageOrigin::Set };
        self.change_language(namespace, language, workers)
    }

    /// Guesses the languages of the namespaces with pending messages that have none. Called on the thread that embeds,
    /// before the messages are analyzed.
    pub(super) fn guess_languages(&self, workers: &Workers) -> Result<()> {
        let guesses = self.guesses()?;
        let (analyzed, changed): (Vec<_>, Vec<_>) =
            guesses.into_iter().partition(|(_, guessed)| guessed.language == Language::default());
        if !analyzed.is_empty() {
            // Their texts are analyzed in this language already.
            let note = move |transaction: &Transaction| {
                let namespaces = transaction.namespaces();
                for &(namespace, guessed) in &analyzed {
                    if namespaces.awaits_guess(namespace)? {
                        namespace.parts().into_iter().try_for_each(|part| namespaces.set_language(part, guessed))?;
                    }
                }
                Ok(())
            };
            workers.writer.commit(Commit::Grouped, note).wait()?;
        }
        changed.into_iter().try_for_each(|(namespace, guessed)| self.change_language(namespace, guessed, workers))
    }

    /// The guesses for the namespaces with pending messages that have no language and enough text.
    fn guesses(&self) -> Result<BTreeMap<NamespaceId, ChosenLanguage>> {
        let snapshot = self.store.read()?;
        let mut guesses = BTreeMap::new();
        // A part has the messages of a namespace, or the texts of its documents; that with the messages comes first.
        for part in snapshot.pending().namespaces(self.generations.serving().generation.id)? {
            let namespace = part.whole();
            if guesses.contains_key(&namespace) || !snapshot.namespaces().awaits_guess(namespace)? {
                continue;
            }
            let mut guesser = LanguageGuesser::default();
            match snapshot.messages().find_in_texts(part, |text| guesser.read(text)) {
                Ok(guessed) => guesses.extend(guessed.map(|guessed| (namespace, guessed))),
                // A damaged message keeps no other namespace from being embedded.
                Err(error @ Error::Corrupted { .. }) => {
                    tracing::error!(%error, "the language of a namespace was not guessed");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(guesses)
    }

    /// Changes the language of a namespace and of its documents. If it was another, rebuilds the lexical indexes of all
    /// generations in memory; one that is not in memory is rebuilt when it is loaded.
    fn change_language(&self, namespace: NamespaceId, language: ChosenLanguage, workers: &Workers) -> Result<()> {
        let all: Vec<Arc<LoadedGeneration>> = self.generations.all();
        // Between batches: one analyzed in the old language was handed to the writer before this, all others come
        // after.
        let _between: Vec<_> = all.iter().map(|generation| generation.batching.lock()).collect();
        for namespace in namespace.parts() {
            let generations = all.iter().map(|loaded| (loaded.generation.id, &*loaded.embedder)).collect();
            let rebuild = LexicalRebuild { namespace, generations, language: Some(language) };
            let publish = {
                let all = all.clone();
                move |changes: Vec<Vec<SegmentChange>>| {
                    for (generation, changes) in all.iter().zip(changes) {
                        generation.publish(NamespaceChange::Segments(namespace, Some(language.language), changes));
                    }
                }
            };
            rebuild.commit(&self.store, &workers.writer, publish)?;
        }
        Ok(())
    }
}
