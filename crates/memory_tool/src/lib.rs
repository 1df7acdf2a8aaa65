//! Claude's memory tool (`memory_20250818`) on the documents of mnemon: the commands `view`, `create`, `str_replace`,
//! `insert`, `delete` and `rename` on text files under `/memories`.
//!
//! The server and the Python package call [`run`], which has the input of the tool and answers with the text for the
//! model, in the wording that Anthropic documents. This file has the commands, `path` the names of files, and `text` what
//! a view shows. It uses the public API of the library alone.
//!
//! A file is a document of the namespace `<namespace>/memories`. Its key is its path below `/memories`, and its value is
//! `{"text": ...}`, whose text is indexed. So files are found by searches, exported, held and forgotten as documents are,
//! and no path leads to the file system.
//!
//! These hold throughout:
//!
//! - Each change is one commit, which expects what the command has read. If another writer was first, the command begins
//!   again. A create or a rename never replaces a file.
//! - A directory exists as long as a file is in it. No command makes a file and a directory of one name, whatever others do
//!   meanwhile. Other routes to documents can; then a view shows the file, and a deletion and a rename take both.
//! - An answer has a bounded size, however many and large the files are.

#![forbid(unsafe_code)]

mod path;
mod text;

use std::collections::BTreeMap;

use mnemon::{
    DocumentOptions, Engine, Error, Namespace,
    document::{Document, DocumentOperation, DocumentSearch},
};
#[cfg(feature = "schemars")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::path::Path;

/// The times that a command is tried, if other writers change the same files meanwhile. Of four writers who never pause,
/// each wins one time in four.
const ATTEMPTS: usize = 100;
/// The times that the files of a directory are read, if others are put or deleted meanwhile. The last time counts.
const SCANS: usize = 5;
/// Documents that are read at a time to find the files of a directory.
const PAGE: usize = 500;
/// The most files of a directory that is renamed, and the most bytes of their texts: all of them are in memory.
const MAX_RENAMED: (usize, usize) = (1000, 32 << 20);
/// The field of a document that has the text of the file.
const TEXT: &str = "text";

/// The input of the tool: a command and its parameters. Parameters of other commands are ignored.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema), schemars(rename = "MemoryToolInput"))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// `view`: shows the directory or the file at `path`, of a file the lines of `view_range`. `create`: creates the file
    /// `path` with `file_text`. `str_replace`: replaces the text `old_str`, which `path` has once, by `new_str`. `insert`:
    /// inserts `insert_text` after the line `insert_line` of `path`. `delete`: deletes the file or directory at `path`.
    /// `rename`: renames or moves the file or directory `old_path` to `new_path`.
    pub command: Command,
    /// The path of a file or directory, such as `/memories/notes.txt`. For all commands but `rename`.
    pub path: Option<String>,
    /// The first and the last line to view, from 1 on; -1 as the last is the end of the file. Default: all.
    pub view_range: Option<Vec<i64>>,
    /// The text of the new file.
    pub file_text: Option<String>,
    /// The text to replace.
    pub old_str: Option<String>,
    /// The text in its place.
    pub new_str: Option<String>,
    /// The line after which to insert; 0 is the beginning of the file.
    pub insert_line: Option<i64>,
    /// The text to insert.
    pub insert_text: Option<String>,
    /// The path to rename.
    pub old_path: Option<String>,
    /// The new path.
    pub new_path: Option<String>,
}

/// A command of the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
// Descriptions would make the schema of each a schema of its own.
#[allow(missing_docs)]
pub enum Command {
    View,
    Create,
    StrReplace,
    Insert,
    Delete,
    Rename,
}

/// The answer to a command, with the fields of a `tool_result`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema), schemars(rename = "MemoryToolAnswer"))]
pub struct Answer {
    /// The text for the model, at most 60,000 bytes of a file or a directory and what frames them.
    pub content: String,
    /// True if the command failed. Then nothing has changed, and `content` says why.
    pub is_error: bool,
}

impl Answer {
    /// An answer to a command that failed.
    pub fn error(content: impl Into<String>) -> Self {
        Answer { content: content.into(), is_error: true }
    }
}

