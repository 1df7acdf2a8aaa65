//! Reads evaluation sets: JSON Lines files, published benchmarks, and files of any layout that is described.

mod beir;
mod elements;
mod json_path;
mod layout;
mod locomo;
mod longmemeval;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::Context;
use serde_json::Value;

pub(super) use self::beir::{CORPUS, QRELS, QRELS_HEAD, QUERIES};
use super::set::{Benchmark, Question, Set};
use crate::{
    input::{self, QueryLine},
    usage,
};

/// The sets to measure.
#[derive(clap::Args)]
pub(super) struct SetArgs {
    /// The messages, JSON Lines as for `ingest`. Repeat it with --queries for another set.
    #[arg(long, value_name = "M.jsonl")]
    messages: Vec<PathBuf>,
    /// The questions, one {"id", "namespace", "query", "relevant": [message ids], "category"?} per line.
    #[arg(long, value_name = "Q.jsonl")]
    queries: Vec<PathBuf>,
    /// The name and both files of a set. Can be repeated.
    #[arg(long = "set", value_name = "NAME=M.jsonl,Q.jsonl")]
    sets: Vec<Files>,
    /// A folder of sets: each NAME.messages.jsonl with its NAME.queries.jsonl, also if they end in .gz or .zst.
    #[arg(long, value_name = "DIR")]
    folder: Vec<PathBuf>,
    /// LoCoMo as it is published, such as locomo10.json. Each conversation is a namespace.
    #[arg(long, value_name = "FILE.json")]
    locomo: Vec<PathBuf>,
    /// LongMemEval as it is published: S, M or oracle. Each question has a namespace of its own. Adds the benchmark's
    /// own figures.
    #[arg(long, value_name = "FILE.json")]
    longmemeval: Vec<PathBuf>,
    /// A data set in BEIR's layout: corpus.jsonl, queries.jsonl and qrels/test.tsv. Adds recall@100 and MAP.
    #[arg(long, value_name = "DIR")]
    beir: Vec<PathBuf>,
    /// The description of the layout of --file. See below.
    #[arg(long, value_name = "LAYOUT.toml", requires = "files")]
    layout: Vec<PathBuf>,
    /// A JSON or JSON Lines file of any layout, described by --layout.
    #[arg(long = "file", value_name = "DATA.json", requires = "layout")]
    files: Vec<PathBuf>,
}

/// Describes layouts, for the help of commands with [`SetArgs`].
pub(super) const LAYOUT_HELP: &str = "\
A layout is described in TOML by paths: names joined by dots, with [] for every element of a list.
Paths that begin alike mean the same element where they do. Only `text` and `evidence` are needed:

    roles = { human = \"user\", bot = \"assistant\" }
    time_format = \"%d.%m.%Y %H:%M\"

    [messages]
    text = \"chats[].turns[].said\"
    id = \"chats[].turns[].id\"
    namespace = \"chats[].user\"
    session = \"chats[].id\"
    role = \"chats[].turns[].by\"
    name = \"chats[].turns[].name\"
    time = \"chats[].turns[].at\"

    [questions]
    text = \"chats[].asked[].question\"
    evidence = \"chats[].asked[].turn_ids[]\"
    namespace = \"chats[].user\"
    id = \"chats[].asked[].id\"
    category = \"chats[].asked[].kind\"
    time = \"chats[].asked[].at\"

A JSON Lines file is a list of its lines: its paths begin with []. A message without an id is numbered from 1 in its
namespace.";

impl SetArgs {
    /// Reads all sets, which have different names.
    pub(super) fn read(&self) -> anyhow::Result<Vec<Set>> {
        let sources = self.sources()?;
        usage::ensure(
            !(sources.is_empty() && self.messages.is_empty() && self.queries.is_empty()),
            "no set is given; give --messages and --queries, --set, --folder, --locomo, --longmemeval, --beir, or --layout and --file",
        )?;
        let (messages, queries) = (self.messages.len(), self.queries.len());
        usage::ensure(
            messages == queries,
            format!("there are {messages} --messages and {queries} --queries; give both for each set"),
        )?;
        let (layouts, files) = (self.layout.len(), self.files.len());
        usage::ensure(
            layouts == files,
            format!("there are {layouts} --layout and {files} --file; give both for each set"),
        )?;
        let names: BTreeSet<String> = sources.iter().map(Source::name).collect();
        usage::ensure(
            names.len() == sources.len(),
            "two sets have the same name; name them with --set NAME=M.jsonl,Q.jsonl, or rename a file",
        )?;
        sources.into_iter().map(Source::read).collect()
    }

    fn sources(&self) -> anyhow::Result<Vec<Source<'_>>> {
        let pairs = self.messages.iter().cloned().zip(self.queries.iter().cloned());
        let pairs = pairs.map(|(messages, queries)| Files::new(messages, queries)).chain(self.sets.iter().cloned());
        let folders: Vec<Vec<Files>> =
            self.folder.iter().map(|folder| Files::of_folder(folder)).collect::<anyhow::Result<_>>()?;
        let described = self.layout.iter().zip(&self.files);
        let sources = pairs
            .chain(folders.into_iter().flatten())
            .map(Source::JsonLines)
            .chain(self.locomo.iter().map(|path| Source::LoCoMo(path)))
            .chain(self.longmemeval.iter().map(|path| Source::LongMemEval(path)))
            .chain(self.beir.iter().map(|path| Source::Beir(path)))
            .chain(described.map(|(layout, file)| Source::Described { layout, file }))
            .collect();
        Ok(sources)
    }
}

