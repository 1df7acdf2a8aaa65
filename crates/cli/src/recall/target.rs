//! The namespaces that a query asks.

use std::path::Path;

use anyhow::ensure;
use mnemon::{Engine, Hits, Namespace, Query, Scope};

use crate::stored;

/// The command line options that name namespaces.
#[derive(clap::Args)]
pub(super) struct TargetOptions {
    /// The namespace to search; with --queries, instead of those that the lines name. Repeat it to search several with
    /// one ranking.
    #[arg(long, value_name = "NS", required_unless_present_any = ["queries", "prefix"])]
    pub(super) namespace: Vec<Namespace>,
    /// Search this namespace and those under it, with one ranking: `acme` searches `acme/user-42`, but not `acme-2`.
    /// Can be repeated, and combined with --namespace.
    #[arg(long, value_name = "NS")]
    pub(super) prefix: Vec<Namespace>,
}

/// One namespace, or several with one ranking.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    One(Namespace),
    Several(Scope),
}

impl TargetOptions {
    /// Returns the target of all queries; `None` if each line of a file names its own.
    pub(super) fn target(&self) -> Option<Target> {
        match (&self.namespace[..], &self.prefix[..]) {
            ([], []) => None,
            ([only], []) => Some(Target::One(only.clone())),
            (namespaces, prefixes) => {
                Some(Target::Several(prefixes.iter().fold(namespaces.iter().collect(), Scope::under)))
            }
        }
    }

    /// Checks that each of the namespaces and prefixes has messages.
    pub(super) fn check(&self, db: &Path, engine: &Engine) -> anyhow::Result<()> {
        for prefix in &self.prefix {
            let found = engine.blocking().count_namespaces(Some(prefix))?.namespaces;
            ensure!(found > 0, "no namespace under {:?} in {}", prefix.as_str(), db.display());
        }
        for namespace in &self.namespace {
            if engine.blocking().sessions(namespace)?.is_empty() {
                stored::check_namespace(db, namespace)?;
            }
        }
        Ok(())
    }
}

impl Target {
    pub(super) fn recall(&self, engine: &Engine, query: Query) -> mnemon::Result<Hits> {
        match self {
            Target::One(namespace) => engine.blocking().recall(namespace, query),
            Target::Several(scope) => engine.blocking().recall_in(scope, query),
        }
    }

    /// The namespace, if it is one.
    pub(super) fn namespace(&self) -> Option<&Namespace> {
        match self {
            Target::One(namespace) => Some(namespace),
            Target::Several(_) => None,
        }
    }
}
