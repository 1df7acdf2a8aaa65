//! The namespaces that a query searches, and the lines of a file of queries that name their own.

use std::path::Path;

use anyhow::{Context, ensure};
use mnemon::{Engine, Hits, Namespace, Query, Scope};
use serde::Deserialize;

use crate::database;

/// The options that name namespaces.
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
                database::check_namespace(db, namespace)?;
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

    /// Returns the namespace, if it is one.
    pub(super) fn namespace(&self) -> Option<&Namespace> {
        match self {
            Target::One(namespace) => Some(namespace),
            Target::Several(_) => None,
        }
    }
}

/// A line of a file of queries.
#[derive(Debug, PartialEq)]
pub(super) struct QueryLine {
    pub(super) id: Option<String>,
    pub(super) target: Target,
    pub(super) query: String,
}

/// The fields of a JSON object; others, such as the labels of a question, are ignored.
#[derive(Deserialize)]
struct Fields {
    id: Option<String>,
    namespace: Option<Namespace>,
    query: String,
}

impl QueryLine {
    /// Parses a JSON object, or takes the line as the text of a query. `given` replaces the namespace of the line.
    pub(super) fn parse(line: &str, given: Option<&Target>) -> anyhow::Result<Self> {
        let fields = match line.trim() {
            object if object.starts_with('{') => serde_json::from_str(object)?,
            text => Fields { id: None, namespace: None, query: text.to_owned() },
        };
        let target = given.cloned().or(fields.namespace.map(Target::One));
        let target = target.context("no namespace: the line names none, and --namespace was not given")?;
        Ok(QueryLine { id: fields.id, target, query: fields.query })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_objects_or_plain_text() {
        let [a, b] = ["a", "b"].map(|name| Target::One(name.parse().unwrap()));
        let check = |line, given: Option<&Target>, id: Option<&str>, target: &Target, query: &str| {
            let wanted = QueryLine { id: id.map(str::to_owned), target: target.clone(), query: query.into() };
            assert_eq!(QueryLine::parse(line, given).unwrap(), wanted, "{line}");
        };
        check(r#"{"id":"1","namespace":"a","query":"q","relevant":["x"]}"#, None, Some("1"), &a, "q");
        check(r#"{"query":"q","namespace":"a"}"#, Some(&b), None, &b, "q");
        check(r#" {"query":"q"}"#, Some(&b), None, &b, "q");
        check("When does she row?\r", Some(&b), None, &b, "When does she row?");
        check("\"quoted\" words", Some(&b), None, &b, "\"quoted\" words");
        for line in ["q", r#"{"query":"q"}"#, r#"{"namespace":"a"}"#, "{q"] {
            assert!(QueryLine::parse(line, None).is_err(), "{line}");
        }
    }
}
