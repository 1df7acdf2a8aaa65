//! Moves a database that no engine has open to a database that several machines share.

use serde::Serialize;

use crate::{
    database_file::DatabaseFile,
    error::{Error, Result},
    shared::{Postgres, Pushed, Upstream},
    store::{self, COMMON, Change, Names, Sharing, Store},
};

/// How often slower than one change a whole namespace may be.
const PATIENCE: u32 = 100;

/// Number of what was moved to a shared database.
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

/// Moves all namespaces of a database, its legal holds and its audit to a shared database of Postgres, and makes the file
/// a copy of it: from then on it is opened with [`EngineBuilder::shared`](crate::EngineBuilder::shared). Vectors and
/// indexes stay in the file. A namespace is moved in one transaction. If the process ends meanwhile, the same call moves
/// the rest; until then the file stays a file of its own, and must not be changed. Feature `postgres`.
///
/// # Errors
/// [`Error::NamespaceNotEmpty`]: the shared database has a namespace of the same name with other contents;
/// [`Error::InvalidConfig`]: both have an audit or legal holds, or the file is a copy of another shared database;
/// [`Error::SharedDatabase`]; those of opening the database for writing.
pub fn share(database: impl Into<DatabaseFile>, address: &str) -> Result<ShareReport> {
    let DatabaseFile { path, mut config } = database.into();
    config.other_readers = false;
    store::guarded(|| {
        let upstream = Postgres::open(address, config.shared_timeout.saturating_mul(PATIENCE))?;
        let store = Store::open(&path, &config, false)?;
        match store.read()?.versions().origin()? {
            Some(origin) if origin == upstream.origin() => return Ok(ShareReport::default()),
            Some(_) => return Err(invalid("the file is a copy of another shared database")),
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
                    // By an earlier call that ended before it noted so?
                    Pushed::Behind if is_there(&upstream, change)? => Ok(()),
                    Pushed::Behind => Err(Error::NamespaceNotEmpty { namespace: change.namespace.clone() }),
                }
            };
            store.share_namespace(&names, &name, moved)?;
        }
        let key = upstream.seal_key()?;
        store.write(|transaction| {
            transaction.set_seal_key(key)?;
            transaction.versions().set_origin(upstream.origin())
        })?;
        Ok(report)
    })
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

/// Returns true if a change was pushed already.
fn is_there(upstream: &Postgres, change: &Change) -> Result<bool> {
    let since = if change.namespace == COMMON { change.base } else { 0 };
    let Some(mut found) = upstream.pull(&change.namespace, since)? else { return Ok(false) };
    let mut rows = change.rows.clone();
    for rows in [&mut rows, &mut found.rows] {
        rows.sort_by_key(|row| (row.table, format!("{:?}", row.key)));
    }
    Ok(found.version == change.version && found.head == change.head && found.rows == rows)
}

fn invalid(reason: &str) -> Error {
    Error::InvalidConfig { reason: reason.to_owned() }
}
