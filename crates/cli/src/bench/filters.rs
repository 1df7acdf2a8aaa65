//! `mnemon bench filters`: the time that a filter adds to a recall, and what the graph misses with it.
//!
//! All messages are in one namespace, a second apart, and each has a random role, a random number and a random tag. The
//! same queries are asked without a filter, and with filters that match from half of the messages to one in a thousand.
//! Each query is asked with all filters in turn, so that noise of the machine is the same for all.

use std::time::Instant;

use anyhow::ensure;
use mnemon::{
    Config, Engine, Hits, IndexKind, MAX_K, Message, MetadataFilter, Namespace, Query, RankingStrategy, Role, TimeUse,
    Timestamp,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::setup::{IngestOptions, peak_bytes};
use crate::{
    database::{self, Temporary},
    metrics::{Random, Times, mean},
    output,
    progress::Progress,
    usage,
};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    ingest: IngestOptions,
    /// Number of messages to find.
    #[arg(short, default_value_t = 10, value_parser = usage::within(1..=MAX_K))]
    k: usize,
    /// Number of queries: the texts of messages, evenly spread.
    #[arg(long, default_value_t = 200, value_parser = usage::within(1..=1_000_000))]
    queries: usize,
    /// Number of passes over the queries.
    #[arg(long, default_value_t = 5, value_parser = usage::within(1..=1_000_000))]
    rounds: usize,
}

/// The numbers of values of the two fields, which begin at 0.
const NUMBERS: usize = 1000;
const TAGS: usize = 100;
/// How much similarities differ if their products are added in another order.
const TOLERANCE: f32 = 1e-5;

/// A restriction of a recall.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Filter {
    Metadata(MetadataFilter),
    Role(Role),
    Since(Timestamp),
}

/// A filter, and what was measured with it. Times are in microseconds.
struct Case {
    /// `None`: no filter.
    filter: Option<Filter>,
    /// The number of messages that it matches.
    matching: usize,
    /// The first recall, which reads the values of the field unless an earlier filter has.
    first: f64,
    /// Later recalls.
    times: Times,
    /// Recalls with new filters, each of which matches as many messages.
    new: Times,
    /// The similarities of each query's hits by vectors alone.
    similarities: Vec<Vec<f32>>,
    /// The mean share of the nearest messages that the graph found.
    recall: f64,
}

/// The messages, all in one namespace.
struct Corpus {
    namespace: Namespace,
    messages: Vec<(Namespace, Message)>,
    queries: Vec<String>,
    k: usize,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let corpus = Corpus::new(args)?;
    let IngestOptions { model, index, precision, batch, .. } = &args.ingest;
    let Temporary { engine, path, folder: _folder } = args.ingest.database()?;
    let identity = engine.model().to_string();
    let progress = Progress::new();
    corpus.messages.chunks(*batch).try_for_each(|batch| engine.blocking().put_all(batch.to_vec()).map(drop))?;
    progress.embed(&engine)?;
    progress.link(&engine, &corpus.namespace)?;
    let stats = engine.blocking().index_stats(&corpus.namespace)?;
    let mut cases = corpus.cases()?;
    corpus.measure(&mut cases, &engine, args.rounds, &progress)?;
    let peak_memory_bytes = peak_bytes();
    drop(engine);

    // The same file with an index that scans all vectors which a filter allows.
    let config = Config::default().index(IndexKind::Exact).embedding_cache(0);
    let exact = database::engine(&path, model.as_deref(), config, false)?;
    corpus.compare(&mut cases, &exact, &progress)?;
    drop(progress);
    let unfiltered = cases[0].times.percentile(0.5);
    output::json(&json!({
        "bench": "filters",
        "model": identity,
        "index": format!("{index:?}"),
        "precision": precision,
        "messages": corpus.messages.len(),
        "vectors": stats.vectors,
        "linked": stats.linked,
        "k": args.k,
        "recalls": args.rounds * corpus.queries.len(),
        "cases": cases.iter().map(|case| case.report(unfiltered)).collect::<Vec<_>>(),
        "peak_memory_bytes": peak_memory_bytes,
    }))
}

