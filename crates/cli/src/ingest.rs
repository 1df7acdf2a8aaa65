//! `mnemon ingest`: messages of files are stored, embedded and indexed.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, anyhow, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use mnemon::{
    Config, Engine, Error, Language, Message, MessageLine, Namespace, Precision, PutReport,
    format::{FORMATS, FileReader, Format as FileFormat, Found, ReadOptions, SourceFile, TimeZone},
};
use mnemon_secrets::Secrets;
use serde::Serialize;

use crate::{
    database,
    input::{self, MessageReader},
    output::{self, Format, counted},
    progress::{Progress, Total},
    usage::{DeviceOption, MemoryOptions, Status},
};

/// Messages per commit.
const BATCH: usize = 512;
/// The format of files whose lines are messages.
const OWN: &str = "mnemon";
/// The most names of files that are shown.
const SHOWN: usize = 5;

/// Store the messages of files, embed and index them.
///
/// The files are those of many programs, each in the format that it is found to have. Of mnemon's own format, each line
/// is a message: {"id"?, "namespace"?, "session"?, "role", "name"?, "content", "created_at"?, "expires_at"?,
/// "metadata"?}.
/// "content" is a text or an array of parts: {"type": "text", "text"}, {"type": "tool_call", "id", "name",
/// "arguments"}, {"type": "tool_result", "id", "content"}, and "image", "audio", "video" or "file" with "uri" and
/// "media_type". A message of OpenAI's chat format is accepted, too, with "tool_calls" and parts such as "image_url".
///
/// A message whose id exists already replaces the stored one, so a file can be ingested again at any time. A line
/// without an id gets one computed from its content: the same line in another file is the same message. A bad line
/// stops the command, with its file and line number; all lines before it are stored.
///
/// See docs/import.md for all formats.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: IngestTarget,
    /// Precision of the vectors in a new database: f16; f32 for twice the size, or i8 for a half. An existing
    /// database keeps its precision. Default: f16.
    #[arg(long)]
    precision: Option<Precision>,
    /// Store all messages in this namespace instead of those that their lines name.
    #[arg(long, value_name = "NS")]
    namespace: Option<Namespace>,
    /// The language whose rules reduce words to their stems, such as german, or other. Stored for each namespace that
    /// gets messages. Default: the namespace's language, which is guessed from its first messages if none was set.
    #[arg(long)]
    language: Option<Language>,
    /// A file that caches vectors by text and model, at most 1 GiB; created if it is missing. Pays for models that take
    /// a millisecond per text. It can be deleted at any time.
    #[arg(long, value_name = "FILE")]
    embedding_cache: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryOptions,
    /// The format of the files. auto: what each is found to have. See docs/import.md for all formats.
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = formats())]
    from: String,
    /// Store messages in this session whose format names none.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The most bytes of each output of a tool, and of the arguments of each call, that are stored from a transcript of a
    /// coding agent or of ChatGPT. 0: calls of tools and their outputs are left out.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    tool_output: usize,
    /// Your name in chats of groups, whose messages are then those of the user.
    #[arg(long, value_name = "NAME")]
    me: Option<String>,
    /// The time zone of times that have none, such as Europe/Berlin or +02:00. Default: UTC.
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<TimeZone>,
    /// Replace keys, tokens, passwords beside their names and card numbers by marks such as [key removed] before anything is
    /// stored, as `mnemon serve --remove-secrets` does. Known forms alone are found; see docs/server.md.
    #[arg(long)]
    remove_secrets: bool,
    #[command(flatten)]
    link: LinkOption,
    /// Report bad lines and bad messages of conversations and continue, instead of stopping at the first. The command
    /// still fails if most are bad.
    #[arg(long)]
    skip_bad: bool,
    /// Files, folders and zip archives as other programs deliver them; - reads stdin. Files may be compressed by gzip or zstd.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The names of the formats that --from takes.
fn formats() -> PossibleValuesParser {
    let formats = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.title));
    PossibleValuesParser::new(
        [PossibleValue::new("auto").help("what each file is found to have")].into_iter().chain(formats),
    )
}

/// The option of commands that store many messages.
#[derive(clap::Args)]
pub(crate) struct LinkOption {
    /// Leave out the last step, which links the vectors of namespaces with more than 10,000 in a graph. Recalls then take
    /// longer, until a program that uses the database has linked them in the background.
    #[arg(long)]
    no_link: bool,
}

impl LinkOption {
    /// Links what can be linked, unless the option forbids it. Returns the number of linked vectors.
    pub(crate) fn link(&self, engine: &Engine, progress: &Progress) -> anyhow::Result<u64> {
        if self.no_link {
            return Ok(0);
        }
        progress.link_all(engine).context(
            "everything is stored and can be found, but not all vectors are linked; a program that uses the database goes on \
             with it",
        )
    }
}

