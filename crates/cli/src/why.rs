//! `mnemon why`

use std::path::PathBuf;

use anyhow::{Context, bail};
use mnemon::{Engine, HitChange, IndexKind, JournalEntry, Namespace, Replay, ReplayedHit};
use serde::Serialize;

use crate::{
    database,
    output::{self, Format},
    recall::explain,
    usage::Status,
};

/// Number of entries that are read at once.
const PAGE: usize = 256;

/// Show why a message was recalled, and what the same question finds today.
///
/// Prints the journal's latest entry in which the message was a hit: the question, and the message's rank and the terms
/// of its score then. The question is asked again, and sentences say what changed. The journal has what was recalled by
/// `mnemon recall --journal`, and by programs that set `Config::journal`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The namespace.
    #[arg(long, value_name = "NS")]
    namespace: Namespace,
    /// The model that the database was made with. Default: a folder of the name that the database records.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// The folder of the cross-encoder, if one ordered the hits.
    #[arg(long, value_name = "DIR")]
    rerank: Option<PathBuf>,
    /// The entry of the journal. Default: the latest in which the message was a hit.
    #[arg(long, value_name = "N")]
    entry: Option<u64>,
    /// The id of the message.
    id: String,
}

/// The answer. Its JSON field names are stable.
#[derive(Serialize)]
struct Answer {
    entry: JournalEntry,
    replay: Replay,
    /// The other entries in which the message was a hit, the newest first.
    other_entries: Vec<u64>,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    database::check_namespace(&args.db, &args.namespace)?;
    let config = database::config()?.index(IndexKind::Exact);
    let builder = || database::for_recall(&args.db, args.model.as_deref(), args.rerank.as_deref(), &config);
    let engine = database::open_to_read(builder, std::slice::from_ref(&args.namespace))?;
    let (entry, other_entries) = find(&engine, args)?;
    let replay = engine.blocking().replay(&entry)?;
    let answer = Answer { entry, replay, other_entries };
    match format {
        Format::Json => output::json(&answer)?,
        Format::Text => print(&answer, &args.id)?,
    }
    Ok(Status::SUCCESS)
}

/// Finds the entry to show, and the numbers of the others in which the message was a hit.
fn find(engine: &Engine, args: &Args) -> anyhow::Result<(JournalEntry, Vec<u64>)> {
    let (mut found, mut others, mut before) = (None, Vec::new(), None);
    loop {
        let page = engine.blocking().journal(&args.namespace, PAGE, before)?;
        let Some(last) = page.last() else { break };
        before = Some(last.number);
        for entry in page.into_iter().filter(|entry| entry.hit(&args.id).is_some()) {
            match found {
                None if args.entry.is_none_or(|number| number == entry.number) => found = Some(entry),
                _ => others.push(entry.number),
            }
        }
    }
    let (namespace, id) = (args.namespace.as_str(), &args.id);
    match (found, args.entry) {
        (Some(found), _) => Ok((found, others)),
        _ if before.is_none() => bail!(
            "the journal has no recall of namespace {namespace:?}; recall with `mnemon recall --journal`, or let the \
             program that recalls keep a journal"
        ),
        (None, Some(number)) => bail!(
            "the journal has no entry {number} in which {id:?} was a hit; entries that have: {}; leave out --entry for the latest",
            numbers(&others)
        ),
        (None, None) => {
            let get = engine.blocking().get(&args.namespace, id)?;
            get.with_context(|| {
                format!("no message {id:?} in namespace {namespace:?}, and no recall in the journal found it")
            })?;
            bail!(
                "no recall in the journal found {id:?}; ask your question with `mnemon recall --journal --explain`, and a larger \
                 -k if it is not among the hits"
            )
        }
    }
}

fn print(Answer { entry, replay, other_entries }: &Answer, id: &str) -> anyhow::Result<()> {
    let JournalEntry { number, at, text, answerability, .. } = entry;
    output::line(&format!("entry {number}, {at}: {text}"))?;
    if !entry.options.is_empty() {
        output::line(&format!("options {}", serde_json::to_string(&entry.options)?))?;
    }
    if let Some(hit) = entry.hit(id) {
        let of = entry.hits.len();
        output::line(&format!("rank {} of {of}, score {:.3}; answerability {answerability:.3}", hit.rank, hit.score))?;
        let scores = explain::scores(id, hit.similarity, &hit.breakdown);
        scores.iter().try_for_each(|line| output::line(&format!("       {line}")))?;
    }
    output::line("asked again today:")?;
    sentences(replay, id).iter().try_for_each(|sentence| output::line(&format!("  {sentence}")))?;
    if !other_entries.is_empty() {
        output::line(&format!("other entries: {}", numbers(other_entries)))?;
    }
    Ok(())
}

/// Returns sentences that say what changed, first those about this message.
fn sentences(replay: &Replay, id: &str) -> Vec<String> {
    let mut sentences: Vec<String> = replay.hit(id).map(sentence).into_iter().collect();
    if replay.is_unchanged() {
        sentences.push("Nothing changed: the same messages have the same ranks and scores.".into());
    }
    // The score of every message changes a little with every other.
    let is_told = |hit: &&ReplayedHit| {
        hit.id != id && (hit.is_newer || hit.then.map(|then| then.rank) != hit.now.map(|now| now.rank))
    };
    sentences.extend(replay.hits.iter().filter(is_told).map(sentence));
    let (then, now) = replay.answerability;
    if (then - now).abs() >= 0.001 {
        sentences.push(format!("The answerability went from {then:.3} to {now:.3}."));
    }
    if replay.is_other_model {
        sentences.push("Another model embeds messages and questions today.".into());
    }
    sentences
}

fn sentence(hit: &ReplayedHit) -> String {
    let ReplayedHit { id, change, is_newer, .. } = hit;
    let edited = if *is_newer { " It was edited, or put again, since." } else { "" };
    match (change, hit.then, hit.now) {
        (HitChange::Kept, Some(then), Some(now)) => {
            let rank = match then.rank == now.rank {
                true => format!("{id} is still at rank {}", now.rank),
                false => format!("{id} moved from rank {} to rank {}", then.rank, now.rank),
            };
            if hit.terms.is_empty() && (then.score - now.score).abs() < 0.001 {
                return format!("{rank}, with the same score {:.3}.{edited}", now.score);
            }
            let terms: Vec<String> =
                hit.terms.iter().map(|term| format!("{} {:+.3} to {:+.3}", term.term, term.then, term.now)).collect();
            let terms = if terms.is_empty() { String::new() } else { format!(": {}", terms.join(", ")) };
            format!("{rank}; its score went from {:.3} to {:.3}{terms}.{edited}", then.score, now.score)
        }
        (HitChange::Gone, ..) => format!("{id} is gone: it was deleted."),
        (HitChange::Outranked, Some(then), _) => format!(
            "{id} was at rank {} and is no hit any more: others are better, or it no longer meets the conditions.{edited}",
            then.rank
        ),
        (HitChange::New, _, Some(now)) => {
            let why = if *is_newer { "it was put or edited since" } else { "it was stored then, and no hit" };
            format!("{id} is new at rank {}, with score {:.3}: {why}.", now.rank, now.score)
        }
        _ => format!("{id} changed in a way that this version does not know."),
    }
}

fn numbers(numbers: &[u64]) -> String {
    match numbers {
        [] => "none".into(),
        numbers => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    }
}
