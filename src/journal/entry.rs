//! [`JournalEntry`]: one recall of the past.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    error::Result,
    ids::Namespace,
    message::Timestamp,
    recall::{Hits, Query, ScoreBreakdown},
};

/// The most bytes of an entry, as JSON: recalls of longer ones are not noted.
const MAX_BYTES: usize = 256 << 10;

/// A recall that the journal noted, see [`Engine::journal`](crate::Engine::journal).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The options of the query that were not the default, by the names of the methods of [`Query`]: `half_life` in
    /// seconds. [`Query::within`] and [`Query::freshness`] are not noted.
    pub options: Map<String, Value>,
    /// The model that embedded the query.
    pub model: String,
    /// A number above those of all messages that the namespace had.
    pub next_seq: u64,
    /// The version of the namespace, in a copy of a shared database: see [`Hits::version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The hits, best first.
    pub hits: Vec<JournalHit>,
    /// See [`Hits::answerability`].
    pub answerability: f32,
    /// See [`Hits::cut_short`].
    #[serde(default)]
    pub cut_short: bool,
}

/// A hit of a recall of the past. It has nothing of the message but its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JournalHit {
    /// The id of the message.
    pub id: String,
    /// The position among the hits, 1 for the first.
    pub rank: usize,
    /// See [`Hit::score`](crate::Hit::score).
    pub score: f32,
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
