//! Reads that are as fresh as asked, in an engine with a shared database: what other machines changed is pulled when it
//! is needed, and in the background while a namespace is in use.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use super::{core::Core, replica::Replica};
use crate::{
    error::{Error, Result},
    freshness::Freshness,
    ids::{Namespace, NamespaceId},
    recall::{Query, Seen},
    shared::Notified,
    store::{COMMON, Change},
};

impl Core {
    /// Makes a namespace as fresh as a query asks. Returns what the copy knows of it then.
    ///
    /// # Errors
    /// Those of [`Core::refresh`].
    pub(super) fn refresh_for(&self, namespace: &Namespace, query: &Query) -> Result<Option<Seen>> {
        let Some(replica) = &self.shared.replica else { return Ok(None) };
        self.refresh(namespace, query.freshness)?;
        let version = self.shared.store.read()?.versions().get(namespace.as_str())?;
        let age = replica.fresh_since(namespace.as_str()).map(|fresh| fresh.elapsed());
        Ok(Some(Seen { version, age }))
    }

    /// Makes all namespaces under a prefix, or all that there are, as fresh as the engine was opened for. Fetches those
    /// that are not here.
    ///
    /// # Errors
    /// Those of [`Core::refresh`].
    pub(super) fn refresh_under(&self, prefix: Option<&Namespace>) -> Result<()> {
        let Some(replica) = &self.shared.replica else { return Ok(()) };
        if replica.freshness == Freshness::Local {
            return Ok(());
        }
        let asked = Instant::now();
        let found = match replica.asked(replica.upstream.namespaces(prefix.map(Namespace::as_str))) {
            Err(error @ Error::SharedDatabase { .. }) if replica.freshness != Freshness::Latest => {
                tracing::warn!(%error, "a read goes on with what this machine has");
                return Ok(());
            }
            found => found?,
        };
        for (name, version, exists) in found {
            let known = self.shared.store.read()?.versions().get(&name)?;
            if known < version && (exists || known > 0) {
                self.pull(&name, asked)?;
            }
            replica.is_fresh(&name, asked);
        }
        Ok(())
    }

    /// Makes what belongs to no namespace as fresh as the engine was opened for: legal holds and the audit.
    ///
    /// # Errors
    /// Those of [`Core::refresh`].
    pub(super) fn refresh_common(&self) -> Result<()> {
        self.refresh_name(COMMON, None)
    }

    /// Makes a namespace as fresh as asked, by default as the engine was opened for. Does nothing in an engine with a
    /// file of its own.
    ///
    /// # Errors
    /// [`Error::SharedDatabase`] for [`Freshness::Latest`]: other reads go on with what is here.
    pub(super) fn refresh(&self, namespace: &Namespace, freshness: Option<Freshness>) -> Result<()> {
        match namespace.owner() {
            Some(owner) => self.refresh_name(owner.as_str(), freshness),
            None => self.refresh_name(namespace.as_str(), freshness),
        }
    }

    fn refresh_name(&self, name: &str, freshness: Option<Freshness>) -> Result<()> {
        let Some(replica) = &self.shared.replica else { return Ok(()) };
        let freshness = freshness.unwrap_or(replica.freshness);
        let limit = match freshness {
            Freshness::Local => None,
            Freshness::Latest => Some(Duration::ZERO),
            Freshness::Within(limit) => Some(limit),
        };
        let now = Instant::now();
        if !replica.is_stale(name, limit, now) {
            return Ok(());
        }
        match self.pull(name, now) {
            Err(error @ Error::SharedDatabase { .. }) if freshness != Freshness::Latest => {
                tracing::warn!(%error, "a read goes on with what this machine has");
                Ok(())
            }
            pulled => pulled,
        }
    }

