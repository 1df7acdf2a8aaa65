//! `mnemon models bench`

use std::{path::PathBuf, time::Instant};

use anyhow::ensure;
use mnemon::Embedder;
use serde_json::json;

use crate::{
    database, input,
    metrics::Times,
    output::{self, Format},
    usage::{DeviceOption, Status},
};

/// The texts that are embedded if no file is given: chat messages of many lengths.
const SAMPLE: [&str; 12] = [
    "ok",
    "Sounds good, see you at seven.",
    "When did Anna move to Lisbon?",
    "She moved there in March 2021, right after her exams, and she has been looking for a bigger flat ever since.",
    "lol no way",
    "Remind me to water the plants, call the dentist and renew the passport before we leave for Oslo.",
    "Our flight was cancelled, so we took the night train instead. It was slower, but we saw the whole coast at sunrise, and \
     the coffee was better than at any airport.",
    "My sister's dog, a grey whippet called Biscuit, hates thunderstorms.",
    "What was the name of the restaurant with the blue door?",
    "The tests fail on the second machine only. I think it is the time zone: the dates are one day off in everything that was \
     written after midnight, and the first machine runs in UTC.",
    "Ich hätte gern zwei Brötchen, bitte.",
    "You need to descale the espresso machine about every two months. Fill the tank with one part descaler and ten parts \
     water, run half of it through without a filter, wait for twenty minutes, run the rest, and rinse with two full tanks of \
     fresh water. If the water where you live is hard, do it every month, and use a filter in the tank all the same.",
];
/// How often the sample is repeated: with the default model a measurement then takes some tenths of a second.
const REPEATS: usize = 100;
/// Number of texts in a call.
const BATCH: usize = 512;

/// Measure a model on this machine: texts per second, and the latency of one query.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A model folder or name.
    #[arg(value_name = "DIR|NAME")]
    model: String,
    #[command(flatten)]
    device: DeviceOption,
    /// A file of messages, as for `ingest`. Default: a built-in sample.
    #[arg(long, value_name = "M.jsonl")]
    messages: Option<PathBuf>,
    /// Number of queries to time.
    #[arg(long, value_name = "N", default_value_t = 200)]
    queries: usize,
    /// Threads of the model. Default: the machine's cores.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let texts: Vec<String> = match &args.messages {
        Some(path) => {
            let texts = input::messages(path)?.into_iter().map(|(_, message)| message.searchable());
            texts.filter(|text| !text.trim().is_empty()).collect()
        }
        None => SAMPLE.iter().cycle().take(SAMPLE.len() * REPEATS).map(|text| (*text).to_owned()).collect(),
    };
    ensure!(!texts.is_empty(), "no message has text");
    let started = Instant::now();
    let embedder = database::embedder(&args.model, &args.device.device, args.threads)?;
    let load_seconds = started.elapsed().as_secs_f64();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    // The first call creates sessions of ONNX Runtime, which is not measured.
    embedder.embed_passages(&texts[..1])?;
    let started = Instant::now();
    for batch in texts.chunks(BATCH) {
        embedder.embed_passages(batch)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let mut latencies = Times::default();
    for text in texts.iter().cycle().take(args.queries.max(1)) {
        let first_chunk = embedder.windows(text).swap_remove(0);
        latencies.time(|| embedder.embed_query(&text[first_chunk]))?;
    }
    let (p50, p99) = (latencies.percentile(0.5), latencies.percentile(0.99));
    let rate = texts.len() as f64 / seconds;
    let model = embedder.identity().to_string();
    match format {
        Format::Json => output::json(&json!({
            "bench": "model", "model": model, "texts": texts.len(), "seconds": seconds, "texts_per_second": rate,
            "load_seconds": load_seconds, "queries": latencies.len(), "query_p50_us": p50, "query_p99_us": p99,
        }))?,
        Format::Text => output::line(&format!(
            "{model}: {rate:.0} texts/s over {} texts; one query {p50:.0} us (p50), {p99:.0} us (p99); loaded in {load_seconds:.2} s",
            texts.len()
        ))?,
    }
    Ok(Status::SUCCESS)
}
