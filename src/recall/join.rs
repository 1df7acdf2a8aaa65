//! Joins the messages that a recall chose to turns or sessions.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use super::{
    hit::Hit,
    prepare::PreparedQuery,
    query::{Filter, Query},
};
use crate::{
    error::Result,
    ids::NamespaceId,
    message::{Message, Role},
    store::{MessageReader, Snapshot},
};

/// The number of a session's best messages that count, and that are returned with it.
const BEST: usize = 5;
/// The number of messages of the namespace, before and after a hit, among which the others of its turn are looked for.
const TURN_REACH: u64 = 64;

/// Joins the messages of each session, given best first. If their scores are the logarithms of odds, a session's is that
/// of the sum of its best.
pub(super) fn join_sessions<T, K: Eq + Hash>(
    messages: Vec<T>,
    is_odds: bool,
    key: impl Fn(&T) -> K,
    hit: impl Fn(&mut T) -> &mut Hit,
) -> Vec<T> {
    let mut at: HashMap<K, usize> = HashMap::new();
    let mut sessions: Vec<(T, f64)> = Vec::new();
    for mut message in messages {
        let session = *at.entry(key(&message)).or_insert(sessions.len());
        let score = f64::from(hit(&mut message).score);
        match sessions.get_mut(session) {
            None => sessions.push((message, score.exp())),
            Some((best, sum)) => {
                let others = &mut hit(best).others;
                if others.len() + 1 < BEST {
                    *sum += score.exp();
                    others.push(hit(&mut message).message.clone());
                }
            }
        }
    }
    if is_odds {
        for (best, sum) in &mut sessions {
            hit(best).score = sum.ln() as f32;
        }
        // A stable sort: of equal ones, that with the better message stays first.
        sessions.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    }
    sessions.into_iter().map(|(best, _)| best).collect()
}

/// The turns that hits belong to.
pub(super) struct Turns<'a> {
    query: &'a Query,
    filter: Filter,
    snapshot: &'a Snapshot,
    messages: &'a MessageReader,
    /// The messages of these turns: the position of their namespace, and their numbers.
    entered: HashSet<(u32, u64)>,
}

impl<'a> Turns<'a> {
    pub(super) fn new(prepared: &'a PreparedQuery<'a>, snapshot: &'a Snapshot, messages: &'a MessageReader) -> Self {
        let filter = Filter { role: None, ids: None, ..prepared.filter.clone() };
        Turns { query: prepared.query, filter, snapshot, messages, entered: HashSet::new() }
    }

    /// Adds the other messages of its turn to a hit. Returns false if a better hit is of the same turn.
    pub(super) fn enter(&mut self, (origin, namespace, seq): (u32, NamespaceId, u64), hit: &mut Hit) -> Result<bool> {
        if self.entered.contains(&(origin, seq)) {
            return Ok(false);
        }
        let put_before = match self.filter.as_of {
            Some(time) => Some(self.snapshot.put_times().first_after(namespace, time)?),
            None => None,
        };
        let of_session = |seq| -> Result<Option<Message>> {
            Ok(self.messages.get(namespace, seq)?.filter(|message| message.session == hit.message.session))
        };
        let mut turn: Vec<(u64, Message)> = Vec::new();
        if hit.message.role != Role::User {
            for earlier in (seq.saturating_sub(TURN_REACH)..seq).rev() {
                if let Some(message) = of_session(earlier)? {
                    let begins = message.role == Role::User;
                    turn.push((earlier, message));
                    if begins {
                        break;
                    }
                }
            }
            turn.reverse();
        }
        for later in (seq..seq.saturating_add(TURN_REACH)).map(|seq| seq.saturating_add(1)) {
            if let Some(message) = of_session(later)? {
                if message.role == Role::User {
                    break;
                }
                turn.push((later, message));
            }
        }
        self.entered.insert((origin, seq));
        self.entered.extend(turn.iter().map(|(seq, _)| (origin, *seq)));
        let is_allowed = |(seq, message): &(u64, Message)| {
            put_before.is_none_or(|before| *seq < before)
                && self.filter.allows_message(message)
                && !self.query.except.contains(&message.id)
        };
        hit.others = turn.into_iter().filter(is_allowed).map(|(_, message)| message).collect();
        Ok(true)
    }
}