/// The database that a command fills.
#[derive(clap::Args)]
pub(crate) struct IngestTarget {
    /// The database; created if it is missing.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// A model folder or name; or given:NAME:DIMENSION, if the vectors of documents are given. Default: the database's own
    /// model, and static-en-256 for a new database.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    #[command(flatten)]
    device: DeviceOption,
}

impl IngestTarget {
    pub(crate) fn open(&self, config: Config) -> anyhow::Result<Engine> {
        database::engine(&self.db, self.model.as_deref(), config.device(self.device.device.clone()), true)
    }

    /// Removes the database if this command created it, and nothing was stored in it.
    pub(crate) fn remove_unused(&self, engine: &Engine) {
        if let Err(error) = engine.blocking().remove_if_unused() {
            let db = self.db.display();
            output::note(format!("the new database {db} has no messages and was not removed: {error}"));
        }
    }
}

#[derive(Default, Serialize)]
struct Report {
    new: u64,
    replaced: u64,
    unchanged: u64,
    /// Messages of an earlier ingest that their author took back since.
    removed: u64,
    skipped: u64,
    /// Secrets that were replaced by marks.
    secrets_removed: u64,
    /// Texts whose vectors were found in the cache.
    cache_hits: u64,
    /// Texts that the model embedded.
    cache_misses: u64,
    /// Vectors in graphs, which namespaces with very many vectors have.
    linked: u64,
    seconds: f64,
    messages_per_second: f64,
}

impl Report {
    fn messages(&self) -> u64 {
        self.new + self.replaced + self.unchanged
    }
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let mut config = database::config()?.precision(args.precision.unwrap_or_default());
    config.embedding_cache_file.clone_from(&args.embedding_cache);
    args.memory.set(&mut config);
    let engine = args.target.open(config)?;
    let result = ingest_all(&engine, &args).and_then(|report| print(&report, format));
    args.target.remove_unused(&engine);
    result.map(|()| Status::SUCCESS)
}

fn ingest_all(engine: &Engine, args: &Args) -> anyhow::Result<Report> {
    if let Some(given) = args.precision {
        let stored = engine.precision();
        ensure!(
            given == stored,
            "the database stores vectors in {stored}, but --precision {given} was given; leave the option out, or convert the \
             database with `mnemon reindex --precision {given}`"
        );
    }
    let started = Instant::now();
    let (progress, with_language) = (Progress::new(), BTreeSet::new());
    let (secrets, report) = (args.remove_secrets.then(Secrets::new), Report::default());
    let mut ingest = Ingest { engine, args, secrets, progress, report, with_language, places: HashMap::new() };
    for file in &args.files {
        let stopped = ingest.path(file);
        // After a bad line too: the messages before it must be searchable.
        let embedded = ingest.progress.embed(engine);
        stopped?;
        embedded?;
    }
    let Ingest { mut report, progress, .. } = ingest;
    report.linked = args.link.link(engine, &progress)?;
    report.seconds = started.elapsed().as_secs_f64();
    let cache = engine.blocking().cache_stats().unwrap_or_default();
    (report.cache_hits, report.cache_misses) = (cache.hits, cache.misses);
    report.messages_per_second = report.messages() as f64 / report.seconds;
    Ok(report)
}

/// Prints the report. It is an error if most lines were bad.
fn print(report: &Report, format: Format) -> anyhow::Result<()> {
    let messages = report.messages();
    match format {
        Format::Json => output::json(report)?,
        Format::Text => {
            output::count("new", report.new)?;
            output::count("replaced", report.replaced)?;
            output::count("unchanged", report.unchanged)?;
            if report.removed > 0 {
                output::count("removed", report.removed)?;
            }
            output::count("skipped", report.skipped)?;
            if report.secrets_removed > 0 {
                output::count("secrets removed", report.secrets_removed)?;
            }
            output::line(&format!(
                "texts: {} embedded, {} found in the cache",
                report.cache_misses, report.cache_hits
            ))?;
            let linked = if report.linked > 0 { format!(", {} linked", report.linked) } else { String::new() };
            output::line(&format!(
                "{} in {:.2} s, {:.0}/s: stored, embedded, indexed{linked}",
                counted(messages, "message"),
                report.seconds,
                report.messages_per_second
            ))?;
        }
    }
    let lines = messages + report.skipped;
    ensure!(
        2 * report.skipped <= lines,
        "{} of {} {} bad and skipped, most of them; {}",
        report.skipped,
        counted(lines, "line"),
        if report.skipped == 1 { "was" } else { "were" },
        if messages == 0 { "nothing was stored" } else { "the others are stored" }
    );
    Ok(())
}

