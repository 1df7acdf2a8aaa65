//! Writes a set in BEIR's folder layout.

use std::{fs, io::Write, path::Path};

use anyhow::Context;
use serde_json::json;

use super::{
    published_ids::{self, PublishedIds},
    read::{CORPUS, QRELS, QRELS_HEAD, QUERIES},
    set::Set,
};
use crate::{
    output_file::{self, Force, OutputFile},
    stderr,
};

/// Writes the corpus, the labelled questions and their judgments. BEIR has one corpus for all questions: the namespaces
/// are joined, and each document's `metadata` has its own.
pub(super) fn write(folder: &Path, set: &Set, force: Force) -> anyhow::Result<()> {
    let (ids, questions) = (PublishedIds::new(set)?, published_ids::of_questions(set)?);
    let namespaces = set.namespaces().count();
    if namespaces > 1 {
        stderr::note(format!(
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
