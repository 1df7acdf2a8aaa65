//! `mnemon recall`

mod explain;
mod options;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Instant};

use anyhow::Context;
use mnemon::{CrossEncoder, Engine, Hit, IndexKind, Namespace, Query};
use serde::Serialize;

use self::options::Options;
use crate::{
    input,
    output::{self, Format},
};

/// Find the messages that are best for a question.
///
/// Prints a line each, best first, and how sure it is that there is something about the question, 0 to 1.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The model folder the database was made with. Default: looked for by its name.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// The namespace to search.
    #[arg(long, value_name = "NS", required_unless_present = "queries")]
    namespace: Option<Namespace>,
    #[command(flatten)]
    options: Options,
    /// Have this cross-encoder put the best messages in order.
    #[arg(long, value_name = "DIR")]
    rerank: Option<PathBuf>,
    /// Print the evidence for each message too.
    #[arg(long)]
    explain: bool,
    /// Answer a file of questions, {"id", "namespace", "query"} a line, with one JSON line each; - is stdin.
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["namespace", "query", "explain"])]
    queries: Option<PathBuf>,
    /// The question.
    #[arg(required_unless_present = "queries")]
    query: Option<String>,
}

/// A result line. These names are stable.
#[derive(Serialize)]
struct Answer<'a> {
    query_id: Option<&'a str>,
    namespace: &'a Namespace,
    hits: Vec<Hit>,
    answerability: f32,
    latency_us: u64,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    // One question is answered before a graph could be built for it.
    let mut config = input::config(if args.queries.is_some() { IndexKind::Auto } else { IndexKind::Exact });
    config.drain_on_open = false;
    let mut builder = input::builder(&args.db, args.model.as_deref(), config, false)?;
    if let Some(folder) = &args.rerank {
        builder = builder.reranker(Arc::new(CrossEncoder::open(folder)?));
    }
    let engine = builder.open()?;
    let pending = engine.blocking().pending()?;
    if pending > 0 {
        eprintln!(
            "mnemon: {pending} messages are not embedded yet, and not searched; ingest their file again to embed them"
        );
    }
    let query = |text: &str| args.options.query(text, args.rerank.is_some());
    if let Some(file) = &args.queries {
        for line in input::lines(file)? {
            let line = line?;
            let place = || input::at(file, line.number);
            let asked = line.text.and_then(|text| Ok(serde_json::from_str::<input::QueryLine>(&text)?));
            let asked = asked.with_context(place)?;
            let answer = ask(&engine, Some(&asked.id), &asked.namespace, query(&asked.query)).with_context(place)?;
            output::json(&answer)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (Some(namespace), Some(text)) = (&args.namespace, &args.query) else {
        unreachable!("clap requires both without --queries");
    };
    let answer = ask(&engine, None, namespace, query(text))?;
    match format {
        Format::Json => output::json(&answer)?,
        Format::Text => print(&answer, &args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn ask<'a>(
    engine: &Engine,
    query_id: Option<&'a str>,
    namespace: &'a Namespace,
    query: Query,
) -> anyhow::Result<Answer<'a>> {
    let started = Instant::now();
    let hits = engine.blocking().recall(namespace, query)?;
    let latency_us = started.elapsed().as_micros() as u64;
    Ok(Answer { query_id, namespace, answerability: hits.answerability(), hits: hits.into(), latency_us })
}

fn print(answer: &Answer, args: &Args) -> anyhow::Result<()> {
    for hit in &answer.hits {
        output::line(&explain::line(hit))?;
        if args.explain {
            explain::evidence(hit).iter().try_for_each(|line| output::line(&format!("       {line}")))?;
        }
    }
    if answer.hits.is_empty() {
        output::line(&format!("nothing found in {}", answer.namespace))?;
    }
    let least = args.options.answerable.map_or(String::new(), |least| format!(", at least {least} asked for"));
    output::line(&format!("answerability {:.3}{least}", answer.answerability))
}
