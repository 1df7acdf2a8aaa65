//! `mnemon ingest`

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, anyhow, ensure};
use clap::ValueEnum;
use mnemon::{Device, Engine, IndexKind, Language, Message, MessageLine, Namespace, Precision, PutReport};
use serde::Serialize;

use crate::{
    foreign::{self, Source},
    input::{self, MessageReader},
    key,
    memory_options::MemoryOptions,
    output::{self, Format, counted},
    phases,
    progress::{Progress, Total},
    status::Status,
    stderr,
};

/// Messages per commit.
const BATCH: usize = 512;

/// Store the messages of JSON Lines files, embed and index them.
///
/// Each line is a message: {"id"?, "namespace"?, "session"?, "role", "name"?, "content", "created_at"?, "metadata"?}.
/// "content" is a text or an array of parts: {"type": "text", "text"}, {"type": "tool_call", "id", "name",
/// "arguments"}, {"type": "tool_result", "id", "content"}, and "image", "audio", "video" or "file" with "uri" and
/// "media_type". A message of OpenAI's chat format is accepted, too, with "tool_calls" and parts such as "image_url".
///
/// A message whose id exists already replaces the stored one, so a file can be ingested again at any time. A line
/// without an id gets one computed from its content: the same line in another file is the same message. A bad line
/// stops the command, with its file and line number; all lines before it are stored.
///
/// With --from, the files are those of another system, as JSON or JSON Lines.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database; created if it is missing.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// A model folder or name. Default: the database's own model, and static-en-256 for a new database.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// The device that runs the model: cpu, cuda, or cuda:1 for the second GPU. A GPU needs a build with the feature
    /// `cuda`.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Precision of the vectors in a new database: f16; f32 for twice the size, or i8 for a half. An existing
    /// database keeps its precision. Default: f16.
    #[arg(long)]
    precision: Option<Precision>,
    /// Store all messages in this namespace instead of those that their lines name.
    #[arg(long, value_name = "NS")]
    namespace: Option<Namespace>,
    /// The language whose rules reduce words to their stems, such as german, or other. Stored for each namespace that
    /// gets messages. Default: the namespace's language, which is english at first.
    #[arg(long)]
    language: Option<Language>,
    /// A file that caches vectors by text and model, at most 1 GiB; created if it is missing. Pays for models that take
    /// a millisecond per text. It can be deleted at any time.
    #[arg(long, value_name = "FILE")]
    embedding_cache: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryOptions,
    /// The format of the files, if they are not lines of messages. See docs/command.md for the form of each.
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Source>,
    /// Store messages in this session whose format names none.
    #[arg(long, value_name = "ID", requires = "from")]
    session: Option<String>,
    /// Report bad lines and bad messages of conversations and continue, instead of stopping at the first. The command
    /// still fails if most are bad.
    #[arg(long)]
    skip_bad: bool,
    /// JSON Lines files, or those of another format with --from; - reads stdin. They may be compressed by gzip or zstd.
    #[arg(required = true, value_name = "FILE.jsonl")]
    files: Vec<PathBuf>,
}

#[derive(Default, Serialize)]
struct Report {
    new: u64,
    replaced: u64,
    unchanged: u64,
    skipped: u64,
    /// Texts whose vectors were found in the cache.
    cache_hits: u64,
    /// Texts that the model embedded.
    cache_misses: u64,
    seconds: f64,
    messages_per_second: f64,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let mut config = input::config(IndexKind::Auto);
    config.precision = args.precision.unwrap_or_default();
    config.embedding_cache_file = args.embedding_cache.clone();
    config.device = args.device.clone();
    args.memory.set(&mut config);
    key::set(&mut config)?;
    let engine = input::engine(&args.db, args.model.as_deref(), config, true)?;
    let result = ingest_all(&engine, &args, format);
    remove_unused(&engine, &args.db);
    result
}

/// Removes the database if this command created it, and nothing was stored in it.
pub(crate) fn remove_unused(engine: &Engine, db: &Path) {
    if let Err(error) = engine.blocking().remove_if_unused() {
        stderr::note(format!("the new database {} has no messages and was not removed: {error}", db.display()));
    }
}

