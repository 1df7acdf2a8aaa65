//! `mnemon ingest`: messages of files are stored, embedded and indexed.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, anyhow, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser};
use mnemon::{
    Config, Engine, Error, Language, Message, Namespace, Precision, PutReport,
    format::{
        BadMessage, FORMATS, FileImport, Format as FileFormat, ImportReport, ImportTarget, MessageEdit, ReadOptions,
        SourceFile,
    },
    message::TimeZone,
};
use mnemon_secrets::Secrets;
use serde::Serialize;

use crate::{
    database, input,
    output::{self, Format, counted},
    progress::{Progress, Total},
    usage::{DeviceOption, MemoryOptions, Status},
};

/// The name that stands for the format which each file is found to have.
const AUTO: &str = "auto";
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
    #[arg(long, value_name = "FORMAT", default_value = AUTO, value_parser = formats())]
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
        [PossibleValue::new(AUTO).help("what each file is found to have")].into_iter().chain(formats),
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

impl From<&ImportReport> for Report {
    fn from(import: &ImportReport) -> Self {
        let ImportReport { new, replaced, unchanged, removed, skipped, .. } = *import;
        Report { new, replaced, unchanged, removed, skipped, ..Report::default() }
    }
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
    let (started, progress) = (Instant::now(), Progress::new());
    let removed = Arc::new(AtomicU64::new(0));
    let Args { from, namespace, session, tool_output, me, time_zone, remove_secrets, .. } = args;
    let options = ReadOptions {
        tool_output: *tool_output,
        namespace: namespace.clone(),
        session: session.clone(),
        me: me.clone(),
        time_zone: time_zone.clone(),
        edit: remove_secrets.then(|| without_secrets(Arc::clone(&removed))),
        ..ReadOptions::default()
    };
    let mut import = FileImport::new(engine, options, FileFormat::named(from))?;
    let mut ingest = Ingest {
        engine,
        args,
        progress: &progress,
        with_language: BTreeSet::new(),
        bytes: 0,
        before: 0,
        messages: 0,
        unknown: Vec::new(),
        stopped: None,
    };
    for file in &args.files {
        let stopped = ingest.path(file, &mut import);
        // After a bad line too: the messages before it must be searchable.
        let embedded = progress.embed(engine);
        stopped?;
        embedded?;
    }
    let mut report = Report::from(import.report());
    report.secrets_removed = removed.load(Ordering::Relaxed);
    report.linked = args.link.link(engine, &progress)?;
    report.seconds = started.elapsed().as_secs_f64();
    let cache = engine.blocking().cache_stats().unwrap_or_default();
    (report.cache_hits, report.cache_misses) = (cache.hits, cache.misses);
    report.messages_per_second = report.messages() as f64 / report.seconds;
    Ok(report)
}

/// Returns the change of messages that replaces their secrets, and counts them.
fn without_secrets(removed: Arc<AtomicU64>) -> MessageEdit {
    let secrets = Secrets::new();
    MessageEdit::new(move |message| {
        let kinds = secrets.replace_in_message(message).map_err(|error| Error::InvalidMessage {
            reason: format!("it is no message without its secrets: {error}"),
        })?;
        removed.fetch_add(kinds.len() as u64, Ordering::Relaxed);
        Ok(())
    })
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

/// How the command stores messages, and what it says meanwhile.
struct Ingest<'a> {
    engine: &'a Engine,
    args: &'a Args,
    progress: &'a Progress,
    /// The namespaces whose language this command has set.
    with_language: BTreeSet<Namespace>,
    /// The size of the present file; 0 if it is unknown. And the messages of the files before it.
    bytes: u64,
    before: u64,
    messages: u64,
    /// Files that are left out.
    unknown: Vec<String>,
    /// The bad line at which the command stops.
    stopped: Option<anyhow::Error>,
}