    /// Fetches what changed in a namespace, with its vectors, unless somebody did since `asked`.
    pub(super) fn pull(&self, name: &str, asked: Instant) -> Result<()> {
        let Some(replica) = &self.shared.replica else { return Ok(()) };
        // One asks, and those who came before it asked are served by its answer.
        let pulling = replica.pulling(name);
        let _one = pulling.lock();
        if replica.fresh_since(name) > Some(asked) {
            return Ok(());
        }
        let asked = Instant::now();
        loop {
            let since = self.shared.store.read()?.versions().get(name)?;
            // A namespace that is here is mostly unchanged, and its version is one row.
            if since > 0 && replica.asked(replica.upstream.version(name))? <= since {
                break;
            }
            let Some(change) = replica.asked(replica.upstream.pull(name, since))? else { break };
            if self.apply(change)? {
                break;
            }
        }
        replica.is_fresh(name, asked);
        Ok(())
    }

    fn namespace_id(&self, name: &str) -> Result<Option<NamespaceId>> {
        match name {
            COMMON => Ok(None),
            name => self.shared.store.read()?.namespaces().id(&Namespace::new(name)?),
        }
    }

    /// Applies a change that others made. Returns false if the file is at another version by now.
    fn apply(&self, change: Change) -> Result<bool> {
        let name = change.namespace.clone();
        let applied = self.write_pulled(change)?;
        if applied && let Some(id) = self.namespace_id(&name)? {
            for namespace in [id, id.document_texts()] {
                self.shared.fetch_vectors(namespace, &self.workers())?;
            }
        }
        Ok(applied)
    }
}

/// Starts the thread that keeps the namespaces in use fresh, in an engine with a shared database.
pub(super) fn start(core: &Arc<Core>) -> Result<()> {
    let Some(replica) = core.shared.replica.clone() else { return Ok(()) };
    let (notices, received) = mpsc::channel();
    let stop = notices.clone();
    replica.upstream.listen(Box::new(move |notified| notices.send(Some(notified)).unwrap_or_default()));
    // The engine's threads hold the file open.
    let weak = Arc::downgrade(core);
    core.executor()
        .serve(
            "mnemon-pull",
            move || stop.send(None).unwrap_or_default(),
            move || run_pulls(&weak, &replica, &received),
        )
        .inspect_err(|_| core.close())
}

/// Runs the thread that pulls, until the sender of `notices` sends `None`.
fn run_pulls(core: &Weak<Core>, replica: &Replica, notices: &mpsc::Receiver<Option<Notified>>) {
    let mut next_poll = Instant::now();
    loop {
        let announced = match notices.recv_timeout(next_poll.saturating_duration_since(Instant::now())) {
            Ok(Some(Notified::Version(name, version))) => Some((name, version)),
            Ok(Some(Notified::Missed)) | Err(RecvTimeoutError::Timeout) => None,
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
        };
        let Some(core) = core.upgrade() else { return };
        let Some(_operation) = core.executor().begin_operation() else { return };
        let worked = match announced {
            Some((name, version)) => core.pull_announced(replica, &name, version),
            None => {
                next_poll = Instant::now() + replica.poll();
                replica.renew().and_then(|()| core.pull_all(replica)).and_then(|()| core.follow(replica))
            }
        };
        if let Err(error) = worked {
            tracing::debug!(%error, "nothing was pulled");
        }
    }
}

impl Core {
    fn pull_announced(&self, replica: &Replica, name: &str, version: u64) -> Result<()> {
        if replica.is_used(name) && self.shared.store.read()?.versions().get(name)? < version {
            self.pull(name, Instant::now())?;
        }
        Ok(())
    }

    /// Asks for the versions of the namespaces in use, and pulls those that changed.
    fn pull_all(&self, replica: &Replica) -> Result<()> {
        let now = Instant::now();
        let names = replica.used(now);
        let versions: HashMap<String, u64> = replica.asked(replica.upstream.versions(&names))?.into_iter().collect();
        for name in names {
            let known = self.shared.store.read()?.versions().get(&name)?;
            if versions.get(&name).is_some_and(|version| *version > known) {
                self.pull(&name, now)?;
            }
            replica.is_fresh(&name, now);
        }
        Ok(())
    }
}
