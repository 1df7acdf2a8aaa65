//! Reads BEIR's folder layout (Thakur et al. 2021): `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`.
//!
//! All documents are in one namespace, each in a session of its own: documents have no neighbors. Title and text are
//! joined by a space, as BEIR's own models do. Only queries with judgments in `qrels/test.tsv` are asked.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use mnemon::{Message, Namespace};
use serde::Deserialize;

use super::super::set::{Benchmark, Question, Set};
use crate::{
    input,
    output::{self, counted},
};

pub(in crate::eval) const CORPUS: &str = "corpus.jsonl";
pub(in crate::eval) const QUERIES: &str = "queries.jsonl";
pub(in crate::eval) const QRELS: &str = "qrels/test.tsv";
pub(in crate::eval) const QRELS_HEAD: &str = "query-id\tcorpus-id\tscore";

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "_id")]
    id: String,
    #[serde(default)]
    title: String,
    text: String,
}

#[derive(Deserialize)]
struct QueryText {
    #[serde(rename = "_id")]
    id: String,
    text: String,
}

/// A line of the judgments.
#[derive(Debug, PartialEq)]
struct Judgment {
    query: String,
    document: String,
    grade: i64,
}

/// Reads a folder in BEIR's layout.
pub(super) fn read(folder: &Path, name: String) -> anyhow::Result<Set> {
    let namespace = Namespace::from_labels(["beir", name.as_str()])?;
    let (mut messages, mut seen, mut empty) = (Vec::new(), HashSet::new(), 0);
    for_each(&folder.join(CORPUS), |line| {
        let Document { id, title, text } = serde_json::from_str(line)?;
        let content = format!("{title} {text}");
        if content.trim().is_empty() {
            empty += 1;
            return Ok(());
        }
        let message = Message::user(content.trim()).with_id(&id).in_session(&id);
        let message = Message { created_at: None, ..message };
        message.check()?;
        ensure!(seen.insert(id), "two documents have the _id {:?}; make each unique", message.id);
        messages.push((namespace.clone(), message));
        Ok(())
    })?;
    if empty > 0 {
        output::note(format!("{name}: left out {} without text", counted(empty, "document")));
    }

    let mut judged: BTreeMap<String, Vec<(String, i64)>> = BTreeMap::new();
    let mut is_first = true;
    for_each(&folder.join(QRELS), |line| {
        if !std::mem::take(&mut is_first) || !line.starts_with("query-id") {
            let Judgment { query, document, grade } = judgment(line)?;
            judged.entry(query).or_default().push((document, grade));
        }
        Ok(())
    })?;

    let mut questions = Vec::new();
    for_each(&folder.join(QUERIES), |line| {
        let QueryText { id, text } = serde_json::from_str(line)?;
        let Some(judgments) = judged.remove(&id) else { return Ok(()) };
        ensure!(!text.trim().is_empty(), "the query {id:?} has no text");
        let mut question = Question::new(id, namespace.clone(), text);
        for (document, grade) in judgments.into_iter().filter(|(_, grade)| *grade > 0) {
            question.relevant.push(document);
            question.grades.push(u32::try_from(grade).unwrap_or(u32::MAX));
        }
        questions.push(question);
        Ok(())
    })?;
    if !judged.is_empty() {
        let count = judged.len();
        output::note(format!(
            "{name}: ignored {} of {QRELS}, not in {QUERIES} or there twice",
            counted(count, "query")
        ));
    }
    Ok(Set::new(name, messages, questions, Benchmark::Beir))
}

fn judgment(line: &str) -> anyhow::Result<Judgment> {
    let columns: Vec<&str> = line.trim_end().split('\t').collect();
    let [query, document, grade] = columns.as_slice() else {
        bail!("it has {} columns separated by tabs, not the 3 of {QRELS_HEAD:?}", columns.len());
    };
    let grade = grade.parse().with_context(|| format!("the score {grade:?} is not a whole number"))?;
    Ok(Judgment { query: (*query).to_owned(), document: (*document).to_owned(), grade })
}

/// Passes each line of a file to `take`; an error names the line.
fn for_each(path: &Path, take: impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    input::parse_all(input::open(path)?, path, take).map(|_: Vec<()>| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgments_are_parsed() {
        let parsed = judgment("q 1\td1\t2\r\n").unwrap();
        assert_eq!(parsed, Judgment { query: "q 1".into(), document: "d1".into(), grade: 2 });
        for (line, part) in [("q d 1", "1 columns"), ("q\td\tx", "\"x\" is not"), ("q\t0\td\t1", "4 columns")] {
            assert!(judgment(line).unwrap_err().to_string().contains(part), "{line}");
        }
    }

    #[test]
    fn a_folder_becomes_a_set() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("qrels")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            CORPUS,
            "{\"_id\":\"a\",\"title\":\"T\",\"text\":\"x\"}\n{\"_id\":\"b\",\"title\":\"\",\"text\":\"\"}\n{\"_id\":\"c\",\"text\":\"y\",\"metadata\":{}}\n",
        );
        write(QUERIES, "{\"_id\":\"1\",\"text\":\"q\"}\n{\"_id\":\"2\",\"text\":\"train\"}\n");
        write(QRELS, "query-id\tcorpus-id\tscore\n1\ta\t2\n1\tc\t0\n1\tc\t-1\n");
        let set = read(folder.path(), "tiny".into()).unwrap();
        let texts: Vec<_> = set.messages.iter().map(|(_, message)| message.text()).collect();
        assert_eq!(texts, ["T x", "y"]);
        let [question] = set.questions.as_slice() else { panic!("{:?}", set.questions) };
        assert_eq!((&question.relevant[..], &question.grades[..]), (&["a".to_owned()][..], &[2][..]));
        write(QRELS, "query-id\tcorpus-id\tscore\n1\ta\n");
        let error = format!("{:#}", read(folder.path(), "tiny".into()).map(|_| ()).unwrap_err());
        assert!(error.contains("test.tsv:2: it has 2 columns"), "{error}");
    }
}
