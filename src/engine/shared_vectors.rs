//! Vectors that machines with a shared database make for each other.
//!
//! A vector is found by its message, the revision of the message, a hash of the text, and the model. The same text has the
//! same vector, so nothing is wrong if two machines make it. A machine whose replica has another history than the primary
//! may know another message by the same number: the hash tells their vectors apart. Errors of the shared database spoil nothing: the vectors are made here.

use std::collections::{BTreeSet, HashMap};

use mnemon_index::is_finite;

use super::{
    replica::{LEASE, Replica},
    text_windows::stored_windows,
    vector_batch::VectorBatch,
};
use crate::{
    embed::Embedder,
    error::{Error, Result},
    ids::NamespaceId,
    shared::{Lease, SharedVectors, WantedVectors},
    store::{Embedded, PendingMessage, Snapshot},
};

/// The name of this work.
const WORK: &str = "embed";

/// Says what becomes of messages that no other machine has embedded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unmade {
    /// Embeds them, unless another machine is about to.
    Share,
    /// Embeds them.
    Make,
    /// Leaves them pending.
    Leave,
}

impl Replica {
    /// Makes a batch of the messages that other machines have embedded. The others stay in `waiting`.
    pub(super) fn fetch(
        &self,
        embedder: &dyn Embedder,
        snapshot: &Snapshot,
        waiting: &mut Vec<PendingMessage>,
    ) -> Result<VectorBatch> {
        let mut batch = VectorBatch::new();
        let wanted: Option<Vec<WantedVectors>> =
            waiting.iter().map(|pending| self.wanted(snapshot, pending)).collect::<Result<_>>()?;
        let Some(wanted) = wanted else { return Ok(batch) };
        let found = match self.record_answer(self.upstream.vectors(embedder.identity(), &wanted)) {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "no vectors were fetched");
                return Ok(batch);
            }
        };
        let mut rest = Vec::new();
        for (pending, vectors) in std::mem::take(waiting).into_iter().zip(found) {
            match vectors.filter(|vectors| vectors.iter().all(|vector| is_finite(vector))) {
                Some(vectors) => {
                    let windows = stored_windows(embedder, &pending.text, vectors.len())?;
                    let PendingMessage { namespace, revision, meta, text, .. } = pending;
                    batch.push(snapshot, Embedded { namespace, revision, meta, vectors }, &text, &windows)?;
                }
                None => rest.push(pending),
            }
        }
        *waiting = rest;
        Ok(batch)
    }

    /// Takes the messages out of `waiting` that are not to be embedded here. Returns what must be released once the
    /// others are.
    pub(super) fn leave(
        &self,
        snapshot: &Snapshot,
        unmade: Unmade,
        waiting: &mut Vec<PendingMessage>,
    ) -> Result<Vec<Lease>> {
        match unmade {
            Unmade::Make => return Ok(Vec::new()),
            Unmade::Leave => {
                waiting.clear();
                return Ok(Vec::new());
            }
            Unmade::Share => {}
        }
        let mut names = BTreeSet::new();
        for pending in &*waiting {
            names.extend(self.owner(snapshot, pending.namespace)?);
        }
        let names: Vec<String> = names.into_iter().collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let leases = match self.record_answer(self.upstream.lease(WORK, &names, LEASE)) {
            Ok(leases) => leases,
            Err(error) => {
                tell(&error, "messages are embedded without a lease");
                return Ok(Vec::new());
            }
        };
        let mut mine = Vec::new();
        for pending in std::mem::take(waiting) {
            let name = self.owner(snapshot, pending.namespace)?;
            if leases.iter().any(|lease| Some(&lease.namespace) == name.as_ref()) {
                mine.push(pending);
            }
        }
        *waiting = mine;
        Ok(leases)
    }

    /// Gives vectors to the other machines, and the leases back.
    pub(super) fn offer(
        &self,
        embedder: &dyn Embedder,
        snapshot: &Snapshot,
        waiting: &[PendingMessage],
        made: &[Embedded],
        leases: &[Lease],
    ) {
        let offer = || -> Result<()> {
            let made: HashMap<(NamespaceId, u64), &Embedded> =
                made.iter().map(|made| ((made.namespace, made.meta.seq), made)).collect();
            let (mut offered, mut versions) = (Vec::with_capacity(made.len()), HashMap::new());
            for pending in waiting {
                if let Some(made) = made.get(&(pending.namespace, pending.meta.seq))
                    && let Some(of) = self.wanted(snapshot, pending)?
                {
                    let version = match versions.get(&of.namespace) {
                        Some(version) => *version,
                        None => snapshot.versions().get(&of.namespace)?,
                    };
                    versions.insert(of.namespace.clone(), version);
                    offered.push(SharedVectors { of, version, vectors: &made.vectors });
                }
            }
            if !offered.is_empty() {
                self.record_answer(self.upstream.offer_vectors(embedder.identity(), &offered))?;
            }
            if !leases.is_empty() {
                self.record_answer(self.upstream.release(leases))?;
            }
            Ok(())
        };
        if let Err(error) = offer() {
            tell(&error, "vectors were not shared; each machine makes its own");
        }
    }

    fn wanted(&self, snapshot: &Snapshot, pending: &PendingMessage) -> Result<Option<WantedVectors>> {
        let PendingMessage { namespace, revision, meta, text, .. } = pending;
        let is_text = namespace.has_document_texts();
        let text_hash = WantedVectors::hash(text);
        let name = self.owner(snapshot, *namespace)?;
        Ok(name.map(|namespace| WantedVectors { namespace, is_text, seq: meta.seq, revision: *revision, text_hash }))
    }

    /// The name of the namespace that this is a part of.
    fn owner(&self, snapshot: &Snapshot, namespace: NamespaceId) -> Result<Option<String>> {
        self.names().of(snapshot, namespace.whole())
    }
}

/// Says in the log that an error has cost work. One that will come again is a warning.
fn tell(error: &Error, consequence: &str) {
    match error {
        Error::SharedDatabase { transient: false, .. } => tracing::warn!(%error, "{consequence}"),
        _ => tracing::debug!(%error, "{consequence}"),
    }
}
