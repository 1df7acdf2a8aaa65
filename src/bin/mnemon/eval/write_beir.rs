//! Writes a set in BEIR's folder layout.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::Context;
use serde_json::json;

use super::{
    published_ids::{self, PublishedIds},
    read::{CORPUS, QRELS, QRELS_HEAD, QUERIES},
    set::Set,
};
use crate::stderr;

/// Writes the corpus, the labelled questions and their judgments. BEIR has one corpus for all questions: the namespaces
/// are joined, and each document's `metadata` has its own.
pub(super) fn write(folder: &Path, set: &Set) -> anyhow::Result<()> {
    let (ids, questions) = (PublishedIds::new(set)?, published_ids::of_questions(set)?);
    let namespaces = set.namespaces().count();
    if namespaces > 1 {
        stderr::note(format!(
            "{}: BEIR's layout has no namespaces; the {namespaces} of this set become one corpus, which is harder to search",
            set.name
        ));
    }
    fs::create_dir_all(folder.join("qrels")).with_context(|| folder.display().to_string())?;
    write_lines(
        &folder.join(CORPUS),
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
        &folder.join(QUERIES),
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
    write_lines(&folder.join(QRELS), std::iter::once(QRELS_HEAD.to_owned()).chain(judgments))
}

fn write_lines(path: &Path, lines: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let context = || format!("{}: writing", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(context)?);
    for line in lines {
        writeln!(file, "{line}").with_context(context)?;
    }
    file.flush().with_context(context)
}
