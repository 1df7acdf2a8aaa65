//! The journal of recalls: what was asked, what was found, and what the same question finds today.
//!
//! This module owns the entries and their comparison with a later recall. The engine notes the recalls and asks again;
//! the store keeps the entries and knows none of their fields.
//!
//! An entry has the ids of hits and no text of them. The question's text, the only text in it, may repeat what was said:
//! the store removes a namespace's entries when something of the namespace is forgotten.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    error::Result,
    ids::Namespace,
    message::Timestamp,
    recall::{Hit, Hits, Query, ScoreBreakdown},
};

/// The most bytes of an entry, as JSON: recalls of longer ones are not noted.
const MAX_BYTES: usize = 256 << 10;
/// Scores and terms that differ by no more are the same: the order of additions may differ.
const TOLERANCE: f64 = 1e-3;

/// A recall that the journal noted.
///
/// [`Engine::journal`](crate::Engine::journal) lists them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct JournalEntry {
    /// The number of the entry. It rises from recall to recall, over all namespaces of the file.
    #[serde(default)]
    pub number: u64,
    /// When the recall ended.
    pub at: Timestamp,
    /// The namespace that was asked.
    pub namespace: Namespace,
    /// The text of the query.
    pub text: String,
    /// The options of the query that were not the default, by their names: `half_life` in seconds.
    ///
    /// They are the names of the methods of [`Query`]. [`Query::within`] and [`Query::freshness`] are not noted.
    pub options: Map<String, Value>,
    /// The model that embedded the query.
    pub model: String,
    /// A number above those of all messages that the namespace had.
    pub next_seq: u64,
    /// The version of the namespace, in a copy of a shared database.
    ///
    /// See [`Hits::version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The hits, best first.
    pub hits: Vec<JournalHit>,
    /// The estimate of how likely it is that the namespace has something about the query, 0 to 1.
    ///
    /// See [`Hits::answerability`].
    pub answerability: f32,
    /// Whether the time was over before the search was complete.
    ///
    /// See [`Hits::cut_short`].
    #[serde(default)]
    pub cut_short: bool,
}

/// A hit of a recall of the past. It has nothing of the message but its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct JournalHit {
    /// The id of the message.
    pub id: String,
    /// The position among the hits, 1 for the first.
    pub rank: usize,
    /// The score that it was ranked by.
    ///
    /// See [`Hit::score`](crate::Hit::score).
    pub score: f32,
    /// The cosine of the query and its best chunk.
    ///
    /// See [`Hit::similarity`](crate::Hit::similarity).
    pub similarity: f32,
    /// The terms of the score.
    pub breakdown: ScoreBreakdown,
}

/// The state in which a recall found its namespace.
#[derive(Clone, Debug)]
pub(crate) struct RecallState {
    pub(crate) model: String,
    pub(crate) next_seq: u64,
}

impl JournalEntry {
    /// Makes the entry of a recall that ends now.
    pub(crate) fn new(namespace: &Namespace, query: &Query, state: RecallState, found: &Hits) -> Self {
        let hits = found.iter().map(|hit| JournalHit {
            id: hit.message.id.clone(),
            rank: hit.rank,
            score: hit.score,
            similarity: hit.similarity,
            breakdown: hit.breakdown.clone(),
        });
        JournalEntry {
            number: 0,
            at: Timestamp::now(),
            namespace: namespace.clone(),
            text: query.text().to_owned(),
            options: query.options(),
            model: state.model,
            next_seq: state.next_seq,
            version: found.version(),
            hits: hits.collect(),
            answerability: found.answerability(),
            cut_short: found.cut_short(),
        }
    }

    /// Returns the query of the entry. [`Query::now`] is the time of the entry, unless it was set.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`](crate::Error::InvalidQuery): a release that knows more options noted it.
    pub fn query(&self) -> Result<Query> {
        let query = Query::from_options(&self.text, &self.options)?;
        Ok(if self.options.contains_key("now") || self.options.contains_key("as_of") {
            query
        } else {
            query.now(self.at)
        })
    }

    /// Returns the hit with this id.
    pub fn hit(&self, id: &str) -> Option<&JournalHit> {
        self.hits.iter().find(|hit| hit.id == id)
    }

    /// Returns the entry as the store keeps it. `None` if it is too long.
    pub(crate) fn to_json(&self) -> Option<String> {
        let json = serde_json::to_string(self).expect("an entry always serializes");
        Some(json).filter(|json| json.len() <= MAX_BYTES)
    }

    /// Reads an entry that the store kept. `None` if it is none.
    pub(crate) fn from_json(number: u64, json: &str) -> Option<Self> {
        serde_json::from_str(json).ok().map(|entry| JournalEntry { number, ..entry })
    }
}

/// The answer to a question of the journal today, compared with the one of then.
///
/// [`Engine::replay`](crate::Engine::replay) makes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Replay {
    /// The number of the entry.
    pub entry: u64,
    /// When the question was asked again.
    pub at: Timestamp,
    /// The hits of today, best first, and then those that were hits and are none today.
    pub hits: Vec<ReplayedHit>,
    /// The answerability then and today.
    pub answerability: (f32, f32),
    /// Whether another model embeds queries today.
    pub is_other_model: bool,
}

