//! What is asked and what is found.
//!
//! Owns the question's form and its checks, and choosing messages from scored rows. Does not search or read the store:
//! the engine does.

use std::{collections::HashMap, time::Duration};

use serde::Serialize;

use crate::{
    error::{Error, Result},
    index::Neighbor,
    message::{Message, Role, Timestamp},
};

/// The most hits of one recall.
pub const MAX_K: usize = 10_000;

/// A question to a namespace: a text, how many hits, and which messages count.
///
/// ```
/// use mnemon::{Query, Role};
/// let query = Query::new("where does she keep her bike?").k(5).role(Role::User).session("2024-05");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(crate) text: String,
    pub(crate) k: usize,
    pub(crate) filter: Filter,
    pub(crate) budget: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    pub(crate) session: Option<String>,
    pub(crate) role: Option<Role>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
}

impl Query {
    /// The 10 best over the whole namespace. Text over the model's limit is split into windows, none is cut.
    pub fn new(text: impl Into<String>) -> Self {
        Query { text: text.into(), k: 10, filter: Filter::default(), budget: None }
    }

    /// What is asked.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// This many hits, 1 to [`MAX_K`], or all that match if they are fewer.
    pub fn k(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// Only messages of this session.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.filter.session = Some(session.into());
        self
    }

    /// Only messages of this role.
    pub fn role(mut self, role: Role) -> Self {
        self.filter.role = Some(role);
        self
    }

    /// Only messages of this moment or later.
    pub fn since(mut self, time: Timestamp) -> Self {
        self.filter.since = Some(time);
        self
    }

    /// Only messages before this moment.
    pub fn until(mut self, time: Timestamp) -> Self {
        self.filter.until = Some(time);
        self
    }

    /// At most about this long, from when the recall begins: then the best found so far are the answer, which says so
    /// ([`Hits::cut_short`]). Embedding the text is not cut short, nor is the
    /// loading of a namespace that was not asked before. Default: as long as it takes.
    pub fn within(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if !(1..=MAX_K).contains(&self.k) {
            return Err(Error::query(format!("k is {}, not within 1 to {MAX_K}", self.k)));
        }
        if self.text.trim().is_empty() {
            return Err(Error::query("the text is empty"));
        }
        if let (Some(since), Some(until)) = (self.filter.since, self.filter.until)
            && since >= until
        {
            return Err(Error::query(format!("no time is both since {since} and before {until}")));
        }
        Ok(())
    }
}

impl Filter {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    pub(crate) fn is_session_only(&self) -> bool {
        self.role.is_none() && self.since.is_none() && self.until.is_none()
    }

    pub(crate) fn allows_message(&self, message: &Message) -> bool {
        self.allows(message.role, message.created_at)
            && self.session.as_ref().is_none_or(|session| *session == message.session)
    }

    /// Whether role and time are allowed. A message without a time matches no limit.
    pub(crate) fn allows(&self, role: Role, time: Option<Timestamp>) -> bool {
        self.role.is_none_or(|wanted| wanted == role)
            && self.since.is_none_or(|since| time.is_some_and(|time| time >= since))
            && self.until.is_none_or(|until| time.is_some_and(|time| time < until))
    }
}

/// A message found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Hit {
    /// The message, as it was put.
    #[serde(flatten)]
    pub message: Message,
    /// The cosine of the query and the message's best window, -1 to 1; higher is nearer.
    pub score: f32,
    /// 1 for the best.
    pub rank: usize,
}

/// What a recall found, best first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Hits {
    pub(crate) hits: Vec<Hit>,
    #[serde(skip)]
    pub(crate) cut_short: bool,
}

impl Hits {
    /// Whether the time given by [`Query::within`] was over before the search was: there may be better ones.
    pub fn cut_short(&self) -> bool {
        self.cut_short
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

impl Hit {
    /// A message found elsewhere, for a [`HitProcessor`](crate::HitProcessor) that adds some.
    pub fn new(message: Message, score: f32, rank: usize) -> Self {
        Hit { message, score, rank }
    }
}

/// The `k` best messages of scored rows: each message once, by its best row. `message_of` gives a row's message.
pub(crate) fn best_messages(
    rows: &[Neighbor],
    k: usize,
    mut message_of: impl FnMut(u32) -> Option<u64>,
) -> Vec<(u64, f32)> {
    let mut best: HashMap<u64, Neighbor> = HashMap::new();
    for neighbor in rows {
        if let Some(seq) = message_of(neighbor.row) {
            let kept = best.entry(seq).or_insert(*neighbor);
            if neighbor.order(kept).is_lt() {
                *kept = *neighbor;
            }
        }
    }
    let mut messages: Vec<(u64, Neighbor)> = best.into_iter().collect();
    messages.sort_unstable_by(|(_, a), (_, b)| a.order(b));
    messages.truncate(k);
    messages.into_iter().map(|(seq, neighbor)| (seq, neighbor.score)).collect()
}