impl Corpus {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let namespace: Namespace = "filters".parse()?;
        let mut random = Random::new(7);
        let place = |(at, (_, message)): (usize, (Namespace, Message))| {
            let mut message = message.with_id(format!("m{at}"));
            let fields = [("number", json!(random.below(NUMBERS))), ("tag", json!(format!("t{}", random.below(TAGS))))];
            message.role = [Role::User, Role::Assistant][random.below(2)];
            message.created_at = Timestamp::from_micros(at as i64 * 1_000_000);
            message.metadata = fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            (namespace.clone(), message)
        };
        let messages: Vec<_> = args.ingest.messages()?.into_iter().enumerate().map(place).collect();
        let spread = messages.iter().step_by(messages.len().div_ceil(args.queries));
        let texts = spread.map(|(_, message)| message.text());
        let queries: Vec<String> = texts.filter(|text| !text.trim().is_empty()).collect();
        ensure!(!queries.is_empty(), "no message has text");
        Ok(Corpus { namespace, messages, queries, k: args.k })
    }

    fn cases(&self) -> anyhow::Result<Vec<Case>> {
        let last_tenth = self.messages.len() - self.messages.len() / 10;
        let since = self.messages[last_tenth.min(self.messages.len() - 1)].1.created_at.expect("each has a time");
        let filters = [
            None,
            Some(Filter::Role(Role::User)),
            Some(Filter::Since(since)),
            Some(Filter::Metadata(MetadataFilter::lt("number", NUMBERS / 2)?)),
            Some(Filter::Metadata(MetadataFilter::gte("number", NUMBERS - NUMBERS / 10)?)),
            Some(Filter::Metadata(MetadataFilter::eq("tag", "t7")?)),
            Some(Filter::Metadata(MetadataFilter::eq("number", 7)?)),
        ];
        let case = |filter: Option<Filter>| {
            let (times, new, similarities) = Default::default();
            let matching = filter.as_ref().map_or(self.messages.len(), |filter| self.matching(filter));
            Case { filter, matching, first: 0.0, times, new, similarities, recall: 0.0 }
        };
        Ok(filters.into_iter().map(case).collect())
    }

    fn matching(&self, filter: &Filter) -> usize {
        self.messages.iter().filter(|(_, message)| filter.matches(message)).count()
    }

    fn query(&self, text: &str, filter: Option<&Filter>) -> Query {
        let query = Query::new(text).k(self.k).time(TimeUse::Ignore).keep_duplicates();
        match filter {
            Some(Filter::Metadata(filter)) => query.filter(filter.clone()),
            Some(Filter::Role(role)) => query.role(*role),
            Some(Filter::Since(since)) => query.since(*since),
            None => query,
        }
    }

    /// Recalls, and returns the hits and the time. Checks that there are k hits if as many messages match, and that the
    /// filter matches each.
    fn recall(
        &self,
        engine: &Engine,
        query: Query,
        filter: Option<&Filter>,
        matching: usize,
    ) -> anyhow::Result<(Hits, f64)> {
        let started = Instant::now();
        let hits = engine.blocking().recall(&self.namespace, query)?;
        let time = started.elapsed().as_secs_f64() * 1e6;
        ensure!(hits.len() == self.k.min(matching), "{} hits, though {matching} messages match", hits.len());
        let are_matches = filter.is_none_or(|filter| hits.iter().all(|hit| filter.matches(&hit.message)));
        ensure!(are_matches, "a hit does not match the filter");
        Ok((hits, time))
    }

    fn measure(&self, cases: &mut [Case], engine: &Engine, rounds: usize, progress: &Progress) -> anyhow::Result<()> {
        // Warms up, so that the first recall with a filter takes longer than others for its filter alone.
        for text in &self.queries {
            self.recall(engine, self.query(text, None), None, self.messages.len())?;
        }
        for case in &mut *cases {
            let filter = case.filter.as_ref();
            case.first = self.recall(engine, self.query(&self.queries[0], filter), filter, case.matching)?.1;
        }
        progress.begin("recall", "queries", (rounds * self.queries.len()) as u64);
        for text in (0..rounds).flat_map(|_| &self.queries) {
            for case in &mut *cases {
                let filter = case.filter.as_ref();
                case.times.0.push(self.recall(engine, self.query(text, filter), filter, case.matching)?.1);
            }
            progress.inc(1);
        }
        for case in cases {
            for (at, text) in self.queries.iter().enumerate() {
                let filter = case.filter.as_ref();
                let query = self.query(text, filter).strategy(RankingStrategy::Dense);
                let (hits, _) = self.recall(engine, query, filter, case.matching)?;
                case.similarities.push(hits.iter().map(|hit| hit.similarity).collect());
                if let Some(Filter::Metadata(_)) = filter {
                    let count = (NUMBERS * case.matching).div_ceil(self.messages.len());
                    let new = Filter::Metadata(numbers(1 + 7 * at, count)?);
                    let query = self.query(text, Some(&new));
                    case.new.0.push(self.recall(engine, query, Some(&new), self.matching(&new))?.1);
                }
            }
        }
        Ok(())
    }

    /// Compares the hits by vectors alone with those of an exact search.
    fn compare(&self, cases: &mut [Case], exact: &Engine, progress: &Progress) -> anyhow::Result<()> {
        progress.begin("exact search", "queries", (cases.len() * self.queries.len()) as u64);
        for case in cases {
            let mut shares = Vec::new();
            for (text, found) in self.queries.iter().zip(&case.similarities) {
                let filter = case.filter.as_ref();
                let query = self.query(text, filter).strategy(RankingStrategy::Dense);
                let (best, _) = self.recall(exact, query, filter, case.matching)?;
                // Similarities are compared, not ids: of messages with the same text any may be found.
                let least = best.last().map_or(0.0, |hit| hit.similarity) - TOLERANCE;
                let common = found.iter().filter(|similarity| **similarity >= least).count();
                shares.push(if best.is_empty() { 1.0 } else { common as f64 / best.len() as f64 });
                progress.inc(1);
            }
            case.recall = mean(&shares);
        }
        Ok(())
    }
}

