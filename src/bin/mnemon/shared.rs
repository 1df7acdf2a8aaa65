//! The shared database: that of --shared, or else of $MNEMON_SHARED.

use std::{path::Path, sync::OnceLock};

use mnemon::{Config, Engine, EngineBuilder, Namespace};

use crate::key;

#[cfg(feature = "postgres")]
const VARIABLE: &str = "MNEMON_SHARED";

static ADDRESS: OnceLock<Option<String>> = OnceLock::new();

/// Sets the address, once. A build without the feature `postgres` has none.
#[cfg(feature = "postgres")]
pub(crate) fn configure(given: Option<String>) {
    let variable = || std::env::var(VARIABLE).ok().filter(|address| !address.is_empty());
    let _ = ADDRESS.set(given.or_else(variable));
}

/// Returns the address, if one was given.
pub(crate) fn address() -> Option<&'static str> {
    ADDRESS.get().and_then(Option::as_deref)
}

/// Makes the engine one with the shared database, if there is one. It sees the latest.
pub(crate) fn set(builder: EngineBuilder) -> EngineBuilder {
    #[cfg(feature = "postgres")]
    if let Some(address) = address() {
        return builder.shared(address).freshness(mnemon::Freshness::Latest);
    }
    builder
}

/// Brings the file up to date before a command that reads it alone: the namespaces under this one, or all. Makes the
/// file if it is missing.
pub(crate) fn refresh(db: &Path, namespace: Option<&Namespace>) -> anyhow::Result<()> {
    if let Some(engine) = open(db)? {
        engine.blocking().count_namespaces(namespace)?;
    }
    Ok(())
}

/// Opens the file as a copy of the shared database, if there is one. Makes it if it is missing. Pending messages stay
/// pending.
pub(crate) fn open(db: &Path) -> anyhow::Result<Option<Engine>> {
    if address().is_none() {
        return Ok(None);
    }
    let mut config = Config::default().drain_on_open(false);
    key::set(&mut config)?;
    Ok(Some(set(Engine::builder(db).config(config)).open()?))
}