/// The files of a set, by their layout.
enum Source<'a> {
    JsonLines(Files),
    LoCoMo(&'a Path),
    LongMemEval(&'a Path),
    Beir(&'a Path),
    Described { layout: &'a Path, file: &'a Path },
}

impl Source<'_> {
    /// Names a set after its file, up to the first dot, or after its folder.
    fn name(&self) -> String {
        match self {
            Source::JsonLines(files) => files.name.clone(),
            Source::LoCoMo(path) | Source::LongMemEval(path) | Source::Beir(path) => name_of(path),
            Source::Described { file, .. } => name_of(file),
        }
    }

    fn read(self) -> anyhow::Result<Set> {
        let name = self.name();
        match self {
            Source::JsonLines(files) => read_lines(files),
            Source::LoCoMo(path) => locomo::read(path, name),
            Source::LongMemEval(path) => longmemeval::read(path, name),
            Source::Beir(path) => beir::read(path, name),
            Source::Described { layout, file } => layout::read(layout, file, name),
        }
    }
}

/// The files of a set of JSON Lines: messages as for `ingest`, and labelled questions.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::eval) struct Files {
    name: String,
    messages: PathBuf,
    queries: PathBuf,
}

impl Files {
    /// Names the set after the messages' file, or after the file's folder if that name is just `messages`.
    fn new(messages: PathBuf, queries: PathBuf) -> Self {
        let absolute = std::path::absolute(&messages).unwrap_or_else(|_| messages.clone());
        let name = match (name_of(&absolute), absolute.parent()) {
            (name, Some(folder)) if name == "messages" => name_of(folder),
            (name, _) => name,
        };
        Files { name, messages, queries }
    }

    /// The sets of a folder, by name.
    fn of_folder(folder: &Path) -> anyhow::Result<Vec<Self>> {
        let unreadable = || format!("cannot read the folder {}", folder.display());
        let mut sets = Vec::new();
        for entry in folder.read_dir().with_context(unreadable)? {
            let messages = entry.with_context(unreadable)?.path();
            let file = messages.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some((name, ending)) = file.split_once(".messages.")
                && matches!(ending, "jsonl" | "jsonl.gz" | "jsonl.zst")
            {
                let queries = messages.with_file_name(format!("{name}.queries.{ending}"));
                sets.push(Files { name: name.to_owned(), messages, queries });
            }
        }
        usage::ensure(
            !sets.is_empty(),
            format!("{} has no NAME.messages.jsonl or .jsonl.gz or .jsonl.zst", folder.display()),
        )?;
        sets.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(sets)
    }
}

/// Names a set after a file or folder, up to the first dot.
fn name_of(path: &Path) -> String {
    // `.` and `..` have no name.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let name = absolute.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.split('.').next().unwrap_or_default();
    if stem.is_empty() { "set".to_owned() } else { stem.to_owned() }
}

impl FromStr for Files {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts = text.split_once('=').and_then(|(name, files)| Some((name, files.split_once(',')?)));
        let named = parts.filter(|(name, _)| !name.is_empty());
        let (name, (messages, queries)) = named.context("a set is given as NAME=M.jsonl,Q.jsonl")?;
        Ok(Files { name: name.into(), messages: messages.into(), queries: queries.into() })
    }
}

/// Reads a set of JSON Lines. A question without an id is named after its position.
fn read_lines(files: Files) -> anyhow::Result<Set> {
    let messages = input::messages(&files.messages)?;
    let question = |(at, line): (usize, QueryLine)| {
        let QueryLine { id, namespace, query, relevant, category } = line;
        let id = match id {
            Some(Value::String(id)) => id,
            Some(id) => id.to_string(),
            None => format!("q{}", at + 1),
        };
        let mut question = Question::new(id, namespace, query);
        question.relevant = relevant;
        question.category = category.unwrap_or(question.category);
        question
    };
    let questions = input::queries(&files.queries)?.into_iter().enumerate().map(question).collect();
    Ok(Set::new(files.name, messages, questions, Benchmark::None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_named_after_their_files() {
        let named = |messages: &str| Files::new(messages.into(), "q.jsonl".into()).name;
        assert_eq!(named("data/locomo.messages.jsonl"), "locomo");
        assert_eq!(named("datasets/sample/messages.jsonl"), "sample");
        assert_eq!(named("chats"), "chats");
        // A path without a folder is in that of the command.
        let here = name_of(Path::new("."));
        assert_eq!([named("messages.jsonl"), named("./messages.jsonl")], [here.clone(), here]);
        assert_eq!([named("/messages.jsonl"), named(".jsonl")], ["set", "set"]);
        let given: Files = "a=b/m=1.jsonl,c/q.jsonl".parse().unwrap();
        assert_eq!(given, Files { name: "a".into(), messages: "b/m=1.jsonl".into(), queries: "c/q.jsonl".into() });
        for text in ["a", "a=b", "b,c", "=b,c"] {
            assert!(text.parse::<Files>().is_err(), "{text}");
        }
    }
}
