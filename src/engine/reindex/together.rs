//! The part of a reindex that machines with a shared database do together: they share the namespaces out, each embeds
//! the messages of its own and offers the vectors, and the first that has compared the models decides for all.
//!
//! Nothing is lost if machines do the same twice or not at all: a machine that finds no vectors makes them.

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

/// Namespaces that are claimed at once.
const CLAIM: usize = 8;
/// The time after which the progress of all is asked for again, which reads a row for each namespace.
const COUNT: Duration = Duration::from_secs(2);
/// Namespaces that are fetched for the comparison, by a machine that has none to compare.
const SAMPLES: usize = 16;

/// A reindex that this machine takes part in. What it has claimed and not done is given back when this is dropped.
pub(super) struct Together<'a> {
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
    /// Begins a reindex of all machines, or takes part in it. Returns `None` if there is nothing to do together: the
    /// engine has a file of its own, or the model serves on all machines.
    pub(super) fn reindex_together(&self, to: &ModelIdentity) -> Result<Option<Together<'_>>> {
        let Some(replica) = self.shared.replica.as_deref() else { return Ok(None) };
        let Begun::Building(reindex) = replica.asked(replica.upstream.begin_reindex(to))? else { return Ok(None) };
        Ok(Some(Together { core: self, replica, reindex, kept: Cell::new(Instant::now()), progress: Cell::default() }))
    }

    /// Checks that the model of this machine serves on all.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: whoever asks for a reindex to it would think that it does.
    pub(super) fn check_serves_on_all(&self, own: &ModelIdentity) -> Result<()> {
        let Some(replica) = self.shared.replica.as_deref() else { return Ok(()) };
        match replica.asked(replica.upstream.serving_model())? {
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

    /// Lets the model serve on all machines that served before, if it is this one. Does nothing in an engine with a
    /// file of its own.
    pub(super) fn roll_back_together(&self, to: &dyn Embedder) -> Result<()> {
        let Some(replica) = self.shared.replica.as_deref() else { return Ok(()) };
        match replica.asked(replica.upstream.roll_back(to.identity()))? {
            RolledBack::Serves => Ok(()),
            RolledBack::NoPrevious(kept) => Err(Error::NoPrevious { kept, given: to.identity().to_string() }),
        }
    }
}

impl Together<'_> {
    /// Lists what is to be done.
    pub(super) fn list(&self) -> Result<()> {
        let mut listed = Some(String::new());
        while let Some(after) = listed {
            listed = self.replica.asked(self.replica.upstream.list_work(self.reindex, &after))?;
        }
        Ok(())
    }

    /// The numbers of messages in namespaces that are done, and in all. Reads a row for each namespace, now and then.
    pub(super) fn progress(&self) -> Result<(u64, u64)> {
        if self.progress.get().is_none_or(|(_, at)| at.elapsed() > COUNT) {
            let counted = self.replica.asked(self.replica.upstream.reindex_progress(self.reindex))?;
            self.progress.set(Some((counted, Instant::now())));
        }
        Ok(self.progress.get().map(|(counted, _)| counted).unwrap_or_default())
    }

    /// Claims namespaces, and fetches them. Returns no name if others work on all that are left, and `None` if none is.
    pub(super) fn claim(&self) -> Result<Option<Vec<Claim>>> {
        let claimed = self.replica.asked(self.replica.upstream.claim_work(self.reindex, CLAIM, LEASE))?;
        let fetched = |name: String| {
            let version = self.pull(&name)?;
            let id = self.core.shared.store.read()?.namespaces().id(&Namespace::new(&name)?)?;
            Ok(Claim { name, version, parts: id.into_iter().flat_map(NamespaceId::parts).collect() })
        };
        claimed.map(|names| names.into_iter().map(fetched).collect()).transpose()
    }

    /// Notes that the messages of a namespace have vectors.
    pub(super) fn done(&self, Claim { name, version, .. }: &Claim) -> Result<()> {
        self.replica.asked(self.replica.upstream.work_done(self.reindex, name, *version))
    }

    /// Fetches a namespace. Returns its version.
    fn pull(&self, name: &str) -> Result<u64> {
        self.core.pull(name, Instant::now())?;
        self.core.shared.store.read()?.versions().get(name)
    }

    /// Keeps what was claimed, from time to time.
    pub(super) fn keep(&self) {
        if self.kept.get().elapsed() > LEASE / 4 {
            self.kept.set(Instant::now());
            if let Err(error) = self.replica.asked(self.replica.upstream.keep_work(self.reindex, LEASE)) {
                tracing::debug!(%error, "others may embed the same");
            }
        }
    }

    /// Fetches namespaces with more than so many messages, for a comparison.
    pub(super) fn fetch_samples(&self, more_than: usize) -> Result<()> {
        let names = self.replica.asked(self.replica.upstream.larger_namespaces(more_than as u64, SAMPLES))?;
        names.iter().try_for_each(|name| self.pull(name).map(drop))
    }

    /// Says how this machine's comparison ended. Returns what is true for all.
    pub(super) fn decide(&self, rejected: Option<String>, keep_previous: bool) -> Result<Decision> {
        let upstream = &self.replica.upstream;
        let verdict = rejected.map_or(Verdict::Passed, Verdict::Rejected);
        let decision = self.replica.asked(upstream.decide(self.reindex, &verdict))?;
        if decision == Decision::Serves && !keep_previous {
            self.replica.asked(upstream.drop_previous_model())?;
        }
        Ok(decision)
    }
}

impl Drop for Together<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.replica.asked(self.replica.upstream.keep_work(self.reindex, Duration::ZERO)) {
            tracing::debug!(%error, "claims end by themselves");
        }
    }
}
