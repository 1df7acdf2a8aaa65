//! Sets as other programs read them: in BEIR's folder layout, with ids that need no namespace.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::Write,
    path::Path,
};

use anyhow::{Context, ensure};
use mnemon::{Message, Namespace};
use serde_json::json;

use super::{
    read::{CORPUS, QRELS, QRELS_HEAD, QUERIES},
    set::{Question, Set},
};
use crate::{
    output,
    output_file::{self, Force, OutputFile},
};

/// Writes the corpus, the labelled questions and their judgments. BEIR has one corpus for all questions: the namespaces
/// are joined, and each document's `metadata` has its own.
pub(super) fn write_beir(folder: &Path, set: &Set, force: Force) -> anyhow::Result<()> {
    let (ids, questions) = (PublishedIds::new(set)?, ids_of_questions(set)?);
    let namespaces = set.namespaces().count();
    if namespaces > 1 {
        output::note(format!(
            "{}: BEIR's layout has no namespaces; the {namespaces} of this set become one corpus, which is harder to search",
            set.name
        ));
    }
    fs::create_dir_all(folder.join("qrels")).with_context(|| folder.display().to_string())?;
    let create = |name: &str, kind| OutputFile::create(&folder.join(name), kind, force, None);
    let (corpus, asked) = (create(CORPUS, output_file::BEIR_LINES)?, create(QUERIES, output_file::BEIR_LINES)?);
    let judged = create(QRELS, output_file::JUDGMENTS)?;
    write_lines(
        corpus,
        set.messages.iter().map(|(namespace, message)| {
            let metadata = json!({
                "namespace": namespace, "session": message.session, "role": message.role, "name": message.name,
                "created_at": message.created_at,
            });
            let id = ids.of(namespace, &message.id);
            json!({ "_id": id, "title": "", "text": message.text(), "metadata": metadata }).to_string()
        }),
    )?;
    let labelled = || set.questions.iter().zip(&questions).filter(|(question, _)| !question.relevant.is_empty());
    write_lines(
        asked,
        labelled().map(|(question, id)| {
            let metadata =
                json!({ "namespace": question.namespace, "category": question.category, "time": question.now });
            json!({ "_id": id, "text": question.text, "metadata": metadata }).to_string()
        }),
    )?;
    let judgments = labelled().flat_map(|(question, id)| {
        let grades = question.grades.iter().copied().chain(std::iter::repeat(1));
        let documents = question.relevant.iter().map(|relevant| ids.of(&question.namespace, relevant));
        documents.zip(grades).map(move |(document, grade)| format!("{id}\t{document}\t{grade}"))
    });
    write_lines(judged, std::iter::once(QRELS_HEAD.to_owned()).chain(judgments))
}

fn write_lines(mut file: OutputFile, lines: impl Iterator<Item = String>) -> anyhow::Result<()> {
    for line in lines {
        writeln!(file, "{line}").with_context(|| file.writing())?;
    }
    file.finish()
}

/// The published ids of a set's messages, by which other files name them.
///
/// Such files have no namespaces and separate columns by spaces. The published id is the message's own id if no two
/// messages of the set have the same, or else `NAMESPACE/ID`. White space and percent signs are written as in URLs.
pub(super) struct PublishedIds<'a> {
    has_namespaces: bool,
    messages: HashMap<String, &'a (Namespace, Message)>,
}

impl<'a> PublishedIds<'a> {
    /// # Errors
    /// Two messages of a namespace have the same id.
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
pub(super) fn ids_of_questions(set: &Set) -> anyhow::Result<Vec<String>> {
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
