//! The part of a reindex that machines with a shared database share out: each machine claims namespaces, embeds their
//! messages and offers the vectors to the others. The first machine that has compared the models decides for all.
//!
//! Nothing is lost if two machines embed the same messages, or none does: a machine that finds no vectors makes them.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use crate::{
    embed::Embedder,
    engine::{
        core::Core,
        replica::{LEASE, Replica},
    },
    error::{Error, Result},
    ids::{ModelIdentity, Namespace, NamespaceId},
    shared::{Begun, Decision, ReindexId, RolledBack, Verdict},
};

/// Number of namespaces that are claimed at a time.
const CLAIM: usize = 8;
/// Time between two reads of the progress of all machines, which read a row for each namespace.
const COUNT: Duration = Duration::from_secs(2);
/// Number of namespaces that a machine without any fetches for the comparison.
const SAMPLES: usize = 16;

/// A reindex that this machine takes part in. Dropping it gives back the claims that are not done.
pub(super) struct SharedReindex<'a> {
    core: &'a Core,
    replica: &'a Replica,
    reindex: ReindexId,
    kept: Cell<Instant>,
    progress: Cell<Option<((u64, u64), Instant)>>,
}

/// A namespace that this machine is to embed.
pub(super) struct Claim {
    name: String,
    version: u64,
    /// The namespace of its messages, and that of the texts of its documents.
    pub(super) parts: Vec<NamespaceId>,
}

impl Core {
    /// Begins a reindex of all machines, or joins it. Returns `None` if there is nothing to share out: the engine has
    /// no shared database, or the model serves on all machines already.
    pub(super) fn begin_shared_reindex(&self, to: &ModelIdentity) -> Result<Option<SharedReindex<'_>>> {
        let Some(replica) = self.shared.replica.as_deref() else { return Ok(None) };
        let Begun::Building(reindex) = replica.record_answer(replica.upstream.begin_reindex(to))? else {
            return Ok(None);
        };
        Ok(Some(SharedReindex {
            core: self,
            replica,
            reindex,
            kept: Cell::new(Instant::now()),
            progress: Cell::default(),
        }))
    }

    /// Checks that the model of this machine serves on all machines.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] if it does not: a reindex to it would seem to be done.
    pub(super) fn check_serves_on_all(&self, own: &ModelIdentity) -> Result<()> {
        let Some(replica) = self.shared.replica.as_deref() else { return Ok(()) };
        match replica.record_answer(replica.upstream.serving_model())? {
            Some(all) if (&all.hash, all.dimension) != (&own.hash, own.dimension) => {
                let reason = format!(
                    "{own} serves on this machine alone, and {all} on the others; to move them all, call this on an engine with \
                     a new file, opened without an embedder"
                );
                Err(Error::InvalidConfig { reason })
            }
            _ => Ok(()),
        }
    }

    /// Switches all machines back to the previous model, if it is this one. Does nothing without a shared database.
    pub(super) fn roll_back_on_all(&self, to: &dyn Embedder) -> Result<()> {
        let Some(replica) = self.shared.replica.as_deref() else { return Ok(()) };
        match replica.record_answer(replica.upstream.roll_back(to.identity()))? {
            RolledBack::Serves => Ok(()),
            RolledBack::NoPrevious(kept) => Err(Error::NoPrevious { kept, given: to.identity().to_string() }),
        }
    }
}

impl SharedReindex<'_> {
    /// Adds all namespaces to the work of the reindex.
    pub(super) fn list(&self) -> Result<()> {
        let mut listed = Some(String::new());
        while let Some(after) = listed {
            listed = self.replica.record_answer(self.replica.upstream.list_work(self.reindex, &after))?;
        }
        Ok(())
    }

    /// Returns the numbers of messages in namespaces that are done, and in all, at most [`COUNT`] old.
    pub(super) fn progress(&self) -> Result<(u64, u64)> {
        if self.progress.get().is_none_or(|(_, at)| at.elapsed() > COUNT) {
            let counted = self.replica.record_answer(self.replica.upstream.reindex_progress(self.reindex))?;
            self.progress.set(Some((counted, Instant::now())));
        }
        Ok(self.progress.get().map(|(counted, _)| counted).unwrap_or_default())
    }

    /// Claims namespaces, and fetches them. Returns none if other machines work on all that are left, and `None` if
    /// none is left.
    pub(super) fn claim(&self) -> Result<Option<Vec<Claim>>> {
        let claimed = self.replica.record_answer(self.replica.upstream.claim_work(self.reindex, CLAIM, LEASE))?;
        let fetched = |name: String| {
            let version = self.pull(&name)?;
            let id = self.core.shared.store.read()?.namespaces().id(&Namespace::new(&name)?)?;
            Ok(Claim { name, version, parts: id.into_iter().flat_map(NamespaceId::parts).collect() })
        };
        claimed.map(|names| names.into_iter().map(fetched).collect()).transpose()
    }

    /// Records that the messages of a namespace have vectors.
    pub(super) fn done(&self, Claim { name, version, .. }: &Claim) -> Result<()> {
        self.replica.record_answer(self.replica.upstream.work_done(self.reindex, name, *version))
    }

    /// Fetches a namespace. Returns its version.
    fn pull(&self, name: &str) -> Result<u64> {
        self.core.pull(name, Instant::now())?;
        Ok(self.core.shared.store.read()?.versions().get(name)?.number)
    }

    /// Extends the claims before they end. Cheap to call often.
    pub(super) fn keep(&self) {
        if self.kept.get().elapsed() > LEASE / 4 {
            self.kept.set(Instant::now());
            if let Err(error) = self.replica.record_answer(self.replica.upstream.keep_work(self.reindex, LEASE)) {
                tracing::debug!(%error, "claims were not extended; other machines may embed the same messages");
            }
        }
    }

    /// Fetches some namespaces with more than this many messages, for the comparison.
    pub(super) fn fetch_samples(&self, more_than: usize) -> Result<()> {
        let names = self.replica.record_answer(self.replica.upstream.larger_namespaces(more_than as u64, SAMPLES))?;
        names.iter().try_for_each(|name| self.pull(name).map(drop))
    }

    /// Reports the result of this machine's comparison. Returns the decision for all machines.
    pub(super) fn decide(&self, rejected: Option<String>, keep_previous: bool) -> Result<Decision> {
        let upstream = &self.replica.upstream;
        let verdict = rejected.map_or(Verdict::Passed, Verdict::Rejected);
        let decision = self.replica.record_answer(upstream.decide(self.reindex, &verdict))?;
        if decision == Decision::Serves && !keep_previous {
            self.replica.record_answer(upstream.drop_previous_model())?;
        }
        Ok(decision)
    }
}

impl Drop for SharedReindex<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.replica.record_answer(self.replica.upstream.keep_work(self.reindex, Duration::ZERO)) {
            tracing::debug!(%error, "claims were not given back; they end by themselves");
        }
    }
}
