//! A recall from the question to the hits.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
    ops::Range,
    time::Instant,
};

use super::{
    search::{Asked, Outcome},
    shared::Shared,
};
use crate::{
    embed,
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    index::{dot, mmr},
    lexical::Analyzer,
    message::{Message, Timestamp},
    recall::{
        Filter, Hit, Hits, Query, Ranked, Strategy, TermSet, TimeUse, is_duplicate, keep_places, time_expressions,
    },
    store::Snapshot,
};

/// Candidates of each index, for each hit and at least.
const CANDIDATES: usize = 4;
const MIN_CANDIDATES: usize = 100;
/// Hits among which near-duplicates are looked for.
const COMPARED: usize = 200;
/// Texts whose vectors are less alike are not compared.
const ALIKE: f32 = 0.9;
/// Hits that are chosen from for being unlike one another; comparing all with all takes the square of them.
const DIVERSE: usize = 1000;
/// What hits are chosen from, if some may be passed over: half as many again.
const POOL: (usize, usize) = (3, 2);

impl Shared {
    pub(super) fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Hits> {
        query.check()?;
        if query.rerank.is_some() && self.reranker.is_none() {
            return Err(Error::query("the engine has no reranker; give it one with Builder::reranker"));
        }
        let deadline = query.budget.and_then(|budget| Instant::now().checked_add(budget));
        let snapshot = self.store.read()?;
        let Some(namespace) = snapshot.namespace(namespace)? else { return Ok(Hits::default()) };
        let session = match &query.filter.session {
            None => None,
            Some(session) => match snapshot.session(namespace, session)? {
                None => return Ok(Hits::default()),
                number => number,
            },
        };
        let except = query
            .except
            .iter()
            .filter_map(|id| snapshot.seq(namespace, id).transpose())
            .collect::<Result<HashSet<u64>>>()?;
        drop(snapshot);
        let now = query.now.unwrap_or_else(Timestamp::now);
        let spans: Vec<_> = match query.time {
            TimeUse::Ignore => Vec::new(),
            _ => time_expressions(&query.text, now).into_iter().map(|expression| expression.span).collect(),
        };
        let mut filter = query.filter.clone();
        if query.time == TimeUse::Filter {
            filter.spans.clone_from(&spans);
        }
        // To the end, whatever serves by then.
        let serving = self.live.serving();
        let mut ranking = query.ranking;
        let vectors = match serving.query(&query.text, deadline) {
            // Words are an answer too.
            Err(Error::DeadlineExceeded) if ranking.strategy != Strategy::Dense && query.answerable.is_none() => {
                ranking.strategy = Strategy::Lexical;
                Vec::new()
            }
            vectors => vectors?,
        };
        self.asked.note(namespace, &query.text);
        let asked = Asked {
            text: &query.text,
            vectors: &vectors,
            filter: &filter,
            session,
            except: &except,
            ranking: &ranking,
            spans: &spans,
            now,
            deadline,
            exactly: false,
        };

        // What is chosen from: as many as are reranked, and some more for what is left out.
        let depth = query.rerank.unwrap_or(0).max(query.k);
        let is_plain = query.keep_duplicates && query.previous.is_empty() && query.diversity.is_none();
        let pool = if is_plain { depth } else { (depth * POOL.0).div_ceil(POOL.1) };
        let compared = if query.keep_duplicates { 0 } else { COMPARED };
        let mut want = match query.ranking.strategy {
            Strategy::Dense => pool,
            _ => (pool * CANDIDATES).max(MIN_CANDIDATES),
        };
        loop {
            let diverse = query.diversity.map_or(0, |_| 2 * pool.min(DIVERSE));
            let mut found = serving.search(namespace, &asked, want, compared.max(diverse))?;
            found.cut_short |= vectors.is_empty();
            if query.answerable.is_some_and(|least| found.answerability < least) {
                return Ok(Hits { hits: Vec::new(), cut_short: found.cut_short, answerability: found.answerability });
            }
            // Taken after the search: every row found is committed in it.
            let snapshot = self.store.read()?;
            let choice = Choice { shared: self, query, snapshot: &snapshot, namespace, found: &found };
            let chosen = choice.choose(&filter, pool)?;
            if chosen.len() >= query.k || found.is_all || found.cut_short {
                let mut hits = keep_places(choice.order(chosen)?, &query.previous, query.k);
                for (at, hit) in hits.iter_mut().enumerate() {
                    hit.rank = at + 1;
                }
                return Ok(Hits { hits, cut_short: found.cut_short, answerability: found.answerability });
            }
            want = want.saturating_mul(CANDIDATES);
        }
    }
}

