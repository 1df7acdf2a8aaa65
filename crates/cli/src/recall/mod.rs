//! `mnemon recall`

pub(crate) mod explain;
mod options;
mod target;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, ensure};
use mnemon::{Engine, Error, Hit, IndexKind, Namespace, Query};
use serde::Serialize;

use self::{
    options::Options,
    target::{QueryLine, Target, TargetOptions},
};
use crate::{
    database, input,
    output::{self, Format, counted},
    usage::{self, MemoryOptions, Status, UsageError},
};

/// Find the messages that answer a query.
///
/// Prints one line per message, best first: rank, score, date, session, speaker and text; if several namespaces are
/// searched, also the namespace. The last line is the answerability, 0 to 1: how likely the namespaces have messages
/// about the query. A namespace that does not exist is an error that names the nearest one.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The model that the database was made with. Default: a folder of the name that the database records.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    #[command(flatten)]
    namespaces: TargetOptions,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    memory: MemoryOptions,
    /// The folder of a cross-encoder that orders the best messages.
    #[arg(long, value_name = "DIR")]
    rerank: Option<PathBuf>,
    /// Note the recalls in the database's journal, where `mnemon why` finds them. The journal keeps the last N recalls
    /// of the database. It is open for writing meanwhile.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "10000",
          value_parser = usage::within(1..=10_000_000))]
    journal: Option<usize>,
    /// Print the evidence for each message: its rank in both indexes and the terms of its score.
    #[arg(long)]
    explain: bool,
    /// Run a file of queries and print one line of JSON for each; - reads stdin. A line is {"query", "namespace"?,
    /// "id"?}, or just the text of a query.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["query", "explain"])]
    queries: Option<PathBuf>,
    /// Report bad lines of --queries, such as one with a blank query, and continue, instead of stopping at the first. The
    /// command still fails if most are bad.
    #[arg(long)]
    skip_bad: bool,
    /// The query.
    #[arg(required_unless_present = "queries")]
    query: Option<String>,
}

impl Args {
    fn query(&self, text: &str) -> Query {
        self.options.query(text, self.rerank.is_some())
    }
}

/// The result of one query. Its JSON field names are stable.
#[derive(Serialize)]
struct Answer<'a> {
    query_id: Option<&'a str>,
    /// `None` if several were searched; then each hit has its own.
    namespace: Option<&'a Namespace>,
    hits: Vec<Hit>,
    answerability: f32,
    /// Why words alone found the hits.
    not_embedded: Option<String>,
    latency_us: u64,
}

impl<'a> Answer<'a> {
    /// Returns the namespace that was searched, if it has no messages.
    fn unknown(&self, engine: &Engine) -> mnemon::Result<Option<&'a Namespace>> {
        match self.namespace.filter(|_| self.hits.is_empty()) {
            Some(namespace) if engine.blocking().sessions(namespace)?.is_empty() => Ok(Some(namespace)),
            _ => Ok(None),
        }
    }
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    // A single query is answered by a scan sooner than a graph is loaded.
    let index = if args.queries.is_some() { IndexKind::Auto } else { IndexKind::Exact };
    let mut config = database::config()?.index(index).journal(args.journal.unwrap_or(0));
    args.memory.set(&mut config);
    let target = args.namespaces.target();
    let has_several = matches!(target, Some(Target::Several(_)));
    usage::ensure(
        args.journal.is_none() || !has_several,
        "--journal notes recalls of one namespace; give one --namespace and no --prefix",
    )?;
    usage::ensure(
        !args.skip_bad || args.queries.is_some(),
        "--skip-bad is about the lines of --queries; leave it out",
    )?;
    let builder = || database::for_recall(&args.db, args.model.as_deref(), args.rerank.as_deref(), &config);
    let engine = match args.journal {
        Some(_) => builder()?.open()?,
        None => database::open_to_read(builder, &args.namespaces.namespace)?,
    };
    let pending = engine.blocking().pending()?;
    if pending > 0 {
        output::note(format!(
            "{} not embedded yet, and searched by words alone; ingest the file again to embed what is pending",
            counted(pending, "message")
        ));
    }
    if has_several {
        args.namespaces.check(&args.db, &engine)?;
    }
    if let Some(file) = &args.queries {
        answer_lines(engine, &args, file, target.as_ref())?;
        return Ok(Status::SUCCESS);
    }
    let (Some(target), Some(text)) = (&target, &args.query) else {
        unreachable!("clap requires both without --queries");
    };
    let answer = recall(&engine, None, target, args.query(text)).map_err(usage_error)?;
    if let Some(namespace) = answer.unknown(&engine)? {
        // A process can open a database once at a time.
        drop(engine);
        database::check_namespace(&args.db, namespace)?;
    }
    match format {
        Format::Json => output::json(&answer)?,
        Format::Text => print(&answer, &args)?,
    }
    Ok(Status::SUCCESS)
}

