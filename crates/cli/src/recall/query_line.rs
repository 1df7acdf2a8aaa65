//! A line of a file of queries.

use anyhow::Context;
use mnemon::Namespace;
use serde::Deserialize;

use super::target::Target;

/// A query, what it asks, and its id if it has one.
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