/// Choosing hits among what a search found.
struct Choice<'a> {
    shared: &'a Shared,
    query: &'a Query,
    snapshot: &'a Snapshot,
    namespace: NamespaceId,
    found: &'a Outcome,
}

/// A hit, and its place in what was found.
struct Chosen {
    at: usize,
    hit: Hit,
    /// Of its text; made when it is compared with another.
    terms: OnceCell<TermSet>,
}

impl Choice<'_> {
    /// Up to `pool` hits in the order found, near-duplicates last.
    fn choose(&self, filter: &Filter, pool: usize) -> Result<Vec<Chosen>> {
        let mut chosen: Vec<Chosen> = Vec::new();
        let mut duplicates = Vec::new();
        let mut told: HashMap<(String, u32), usize> = HashMap::new();
        let most = self.query.per_batch.unwrap_or(usize::MAX);
        let analyzer = Analyzer::of(self.found.language);
        for (at, ranked) in self.found.ranked.iter().enumerate() {
            if chosen.len() == pool {
                break;
            }
            // It may have been replaced since its row was found.
            let message = self.snapshot.message(self.namespace, ranked.seq)?;
            let Some(message) = message.filter(|message| filter.allows_message(message)) else { continue };
            let batch = match self.query.per_batch {
                None => None,
                Some(_) => self.snapshot.batch_number(self.namespace, &message.session, ranked.seq)?,
            };
            let batch = batch.map(|batch| (message.session.clone(), batch));
            if batch.as_ref().is_some_and(|batch| told.get(batch) == Some(&most)) {
                continue;
            }
            let mut new = Chosen { at, hit: self.hit(ranked, message)?, terms: OnceCell::new() };
            match self.original(analyzer, &new, &chosen) {
                Some(id) => {
                    new.hit.parts.duplicate_of = Some(id);
                    duplicates.push((batch, new));
                }
                None => {
                    batch.into_iter().for_each(|batch| *told.entry(batch).or_default() += 1);
                    chosen.push(new);
                }
            }
        }
        // What a batch has left.
        for (batch, duplicate) in duplicates {
            let told = batch.map(|batch| told.entry(batch).or_default());
            if told.as_ref().is_none_or(|told| **told < most) {
                told.into_iter().for_each(|told| *told += 1);
                chosen.push(duplicate);
            }
        }
        chosen.truncate(pool);
        Ok(chosen)
    }

    /// As the reranker has them, and unlike one another, where that was asked for.
    fn order(&self, mut chosen: Vec<Chosen>) -> Result<Vec<Hit>> {
        // A reranker's scores do not compare with those of the others.
        let mut alike = chosen.len();
        if let Some(depth) = self.query.rerank {
            alike = alike.min(depth.max(self.query.k));
            self.rerank(&mut chosen[..alike])?;
        }
        if let Some(lambda) = self.query.diversity {
            let rest = chosen.split_off(alike.min(DIVERSE));
            chosen = self.diverse(chosen, lambda);
            chosen.extend(rest);
        }
        // Last whatever a reranker makes of them.
        chosen.sort_by_key(|chosen| chosen.hit.parts.duplicate_of.is_some());
        Ok(chosen.into_iter().map(|chosen| chosen.hit).collect())
    }

    fn hit(&self, ranked: &Ranked, message: Message) -> Result<Hit> {
        let text = message.text();
        let name = message.searchable().len() - text.len();
        let place = |at: u32| (at as usize).saturating_sub(name);
        let passage = ranked.passage.as_ref().map(|passage| place(passage.start)..place(passage.end));
        // A window may be of the speaker's name alone.
        let is_text = |passage: &Range<usize>| text.get(passage.clone()).is_some_and(|passage| !passage.is_empty());
        let passage = passage.filter(is_text).unwrap_or(0..text.len());
        let mut parts = ranked.parts.clone();
        if let Some(lender) = ranked.lender {
            parts.lender = self.snapshot.message(self.namespace, lender)?.map(|lender| lender.id);
        }
        let (score, similarity) = (ranked.score, ranked.similarity);
        Ok(Hit { message, score, similarity, rank: 0, passage, parts })
    }

    /// The id of an earlier hit of the same speaker that says the same.
    fn original(&self, analyzer: &Analyzer, new: &Chosen, chosen: &[Chosen]) -> Option<String> {
        if self.query.keep_duplicates || new.at >= COMPARED {
            return None;
        }
        let vector = self.found.vectors.get(new.at)?;
        let is_same = |other: &&Chosen| {
            other.hit.message.name == new.hit.message.name
                && self.found.vectors.get(other.at).is_some_and(|other| dot(vector, other) >= ALIKE)
                && is_duplicate(new.terms(analyzer), other.terms(analyzer))
        };
        chosen.iter().find(is_same).map(|other| other.hit.message.id.clone())
    }

    /// Has the reranker put hits in order.
    fn rerank(&self, chosen: &mut [Chosen]) -> Result<()> {
        let reranker = self.shared.reranker.as_deref().expect("checked");
        let texts: Vec<String> = chosen.iter().map(|chosen| chosen.hit.message.text()).collect();
        let passages: Vec<&str> =
            chosen.iter().zip(&texts).map(|(chosen, text)| &text[chosen.hit.passage.clone()]).collect();
        let scores = embed::rerank(reranker, &self.query.text, &passages)?;
        for (Chosen { hit, .. }, score) in chosen.iter_mut().zip(scores) {
            hit.parts.reranked = Some(score);
            hit.score = score;
        }
        chosen.sort_by(|a, b| b.hit.score.total_cmp(&a.hit.score));
        Ok(())
    }

    /// Chosen again, unlike one another. What has no vector at hand comes after, and what was not reranked if others were.
    fn diverse(&self, chosen: Vec<Chosen>, lambda: f32) -> Vec<Chosen> {
        let (with, without): (Vec<Chosen>, Vec<Chosen>) = chosen.into_iter().partition(|Chosen { at, hit, .. }| {
            let has_vector = self.found.vectors.get(*at).is_some_and(|vector| !vector.is_empty());
            has_vector && hit.parts.reranked.is_some() == self.query.rerank.is_some()
        });
        let vectors: Vec<&[f32]> = with.iter().map(|chosen| self.found.vectors[chosen.at].as_slice()).collect();
        // Scores of 0 to 1, as similarities are.
        let scores = || with.iter().map(|chosen| f64::from(chosen.hit.score));
        let (low, high) = scores().fold((f64::MAX, f64::MIN), |(low, high), score| (low.min(score), high.max(score)));
        let relevance: Vec<f64> = scores().map(|score| (score - low) / (high - low).max(1e-9)).collect();
        let order = mmr(&relevance, &vectors, with.len(), f64::from(lambda));
        let mut with: Vec<Option<Chosen>> = with.into_iter().map(Some).collect();
        order.into_iter().filter_map(|at| with[at].take()).chain(without).collect()
    }
}

impl Chosen {
    fn terms(&self, analyzer: &Analyzer) -> &TermSet {
        self.terms.get_or_init(|| {
            let (text, mut terms) = (self.hit.message.text(), Vec::new());
            analyzer.terms(&text, &mut terms);
            TermSet::new(text, &terms)
        })
    }
}
