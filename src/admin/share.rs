//! Moves a database that no engine has open to a database that several machines share, and a namespace back.

use serde::Serialize;

use super::DatabaseFile;
use crate::{
    config::Config,
    error::{Error, Result, impl_debug},
    ids::Namespace,
    shared::{Fence, Postgres, Pushed, Upstream},
    store::{self, COMMON, Change, History, Names, Outcome, Sharing, Store, Target, TransferReport},
};

/// The factor by which the time limit for a whole namespace is longer than that for one change.
const PATIENCE: u32 = 100;

/// Counts of what was moved to a shared database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShareReport {
    /// Number of namespaces that were moved, without those that an earlier call had moved.
    pub namespaces: u64,
    /// Number of their messages.
    pub messages: u64,
    /// Number of their documents.
    pub documents: u64,
}

impl DatabaseFile {
    /// Moves all namespaces of the database, its legal holds and its audit to a shared database of Postgres, and makes
    /// the file a replica of it: from then on the file is opened with
    /// [`EngineBuilder::shared`](crate::EngineBuilder::shared). Vectors and indexes stay in the file. Each namespace is
    /// moved in one transaction. If the process ends meanwhile, the same call moves the rest; until then the file is
    /// not a replica, and must not be changed. Feature `postgres`.
    ///
    /// # Errors
    /// [`Error::NamespaceNotEmpty`]: the shared database has a namespace of the same name with other contents;
    /// [`Error::InvalidConfig`]: both have an audit or legal holds, or the file is a replica of another shared
    /// database; [`Error::SharedDatabase`]; those of opening the database for writing.
    pub fn share(&self, address: &str) -> Result<ShareReport> {
        let config = Config { other_readers: false, ..self.config.clone() };
        store::guarded(|| {
            let upstream = Postgres::open(address, config.shared_timeout.saturating_mul(PATIENCE))?;
            let store = Store::open(&self.path, &config, false)?;
            match store.read()?.versions().origin()? {
                Some(origin) if origin == upstream.origin() => return Ok(ShareReport::default()),
                Some(_) => return Err(invalid("the file is a replica of another shared database")),
                None => {}
            }
            let mut report = ShareReport::default();
            share_common(&store, &upstream)?;
            let names = Names::default();
            for name in store.read()?.namespaces().names()? {
                let moved = |sharing: Sharing| {
                    let [change] = &sharing.changes[..] else { return Ok(()) };
                    report.namespaces += 1;
                    report.messages += change.head.messages;
                    report.documents += change.head.documents.as_ref().map_or(0, |documents| documents.documents);
                    match upstream.push(&sharing)? {
                        Pushed::Committed => Ok(()),
                        // An earlier call pushed it, and ended before it recorded that.
                        Pushed::Behind if is_there(&upstream, change)? => Ok(()),
                        Pushed::Behind => Err(Error::NamespaceNotEmpty { namespace: change.namespace.clone() }),
                    }
                };
                store.share_namespace(&names, &name, moved)?;
            }
            let key = upstream.seal_key();
            store.write(|transaction| {
                transaction.set_seal_key(key)?;
                transaction.versions().set_origin(upstream.origin())
            })?;
            Ok(report)
        })
    }
}

/// Moves the legal holds and the audit, if there are any.
fn share_common(store: &Store, upstream: &Postgres) -> Result<()> {
    let push = |sharing: Sharing| match upstream.push(&sharing)? {
        Pushed::Committed => Ok(()),
        Pushed::Behind if is_there(upstream, &sharing.changes[0])? => Ok(()),
        Pushed::Behind => Err(invalid(
            "the shared database has an audit or legal holds, and so has the file: two audits cannot become one; export \
             the namespaces, and import them into an engine with the shared database",
        )),
    };
    store.share_common(push)
}

/// Returns true if the shared database has exactly this change.
fn is_there(upstream: &Postgres, change: &Change) -> Result<bool> {
    let base = if change.namespace == COMMON { vec![change.base] } else { Vec::new() };
    let Some(mut found) = upstream.pull(&change.namespace, &History(base))? else { return Ok(false) };
    let mut rows = change.rows.clone();
    for rows in [&mut rows, &mut found.rows] {
        rows.sort_by_key(|row| (row.table, format!("{:?}", row.key)));
    }
    Ok(found.version.number == change.version.number && found.head == change.head && found.rows == rows)
}

