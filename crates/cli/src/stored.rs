//! Opens a database to look up or delete stored messages, which needs no model.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail};
use mnemon::{Config, Embedder, Engine, EngineBuilder, Error, ModelIdentity, Namespace, SessionInfo};

use crate::{key, shared};

/// The options that say which database and namespace a command works on.
#[derive(clap::Args)]
pub(crate) struct Location {
    /// The database.
    #[arg(long, value_name = "FILE")]
    pub(crate) db: PathBuf,
    /// The namespace.
    #[arg(long, value_name = "NS")]
    pub(crate) namespace: Namespace,
}

impl Location {
    /// Opens the database. Pending messages stay pending.
    ///
    /// # Errors
    /// The database has no such namespace.
    pub(crate) fn open(&self) -> anyhow::Result<Engine> {
        Ok(builder(&self.db, Some(&self.namespace))?.open()?)
    }

    /// Same as [`open`](Self::open), for reading alone.
    pub(crate) fn open_to_read(&self) -> anyhow::Result<Engine> {
        open_to_read(&|| builder(&self.db, Some(&self.namespace)), &[])
    }

    /// Returns the counts of a session.
    ///
    /// # Errors
    /// The namespace has no such session.
    pub(crate) fn session(&self, engine: &Engine, session: &str) -> anyhow::Result<SessionInfo> {
        let sessions = engine.blocking().sessions(&self.namespace)?;
        if let Some(found) = sessions.iter().find(|known| known.session == session) {
            return Ok(found.clone());
        }
        let nearest = nearest(session, sessions.iter().map(|known| &*known.session)).unwrap_or_default();
        bail!(
            "no session {session:?} in namespace {:?}; the nearest is {nearest:?} (`mnemon sessions` lists all)",
            self.namespace.as_str()
        )
    }
}

/// Opens a database. Pending messages stay pending.
pub(crate) fn open(db: &Path) -> anyhow::Result<Engine> {
    Ok(builder(db, None)?.open()?)
}

/// Opens an engine for reading, if that is possible, so that another process may have the database open for writing.
/// Recalls in these namespaces are possible then.
pub(crate) fn open_to_read(
    builder: &dyn Fn() -> anyhow::Result<EngineBuilder>,
    namespaces: &[Namespace],
) -> anyhow::Result<Engine> {
    let readable = |engine: Engine| {
        let mut named = namespaces.iter();
        named.try_for_each(|namespace| engine.blocking().index_stats(namespace).map(drop)).map(|()| engine.clone())
    };
    let prepared = builder()?;
    // A copy of a shared database is written to when others changed it.
    let opened = if shared::address().is_some() { prepared.open() } else { prepared.open_read_only() };
    match opened.and_then(readable) {
        // The process that wrote last was killed, or is of an older version.
        Err(Error::WriteAccessNeeded { .. }) => Ok(builder()?.open()?),
        opened => Ok(opened?),
    }
}

/// Prepares an engine without a model. Pending messages stay pending.
///
/// # Errors
/// The database has no such namespace.
pub(crate) fn builder(db: &Path, namespace: Option<&Namespace>) -> anyhow::Result<EngineBuilder> {
    match namespace {
        Some(namespace) => check_namespace(db, namespace)?,
        None => shared::refresh(db, None)?,
    }
    let model = mnemon::serving_model(key::database(db)?)?;
    let model = model.context("the database has no model yet; choose one with `mnemon reindex --model NAME`")?;
    let builder = Engine::builder(db).create(false).config(config()?).embedder(Arc::new(NoModel(model)));
    Ok(shared::set(builder))
}

/// Returns the settings of an engine without a model.
pub(crate) fn config() -> mnemon::Result<Config> {
    let mut config = Config::default().drain_on_open(false);
    key::set(&mut config)?;
    Ok(config)
}

/// Returns an error that names the nearest namespace unless this one has messages or documents.
pub(crate) fn check_namespace(db: &Path, namespace: &Namespace) -> anyhow::Result<()> {
    shared::refresh(db, Some(namespace))?;
    // A namespace is the first of those under it.
    let database = key::database(db)?;
    let first = mnemon::namespaces(&database, Some(namespace), None, 1)?.namespaces;
    if first.iter().any(|known| known.namespace == *namespace) {
        return Ok(());
    }
    let known = mnemon::namespaces(&database, None, None, usize::MAX)?.namespaces;
    let (name, db) = (namespace.as_str(), db.display());
    match nearest(name, known.iter().map(|known| known.namespace.as_str())) {
        Some(nearest) => {
            bail!("no namespace {name:?} in {db}; the nearest is {nearest:?} (`mnemon namespaces` lists all)")
        }
        None => bail!("no namespace {name:?} in {db}, which is empty; store messages with `mnemon ingest`"),
    }
}

/// Returns the name with the fewest edits from `name`.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.min_by_key(|known| strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase()))
}

/// A stand-in for the model of the database. It has the model's identity, and every embedding fails.
struct NoModel(ModelIdentity);

impl Embedder for NoModel {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn embed_documents(&self, _: &[&str]) -> mnemon::Result<Vec<Vec<f32>>> {
        let reason = "the database was opened without its model".to_owned();
        Err(Error::EmbedderUnavailable { reason, transient: false, retry_after: None, source: None })
    }

    fn embed_query(&self, _: &str) -> mnemon::Result<Vec<f32>> {
        self.embed_documents(&[]).map(|_| Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_has_the_fewest_edits() {
        let known = ["acme/priya", "friends/ines-tom", "home/okafor"];
        let check = |name, wanted| assert_eq!(nearest(name, known.into_iter()), Some(wanted), "{name}");
        check("friends/ines-tim", "friends/ines-tom");
        check("Home/Okafor", "home/okafor");
        check("acme/pirya", "acme/priya");
        assert_eq!(nearest("x", [].into_iter()), None);
    }
}
