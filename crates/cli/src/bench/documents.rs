//! `mnemon bench documents`: documents of many users, beside messages with the same texts.
//!
//! `tests/compat/bench_documents.py` measures LangGraph's stores on the same documents and calls.

use std::{path::PathBuf, time::Instant};

use anyhow::ensure;
use mnemon::{
    Config, DocumentNamespaces, DocumentOperation, DocumentOptions, DocumentSearch, Message, MetadataFilter, Namespace,
};
use serde_json::{Value, json};

use super::setup::{messages_or_sample, peak_bytes};
use crate::{
    database::Temporary,
    metrics::{Random, Times},
    output, usage,
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Number of documents.
    #[arg(long, default_value_t = 10_000, value_parser = usage::within(100..=10_000_000))]
    documents: usize,
    /// Documents per batch.
    #[arg(long, default_value_t = 100, value_parser = usage::within(1..=1_000_000))]
    batch: usize,
    /// Number of gets, of searches by query and by filter, and of listings.
    #[arg(long, default_value_t = 1_000)]
    reads: usize,
    /// The messages whose texts are those of the documents. Default: the built-in sample.
    #[arg(long, value_name = "M.jsonl")]
    messages: Option<PathBuf>,
    /// A model folder or name.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
}

/// Number of namespaces, each with the same number of documents.
const NAMESPACES: usize = 100;
/// Number of documents that are put one by one; at most a quarter of all are.
const SINGLE: usize = 1_000;
/// Number of kinds of documents, which filters distinguish.
const KINDS: usize = 10;

/// The documents, by number.
struct Corpus {
    texts: Vec<String>,
    documents: usize,
}

impl Corpus {
    fn text(&self, number: usize) -> String {
        format!("{} n{number}", self.texts[number % self.texts.len()])
    }

    fn value(&self, number: usize) -> Value {
        json!({"text": self.text(number), "kind": format!("kind-{}", number % KINDS), "number": number})
    }

    fn namespace(&self, number: usize) -> Namespace {
        format!("users/{}", number * NAMESPACES / self.documents).parse().expect("a valid name")
    }

    fn key(&self, number: usize) -> String {
        format!("document-{number}")
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let texts: Vec<String> =
        messages_or_sample(args.messages.as_deref())?.into_iter().map(|(_, message)| message.text()).collect();
    ensure!(!texts.is_empty(), "the file has no messages");
    let corpus = Corpus { texts, documents: args.documents };
    let single = SINGLE.min(args.documents / 4);
    let Temporary { engine, path, folder: _folder } = Temporary::new(args.model.as_deref(), Config::default())?;
    let documents = |number| engine.documents(&corpus.namespace(number));
    let options = || DocumentOptions::default().index(["text"]);

    // One of each in turn, so that what disturbs one disturbs the other.
    let (mut puts, mut messages) = (Times::default(), Times::default());
    for number in 0..single {
        let (documents, value) = (documents(number), corpus.value(number));
        let (namespace, message) = (corpus.namespace(number), Message::user(corpus.text(number)).in_session("talk"));
        let (key, options) = (corpus.key(number), options());
        puts.time(|| documents.blocking().put(key, value, options))?;
        messages.time(|| engine.blocking().put(&namespace, vec![message]))?;
    }
    engine.blocking().flush()?;
    let started = Instant::now();
    let rest: Vec<usize> = (single..args.documents).collect();
    for numbers in rest.chunks(args.batch) {
        let put = |&number: &usize| DocumentOperation::Put {
            namespace: corpus.namespace(number),
            key: corpus.key(number),
            value: corpus.value(number),
            options: options(),
        };
        engine.blocking().document_batch(numbers.iter().map(put).collect())?;
    }
    let batch_seconds = started.elapsed().as_secs_f64();
    engine.blocking().flush()?;
    let indexed_seconds = started.elapsed().as_secs_f64();

    let mut random = Random::new(7);
    let [mut gets, mut searches, mut filters, mut lists] = std::array::from_fn(|_| Times::default());
    for _ in 0..args.reads {
        let number = random.below(args.documents);
        let (documents, key) = (documents(number), corpus.key(number));
        let got = gets.time(|| documents.blocking().get(&key))?;
        ensure!(got.is_some_and(|got| got.value["number"] == number), "a document was not found by its key");
        let search = DocumentSearch::default().query(corpus.text(number));
        let found = searches.time(|| documents.blocking().search(search))?;
        ensure!(found.iter().any(|found| found.key == key), "a document was not found by its text");
        let kind = format!("kind-{}", number % KINDS);
        let search = DocumentSearch::default().filter(MetadataFilter::eq("kind", kind.as_str())?);
        let found = filters.time(|| documents.blocking().search(search))?;
        ensure!(found.iter().all(|found| found.value["kind"] == kind.as_str()), "a filter was ignored");
        let listing = DocumentNamespaces::default().prefix(["users"]);
        let listed = lists.time(|| engine.blocking().document_namespaces(listing))?;
        ensure!(listed.len() == NAMESPACES, "a namespace was not listed");
    }
    let (put, message) = (puts.percentile(0.5), messages.percentile(0.5));
    output::json(&json!({
        "bench": "documents",
        "model": engine.model().to_string(),
        "documents": args.documents,
        "namespaces": NAMESPACES,
        "batch": args.batch,
        "put_p50_us": put,
        "put_p99_us": puts.percentile(0.99),
        "message_put_p50_us": message,
        "message_put_p99_us": messages.percentile(0.99),
        "put_to_message_put": put / message,
        "batch_puts_per_second": rest.len() as f64 / batch_seconds,
        "batch_puts_indexed_per_second": rest.len() as f64 / indexed_seconds,
        "get_p50_us": gets.percentile(0.5),
        "get_p99_us": gets.percentile(0.99),
        "search_p50_us": searches.percentile(0.5),
        "search_p99_us": searches.percentile(0.99),
        "filter_p50_us": filters.percentile(0.5),
        "filter_p99_us": filters.percentile(0.99),
        "list_p50_us": lists.percentile(0.5),
        "list_p99_us": lists.percentile(0.99),
        "file_bytes": std::fs::metadata(path)?.len(),
        "peak_memory_bytes": peak_bytes(),
    }))
}