impl Case {
    fn report(&self, unfiltered_p50: f64) -> Value {
        let new = |p| (!self.new.is_empty()).then(|| self.new.percentile(p));
        json!({
            "filter": self.filter,
            "matching": self.matching,
            "first_us": self.first,
            "p50_us": self.times.percentile(0.5),
            "p99_us": self.times.percentile(0.99),
            "added_p50_us": self.times.percentile(0.5) - unfiltered_p50,
            "new_p50_us": new(0.5),
            "new_p99_us": new(0.99),
            "recall_at_k": self.recall,
        })
    }
}

impl Filter {
    fn matches(&self, message: &Message) -> bool {
        match self {
            Filter::Metadata(filter) => filter.matches(&Value::Object(message.metadata.clone())),
            Filter::Role(role) => message.role == *role,
            Filter::Since(since) => message.created_at >= Some(*since),
        }
    }
}

/// Returns a filter that matches `count` numbers from `first` on; 0 follows the last number.
fn numbers(first: usize, count: usize) -> mnemon::Result<MetadataFilter> {
    let first = first % NUMBERS;
    let from = MetadataFilter::gte("number", first)?;
    Ok(match (first + count).checked_sub(NUMBERS) {
        None => from.and(MetadataFilter::lt("number", first + count)?),
        Some(end) => from.or(MetadataFilter::lt("number", end)?),
    })
}
