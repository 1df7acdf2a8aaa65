//! Arranges the hits that were chosen: messages are joined to turns or sessions, and hits of the previous query keep
//! their positions.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use super::{
    hit::Hit,
    options::{QueryOptions, WIDENING},
    prepare::PreparedQuery,
    query::{MessageParts, Query},
    row_filter::Filter,
};
use crate::{
    error::Result,
    ids::NamespaceId,
    message::{Message, Role},
    read_budget::{self, ReadBudget},
    store::{MessageReader, Snapshot},
};

/// The number of a session's best messages that count, and that are returned with it.
const BEST: usize = 5;
/// The number of messages of the namespace, before and after a hit, among which the others of its turn are looked for.
const TURN_REACH: u64 = 64;

/// Joins the messages of each session, given best first. If their scores are the logarithms of odds, a session's is that
/// of the sum of its best.
///
/// The sessions of the first `at_once` messages come first, then the others of the first four times as many, and so on: so
/// further messages change nothing of the first sessions.
pub(super) fn join_sessions<T, K: Eq + Hash>(
    messages: Vec<T>,
    at_once: usize,
    is_odds: bool,
    key: impl Fn(&T) -> K,
    hit: impl Fn(&mut T) -> &mut Hit,
) -> Vec<T> {
    let mut at: HashMap<K, usize> = HashMap::new();
    // The best message, the sum of odds, and whether the best one comes last.
    let mut sessions: Vec<(T, f64, bool)> = Vec::new();
    let place = |sessions: &mut [(T, f64, bool)]| {
        if is_odds {
            for (best, sum, _) in &mut *sessions {
                hit(best).score = sum.ln() as f32;
            }
            // A stable sort: of equal ones, that with the better message stays first. A session that only repeats others stays
            // behind them, however many messages it repeats.
            sessions.sort_by(|(_, a, a_is_last), (_, b, b_is_last)| a_is_last.cmp(b_is_last).then(b.total_cmp(a)));
        }
    };
    let (mut placed, mut next) = (0, at_once);
    for (count, mut message) in messages.into_iter().enumerate() {
        if count == next {
            place(&mut sessions[placed..]);
            (placed, next) = (sessions.len(), next.saturating_mul(WIDENING));
        }
        let session = *at.entry(key(&message)).or_insert(sessions.len());
        let score = f64::from(hit(&mut message).score);
        match sessions.get_mut(session) {
            None => {
                let is_last = hit(&mut message).is_last();
                sessions.push((message, score.exp(), is_last));
            }
            Some((best, sum, _)) if session >= placed => {
                let others = &mut hit(best).others;
                if others.len() + 1 < BEST {
                    *sum += score.exp();
                    others.push(hit(&mut message).message.clone());
                }
            }
            Some(_) => {}
        }
    }
    place(&mut sessions[placed..]);
    sessions.into_iter().map(|(best, ..)| best).collect()
}

/// The position of a message among the namespaces that are asked.
pub(super) struct Position {
    /// The position of its namespace.
    pub(super) origin: u32,
    pub(super) namespace: NamespaceId,
    pub(super) seq: u64,
}

/// The turns that hits belong to.
pub(super) struct Turns<'a> {
    options: &'a QueryOptions,
    filter: Filter,
    snapshot: &'a Snapshot,
    messages: &'a MessageReader,
    parts: MessageParts,
    budget: Option<&'a ReadBudget>,
    /// The messages of these turns: the position of their namespace, and their numbers.
    entered: HashSet<(u32, u64)>,
}

impl<'a> Turns<'a> {
    pub(super) fn new(
        prepared: &'a PreparedQuery<'a>,
        snapshot: &'a Snapshot,
        messages: &'a MessageReader,
        budget: Option<&'a ReadBudget>,
    ) -> Self {
        let filter = Filter { role: None, ids: None, ..prepared.filter.clone() };
        let Query { options, parts, .. } = prepared.query;
        Turns { options, filter, snapshot, messages, parts: *parts, budget, entered: HashSet::new() }
    }

    /// Adds the other messages of its turn to a hit. Returns false if a better hit is of the same turn.
    pub(super) fn enter(&mut self, at: Position, hit: &mut Hit) -> Result<bool> {
        let Position { origin, namespace, seq } = at;
        if self.entered.contains(&(origin, seq)) {
            return Ok(false);
        }
        let put_before = match self.filter.as_of {
            Some(time) => Some(self.snapshot.put_times().first_after(namespace, time)?),
            None => None,
        };
        let is_allowed = |seq: u64, message: &Message| {
            put_before.is_none_or(|before| seq < before)
                && self.filter.allows_message(message)
                && !self.options.except.contains(&message.id)
        };
        // A message, if the filter allows it, and its role.
        let of_session = |seq| -> Result<Option<(Role, Option<Message>)>> {
            let Some(sized) = self.messages.get(namespace, seq)? else { return Ok(None) };
            if sized.message.session != hit.message.session {
                return Ok(None);
            }
            let role = sized.message.role;
            if !is_allowed(seq, &sized.message) {
                return Ok(Some((role, None)));
            }
            let (message, bytes) = self.parts.of(sized);
            read_budget::take(self.budget, bytes)?;
            Ok(Some((role, Some(message))))
        };
        let mut turn: Vec<(u64, Option<Message>)> = Vec::new();
        if hit.message.role != Role::User {
            for earlier in (seq.saturating_sub(TURN_REACH)..seq).rev() {
                if let Some((role, message)) = of_session(earlier)? {
                    turn.push((earlier, message));
                    if role == Role::User {
                        break;
                    }
                }
            }
            turn.reverse();
        }
        for later in (seq..seq.saturating_add(TURN_REACH)).map(|seq| seq.saturating_add(1)) {
            if let Some((role, message)) = of_session(later)? {
                if role == Role::User {
                    break;
                }
                turn.push((later, message));
            }
        }
        self.entered.insert((origin, seq));
        self.entered.extend(turn.iter().map(|(seq, _)| (origin, *seq)));
        hit.others = turn.into_iter().filter_map(|(_, message)| message).collect();
        Ok(true)
    }
}