impl ImportTarget for Ingest<'_> {
    fn put(&mut self, messages: Vec<(Namespace, Message)>) -> mnemon::Result<PutReport> {
        if let Some(language) = self.args.language {
            for (namespace, _) in &messages {
                // Before the messages are stored: a later change of the language analyses them again.
                if !self.with_language.contains(namespace) {
                    self.engine.blocking().set_language(namespace, language)?;
                    self.with_language.insert(namespace.clone());
                }
            }
        }
        self.engine.blocking().put_all(messages)
    }

    fn delete(&mut self, namespace: &Namespace, id: String) -> mnemon::Result<u64> {
        self.engine.blocking().delete(namespace, vec![id])
    }

    fn bad(&mut self, bad: BadMessage) -> mnemon::Result<()> {
        let BadMessage { error, format, line, needs_namespace, is_rest_of_file, .. } = bad;
        if is_rest_of_file || self.args.skip_bad {
            let error = if is_rest_of_file { or_other(error) } else { error.into() };
            self.progress.note(&format!("skipped {error:#}"));
            return Ok(());
        }
        self.stopped = Some(match line {
            _ if needs_namespace => anyhow!("{error}: give --namespace"),
            1 => or_foreign(&error, format),
            _ => anyhow!("{error}"),
        });
        Err(error)
    }

    fn begin(&mut self, file: &SourceFile<'_>, format: Option<&'static FileFormat>) -> mnemon::Result<()> {
        match format {
            None => self.unknown.push(file.name.clone()),
            Some(format) => {
                if self.args.from == AUTO && format.name != OWN {
                    self.progress.note(&format!("{}: read as {}; --from names another format", file.name, format.name));
                }
                self.progress.begin("storing", "messages", Total::Unknown);
                (self.bytes, self.before) = (file.size, self.messages);
            }
        }
        Ok(())
    }

    fn note(&mut self, file: &str, note: &str) {
        self.progress.note(&format!("{file}: {note}"));
    }

    fn progress(&mut self, messages: u64, bytes_read: u64) {
        self.messages = messages;
        let done = messages - self.before;
        // The sizes of stdin and of what is decompressed are unknown.
        let share = bytes_read as f64 / self.bytes as f64;
        let total = match self.bytes >= bytes_read.max(1) {
            true => Total::Estimated((done as f64 / share).round() as u64),
            false => Total::Unknown,
        };
        self.progress.set(done, total);
    }
}

impl Ingest<'_> {
    /// Stores the messages of the files at a path, up to their end or the first error.
    fn path(&mut self, path: &Path, import: &mut FileImport<'_>) -> anyhow::Result<()> {
        let ended = import.run(&mut input::source(path)?, self);
        let unknown = std::mem::take(&mut self.unknown);
        if !unknown.is_empty() {
            let shown = unknown[..unknown.len().min(SHOWN)].join(", ");
            let more = if unknown.len() > SHOWN { ", ..." } else { "" };
            let files = counted(unknown.len() as u64, "file");
            let kind = match &*self.args.from {
                AUTO => "of no known format".to_owned(),
                given => format!("not of the format {given}"),
            };
            self.progress.note(&format!("left out {files} {kind}: {shown}{more}"));
        }
        let Err(error) = ended else { return Ok(()) };
        let Some(stopped) = self.stopped.take() else { return Err(or_other(error)) };
        let stored =
            if import.report().messages() == 0 { "nothing was stored" } else { "all lines before it are stored" };
        Err(stopped.context(format!(
            "stopped at this line; {stored}. Correct the line and ingest the file again (stored messages are not \
             duplicated), or skip bad lines with --skip-bad"
        )))
    }
}

/// Adds the remedy to an error in the first line of a file of mnemon's format, which may be of another system.
fn or_foreign(error: &Error, format: &FileFormat) -> anyhow::Error {
    match format.name {
        OWN => anyhow!("{error}; a file of another system is read with --from {}", names()),
        _ => anyhow!("{error}"),
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