/// A running ingest.
struct Ingest<'a> {
    engine: &'a Engine,
    args: &'a Args,
    /// Replaces the secrets in messages, if they are to be.
    secrets: Option<Secrets>,
    progress: Progress,
    report: Report,
    /// The namespaces whose language this command has set.
    with_language: BTreeSet<Namespace>,
    /// The namespaces in which the sessions of folders are stored.
    places: HashMap<(Namespace, String), Namespace>,
}

/// One file of a running ingest.
struct IngestFile<'a, 'i> {
    ingest: &'i mut Ingest<'a>,
    name: String,
    /// The size of the file; 0 if it is unknown.
    bytes: u64,
    /// Messages of the files before this one.
    before: u64,
    reader: MessageReader,
    /// Messages that are not stored yet.
    batch: Vec<(Namespace, Message)>,
}

impl Ingest<'_> {
    /// Stores the messages of the files at a path, up to their end or the first error.
    fn path(&mut self, path: &Path) -> anyhow::Result<()> {
        let Args { from, session, tool_output, me, time_zone, .. } = self.args;
        let (session, me, time_zone) = (session.clone(), me.clone(), time_zone.clone());
        let options = ReadOptions { tool_output: *tool_output, session, me, time_zone };
        let given = FileFormat::named(from);
        let mut files = FileReader::new(options);
        let mut source = input::source(path)?;
        let (is_single, mut unknown) = (source.is_single(), Vec::new());
        while let Some(mut file) = source.next_file()? {
            let format = match given.filter(|_| is_single).map_or_else(|| file.format(), |given| Ok(Some(given))) {
                // The other files of the folder are no worse for one that is damaged.
                Err(error) if !is_single => {
                    self.progress.note(&format!("skipped {error}"));
                    self.report.skipped += 1;
                    continue;
                }
                format => format?,
            };
            match format {
                Some(format) if given.is_none_or(|given| given.name == format.name) => {
                    if given.is_none() && format.name != OWN {
                        self.progress
                            .note(&format!("{}: read as {}; --from names another format", file.name, format.name));
                    }
                    self.file(file, format, &mut files, is_single)?;
                }
                // Its errors name the other formats.
                None if is_single => {
                    let own = FileFormat::named(OWN).expect("it is in the table");
                    self.file(file, own, &mut files, is_single)?;
                }
                _ => unknown.push(file.name.clone()),
            }
        }
        if !unknown.is_empty() {
            let shown = unknown[..unknown.len().min(SHOWN)].join(", ");
            let more = if unknown.len() > SHOWN { ", ..." } else { "" };
            let files = counted(unknown.len() as u64, "file");
            let kind =
                given.map_or("of no known format".to_owned(), |given| format!("not of the format {}", given.name));
            self.progress.note(&format!("left out {files} {kind}: {shown}{more}"));
        }
        Ok(())
    }

    /// Stores the messages of a file, up to its end or the first error.
    fn file(
        &mut self,
        file: SourceFile<'_>,
        format: &'static FileFormat,
        files: &mut FileReader,
        is_single: bool,
    ) -> anyhow::Result<()> {
        self.progress.begin("storing", "messages", Total::Unknown);
        let bytes = file.size;
        let mut ingest = IngestFile {
            name: file.name.clone(),
            bytes,
            before: self.report.messages(),
            // A reader per file: of two equal lines in one file the second is another message; in another file it is
            // the same one.
            reader: MessageReader::new(self.args.namespace.clone()),
            batch: Vec::with_capacity(BATCH),
            ingest: self,
        };
        let stopped = files.read(format, file).try_for_each(|found| match found {
            Ok(found) => ingest.take(found, format),
            // The other files of the folder are no worse for it.
            Err(error) if !is_single => ingest.skip(&or_other(error)),
            Err(error) => Err(or_other(error)),
        });
        // After a bad line too.
        ingest.put(bytes)?;
        stopped
    }
}

impl IngestFile<'_, '_> {
    /// Takes all messages that were found together, or none if the command stops at one of them.
    fn take(&mut self, found: Found, format: &FileFormat) -> anyhow::Result<()> {
        for note in &found.notes {
            self.ingest.progress.note(&format!("{}: {note}", self.name));
        }
        let mut messages = Vec::with_capacity(found.messages.len());
        for line in found.messages {
            let line = line.map_err(|error| if found.line == 1 { or_foreign(error, format) } else { error.into() });
            let placed = line.and_then(|line| {
                let line = self.kept_place(line, format)?;
                self.place(line).with_context(|| format!("{}:{}", self.name, found.line))
            });
            match placed {
                Ok(message) => messages.push(message),
                Err(error) if self.ingest.args.skip_bad => self.skip(&error)?,
                Err(error) => {
                    let is_first = self.batch.is_empty() && self.ingest.report.messages() == 0;
                    let stored = if is_first { "nothing was stored" } else { "all lines before it are stored" };
                    return Err(error.context(format!(
                        "stopped at this line; {stored}. Correct the line and ingest the file again (stored messages are not \
                         duplicated), or skip bad lines with --skip-bad"
                    )));
                }
            }
        }
        self.batch.append(&mut messages);
        self.remove(found.removed, format)?;
        if self.batch.len() >= BATCH { self.put(found.bytes_read) } else { Ok(()) }
    }