/// The most attempts to delete a namespace while other machines change the legal holds and the audit.
const ATTEMPTS: u32 = 100;

/// A namespace that [`unshare`] read from a shared database.
pub struct Unshared {
    namespace: Namespace,
    export: Vec<u8>,
    report: TransferReport,
    upstream: Postgres,
    /// The replica that the deletion is computed on, in memory: nothing of it is written to a disk.
    replica: Store,
    /// Present if the namespace is locked against changes.
    fence: Option<Fence>,
}

impl_debug!(Unshared { namespace, report });

/// Reads a namespace of a shared database of Postgres, as of one moment. Nothing of it is written to a disk of this
/// machine.
///
/// With `fenced`, no machine changes the namespace from that moment on, until [`Unshared::delete`] returns or the value
/// is dropped, also by a process that is killed. Puts wait meanwhile, each for its time limit at most. So what a
/// program stores of [`Unshared::export`] before it deletes the namespace is all that was acknowledged anywhere.
/// Feature `postgres`.
///
/// # Errors
/// [`Error::SharedDatabase`]; [`Error::LegalHold`] with `fenced`.
pub fn unshare(namespace: &Namespace, address: &str, fenced: bool) -> Result<Unshared> {
    store::guarded(|| {
        let upstream = Postgres::open(address, Config::default().shared_timeout.saturating_mul(PATIENCE))?;
        let fence = fenced.then(|| upstream.fence(namespace.as_str())).transpose()?;
        let replica = Store::in_memory(&Config::default())?;
        fetch(&upstream, &replica, COMMON)?;
        fetch(&upstream, &replica, namespace.as_str())?;
        let snapshot = replica.read()?;
        if fenced {
            snapshot.holds().check(namespace)?;
        }
        let mut export = Vec::new();
        let report = snapshot.export().write_lines(Some(namespace), &mut export)?;
        drop(snapshot);
        Ok(Unshared { namespace: namespace.clone(), export, report, upstream, replica, fence })
    })
}

impl Unshared {
    /// Returns the lines of an export, for [`Engine::import`](crate::Engine::import). A namespace that does not exist
    /// has no sessions, messages and documents among them.
    pub fn export(&self) -> &[u8] {
        &self.export
    }

    /// Returns the counts of what was read.
    pub fn report(&self) -> &TransferReport {
        &self.report
    }

    /// Deletes the namespace in the shared database, on all machines: exactly what was read.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: the namespace was read without `fenced`. [`Error::LegalHold`],
    /// [`Error::SharedDatabase`], and nothing was deleted; [`Error::OutcomeUnknown`].
    pub fn delete(self) -> Result<()> {
        let Unshared { namespace, upstream, replica, fence, .. } = self;
        let Some(mut fence) = fence else {
            return Err(invalid(
                "a namespace that other machines may have changed meanwhile is not deleted: read it fenced",
            ));
        };
        store::guarded(|| {
            for _ in 0..ATTEMPTS {
                // A legal hold that was set meanwhile must prevent the deletion.
                fetch(&upstream, &replica, COMMON)?;
                let Some(id) = replica.read()?.namespaces().id(&namespace)? else { return Ok(()) };
                let names = Names::default();
                let mut push = |sharing: Sharing| Ok(upstream.push_fenced(&mut fence, &sharing)? == Pushed::Committed);
                let namespaces = [(namespace.clone(), id)];
                let deleted = replica.commit(Target::Primary(&names, &mut push), |transaction| {
                    transaction.namespaces().delete(&namespaces)
                })?;
                if let Outcome::Committed(_) = deleted {
                    return Ok(());
                }
            }
            let reason = "other machines changed the legal holds or the audit, each time the deletion was tried".into();
            Err(Error::SharedDatabase { reason, transient: true })
        })
    }
}

/// Pulls a namespace from the shared database into a replica.
fn fetch(upstream: &Postgres, replica: &Store, name: &str) -> Result<()> {
    let history = replica.read()?.versions().history(name)?;
    match upstream.pull(name, &history)? {
        Some(change) => {
            replica.commit(Target::Replica, |transaction| transaction.apply_changes().apply(&change)).map(drop)
        }
        None => Ok(()),
    }
}

fn invalid(reason: &str) -> Error {
    Error::InvalidConfig { reason: reason.to_owned() }
}
