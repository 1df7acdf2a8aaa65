//! The ids of a set's messages in files that have no namespaces and separate columns by spaces.

use std::collections::{HashMap, HashSet};

use anyhow::ensure;
use mnemon::{Message, Namespace};

use super::set::{Question, Set};

/// Both directions between messages and their published ids.
///
/// The published id is the message's own id if no other message of the set has it, or else `NAMESPACE/ID`. White space
/// and percent signs are written as in URLs.
pub(super) struct PublishedIds<'a> {
    ids: HashMap<(&'a Namespace, &'a str), String>,
    messages: HashMap<String, &'a (Namespace, Message)>,
}

impl<'a> PublishedIds<'a> {
    /// Names all messages of a set.
    pub(super) fn new(set: &'a Set) -> anyhow::Result<Self> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (_, message) in &set.messages {
            *counts.entry(&message.id).or_default() += 1;
        }
        let (mut ids, mut messages) = (HashMap::new(), HashMap::new());
        for entry in &set.messages {
            let (namespace, message) = entry;
            let id = match counts.get(message.id.as_str()) {
                Some(1) => escape(&message.id),
                _ => escape(&format!("{namespace}/{}", message.id)),
            };
            ensure!(
                messages.insert(id.clone(), entry).is_none(),
                "{}: two messages would be written as {id:?}; give them other ids",
                set.name
            );
            ids.insert((namespace, message.id.as_str()), id);
        }
        Ok(PublishedIds { ids, messages })
    }

    /// Returns the published id of a message, which need not be one of the set.
    pub(super) fn of(&self, namespace: &Namespace, id: &str) -> String {
        self.ids.get(&(namespace, id)).cloned().unwrap_or_else(|| escape(id))
    }

    /// Finds a message by its published id, or by its own id in a question's namespace.
    pub(super) fn find(&self, published: &str, namespace: &Namespace) -> Option<&'a (Namespace, Message)> {
        let own = || self.messages.get(self.ids.get(&(namespace, published))?);
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
        assert_eq!(published, ["a/1", "b/1", "my%20id", "5%25", "?"]);
        let found = |id: &str, n: &Namespace| ids.find(id, n).map(|(namespace, one)| format!("{namespace} {}", one.id));
        assert_eq!(found("b/1", &a).unwrap(), "b 1");
        assert_eq!(found("1", &a).unwrap(), "a 1");
        assert_eq!(found("my%20id", &a).unwrap(), "b my id");
        assert_eq!(found("2", &a), None);
    }
}