/// Returns the namespace whose documents are the files of the memory tool in `namespace`.
///
/// # Errors
/// [`Error::InvalidNamespace`]: `namespace` has 16 labels, so there can be none below it.
pub fn files_namespace(namespace: &Namespace) -> mnemon::Result<Namespace> {
    Namespace::new(format!("{namespace}/memories"))
}

/// Runs a command on the files of `namespace`. A change is durable when the call returns. A mistake that the model could
/// correct is an [`Answer`] that says so.
///
/// Cost: that of a read and a put of a document. A view of a directory, a delete and a rename also pass over all files of the
/// namespace, 500 at a time.
///
/// # Errors
/// [`Error::LegalHold`] for a delete or a rename; errors of the database.
pub async fn run(engine: &Engine, namespace: &Namespace, input: &Input) -> mnemon::Result<Answer> {
    let namespace = match files_namespace(namespace) {
        Ok(namespace) => namespace,
        Err(error) => return Ok(Answer::error(format!("Error: There can be no files here: {error}"))),
    };
    let files = Files { engine, namespace };
    for _ in 0..ATTEMPTS {
        let ran = match input.command {
            Command::View => files.view(input).await,
            Command::Create => files.create(input).await,
            Command::StrReplace => files.str_replace(input).await,
            Command::Insert => files.insert(input).await,
            Command::Delete => files.delete(input).await,
            Command::Rename => files.rename(input).await,
        };
        return match ran {
            Ok(content) => Ok(Answer { content, is_error: false }),
            Err(Failure::Told(content)) => Ok(Answer::error(content)),
            Err(Failure::Changed) => continue,
            Err(Failure::Engine(error)) => Err(error),
        };
    }
    Ok(Answer::error("Error: Others change the same files at this moment, so nothing was changed. Repeat the command."))
}

/// The failure of a command.
enum Failure {
    /// A mistake of the model, and the text that tells it.
    Told(String),
    /// Another writer changed a file meanwhile.
    Changed,
    Engine(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidDocument { reason } => Failure::Told(format!("Error: The file cannot be stored: {reason}")),
            Error::DocumentChanged { .. } => Failure::Changed,
            error => Failure::Engine(error),
        }
    }
}

type Result<T> = std::result::Result<T, Failure>;

fn told<T>(text: String) -> Result<T> {
    Err(Failure::Told(text))
}

/// Returns a parameter of a command.
fn given<'a, T: ?Sized>(parameter: Option<&'a T>, name: &str) -> Result<&'a T> {
    parameter.ok_or_else(|| Failure::Told(format!("Error: The parameter `{name}` is missing")))
}

fn path(parameter: &Option<String>, name: &str) -> Result<Path> {
    Path::parse(given(parameter.as_deref(), name)?).map_err(Failure::Told)
}

/// The text of a document that is a file.
fn text_of(value: &Value) -> Option<&str> {
    value.get(TEXT)?.as_str()
}

/// The files of a namespace.
struct Files<'e> {
    engine: &'e Engine,
    /// The namespace of their documents.
    namespace: Namespace,
}

