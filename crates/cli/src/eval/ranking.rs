//! Messages in the order in which a recall, or somebody else's program, ranks them for a question.

use mnemon::{Hit, Role};

/// A message of a ranking.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RankedMessage {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) role: Role,
    pub(super) score: f32,
}

/// Messages, best first.
pub(super) type Ranking = Vec<RankedMessage>;

/// Returns the ranking of hits.
pub(super) fn of_hits(hits: &[Hit]) -> Ranking {
    let ranked = |hit: &Hit| RankedMessage {
        id: hit.message.id.clone(),
        session: hit.message.session.clone(),
        role: hit.message.role,
        score: hit.score,
    };
    hits.iter().map(ranked).collect()
}