    /// Leaves out a message, or what is left of a file.
    fn skip(&mut self, error: &anyhow::Error) -> anyhow::Result<()> {
        self.ingest.progress.note(&format!("skipped {error:#}"));
        self.ingest.report.skipped += 1;
        Ok(())
    }

    /// Gives a message of a folder that is gone the namespace in which it is stored already: while the folder was there, it
    /// said which repository it was in.
    fn kept_place(&mut self, mut line: MessageLine, format: &FileFormat) -> anyhow::Result<MessageLine> {
        let is_placed = format.is_log() && self.ingest.args.namespace.is_none();
        let Some(own) = line.namespace.clone().filter(|_| is_placed) else { return Ok(line) };
        let key = (own, line.message.session.clone());
        if !self.ingest.places.contains_key(&key) {
            let labels: Vec<String> = key.0.labels().map(|label| label.into_owned()).collect();
            let folder: PathBuf = std::iter::once("/".to_owned()).chain(labels.iter().skip(1).cloned()).collect();
            let mut place = key.0.clone();
            if !folder.exists() {
                for end in (2..labels.len()).rev() {
                    let ancestor = Namespace::from_labels(&labels[..end])?;
                    if self.ingest.engine.blocking().get(&ancestor, &line.message.id)?.is_some() {
                        place = ancestor;
                        break;
                    }
                }
            }
            self.ingest.places.insert(key.clone(), place);
        }
        line.namespace = self.ingest.places.get(&key).cloned();
        Ok(line)
    }

    /// Deletes messages that were taken back, if an earlier ingest of the file stored them.
    fn remove(&mut self, lines: Vec<MessageLine>, format: &FileFormat) -> anyhow::Result<()> {
        for line in lines {
            let line = self.kept_place(line, format)?;
            let (namespace, message) = self.reader.place(line)?;
            self.ingest.report.removed += self.ingest.engine.blocking().delete(&namespace, vec![message.id])?;
        }
        Ok(())
    }

    /// Returns a message with its namespace, and without its secrets if they are to be removed.
    fn place(&mut self, mut line: MessageLine) -> anyhow::Result<(Namespace, Message)> {
        if let Some(secrets) = &self.ingest.secrets {
            let removed = secrets.replace_in_message(&mut line.message)?.len();
            self.ingest.report.secrets_removed += removed as u64;
        }
        self.reader.place(line)
    }

    /// Stores the batch, in one commit.
    fn put(&mut self, bytes_read: u64) -> anyhow::Result<()> {
        let Ingest { engine, args, progress, report, with_language, .. } = &mut *self.ingest;
        if let Some(language) = args.language {
            for (namespace, _) in &self.batch {
                // Before the messages are stored: a later change of the language analyses them again.
                if !with_language.contains(namespace) {
                    engine.blocking().set_language(namespace, language)?;
                    with_language.insert(namespace.clone());
                }
            }
        }
        let PutReport { new, replaced, unchanged, .. } = engine.blocking().put_all(std::mem::take(&mut self.batch))?;
        report.new += new;
        report.replaced += replaced;
        report.unchanged += unchanged;
        let done = report.messages() - self.before;
        // The sizes of stdin and of what is decompressed are unknown.
        let share = bytes_read as f64 / self.bytes as f64;
        let total = match self.bytes >= bytes_read.max(1) {
            true => Total::Estimated((done as f64 / share).round() as u64),
            false => Total::Unknown,
        };
        progress.set(done, total);
        Ok(())
    }
}

/// Adds the remedy to an error in the first line of a file of mnemon's format, which may be of another system.
fn or_foreign(error: Error, format: &FileFormat) -> anyhow::Error {
    match format.name {
        OWN => anyhow!("{error}; a file of another system is read with --from {}", names()),
        _ => error.into(),
    }
}

/// Adds the option to the error of a file that has another format.
fn or_other(error: Error) -> anyhow::Error {
    match error {
        Error::OtherFormat { fitting, .. } => {
            let named = fitting.map_or_else(names, str::to_owned);
            anyhow!("{error}, with --from {named}")
        }
        error => error.into(),
    }
}

/// The names of the formats of other systems.
fn names() -> String {
    FORMATS.iter().skip(1).map(|format| format.name).collect::<Vec<_>>().join("|")
}