/// Answers the queries in a file. `target` is what all of them search, unless each line names its own.
fn answer_lines(engine: Engine, args: &Args, file: &Path, target: Option<&Target>) -> anyhow::Result<()> {
    let (mut unknown, mut lines, mut skipped) = (BTreeSet::new(), 0, 0);
    let mut skip = |bad: anyhow::Error| {
        if !args.skip_bad {
            return Err(bad);
        }
        output::note(format!("skipped {bad:#}"));
        skipped += 1;
        Ok(())
    };
    for line in input::lines(file)? {
        let line = line?;
        let position = || input::at(file, line.number);
        lines += 1;
        let asked = match line.text.and_then(|text| QueryLine::parse(&text, target)) {
            Ok(asked) => asked,
            Err(error) => {
                skip(error.context(position()))?;
                continue;
            }
        };
        match recall(&engine, asked.id.as_deref(), &asked.target, args.query(&asked.query)) {
            Ok(answer) => {
                unknown.extend(answer.unknown(&engine)?.cloned());
                output::json(&answer)?;
            }
            // A blank query, for example.
            Err(error @ Error::InvalidQuery { .. }) => skip(anyhow::Error::new(error).context(position()))?,
            Err(error) => return Err(error).with_context(position),
        }
    }
    ensure!(2 * skipped <= lines, "{skipped} of {} were bad and skipped, most of them", counted(lines, "line"));
    // A process can open a database once at a time.
    drop(engine);
    for namespace in &unknown {
        // Lines may name users who have no messages yet. Only a namespace that was given must exist.
        match database::check_namespace(&args.db, namespace) {
            Err(error) if target.is_none() => output::note(error),
            found => found?,
        }
    }
    Ok(())
}

/// A query that only the engine refuses, such as an empty one, is wrong usage all the same.
fn usage_error(error: Error) -> anyhow::Error {
    match error {
        Error::InvalidQuery { .. } => UsageError(error.to_string()).into(),
        error => error.into(),
    }
}

fn recall<'a>(
    engine: &Engine,
    query_id: Option<&'a str>,
    target: &'a Target,
    query: Query,
) -> mnemon::Result<Answer<'a>> {
    let started = Instant::now();
    let hits = target.recall(engine, query)?;
    let latency_us = started.elapsed().as_micros() as u64;
    let namespace = target.namespace();
    let (answerability, not_embedded) = (hits.answerability(), hits.not_embedded().map(str::to_owned));
    Ok(Answer { query_id, namespace, answerability, not_embedded, hits: hits.into(), latency_us })
}

fn print(answer: &Answer, args: &Args) -> anyhow::Result<()> {
    for hit in &answer.hits {
        output::line(&explain::line(hit))?;
        if args.explain {
            explain::evidence(hit).iter().try_for_each(|line| output::line(&format!("       {line}")))?;
        }
    }
    if answer.hits.is_empty() {
        let place = answer.namespace.map_or("these namespaces", Namespace::as_str);
        output::line(&format!("nothing found in {place}"))?;
    }
    if let Some(reason) = &answer.not_embedded {
        output::note(format!("found by words alone: {reason}"))
    }
    let required = args.options.answerable.map_or(String::new(), |least| format!(", at least {least} required"));
    output::line(&format!("answerability {:.3}{required}", answer.answerability))
}
