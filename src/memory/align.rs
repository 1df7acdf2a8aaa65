//! Aligns the messages of a chat with those of a session.

use std::collections::HashSet;

/// The most pairs of messages that are compared. Beyond that, the beginnings and ends that are equal are matched first.
const MAX_PAIRS: usize = 1 << 20;

/// Returns, for each message of a chat, the index of the message of the session that it is, if there is one. The
/// indexes ascend.
///
/// Messages are the same if the chat's key is among the session's keys. As many as possible are matched; among equally
/// many, those that begin as late in the session as possible; among these, those that come early in the chat.
pub(super) fn align(session: &[[u64; 2]], chat: &[u64]) -> Vec<Option<usize>> {
    let is_same = |ours: usize, theirs: usize| session[ours].contains(&chat[theirs]);
    let mut matched = vec![None; chat.len()];
    let (in_session, in_chat): (HashSet<u64>, HashSet<u64>) =
        (session.iter().flatten().copied().collect(), chat.iter().copied().collect());
    // The other messages match nothing.
    let mut ours: Vec<usize> =
        (0..session.len()).filter(|&at| session[at].iter().any(|key| in_chat.contains(key))).collect();
    let mut theirs: Vec<usize> = (0..chat.len()).filter(|&at| in_session.contains(&chat[at])).collect();
    // Nearly always, the known part of the chat is the end of the session, or the chat begins with all of the session.
    let end = &ours[ours.len().saturating_sub(theirs.len())..];
    if end.iter().zip(&theirs).all(|(&ours, &theirs)| is_same(ours, theirs)) {
        theirs.iter().zip(end).for_each(|(&theirs, &ours)| matched[theirs] = Some(ours));
        return matched;
    }
    if ours.len().saturating_mul(theirs.len()) > MAX_PAIRS {
        let begin = ours.iter().zip(&theirs).take_while(|&(&ours, &theirs)| is_same(ours, theirs)).count();
        let pairs: Vec<_> = ours.drain(..begin).zip(theirs.drain(..begin)).collect();
        let end = ours.iter().rev().zip(theirs.iter().rev()).take_while(|&(&ours, &theirs)| is_same(ours, theirs));
        let end = end.count();
        let ends = ours.split_off(ours.len() - end).into_iter().zip(theirs.split_off(theirs.len() - end));
        pairs.into_iter().chain(ends).for_each(|(ours, theirs)| matched[theirs] = Some(ours));
        // Of what is left, the newest.
        theirs.drain(..theirs.len().saturating_sub(MAX_PAIRS));
        ours.drain(..ours.len().saturating_sub(MAX_PAIRS / theirs.len().max(1)));
    }
    let width = theirs.len() + 1;
    // For the rests of both lists from each pair on: the number of matches, and the first matched index of ours plus 1.
    let mut best = vec![(0_u32, 0_u32); (ours.len() + 1) * width];
    for i in (0..ours.len()).rev() {
        for j in (0..theirs.len()).rev() {
            let mut value = best[(i + 1) * width + j].max(best[i * width + j + 1]);
            if is_same(ours[i], theirs[j]) {
                value = value.max((best[(i + 1) * width + j + 1].0 + 1, i as u32 + 1));
            }
            best[i * width + j] = value;
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < ours.len() && j < theirs.len() {
        let here = best[i * width + j];
        if here == best[(i + 1) * width + j] {
            i += 1;
        } else if is_same(ours[i], theirs[j]) && here.0 == best[(i + 1) * width + j + 1].0 + 1 {
            matched[theirs[j]] = Some(ours[i]);
            (i, j) = (i + 1, j + 1);
        } else {
            j += 1;
        }
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Aligns texts of one letter; in the result, `-` is a message of the chat that the session does not have.
    fn aligned(session: &str, chat: &str) -> String {
        let keys: Vec<[u64; 2]> = session.bytes().map(|letter| [letter.into(); 2]).collect();
        let chat: Vec<u64> = chat.bytes().map(u64::from).collect();
        align(&keys, &chat).into_iter().map(|at| at.map_or("-".to_owned(), |at| at.to_string())).collect()
    }

    #[test]
    fn as_many_as_possible_are_matched_as_late_as_possible() {
        assert_eq!(aligned("abcd", "abcdef"), "0123--");
        assert_eq!(aligned("abcd", "cdef"), "23--", "a chat may begin in the middle");
        assert_eq!(aligned("abcd", "abXd"), "01-3");
        assert_eq!(aligned("abcd", "abX"), "01-");
        assert_eq!(aligned("yoyo", "yo"), "23");
        assert_eq!(aligned("yoyo", "yoz"), "23-");
        assert_eq!(aligned("yo", "yoyo"), "01--", "what is said again is new");
        assert_eq!(aligned("xyo", "xyoyo"), "012--");
        assert_eq!(aligned("yoyo", "yoy"), "012", "the last answer is gone");
        assert_eq!(aligned("abcd", "wxyz"), "----");
        assert_eq!((aligned("", "ab"), aligned("ab", "")), ("--".into(), "".into()));
    }

    #[test]
    fn long_chats_are_aligned_in_bounded_time() {
        let session: Vec<[u64; 2]> = (0..20_000).map(|at| [at % 9000; 2]).collect();
        let whole: Vec<u64> = (0..20_000).map(|at| at % 9000).collect();
        let (mut longer, mut edited) = (whole.clone(), whole);
        longer.push(2);
        edited[10_000] = 1;
        for (chat, new) in [(longer, 20_000), (edited, 10_000)] {
            let matched = align(&session, &chat);
            assert!(matched.iter().enumerate().all(|(at, found)| *found == (at != new).then_some(at)));
        }
    }
}
