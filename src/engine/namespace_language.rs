//! Sets the language in which a namespace's text is analyzed.

use std::sync::Arc;

use super::{
    lexical_rebuild::LexicalRebuild, loaded_generation::LoadedGeneration, shared::Shared, stored_graph::Workers,
};
use crate::{
    error::Result,
    ids::Namespace,
    lexical::Language,
    recall::{NamespaceChange, SegmentChange},
    store::Transaction,
};

impl Shared {
    /// Sets the language of a namespace, which is made if it is new, and of its documents. If it was another, rebuilds
    /// the lexical indexes of all generations in memory; one that is not in memory is rebuilt when it is loaded.
    pub(super) fn set_language(&self, namespace: &Namespace, language: Language, workers: &Workers) -> Result<()> {
        let namespace = match self.store.read()?.namespaces().id(namespace)? {
            Some(known) => known,
            None => {
                let namespace = namespace.clone();
                let create = move |transaction: &mut Transaction| transaction.namespaces().create(&namespace);
                workers.writer.commit(create, |created| created)?
            }
        };
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
                        generation.publish(NamespaceChange::Segments(namespace, Some(language), changes));
                    }
                }
            };
            rebuild.commit(&self.store, &workers.writer, publish)?;
        }
        Ok(())
    }
}
