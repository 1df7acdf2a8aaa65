//! Trying a new generation beside the one that serves: each question is asked of both, and of the new one by scoring every vector.
//!
//! By vectors alone: they are all that a new model changes, and what terms find beside them would hide how bad they are.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use super::options::{GateReport, ReindexOptions};
use crate::{
    engine::{search, shared::Shared, spaces::Spaces},
    error::{Error, Result},
    ids::NamespaceId,
    message::Timestamp,
    recall::{Query, Ranked, Strategy},
};

/// Messages asked for.
const K: usize = 10;
/// Cosines that differ by less are the same.
const TIE: f32 = 1e-6;

/// What a generation is tried with.
pub(super) struct Question {
    pub(super) namespace: NamespaceId,
    text: String,
    /// The message that it is the text of, which does not count: it is its own nearest everywhere.
    of: HashSet<u64>,
}

/// As many questions as are wanted, if there are so many; none twice.
pub(super) fn questions(
    shared: &Shared,
    from: &Spaces,
    to: &Spaces,
    options: &ReindexOptions,
) -> Result<Vec<Question>> {
    let (snapshot, generation) = (shared.store.read()?, to.generation.id);
    let mut asked = Vec::new();
    for (namespace, text) in &options.queries {
        asked.extend(snapshot.namespace(namespace)?.map(|namespace| (namespace, text.clone(), None)));
    }
    // The newest first.
    asked.extend(shared.asked.all().into_iter().rev().map(|(namespace, text)| (namespace, text, None)));
    // In a small namespace all is found, whatever the vectors say.
    let has_choice = |namespace| Ok::<_, Error>(snapshot.alive_count(generation, namespace)? > K);
    let with_choice = |all: Vec<NamespaceId>| {
        let all = all.into_iter().map(|namespace| Ok(has_choice(namespace)?.then_some(namespace)));
        all.filter_map(Result::transpose).collect::<Result<Vec<_>>>()
    };
    // Those that are loaded, if any are: no other is loaded for this.
    let mut among = with_choice(from.namespaces())?;
    if among.is_empty() {
        among = with_choice(snapshot.counted_namespaces(generation)?)?;
    }
    if options.samples > 0 {
        let spread = snapshot.spread(generation, &among, options.samples)?;
        asked.extend(spread.into_iter().map(|(namespace, seq, text)| (namespace, text, Some(seq))));
    }

    let mut questions = Vec::new();
    let mut seen = HashSet::new();
    for (namespace, text, of) in asked {
        if questions.len() < options.samples && has_choice(namespace)? && seen.insert((namespace, text.clone())) {
            questions.push(Question { namespace, text, of: of.into_iter().collect() });
        }
    }
    Ok(questions)
}

/// Asks the questions while it is told to go on; `None` if it is not. A question that a model refuses does not count.
///
/// # Errors
/// The new model's, if it refuses all.
pub(super) fn run(
    (from, to): (&Spaces, &Spaces),
    questions: &[Question],
    options: &ReindexOptions,
    mut go_on: impl FnMut(u64) -> Result<bool>,
) -> Result<Option<GateReport>> {
    let (mut recalls, mut overlaps) = (Vec::new(), Vec::new());
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let mut report = GateReport::default();
    let mut refused = None;
    // The model that serves may not be at hand, where no engine was running.
    let mut is_from_asked = true;
    for (at, question) in (0..).zip(questions) {
        if !go_on(at)? {
            return Ok(None);
        }
        let started = Instant::now();
        let vectors = match to.query(&question.text, None) {
            Ok(vectors) => vectors,
            Err(error @ Error::EmbedderUnavailable { .. }) => return Err(error),
            Err(error) => {
                refused = Some(error);
                continue;
            }
        };
        let embedding = started.elapsed();
        let (new, took) = ask(to, question, &vectors, false)?;
        let (truth, took_exactly) = ask(to, question, &vectors, true)?;
        let Some(worst) = truth.get(K - 1) else { continue };
        report.sampled += 1;
        report.live += u64::from(question.of.is_empty());
        let right = new.iter().filter(|found| found.similarity >= worst.similarity - TIE).count();
        recalls.push(right as f64 / K as f64);
        times[1].push(embedding + took);
        times[2].push(embedding + took_exactly);
        if !is_from_asked {
            continue;
        }
        let started = Instant::now();
        match from.query(&question.text, None) {
            Ok(vectors) => {
                let (old, _) = ask(from, question, &vectors, false)?;
                times[0].push(started.elapsed());
                let same = new.iter().filter(|new| old.iter().any(|old| old.seq == new.seq)).count();
                overlaps.push(same as f64 / K as f64);
            }
            Err(error) => {
                tracing::warn!(%error, "a question is not compared with what the serving generation finds");
                is_from_asked = !matches!(error, Error::EmbedderUnavailable { .. });
            }
        }
    }
    if let Some(error) = refused {
        if report.sampled == 0 {
            return Err(error);
        }
        tracing::warn!(%error, "some questions are not asked: the new model does not take them");
    }
    report.recall = mean(&recalls);
    report.overlap = mean(&overlaps);
    [report.serving_p50_us, report.new_p50_us, report.exact_p50_us] = times.map(median_us);
    report.failed = failed(&report, options);
    Ok(Some(report))
}

/// Up to K messages, nearest first, and the time it took.
fn ask(spaces: &Spaces, question: &Question, vectors: &[Vec<f32>], exactly: bool) -> Result<(Vec<Ranked>, Duration)> {
    let query = Query::new(&question.text).strategy(Strategy::Dense);
    let asked = search::Asked {
        text: &query.text,
        vectors,
        filter: &query.filter,
        session: None,
        except: &question.of,
        ranking: &query.ranking,
        spans: &[],
        now: Timestamp::now(),
        deadline: None,
        exactly,
    };
    let started = Instant::now();
    let mut found = spaces.search(question.namespace, &asked, K, 0)?.ranked;
    found.truncate(K);
    Ok((found, started.elapsed()))
}

/// Why the new generation is not to serve.
fn failed(report: &GateReport, options: &ReindexOptions) -> Option<String> {
    let (recall, overlap) = (report.recall.unwrap_or(1.0), report.overlap);
    let kept = "what was built is kept, and reindexing again goes on from it";
    if recall < options.min_recall {
        return Some(format!(
            "recall@{K} is {recall:.3}, less than {}: its index misses too much. A larger ef_search or ef_construction finds more, \
             min_recall (--min-recall) lets it pass; {kept}",
            options.min_recall
        ));
    }
    match (options.min_overlap, overlap) {
        (Some(least), Some(overlap)) if overlap < least => Some(format!(
            "overlap@{K} is {overlap:.3}, less than {least}: the models disagree more than was allowed. min_overlap (--min-overlap) \
             lets it pass; {kept}"
        )),
        (Some(_), None) if report.sampled > 0 => Some(format!(
            "the serving model is not at hand, so min_overlap (--min-overlap) cannot be looked at: leave it out, or reindex in an \
             engine that is open with that model; {kept}"
        )),
        _ => None,
    }
}

fn mean(shares: &[f64]) -> Option<f64> {
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

fn median_us(mut times: Vec<Duration>) -> Option<f64> {
    times.sort_unstable();
    times.get(times.len() / 2).map(|time| time.as_secs_f64() * 1e6)
}
