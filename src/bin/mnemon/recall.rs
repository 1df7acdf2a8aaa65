//! `mnemon recall`

use std::{path::PathBuf, process::ExitCode, time::Instant};

use anyhow::Context;
use mnemon::{Engine, Hit, IndexKind, Namespace, Query, Role, Timestamp};
use serde::Serialize;

use crate::{
    input,
    output::{self, Format},
};

/// Find the messages nearest to a question.
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
    /// How many messages.
    #[arg(short, default_value_t = 10)]
    k: usize,
    /// Only messages of this session.
    #[arg(long)]
    session: Option<String>,
    /// Only messages of this role: system, user, assistant or tool.
    #[arg(long)]
    role: Option<Role>,
    /// Only messages of this time (RFC 3339) or day (2024-05-01) or later.
    #[arg(long, value_name = "TIME", value_parser = input::time)]
    since: Option<Timestamp>,
    /// Only messages before this time or day.
    #[arg(long, value_name = "TIME", value_parser = input::time)]
    until: Option<Timestamp>,
    /// Answer a file of questions, {"id", "namespace", "query"} a line, with one JSON line each; - is stdin.
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["namespace", "query"])]
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
    latency_us: u64,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    // One question is answered before a graph could be built for it.
    let mut config = input::config(if args.queries.is_some() { IndexKind::Auto } else { IndexKind::Exact });
    config.drain_on_open = false;
    let engine = input::engine(&args.db, args.model.as_deref(), config, false)?;
    let pending = engine.blocking().pending()?;
    if pending > 0 {
        eprintln!(
            "mnemon: {pending} messages are not embedded yet, and not searched; ingest their file again to embed them"
        );
    }
    let filtered = |text: &str| {
        let mut query = Query::new(text).k(args.k);
        if let Some(session) = &args.session {
            query = query.session(session);
        }
        if let Some(role) = args.role {
            query = query.role(role);
        }
        if let Some(since) = args.since {
            query = query.since(since);
        }
        if let Some(until) = args.until {
            query = query.until(until);
        }
        query
    };
    if let Some(file) = &args.queries {
        for line in input::lines(file)? {
            let line = line?;
            let place = || input::at(file, line.number);
            let query = line.text.and_then(|text| Ok(serde_json::from_str::<input::QueryLine>(&text)?));
            let query = query.with_context(place)?;
            let answer = ask(&engine, Some(&query.id), &query.namespace, filtered(&query.query)).with_context(place)?;
            output::json(&answer)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (Some(namespace), Some(text)) = (&args.namespace, &args.query) else {
        unreachable!("clap requires both without --queries");
    };
    let answer = ask(&engine, None, namespace, filtered(text))?;
    match format {
        Format::Json => output::json(&answer)?,
        Format::Text if answer.hits.is_empty() => output::line(&format!("nothing found in {namespace}"))?,
        Format::Text => answer.hits.iter().try_for_each(|hit| output::line(&describe(hit)))?,
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
    Ok(Answer { query_id, namespace, hits: hits.into(), latency_us: started.elapsed().as_micros() as u64 })
}

/// One line: rank, score, date, session, who, and the text without its line breaks.
fn describe(hit: &Hit) -> String {
    let message = &hit.message;
    let date = message.created_at.map_or_else(|| "no date".into(), |time| time.to_string()[..10].to_owned());
    let who = message.name.as_deref().unwrap_or(message.role.as_str());
    let text = message.text().split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{:>3}  {:.3}  {date}  {}  {who}: {text}", hit.rank, hit.score, message.session)
}