fn ingest_all(engine: &Engine, args: &Args, format: Format) -> anyhow::Result<Status> {
    if let Some(given) = args.precision {
        let stored = engine.precision();
        ensure!(
            given == stored,
            "the database stores vectors in {stored}, but --precision {given} was given; leave the option out, or convert the \
             database with `mnemon reindex --precision {given}`"
        );
    }
    let progress = Progress::new();
    let started = Instant::now();
    let mut report = Report::default();
    let mut with_language = BTreeSet::new();
    for file in &args.files {
        // A reader per file: of two equal lines in one file the second is another message; in another file it is the
        // same one.
        let mut reader = MessageReader::new(args.namespace.clone());
        let stopped = ingest(engine, file, args, &progress, &mut with_language, &mut reader, &mut report);
        // After a bad line too: the messages before it must be searchable.
        let flushed = phases::embed(engine, &progress);
        stopped?;
        flushed?;
    }
    drop(progress);
    report.seconds = started.elapsed().as_secs_f64();
    let cache = engine.blocking().cache_stats().unwrap_or_default();
    (report.cache_hits, report.cache_misses) = (cache.hits, cache.misses);
    let messages = report.new + report.replaced + report.unchanged;
    report.messages_per_second = messages as f64 / report.seconds;
    match format {
        Format::Json => output::json(&report)?,
        Format::Text => {
            output::count("new", report.new)?;
            output::count("replaced", report.replaced)?;
            output::count("unchanged", report.unchanged)?;
            output::count("skipped", report.skipped)?;
            output::line(&format!(
                "texts: {} embedded, {} found in the cache",
                report.cache_misses, report.cache_hits
            ))?;
            output::line(&format!(
                "{} in {:.2} s, {:.0}/s: stored, embedded, indexed",
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
    Ok(Status::SUCCESS)
}

/// Stores the messages of one file. `with_language` holds the namespaces whose language was set by this command.
fn ingest(
    engine: &Engine,
    file: &Path,
    args: &Args,
    progress: &Progress,
    with_language: &mut BTreeSet<Namespace>,
    reader: &mut MessageReader,
    report: &mut Report,
) -> anyhow::Result<()> {
    let bytes = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    progress.begin("storing", "messages", Total::Unknown);
    let before = report.new + report.replaced + report.unchanged;
    let mut batch: Vec<(Namespace, Message)> = Vec::with_capacity(BATCH);
    let mut put = |batch: &mut Vec<(Namespace, Message)>, bytes_read: u64, report: &mut Report| -> anyhow::Result<()> {
        for (namespace, _) in batch.iter() {
            // Before the messages are stored: a later change of the language analyses them again.
            if let Some(language) = args.language
                && !with_language.contains(namespace)
            {
                engine.blocking().set_language(namespace, language)?;
                with_language.insert(namespace.clone());
            }
        }
        let PutReport { new, replaced, unchanged, .. } = engine.blocking().put_all(std::mem::take(batch))?;
        report.new += new;
        report.replaced += replaced;
        report.unchanged += unchanged;
        let done = report.new + report.replaced + report.unchanged - before;
        // The sizes of stdin and of what is decompressed are unknown.
        let share = bytes_read as f64 / bytes as f64;
        let total = if bytes >= bytes_read.max(1) {
            Total::Estimated((done as f64 / share).round() as u64)
        } else {
            Total::Unknown
        };
        progress.set(done, total);
        Ok(())
    };
    // Takes the messages of a line, or of what another format has instead.
    let mut accept = |number: u64, bytes_read: u64, found: Vec<anyhow::Result<MessageLine>>| {
        // All messages of a conversation, or none if the command stops at one of them.
        let mut messages = Vec::with_capacity(found.len());
        for line in found {
            match line.and_then(|line| reader.place(line)).with_context(|| input::at(file, number)) {
                Ok(message) => messages.push(message),
                Err(error) if args.skip_bad => {
                    progress.note(&format!("skipped {error:#}"));
                    report.skipped += 1;
                }
                Err(error) => {
                    let is_first = batch.is_empty() && report.new + report.replaced + report.unchanged == 0;
                    let stored = if is_first { "nothing was stored" } else { "all lines before it are stored" };
                    return Err(error.context(format!(
                        "stopped at this line; {stored}. Correct the line and ingest the file again (stored messages are not \
                         duplicated), or skip bad lines with --skip-bad"
                    )));
                }
            }
        }
        batch.append(&mut messages);
        if batch.len() >= BATCH { put(&mut batch, bytes_read, report) } else { Ok(()) }
    };
    let stopped = match args.from {
        Some(source) => foreign::read(file, source, args.session.as_deref(), &mut accept),
        None => input::lines(file)?.try_for_each(|line| {
            let line = line?;
            let parsed = line.text.and_then(|text| Ok(MessageLine::parse(&text)?));
            let parsed = parsed.map_err(|error| if line.number == 1 { or_foreign(&error) } else { error });
            accept(line.number, line.bytes_read, vec![parsed])
        }),
    };
    // After a bad line too.
    put(&mut batch, bytes, report)?;
    stopped
}

/// Adds to the fault of a file's first line what to do if the file is of another system.
fn or_foreign(error: &anyhow::Error) -> anyhow::Error {
    let sources = Source::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let names: Vec<String> = sources.map(|source| source.get_name().to_owned()).collect();
    anyhow!("{error:#}; a file of another system, such as a JSON array, is read with --from {}", names.join("|"))
}
