//! Hits, and the breakdown of their scores.

use std::{ops::Range, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{ids::Namespace, message::Message};

/// A message that a recall found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Hit {
    /// The message as it was put.
    #[serde(flatten)]
    pub message: Message,
    /// The namespace that the message is from, if the recall was over several.
    ///
    /// See [`Scope`](crate::Scope).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// The score that it was ranked by; higher is better. It compares hits of one recall.
    ///
    /// For [`RankingStrategy::Hybrid`](crate::RankingStrategy) the sum of the terms in [`ScoreBreakdown`], for the other
    /// strategies the cosine, the BM25 or the fused score; for a reranked hit the reranker's score. A turn has the score
    /// of its best message; a hybrid session the logarithm of the sum of the odds of its five best.
    pub score: f32,
    /// How likely the message is evidence for the query, 0 to 1, by which [`Query::min_score`](crate::Query::min_score) leaves
    /// hits out. It compares hits of any recalls, in namespaces of any size, with any model.
    ///
    /// It is estimated from the cosine and its z-score, the share of the query's terms and the number of messages, and knows
    /// nothing of speakers, times and neighbors. The order of hits is by `score`. A reranker does not change it.
    pub relevance: f32,
    /// The cosine of the query and the message's best chunk, -1 to 1; higher is nearer. 0 if the query or the
    /// message was not embedded.
    pub similarity: f32,
    /// The position among the hits, 1 for the first.
    pub rank: usize,
    /// The bytes of the message's [text](Message::text) that matched best: the whole text, or a chunk of a long one.
    #[cfg_attr(feature = "schemars", schemars(with = "Passage"))]
    pub passage: Range<usize>,
    /// Ids of earlier hits that this one supersedes: messages of the same speaker that say the same but for numbers, names or
    /// a negation, such as "My rent is 900 euros" before "My rent is 950 euros", and messages about the same that it says have
    /// changed. Words alone decide, in messages of up to 400 bytes: among the first 50 hits in the same words, among the
    /// first 10 in others. Facts that differ in what the query names supersede nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supersedes: Vec<String>,
    /// Other messages of the [unit](crate::Query::unit), as far as the filter allows them; its role and its ids do not
    /// count here. For a turn, all others in their order; for a session, up to four more of its best, best first; for a
    /// message, none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Message>,
    /// The terms of the score, and other evidence for the hit.
    pub breakdown: ScoreBreakdown,
}

/// The bytes of a text, as they are in its UTF-8, from `start` to before `end`.
#[cfg(feature = "schemars")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "the schema of a range")]
struct Passage {
    start: usize,
    end: usize,
}

/// The evidence for a hit. Evidence that the ranking strategy does not use is 0.
///
/// The hybrid score is `dense + lexical + neighbor + whole + speaker + question + length + time + recency + weight`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct ScoreBreakdown {
    /// The term for the vectors: the z-score of the cosine in the namespace, divided by the z-score that the best of as
    /// many unrelated messages reaches by chance.
    pub dense: f32,
    /// The rank among the candidates by cosine, 1 for the best; 0 if the message is not embedded yet.
    pub dense_rank: usize,
    /// The BM25 of the best chunk.
    pub bm25: f32,
    /// The share of the query's terms that the best chunk has, weighted by rarity, with saturation; 0 to 1.
    pub coverage: f32,
    /// The term for the words: the z-score of the BM25 in the namespace, times the square root of the coverage.
    pub lexical: f32,
    /// The rank among the candidates by BM25, 1 for the best; 0 if the message has no term of the query.
    pub lexical_rank: usize,
    /// The boost by the strongest lexical match within two turns in its session.
    pub neighbor: f32,
    /// The bytes of the piece of the query that the message answers best, if the query has several: then the terms
    /// `dense`, `lexical` and `neighbor` are those of this piece, times its weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<Passage>"))]
    pub piece: Option<Range<usize>>,
    /// The term for the words of the whole query, if it has several pieces that say as much as each other: the z-score of
    /// the message's BM25.
    pub whole: f32,
    /// The id of the message whose match boosted this one as its neighbor.
    pub boosted_by: Option<String>,
    /// The boost for a message whose speaker the query names.
    pub speaker: f32,
    /// The term, below 0, for a message that ends with a question mark.
    pub question: f32,
    /// The term for the message's length, 0 or below: a deduction for few words, and one for a role that writes longer
    /// messages than others.
    pub length: f32,
    /// The term for a message of a time that the query names.
    pub time: f32,
    /// The term for the message's age, if the query has a half-life.
    pub recency: f32,
    /// The logarithm of the weight that the message's namespace has in the [`Scope`](crate::Scope) of the recall.
    pub weight: f32,
    /// The reranker's score, if the hit was reranked.
    pub reranked: Option<f32>,
    /// The id of a better candidate that this message nearly duplicates. It need not be among the hits.
    pub duplicate_of: Option<String>,
    /// Whether the message only repeats the question that the query asks, or its words over and over: then it comes after all
    /// others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeats_question: bool,
}

