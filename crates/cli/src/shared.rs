//! The shared database: that of --shared, or else of $MNEMON_SHARED. And how far reads may be behind it.

use std::{path::Path, sync::OnceLock};

#[cfg(feature = "postgres")]
use mnemon::Freshness;
use mnemon::{Config, Engine, EngineBuilder, Namespace};

use crate::key;

const VARIABLE: &str = "MNEMON_SHARED";

static ADDRESS: OnceLock<Option<String>> = OnceLock::new();
#[cfg(feature = "postgres")]
static FRESHNESS: OnceLock<Freshness> = OnceLock::new();

/// Sets the address and the freshness, once. A build without the feature `postgres` has none.
#[cfg(feature = "postgres")]
pub(crate) fn configure(given: Option<String>, freshness: Freshness) {
    let variable = || std::env::var(VARIABLE).ok().filter(|address| !address.is_empty());
    let _ = ADDRESS.set(given.or_else(variable));
    let _ = FRESHNESS.set(freshness);
}

/// Refuses a shared database in a build that would use the file alone, without a word.
#[cfg(not(feature = "postgres"))]
pub(crate) fn refuse(is_given: bool, has_freshness: bool) -> Result<(), crate::usage::UsageError> {
    let is_set = std::env::var_os(VARIABLE).is_some_and(|address| !address.is_empty());
    let given = [(is_given, "--shared"), (has_freshness, "--freshness"), (is_set, VARIABLE)];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, name)) => Err(crate::usage::missing(name, &[])),
        None => Ok(()),
    }
}

/// Parses a freshness.
#[cfg(feature = "postgres")]
pub(crate) fn parse_freshness(text: &str) -> Result<Freshness, String> {
    match text {
        "latest" => Ok(Freshness::Latest),
        "local" => Ok(Freshness::Local),
        seconds => {
            let time = seconds.parse().ok().and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
            time.map(Freshness::Within).ok_or_else(|| "neither latest, local nor a number of seconds".to_owned())
        }
    }
}

/// Returns the freshness as it is given on the command line.
#[cfg(all(feature = "serve", feature = "postgres", unix))]
pub(crate) fn freshness() -> Option<String> {
    Some(match FRESHNESS.get()? {
        Freshness::Local => "local".to_owned(),
        Freshness::Within(limit) => limit.as_secs_f64().to_string(),
        _ => "latest".to_owned(),
    })
}

/// Returns the address, if one was given.
pub(crate) fn address() -> Option<&'static str> {
    ADDRESS.get().and_then(Option::as_deref)
}

/// Makes the engine one with the shared database, if there is one.
pub(crate) fn set(builder: EngineBuilder) -> EngineBuilder {
    #[cfg(feature = "postgres")]
    if let Some(address) = address() {
        return builder.shared(address).freshness(FRESHNESS.get().copied().unwrap_or(Freshness::Latest));
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
