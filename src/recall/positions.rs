//! Keeps hits of a conversation's previous query in their positions.

use std::collections::HashMap;

use super::hit::Hit;

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