/// Chooses `k` of the `ranked` hits, which come best first. A hit of the previous query keeps its position if it is
/// still among the best `k` and half as many more, and there is any evidence for it; the best of the others fill the
/// rest.
pub(crate) fn keep_positions(mut ranked: Vec<Hit>, previous: &[String], k: usize) -> Vec<Hit> {
    if previous.is_empty() {
        ranked.truncate(k);
        return ranked;
    }
    let good_enough = k + k.div_ceil(2);
    // Reversed, so that an id given twice has its first position.
    let positions: HashMap<&str, usize> =
        previous.iter().take(k).enumerate().rev().map(|(position, id)| (id.as_str(), position)).collect();
    let mut kept: Vec<Option<Hit>> = vec![None; k];
    let mut others = Vec::new();
    for (at, hit) in ranked.into_iter().enumerate() {
        let is_good = at < good_enough && hit.has_evidence();
        match positions.get(hit.message.id.as_str()).filter(|_| is_good) {
            Some(&position) => kept[position] = Some(hit),
            None => others.push(hit),
        }
    }
    let mut others = others.into_iter();
    // When the other hits are used up, the kept ones move up.
    kept.into_iter().filter_map(|kept| kept.or_else(|| others.next())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Message, Role};

    fn hits(ids: &[&str]) -> Vec<Hit> {
        let hit =
            |(at, id): (usize, &&str)| Hit::new(Message::new(Role::User, *id).with_id(*id), -(at as f32) - 1.0, at + 1);
        ids.iter().enumerate().map(hit).collect()
    }

    fn kept(ranked: &[&str], previous: &[&str], k: usize) -> String {
        let previous: Vec<String> = previous.iter().map(|&id| id.to_owned()).collect();
        keep_positions(hits(ranked), &previous, k).into_iter().map(|hit| hit.message.id).collect()
    }

    #[test]
    fn a_hit_that_is_still_good_keeps_its_position() {
        let ranked = ["d", "a", "e", "b", "f", "c", "g"];
        assert_eq!(kept(&ranked, &[], 4), "daeb");
        // c is the sixth of six that are good enough, g the seventh.
        assert_eq!(kept(&ranked, &["a", "b", "c", "x"], 4), "abcd");
        assert_eq!(kept(&ranked, &["g", "b", "x", "a"], 4), "dbea");
        assert_eq!(kept(&["a"], &["x", "y", "a"], 3), "a");
        assert_eq!(kept(&["a", "b", "c"], &["x", "c", "c", "a"], 5), "bca");
        assert_eq!(kept(&[], &["x"], 3), "");
    }

    proptest! {
        #[test]
        fn kept_hits_are_in_position_and_the_others_in_order(
            count in 0usize..12,
            previous in prop::collection::vec(0usize..14, 0..12),
            k in 1usize..10,
        ) {
            let names: Vec<String> = (0..14).map(|id| format!("m{id:02}")).collect();
            let ranked: Vec<&str> = names[..count].iter().map(String::as_str).collect();
            let previous: Vec<String> = previous.iter().map(|&id| names[id].clone()).collect();
            let found: Vec<String> =
                keep_positions(hits(&ranked), &previous, k).into_iter().map(|hit| hit.message.id).collect();
            prop_assert_eq!(found.len(), k.min(count));
            let is_kept = |id: &String| {
                previous.iter().take(k).any(|other| other == id) && names[..count.min(k + k.div_ceil(2))].contains(id)
            };
            let others: Vec<&String> = found.iter().filter(|id| !is_kept(id)).collect();
            let best: Vec<&String> = names[..count].iter().filter(|id| !is_kept(id)).take(others.len()).collect();
            prop_assert_eq!(others, best);
            for id in names.iter().filter(|id| is_kept(id)) {
                let position = |ids: &[String]| ids.iter().position(|other| other == id);
                let (was, is) = (position(&previous), position(&found));
                prop_assert!(is.is_some() && (is == was || count < k), "{} was {:?}, is {:?}", id, was, is);
            }
        }
    }
}
