//! What is found, and why.

use std::ops::Range;

use serde::Serialize;

use crate::message::Message;

/// A message found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Hit {
    /// The message, as it was put.
    #[serde(flatten)]
    pub message: Message,
    /// What it was ranked by, higher is better: for [`Strategy::Hybrid`](crate::Strategy) the sum of what [`Parts`] say is added, which compares
    /// hits of one recall; else the cosine, BM25, or what the fusion gives; of a reranked hit the reranker's score.
    pub score: f32,
    /// The cosine of the question and the message's best window, -1 to 1; higher is nearer.
    pub similarity: f32,
    /// 1 for the first.
    pub rank: usize,
    /// The bytes of the message's [text](Message::text) that matched best: all of it, or a window of a long one.
    pub passage: Range<usize>,
    /// Why it was found.
    pub parts: Parts,
}

/// The evidence for a hit. What a strategy does not look at is 0.
///
/// The hybrid score is `dense + lexical + neighbor + length + time + recency`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Parts {
    /// Added for the vectors: how far the cosine is above those of the namespace, in standard deviations, over the number that
    /// the best of so many messages would have by chance.
    pub dense: f32,
    /// Its rank among the candidates by cosine, 1 for the best.
    pub dense_rank: usize,
    /// BM25 of the best window.
    pub bm25: f32,
    /// The share of the question's terms that the best window has, each weighed by how rare it is, with saturation; 0 to 1.
    pub coverage: f32,
    /// Added for the terms: how far BM25 is above those of the namespace, in standard deviations, times the root of the coverage.
    pub lexical: f32,
    /// Its rank among the candidates by BM25, 1 for the best; 0 without a term of the question.
    pub lexical_rank: usize,
    /// Added for the best lexical evidence among the turns within two of it in its session.
    pub neighbor: f32,
    /// The id of the turn that lent it.
    pub lender: Option<String>,
    /// Added for its length among those of its role, and for its role's among others.
    pub length: f32,
    /// Added if it is of a time that the question says.
    pub time: f32,
    /// Added for its age, if that was asked for.
    pub recency: f32,
    /// The reranker's score, if there was one.
    pub reranked: Option<f32>,
    /// The id of a message found before it that says the same. It need not be among the hits.
    pub duplicate_of: Option<String>,
}

impl Hit {
    /// A message found elsewhere, for a [`HitProcessor`](crate::HitProcessor) that adds some. `score` is taken for its
    /// similarity too.
    pub fn new(message: Message, score: f32, rank: usize) -> Self {
        let passage = 0..message.text().len();
        Hit { message, score, similarity: score, rank, passage, parts: Parts::default() }
    }
}

/// What a recall found, best first, but for what keeps its place ([`Query::previous`](crate::Query::previous)).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Hits {
    pub(crate) hits: Vec<Hit>,
    #[serde(skip)]
    pub(crate) cut_short: bool,
    #[serde(skip)]
    pub(crate) answerability: f32,
}

impl Hits {
    /// Whether the time given by [`Query::within`](crate::Query::within) was over before the search was: there may be better ones.
    pub fn cut_short(&self) -> bool {
        self.cut_short
    }

    /// How sure it is that the namespace has something about the question, 0 to 1: a logistic function of how many of the
    /// question's terms the best hits have, and of how far the nearest vector is above others. It tells a question about nothing
    /// stored from one about something; whether what is stored answers it, only reading can tell. 0 of an empty namespace.
    /// Lower with [`Strategy::Dense`](crate::Strategy), which looks at no terms.
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
