//! The ids of a set's messages in files that have no namespaces and separate columns by spaces.

use std::collections::{HashMap, HashSet};

use anyhow::ensure;
use mnemon::{Message, Namespace};

use super::set::{Question, Set};

/// Both directions between messages and their published ids.
///
/// The published id is the message's own id if no two messages of the set have the same, or else `NAMESPACE/ID`. White
/// space and percent signs are written as in URLs.
pub(super) struct PublishedIds<'a> {
    has_namespaces: bool,
    messages: HashMap<String, &'a (Namespace, Message)>,
}

impl<'a> PublishedIds<'a> {
    /// Names all messages of a set.
    pub(super) fn new(set: &'a Set) -> anyhow::Result<Self> {
        let mut seen = HashSet::new();
        let has_namespaces = !set.messages.iter().all(|(_, message)| seen.insert(message.id.as_str()));
        let mut ids = PublishedIds { has_namespaces, messages: HashMap::new() };
        for entry in &set.messages {
            let (namespace, message) = entry;
            let known = ids.messages.insert(ids.of(namespace, &message.id), entry);
            ensure!(
                known.is_none(),
                "{}: two messages of {namespace} have the id {:?}; make each unique",
                set.name,
                message.id
            );
        }
        Ok(ids)
    }

    /// Returns the published id of a message, which need not be one of the set.
    pub(super) fn of(&self, namespace: &Namespace, id: &str) -> String {
        if self.has_namespaces { escape(&format!("{namespace}/{id}")) } else { escape(id) }
    }

    /// Finds a message by its published id, with or without the namespace if it is that of the question.
    pub(super) fn find(&self, published: &str, namespace: &Namespace) -> Option<&'a (Namespace, Message)> {
        let own = || self.messages.get(&format!("{}/{published}", escape(namespace.as_str())));
        self.messages.get(published).or_else(own).copied()
    }
}

/// Returns the published ids of a set's questions, which must differ.
pub(super) fn of_questions(set: &Set) -> anyhow::Result<Vec<String>> {
    let ids: Vec<String> = set.questions.iter().map(|question: &Question| escape(&question.id)).collect();
    let mut seen = HashSet::new();
    for id in &ids {
        ensure!(seen.insert(id), "{}: two questions have the id {id:?}; make each unique", set.name);
    }
    Ok(ids)
}

fn escape(id: &str) -> String {
    let mut escaped = String::with_capacity(id.len());
    for c in id.chars() {
        match c {
            '%' => escaped.push_str("%25"),
            c if c.is_whitespace() => {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes).bytes().for_each(|byte| escaped += &format!("%{byte:02X}"));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{super::set::Benchmark, *};

    #[test]
    fn ids_are_unique_without_namespaces() {
        let message = |namespace: &str, id: &str| (namespace.parse().unwrap(), Message::user("x").with_id(id));
        let messages = vec![message("a", "1"), message("b", "1"), message("b", "my id"), message("b", "5%")];
        let set = Set::new("s".into(), messages, Vec::new(), Benchmark::None);
        let ids = PublishedIds::new(&set).unwrap();
        let [a, b]: [Namespace; 2] = ["a", "b"].map(|name| name.parse().unwrap());
        let published = [(&a, "1"), (&b, "1"), (&b, "my id"), (&b, "5%"), (&a, "?")].map(|(n, id)| ids.of(n, id));
        assert_eq!(published, ["a/1", "b/1", "b/my%20id", "b/5%25", "a/?"]);
        let found = |id: &str, n: &Namespace| ids.find(id, n).map(|(namespace, one)| format!("{namespace} {}", one.id));
        assert_eq!(found("b/1", &a).unwrap(), "b 1");
        assert_eq!(found("1", &a).unwrap(), "a 1");
        assert_eq!(found("my%20id", &b).unwrap(), "b my id");
        assert_eq!((found("2", &a), found("my%20id", &a)), (None, None));
        let one = Set::new("s".into(), vec![message("b", "my id")], Vec::new(), Benchmark::None);
        assert_eq!(PublishedIds::new(&one).unwrap().of(&b, "my id"), "my%20id");
    }
}
