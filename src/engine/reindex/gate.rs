//! Compares a new generation with the serving one: both are searched with each sample query, and every vector of the
//! new one is scanned.
//!
//! The searches are by vectors alone. A new model changes nothing else, and lexical hits among them would hide bad
//! vectors.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use super::options::{GateReport, ReindexOptions};
use crate::{
    engine::{loaded_generation::LoadedGeneration, shared::Shared},
    error::{Error, Result},
    ids::NamespaceId,
    recall::{NamespaceSearch, PreparedQuery, Query, Ranked, Searcher, Unindexed, embed_query},
};

/// The number of messages searched for.
pub(super) const K: usize = 10;
/// Cosines that differ by less are counted as equal.
const TIE: f32 = 1e-6;

/// A query that the generations are compared with.
pub(super) struct SampleQuery {
    pub(super) namespace: NamespaceId,
    text: String,
    /// The message whose text it is, if any. That message is left out of the hits: it is the nearest in every
    /// generation.
    source: HashSet<u64>,
}

/// Chooses up to [`ReindexOptions::samples`] distinct queries.
pub(super) fn sample_queries(
    shared: &Shared,
    from: &LoadedGeneration,
    to: &LoadedGeneration,
    options: &ReindexOptions,
) -> Result<Vec<SampleQuery>> {
    let (snapshot, generation) = (shared.store.read()?, to.generation.id);
    let mut found = Vec::new();
    for (namespace, text) in &options.queries {
        found.extend(snapshot.namespaces().id(namespace)?.map(|namespace| (namespace, text.clone(), None)));
    }
    // The most recent first.
    found.extend(shared.recent_queries.all().into_iter().rev().map(|(namespace, text)| (namespace, text, None)));
    // In a small namespace every message is found, even with bad vectors.
    let has_choice = |namespace| Ok::<_, Error>(snapshot.rows().live_count(generation, namespace)? > K);
    let with_choice = |all: Vec<NamespaceId>| {
        let all = all.into_iter().map(|namespace| Ok(has_choice(namespace)?.then_some(namespace)));
        all.filter_map(Result::transpose).collect::<Result<Vec<_>>>()
    };
    // Only loaded namespaces are sampled, if there are any, so that none is loaded for the comparison.
    let mut among = with_choice(from.namespaces())?;
    if among.is_empty() {
        among = with_choice(snapshot.rows().namespaces(generation)?)?;
    }
    if options.samples > 0 {
        let spread = snapshot.rows().sample(generation, &among, options.samples)?;
        found.extend(spread.into_iter().map(|(namespace, seq, text)| (namespace, text, Some(seq))));
    }

    let mut queries = Vec::new();
    let mut seen = HashSet::new();
    for (namespace, text, source) in found {
        if queries.len() < options.samples && has_choice(namespace)? && seen.insert((namespace, text.clone())) {
            queries.push(SampleQuery { namespace, text, source: source.into_iter().collect() });
        }
    }
    Ok(queries)
}

/// Compares two generations. Calls `go_on` with the number of queries done before each; returns `None` once it returns
/// false. Queries that a model refuses do not count.
///
/// # Errors
/// The error of the new model, if it refuses all queries or is unavailable; those of `go_on` and of loading.
pub(super) fn compare(
    (from, to): (&LoadedGeneration, &LoadedGeneration),
    queries: &[SampleQuery],
    options: &ReindexOptions,
    mut go_on: impl FnMut(u64) -> Result<bool>,
) -> Result<Option<GateReport>> {
    let (mut recalls, mut overlaps) = (Vec::new(), Vec::new());
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let mut report = GateReport::default();
    let mut refused = None;
    // The serving model may be unavailable, where no engine was running.
    let mut compares = true;
    for (at, query) in (0..).zip(queries) {
        if !go_on(at)? {
            return Ok(None);
        }
        let started = Instant::now();
        let vectors = match embed_query(&*to.embedder, &query.text) {
            Ok(vectors) => vectors,
            Err(error @ Error::EmbedderUnavailable { .. }) => return Err(error),
            Err(error) => {
                refused = Some(error);
                continue;
            }
        };
        let embedding = started.elapsed();
        let (new, took) = nearest(to, query, &vectors, false)?;
        let (truth, took_exactly) = nearest(to, query, &vectors, true)?;
        let Some(worst) = truth.get(K - 1) else { continue };
        report.sampled += 1;
        report.live += u64::from(query.source.is_empty());
        let right = new.iter().filter(|found| found.similarity >= worst.similarity - TIE).count();
        recalls.push(right as f64 / K as f64);
        times[1].push(embedding + took);
        times[2].push(embedding + took_exactly);
        if !compares {
            continue;
        }
        let started = Instant::now();
        match embed_query(&*from.embedder, &query.text) {
            Ok(vectors) => {
                let (old, _) = nearest(from, query, &vectors, false)?;
                times[0].push(started.elapsed());
                let same = new.iter().filter(|new| old.iter().any(|old| old.seq == new.seq)).count();
                overlaps.push(same as f64 / K as f64);
            }
            Err(error) => {
                tracing::warn!(%error, "a sample query is not compared with the serving generation");
                compares = !matches!(error, Error::EmbedderUnavailable { .. });
            }
        }
    }
    if let Some(error) = refused {
        if report.sampled == 0 {
            return Err(error);
        }
        tracing::warn!(%error, "some sample queries were left out: the new model does not take them");
    }
    report.recall = mean(&recalls);
    report.overlap = mean(&overlaps);
    [report.serving_p50_us, report.new_p50_us, report.exact_p50_us] = times.map(median_us);
    report.failed = failed(&report, options);
    Ok(Some(report))
}

/// Finds the [`K`] nearest messages, or fewer, nearest first; also returns the time it took. Scans every vector if
/// `scan`.
fn nearest(
    generation: &LoadedGeneration,
    sample: &SampleQuery,
    vectors: &[Vec<f32>],
    scan: bool,
) -> Result<(Vec<Ranked>, Duration)> {
    let query = Query::new(&sample.text);
    let mut prepared = PreparedQuery::by_vectors(&query, sample.namespace, vectors.to_vec(), sample.source.clone());
    prepared.scan = scan;
    let started = Instant::now();
    let loaded = generation.load(sample.namespace)?;
    let none = Unindexed::default();
    let mut search = NamespaceSearch::new(&prepared, &loaded.messages.index, &none, generation.resources());
    let mut found = search.search(K)?.ranked;
    found.truncate(K);
    Ok((found, started.elapsed()))
}

/// Returns the reason why the new generation must not serve, and the remedy; `None` if it passed.
fn failed(report: &GateReport, options: &ReindexOptions) -> Option<String> {
    let (recall, overlap) = (report.recall.unwrap_or(1.0), report.overlap);
    let kept = "The new generation is kept, and reindexing again continues with it";
    if recall < options.min_recall {
        return Some(format!(
            "recall@{K} of the new generation is {recall:.3}, less than {}: its index misses too many messages. A larger \
             ef_search or ef_construction finds more; a lower min_recall (--min-recall) accepts it. {kept}",
            options.min_recall
        ));
    }
    match (options.min_overlap, overlap) {
        (Some(least), Some(overlap)) if overlap < least => Some(format!(
            "overlap@{K} is {overlap:.3}, less than {least}: the models disagree more than allowed. A lower min_overlap \
             (--min-overlap) accepts it. {kept}"
        )),
        (Some(_), None) if report.sampled > 0 => Some(format!(
            "the serving model is not available, so min_overlap cannot be checked: leave it out, or reindex in an engine \
             that is open with that model. {kept}"
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