impl Hit {
    /// Makes a hit of a message that was found elsewhere, for a [`HitProcessor`](crate::HitProcessor) that adds hits.
    /// `score` becomes its similarity too, and its relevance is 1.
    pub fn new(message: Message, score: f32, rank: usize) -> Self {
        let passage = 0..message.text().len();
        let breakdown = ScoreBreakdown::default();
        let (supersedes, others) = (Vec::new(), Vec::new());
        Hit {
            message,
            namespace: None,
            score,
            relevance: 1.0,
            similarity: score,
            rank,
            passage,
            supersedes,
            others,
            breakdown,
        }
    }

    /// Returns true if it comes after all others: it nearly duplicates a better one, or repeats the question.
    pub(super) fn is_last(&self) -> bool {
        self.breakdown.duplicate_of.is_some() || self.breakdown.repeats_question
    }

    /// Returns false if the hit shares nothing with the query, and only fills up a lexical recall.
    pub(super) fn has_evidence(&self) -> bool {
        self.similarity != 0.0 || self.breakdown.bm25 > 0.0
    }
}

/// The hits of a recall, best first, except those that keep their positions
/// ([`Query::previous`](crate::Query::previous)).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Hits {
    pub(crate) hits: Vec<Hit>,
    #[serde(skip)]
    pub(crate) cut_short: bool,
    #[serde(skip)]
    pub(crate) answerability: f32,
    #[serde(skip)]
    pub(crate) pending: usize,
    #[serde(skip)]
    pub(crate) not_embedded: Option<Arc<str>>,
    #[serde(skip)]
    pub(crate) seen: Option<Seen>,
}

/// The state in which a recall saw a namespace of a shared database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) version: u64,
    /// The time since which something may be missing; `None` if nobody was ever asked.
    pub(crate) age: Option<Duration>,
}

impl Hits {
    /// Returns true if the time of [`Query::within`](crate::Query::within) was over before the search was complete:
    /// there may be better hits.
    pub fn cut_short(&self) -> bool {
        self.cut_short
    }

    /// Returns the number of messages that the filter allows and that were searched by words alone, because they are
    /// not embedded yet: those that wait for a flush, and those in sessions' short-term buffers.
    /// [`RankingStrategy::Dense`](crate::RankingStrategy) does not find them.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Returns why the query was not embedded, so that words alone found the hits: the embedder cannot be reached, failed, or was
    /// busy until the deadline. `None` if the query was embedded, or words alone were asked for.
    pub fn not_embedded(&self) -> Option<&str> {
        self.not_embedded.as_deref()
    }

    /// In an engine with a [shared](crate::EngineBuilder::shared) database, the version of the namespace that the hits
    /// are of: it rises by one with each change, on whatever machine. `None` for several namespaces.
    pub fn version(&self) -> Option<u64> {
        self.seen.map(|seen| seen.version)
    }

    /// In an engine with a [shared](crate::EngineBuilder::shared) database, the time ago at which nothing was missing
    /// that other machines had stored. `None` if it is not known, because the shared database never answered, and for
    /// several namespaces.
    pub fn age(&self) -> Option<Duration> {
        self.seen.and_then(|seen| seen.age)
    }

    /// An estimate, 0 to 1, of how likely it is that the namespace has something about the query: a logistic function of the
    /// greatest share of the query's terms that a candidate has, of the cosine of the nearest vector, and of the number of
    /// messages, as more of them come nearer by chance. 0.5 is where 95 % of the queries that have an answer are kept, in
    /// namespaces of 1 to 500 messages out of eight sets; it refuses 40 to 61 % of the others, which were asked of other
    /// namespaces of the same kind. It separates queries about stored subjects from others; it does not tell whether the
    /// hits answer the query. 0
    /// for an empty namespace. Lower with [`RankingStrategy::Dense`](crate::RankingStrategy), which uses no terms, and
    /// with [`RankingStrategy::Lexical`](crate::RankingStrategy), which uses no vectors, as where the query was
    /// [not embedded](Self::not_embedded): then 0.3 asks for a tenth of the query's terms by weight among 3 messages, and for three tenths among 500.
    pub fn answerability(&self) -> f32 {
        self.answerability
    }
}

impl std::ops::Deref for Hits {
    type Target = [Hit];

    fn deref(&self) -> &[Hit] {
        &self.hits
    }
}

impl IntoIterator for Hits {
    type Item = Hit;
    type IntoIter = std::vec::IntoIter<Hit>;

    fn into_iter(self) -> Self::IntoIter {
        self.hits.into_iter()
    }
}

impl<'a> IntoIterator for &'a Hits {
    type Item = &'a Hit;
    type IntoIter = std::slice::Iter<'a, Hit>;

    fn into_iter(self) -> Self::IntoIter {
        self.hits.iter()
    }
}

impl From<Hits> for Vec<Hit> {
    fn from(hits: Hits) -> Self {
        hits.hits
    }
}