/// A message that was a hit then or is one today.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReplayedHit {
    /// The id of the message.
    pub id: String,
    /// The outcome for this hit.
    pub change: HitChange,
    /// Whether the message was put, put again, or edited since. Changes of its metadata do not count.
    pub is_newer: bool,
    /// Its rank and score then, if it was a hit.
    pub then: Option<Standing>,
    /// Its rank and score today, if it is a hit.
    pub now: Option<Standing>,
    /// The evidence that differs, if it was a hit and is one today: the fields of
    /// [`ScoreBreakdown`] other than ranks.
    pub terms: Vec<TermChange>,
}

/// The rank and the score of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Standing {
    /// The position among the hits, 1 for the first.
    pub rank: usize,
    /// The score that it was ranked by.
    pub score: f32,
}

/// The outcome for a hit when its question is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HitChange {
    /// It was a hit and is one today, perhaps at another rank.
    Kept,
    /// It was no hit then.
    New,
    /// It is no hit today because it is not stored any more.
    Gone,
    /// It is stored, and no hit today: others are better, or it no longer meets the conditions of the query.
    Outranked,
}

/// Evidence that differs between then and today.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TermChange {
    /// The field of [`ScoreBreakdown`].
    pub term: String,
    /// Its value then.
    pub then: f64,
    /// Its value today.
    pub now: f64,
}

impl Replay {
    /// Compares an entry with what is found today. `last_number` returns the highest number that a message was given,
    /// and `None` for a message that is not stored.
    pub(crate) fn compare(
        entry: &JournalEntry,
        found: &Hits,
        model: &str,
        last_number: impl Fn(&str) -> Result<Option<u64>>,
    ) -> Result<Self> {
        let mut hits = Vec::new();
        for hit in found {
            let id = &hit.message.id;
            let then = entry.hit(id);
            hits.push(ReplayedHit {
                id: id.clone(),
                change: if then.is_some() { HitChange::Kept } else { HitChange::New },
                is_newer: last_number(id)?.is_none_or(|last| last >= entry.next_seq),
                then: then.map(Standing::then),
                now: Some(Standing::now(hit)),
                terms: then.map_or_else(Vec::new, |then| changed_terms(&then.breakdown, &hit.breakdown)),
            });
        }
        let is_hit = |id: &str| found.iter().any(|hit| hit.message.id == id);
        for then in entry.hits.iter().filter(|then| !is_hit(&then.id)) {
            let last = last_number(&then.id)?;
            hits.push(ReplayedHit {
                id: then.id.clone(),
                change: if last.is_some() { HitChange::Outranked } else { HitChange::Gone },
                is_newer: last.is_some_and(|last| last >= entry.next_seq),
                then: Some(Standing::then(then)),
                now: None,
                terms: Vec::new(),
            });
        }
        let answerability = (entry.answerability, found.answerability());
        let is_other_model = entry.model != model;
        Ok(Replay { entry: entry.number, at: Timestamp::now(), hits, answerability, is_other_model })
    }

    /// Returns true if the same messages have the same ranks, scores and terms, and none was edited.
    pub fn is_unchanged(&self) -> bool {
        self.hits.iter().all(ReplayedHit::is_unchanged)
    }

    /// Returns the message with this id.
    pub fn hit(&self, id: &str) -> Option<&ReplayedHit> {
        self.hits.iter().find(|hit| hit.id == id)
    }
}

impl ReplayedHit {
    /// Returns true if the message has the rank, the score and the terms that it had, and was not edited.
    pub fn is_unchanged(&self) -> bool {
        let is_same = |then: Standing, now: Standing| then.rank == now.rank && is_near(then.score, now.score);
        !self.is_newer && self.terms.is_empty() && self.then.zip(self.now).is_some_and(|(then, now)| is_same(then, now))
    }
}

impl Standing {
    fn then(hit: &JournalHit) -> Self {
        Standing { rank: hit.rank, score: hit.score }
    }

    fn now(hit: &Hit) -> Self {
        Standing { rank: hit.rank, score: hit.score }
    }
}

fn is_near(a: impl Into<f64>, b: impl Into<f64>) -> bool {
    (a.into() - b.into()).abs() <= TOLERANCE
}

/// The numbers of two breakdowns that differ, without ranks.
fn changed_terms(then: &ScoreBreakdown, now: &ScoreBreakdown) -> Vec<TermChange> {
    let fields = |breakdown| match serde_json::to_value(breakdown) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a breakdown serializes to an object"),
    };
    let (then, now) = (fields(then), fields(now));
    let changes = now.iter().filter(|(term, _)| !term.ends_with("_rank")).filter_map(|(term, now)| {
        let number = |value: Option<&Value>| value.and_then(Value::as_f64);
        let (then, now) = (number(then.get(term)), number(Some(now)));
        let is_number = then.is_some() || now.is_some();
        let (then, now) = (then.unwrap_or_default(), now.unwrap_or_default());
        (is_number && !is_near(then, now)).then(|| TermChange { term: term.clone(), then, now })
    });
    changes.collect()
}
