//! `mnemon ingest`

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, ensure};
use mnemon::{Device, Engine, IndexKind, Language, Message, Namespace, Precision, PutReport};
use serde::Serialize;

use crate::{
    input::{self, MessageReader},
    output::{self, Format},
};

/// Messages of one commit.
const BATCH: usize = 512;

/// Put message files into a database, embed and index them.
///
/// A line is a message: {"id"?, "namespace"?, "session"?, "role", "name"?, "content", "created_at"?, "metadata"?}. Content
/// is a text or an array of parts. An id that is there already is replaced, so a file may be ingested again at any
/// time. Lines without an id get one made from their content: the same line in another file is the same message.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database; made if it is missing.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// A model folder or name. Default: the database's own, for a new one static-en-256.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// What runs the model: cpu, cuda, or cuda:1 for the second GPU; for a GPU the program is built with the feature cuda.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// How a new database stores vectors: f32, or i8, a quarter of the room. Default: f32; one that is there keeps to its own.
    #[arg(long)]
    precision: Option<Precision>,
    /// Put all messages into this namespace, whatever their lines say.
    #[arg(long, value_name = "NS")]
    namespace: Option<Namespace>,
    /// The language of the messages, such as german, or other: how words are brought to their stems. Said of each namespace that
    /// messages come for, and kept. Default: what was said before, or english.
    #[arg(long)]
    language: Option<Language>,
    /// Take vectors of texts that were embedded before from this file, and keep new ones in it; made if it is missing. Worth it for
    /// models that take a millisecond a text. At most 1 GiB; may be deleted.
    #[arg(long, value_name = "FILE")]
    embedding_cache: Option<PathBuf>,
    /// Report bad lines and go on, instead of stopping at the first.
    #[arg(long)]
    skip_bad: bool,
    /// JSON Lines files; - is stdin.
    #[arg(required = true, value_name = "FILE.jsonl")]
    files: Vec<PathBuf>,
}

#[derive(Default, Serialize)]
struct Report {
    new: u64,
    replaced: u64,
    unchanged: u64,
    skipped: u64,
    /// Texts whose vectors were in the cache.
    cache_hits: u64,
    /// Texts that were embedded.
    cache_misses: u64,
    seconds: f64,
    messages_per_second: f64,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let mut config = input::config(IndexKind::Auto);
    config.precision = args.precision.unwrap_or_default();
    config.embedding_cache_file = args.embedding_cache.clone();
    config.device = args.device.clone();
    let engine = input::engine(&args.db, args.model.as_deref(), config, true)?;
    if let Some(given) = args.precision {
        let stored = engine.precision();
        ensure!(
            given == stored,
            "the database stores vectors in {stored}, but --precision {given} was given; leave it out, or move the database \
             with `mnemon reindex --precision {given}`"
        );
    }
    let started = Instant::now();
    let mut report = Report::default();
    let mut said = BTreeSet::new();
    for file in &args.files {
        // One a file: the second of two alike is another message, the same line of another file is not.
        let mut reader = MessageReader::new(args.namespace.clone());
        let stopped = ingest(&engine, file, &args, &mut said, &mut reader, &mut report);
        // Also after a bad line: what came before it is to be found.
        let flushed = engine.blocking().flush();
        stopped?;
        flushed?;
    }
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
                "{messages} messages in {:.2} s, {:.0} a second: stored, embedded, indexed",
                report.seconds, report.messages_per_second
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `said` are the namespaces whose language was said.
fn ingest(
    engine: &Engine,
    file: &Path,
    args: &Args,
    said: &mut BTreeSet<Namespace>,
    reader: &mut MessageReader,
    report: &mut Report,
) -> anyhow::Result<()> {
    let bytes = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let bar = output::progress(bytes, "{msg} [{bar:30}] {percent:>3} %  {elapsed} (left: {eta})");
    let started = Instant::now();
    let before = report.new + report.replaced + report.unchanged;
    let mut batch: Vec<(Namespace, Message)> = Vec::with_capacity(BATCH);
    let mut put = |batch: &mut Vec<(Namespace, Message)>, report: &mut Report| -> anyhow::Result<()> {
        for (namespace, _) in batch.iter() {
            // Before the messages: what is stored already would be analysed anew.
            if let Some(language) = args.language
                && !said.contains(namespace)
            {
                engine.blocking().set_language(namespace, language)?;
                said.insert(namespace.clone());
            }
        }
        let PutReport { new, replaced, unchanged, .. } = engine.blocking().put_all(std::mem::take(batch))?;
        report.new += new;
        report.replaced += replaced;
        report.unchanged += unchanged;
        let done = report.new + report.replaced + report.unchanged - before;
        let rate = done as f64 / started.elapsed().as_secs_f64();
        bar.set_message(format!("{done} messages, {rate:.0} a second"));
        Ok(())
    };
    for line in input::lines(file)? {
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                put(&mut batch, report)?;
                return Err(error);
            }
        };
        match line.text.and_then(|text| reader.parse(&text)).with_context(|| input::at(file, line.number)) {
            Ok(message) => batch.push(message),
            Err(error) if args.skip_bad => {
                bar.suspend(|| eprintln!("mnemon: skipped {error:#}"));
                report.skipped += 1;
            }
            Err(error) => {
                put(&mut batch, report)?;
                return Err(error.context(
                    "stopped; all lines before it are stored. Mend the line and ingest the file again \
                     (nothing is doubled), or go on with --skip-bad",
                ));
            }
        }
        if batch.len() == BATCH {
            put(&mut batch, report)?;
            bar.set_position(line.bytes_read);
        }
    }
    put(&mut batch, report)?;
    bar.finish_and_clear();
    Ok(())
}
