//! Reads evaluation sets: JSON Lines files, published benchmarks, and files of any layout that is described.

mod beir;
mod elements;
mod json_lines;
mod json_path;
mod layout;
mod locomo;
mod longmemeval;
mod times;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

pub(super) use self::beir::{CORPUS, QRELS, QRELS_HEAD, QUERIES};
use self::json_lines::{Files, name_of};
use super::set::Set;
use crate::usage;

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
    /// LoCoMo as it is published, such as locomo10.json. Each conversation is a namespace.
    #[arg(long, value_name = "FILE.json")]
    locomo: Vec<PathBuf>,
    /// LongMemEval as it is published: S, M or oracle. Each question has a namespace of its own. Adds the benchmark's own
    /// figures.
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

/// How a layout is described, for the help of commands with [`SetArgs`].
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
    /// Returns true if no set is named.
    pub(super) fn is_empty(&self) -> bool {
        self.sources().is_empty() && self.messages.is_empty() && self.queries.is_empty()
    }

    /// Reads all sets, which have different names.
    pub(super) fn read(&self) -> anyhow::Result<Vec<Set>> {
        usage::ensure(
            !self.is_empty(),
            "no set is given; give --messages and --queries, --set, --locomo, --longmemeval, --beir, or --layout and --file",
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
        let sources = self.sources();
        let names: BTreeSet<String> = sources.iter().map(Source::name).collect();
        usage::ensure(
            names.len() == sources.len(),
            "two sets have the same name; name them with --set NAME=M.jsonl,Q.jsonl, or rename a file",
        )?;
        sources.into_iter().map(Source::read).collect()
    }

    fn sources(&self) -> Vec<Source<'_>> {
        let pairs = self.messages.iter().cloned().zip(self.queries.iter().cloned());
        let pairs = pairs.map(|(messages, queries)| Files::new(messages, queries)).chain(self.sets.iter().cloned());
        let described = self.layout.iter().zip(&self.files);
        pairs
            .map(Source::JsonLines)
            .chain(self.locomo.iter().map(|path| Source::LoCoMo(path)))
            .chain(self.longmemeval.iter().map(|path| Source::LongMemEval(path)))
            .chain(self.beir.iter().map(|path| Source::Beir(path)))
            .chain(described.map(|(layout, file)| Source::Described { layout, file }))
            .collect()
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
            Source::JsonLines(files) => json_lines::read(files),
            Source::LoCoMo(path) => locomo::read(path, name),
            Source::LongMemEval(path) => longmemeval::read(path, name),
            Source::Beir(path) => beir::read(path, name),
            Source::Described { layout, file } => layout::read(layout, file, name),
        }
    }
}
