//! Writing the segments of loaded namespaces again: without what is dead, or for another language.

use std::sync::Arc;

use super::{
    graph::Workers,
    lexical::{self, SegmentChange},
    shared::Shared,
    spaces::{Change, Space, Spaces},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    lexical::{Language, Segment},
    store::Transaction,
};

impl Spaces {
    /// Writes a segment again without its dead rows.
    pub(super) fn rewrite(
        &self,
        namespace: NamespaceId,
        space: Arc<Space>,
        number: u32,
        old: Arc<Segment>,
        workers: &Workers,
    ) -> Result<bool> {
        let living: Vec<u32> = {
            let state = space.state.read();
            let lexical = &state.loaded().expect("loaded once, loaded for ever").lexical;
            old.rows().iter().copied().filter(|&row| lexical.is_home(number, row)).collect()
        };
        let new = old.retain(|row| living.binary_search(&row).is_ok()).map(Arc::new);
        let generation = self.generation.id;
        let apply = {
            let old = Arc::clone(&old);
            move |transaction: &mut Transaction| {
                lexical::rewrite(transaction, generation, namespace, number, &old, new.as_ref())
            }
        };
        let publish = {
            let space = Arc::clone(&space);
            move |change: Option<SegmentChange>| {
                let change = change.map(|change| Change::Segments(namespace, None, vec![change]));
                change.map(|change| space.publish(change));
            }
        };
        workers.writer.commit(apply, publish)?;
        let left = space.state.read().loaded().and_then(|loaded| loaded.lexical.sparse());
        match left {
            // The next try would do no more.
            Some((_, left)) if Arc::ptr_eq(&left, &old) => {
                Err(Error::corrupted(format!("segment {number} of a lexical index is not stored as it was loaded")))
            }
            _ => Ok(true),
        }
    }
}

impl Shared {
    /// Says in which language a namespace is analysed. If it was another, makes its lexical indexes anew, in all generations that are
    /// in memory; one that is not gets its own when it is loaded.
    pub(super) fn set_language(&self, namespace: &Namespace, language: Language, workers: &Workers) -> Result<()> {
        let known = self.store.read()?.namespace(namespace)?;
        let namespace =
            known.map_or_else(|| self.store.write(|transaction| transaction.make_namespace(namespace)), Ok)?;
        let all = self.live.all();
        // Between batches: what is analysed by the old language is handed to the writer before this, or analysed after it.
        let _between: Vec<_> = all.iter().map(|spaces| spaces.batching.lock()).collect();
        let apply = {
            let all = all.clone();
            move |transaction: &mut Transaction| {
                let before = transaction.language(namespace)?;
                if before.as_deref().unwrap_or(Language::default().as_str()) == language.as_str() {
                    return Ok(vec![Vec::new(); all.len()]);
                }
                transaction.set_language(namespace, language.as_str())?;
                let rebuild = |spaces: &Arc<Spaces>| {
                    lexical::rebuild(transaction, spaces.generation.id, namespace, &*spaces.embedder)
                };
                all.iter().map(rebuild).collect()
            }
        };
        let publish = {
            let all = all.clone();
            move |changes: Vec<Vec<SegmentChange>>| {
                for (spaces, changes) in all.iter().zip(changes) {
                    spaces.publish(Change::Segments(namespace, Some(language), changes));
                }
            }
        };
        workers.writer.commit(apply, publish)
    }
}