impl Files<'_> {
    async fn view(&self, input: &Input) -> Result<String> {
        let path = path(&input.path, "path")?;
        if let Some(file) = self.file(&path).await? {
            return text::view(&path, text_of(&file).unwrap_or_default(), input.view_range.as_deref())
                .map_err(Failure::Told);
        }
        let below = self.below(&path).await?;
        match below.is_empty() && !path.is_root() {
            true => told(format!("The path {path} does not exist. Please provide a valid path.")),
            false => Ok(text::listing(&path, &below)),
        }
    }

    async fn create(&self, input: &Input) -> Result<String> {
        let path = path(&input.path, "path")?;
        let text = given(input.file_text.as_deref(), "file_text")?;
        if self.document(&path).await?.is_some() {
            return told(format!("Error: File {path} already exists"));
        }
        let is_directory = format!("Error: {path} is a directory. Give the file another name.");
        if path.is_root() {
            return told(is_directory);
        }
        let operations = vec![self.put(&path, json!({ TEXT: text }))];
        self.commit_at(&path, operations, is_directory).await?;
        Ok(format!("File created successfully at: {path}"))
    }

    async fn str_replace(&self, input: &Input) -> Result<String> {
        let path = path(&input.path, "path")?;
        let old = given(input.old_str.as_deref(), "old_str")?;
        let new = given(input.new_str.as_deref(), "new_str")?;
        let Some(file) = self.file(&path).await? else {
            return told(format!("Error: The path {path} does not exist. Please provide a valid path."));
        };
        let text = text_of(&file).unwrap_or_default();
        let mut matches = text.match_indices(old).map(|(at, _)| at);
        let at = match (matches.next(), matches.next()) {
            (None, _) => {
                return told(format!(
                    "No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
                ));
            }
            (Some(_), Some(_)) => {
                let lines = text::lines_of(text, old);
                return told(format!(
                    "No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please ensure it is unique"
                ));
            }
            (Some(at), None) => at,
        };
        let edited = format!("{}{new}{}", &text[..at], &text[at + old.len()..]);
        let snippet = text::snippet(&edited, at, new);
        self.edit(&path, file, edited).await?;
        Ok(format!(
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
        ))
    }

    async fn insert(&self, input: &Input) -> Result<String> {
        let path = path(&input.path, "path")?;
        let line = *given(input.insert_line.as_ref(), "insert_line")?;
        let inserted = given(input.insert_text.as_deref(), "insert_text")?;
        let Some(file) = self.file(&path).await? else {
            return told(format!("Error: The path {path} does not exist"));
        };
        let text = text_of(&file).unwrap_or_default();
        let lines = text.split_inclusive('\n').count();
        let Some(before) = usize::try_from(line).ok().filter(|before| *before <= lines) else {
            return told(format!(
                "Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file: [0, {lines}]"
            ));
        };
        let (before, after) = text.split_at(text.split_inclusive('\n').take(before).map(str::len).sum());
        let newline = |is_needed: bool| if is_needed { "\n" } else { "" };
        let end_of = |part: &str| newline(!part.is_empty() && !part.ends_with('\n'));
        let end = newline(!inserted.ends_with('\n'));
        let edited = format!("{before}{}{inserted}{end}{after}{}", end_of(before), end_of(after));
        self.edit(&path, file, edited).await?;
        Ok(format!("The file {path} has been edited."))
    }

    async fn delete(&self, input: &Input) -> Result<String> {
        let path = path(&input.path, "path")?;
        if path.is_root() {
            return told(format!("Error: Cannot delete the {path} directory itself"));
        }
        let files = self.at_and_below(&path).await?;
        if files.is_empty() {
            return told(format!("Error: The path {path} does not exist"));
        }
        let deletions = files.into_keys().map(|file| self.remove(&file));
        self.engine.document_batch(deletions.collect()).await?;
        Ok(format!("Successfully deleted {path}"))
    }

    async fn rename(&self, input: &Input) -> Result<String> {
        let (old, new) = (path(&input.old_path, "old_path")?, path(&input.new_path, "new_path")?);
        if old.is_root() {
            return told(format!("Error: Cannot rename the {old} directory itself"));
        }
        let files = self.at_and_below(&old).await?;
        if files.is_empty() {
            return told(format!("Error: The path {old} does not exist"));
        }
        let exists = format!("Error: The destination {new} already exists");
        if new.is_root() || old == new || self.document(&new).await?.is_some() {
            return told(exists);
        }
        if old.relative(&new).is_some() {
            return told(format!("Error: Cannot move {old} to {new}, which is below it"));
        }
        let (most, most_bytes) = MAX_RENAMED;
        if files.len() > most || files.values().sum::<usize>() > most_bytes {
            return told(format!(
                "Error: {old} has more than {most} files or {}. Rename the files and directories in it one by one.",
                text::size(most_bytes)
            ));
        }
        let mut operations = Vec::new();
        for from in files.into_keys() {
            let to = new.join(old.relative(&from).unwrap_or_default()).map_err(Failure::Told)?;
            let file = self.document(&from).await?.ok_or(Failure::Changed)?;
            operations.extend([self.expect(&from, Some(file.clone())), self.put(&to, file), self.remove(&from)]);
        }
        self.commit_at(&new, operations, exists).await?;
        Ok(format!("Successfully renamed {old} to {new}"))
    }

    /// Returns the value of the document at a path, if there is one.
    async fn document(&self, path: &Path) -> Result<Option<Value>> {
        Ok(self.engine.documents(&self.namespace).get(path.key()).await?.map(|document| document.value))
    }

    /// The same, if the document is a file.
    async fn file(&self, path: &Path) -> Result<Option<Value>> {
        Ok(self.document(path).await?.filter(|value| text_of(value).is_some()))
    }

    /// Returns the file at a path and those below it, with the bytes of their texts.
    async fn at_and_below(&self, path: &Path) -> Result<BTreeMap<Path, usize>> {
        let mut files = self.below(path).await?;
        if let Some(file) = self.file(path).await? {
            files.insert(path.clone(), text_of(&file).map_or(0, str::len));
        }
        Ok(files)
    }

    /// Returns the files below a path, with the bytes of their texts.
    async fn below(&self, path: &Path) -> Result<BTreeMap<Path, usize>> {
        let documents = self.engine.documents(&self.namespace);
        let place = |document: &Document| (document.key.clone(), document.updated_at);
        let mut scans = 0;
        'scan: loop {
            scans += 1;
            let (mut files, mut offset, mut last) = (BTreeMap::new(), 0, None);
            loop {
                let page = documents.search(DocumentSearch::default().offset(offset).limit(PAGE + 1)).await?;
                // A page begins with the last document of the one before, unless documents were put or deleted meanwhile.
                if last.is_some() && page.first().map(place) != last && scans < SCANS {
                    continue 'scan;
                }
                last = page.last().map(place);
                let is_last = page.len() <= PAGE;
                for Document { key, value, .. } in page {
                    if let (Some(file), Some(text)) = (Path::of_key(&key), text_of(&value))
                        && path.relative(&file).is_some()
                    {
                        files.insert(file, text.len());
                    }
                }
                if is_last {
                    return Ok(files);
                }
                offset += PAGE;
            }
        }
    }

    /// Commits operations that put files at or below a new path. If something is below it already, the answer is `is_taken`.
    async fn commit_at(&self, path: &Path, mut operations: Vec<DocumentOperation>, is_taken: String) -> Result<()> {
        for above in path.above() {
            if self.document(&above).await?.is_some() {
                return told(format!(
                    "Error: {above} is a file, so nothing can be below it. Give {path} another path."
                ));
            }
            operations.push(self.expect(&above, None));
        }
        operations.push(self.expect(path, None));
        let prefix = format!("{}/", path.key());
        operations.push(DocumentOperation::ExpectNone { namespace: self.namespace.clone(), prefix: prefix.clone() });
        match self.engine.document_batch(operations).await {
            Err(Error::DocumentChanged { key, .. }) if key.starts_with(&prefix) => told(is_taken),
            done => Ok(done.map(drop)?),
        }
    }

    /// Stores another text of a file, unless it has changed.
    async fn edit(&self, path: &Path, file: Value, text: String) -> Result<()> {
        let mut edited = file.clone();
        edited[TEXT] = text.into();
        let operations = vec![self.expect(path, Some(file)), self.put(path, edited)];
        self.engine.document_batch(operations).await?;
        Ok(())
    }

    fn expect(&self, path: &Path, value: Option<Value>) -> DocumentOperation {
        DocumentOperation::Expect { namespace: self.namespace.clone(), key: path.key().to_owned(), value }
    }

    fn put(&self, path: &Path, value: Value) -> DocumentOperation {
        let options = DocumentOptions::default().index([TEXT]);
        DocumentOperation::Put { namespace: self.namespace.clone(), key: path.key().to_owned(), value, options }
    }

    fn remove(&self, path: &Path) -> DocumentOperation {
        DocumentOperation::Delete { namespace: self.namespace.clone(), key: path.key().to_owned() }
    }
}
