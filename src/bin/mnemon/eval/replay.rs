//! Conversations replayed: what of a prompt's memories stays where it was from turn to turn, and what that costs.

use std::collections::BTreeMap;

use mnemon::{BlockContent, Hit, Hits, Message, Namespace, Query, Renderer, Role, Xml};
use serde::Serialize;

use super::{
    answers::USUAL_K,
    set::Question,
    stored::Stored,
    table::{self, figure},
    variant::Variant,
};
use crate::{
    metrics::{Found, mean},
    output,
};

/// The last turns of a session that are asked.
const TURNS: usize = 30;
/// The messages that a turn asks with; the prompt shows them, so they are not to be found.
const SHOWN: usize = 3;

/// Means over the turns that come after another one of their session.
#[derive(Serialize)]
pub(super) struct Replay {
    sessions: usize,
    turns: usize,
    plain: Steadiness,
    /// With what the turn before found as [`Query::previous`].
    previous: Steadiness,
    /// The share of the plain hits that is found with `previous` too.
    overlap: f64,
    rephrased: Rephrased,
}

/// Of the hits of one turn against those of the turn before.
#[derive(Default, Serialize)]
struct Steadiness {
    /// The share of places with the same message.
    same_places: f64,
    /// The share of turns with all messages the same.
    same_turns: f64,
    prefix_hits: f64,
    prefix_bytes: f64,
    /// Of all hits.
    bytes: f64,
    score: f64,
}

/// Answerable questions, asked after the same without its last word.
#[derive(Serialize)]
struct Rephrased {
    questions: usize,
    recall_at_10: f64,
    recall_at_10_previous: f64,
}

impl Replay {
    pub(super) fn new(stored: &Stored, variant: &Variant) -> anyhow::Result<Self> {
        let mut sessions: BTreeMap<(&Namespace, &str), Vec<&Message>> = BTreeMap::new();
        for (namespace, message) in &stored.set.messages {
            sessions.entry((namespace, &message.session)).or_default().push(message);
        }
        let bar = output::progress(sessions.len() as u64, "sessions [{bar:30}] {pos} of {len}");
        let [mut plain, mut previous] = [(); 2].map(|()| Vec::new());
        let mut overlaps = Vec::new();
        for ((namespace, _), messages) in &sessions {
            let mut before: Option<[Hits; 2]> = None;
            for query in turns(stored, namespace, messages) {
                let query = variant.of(query);
                let kept = query.clone().previous(before.iter().flat_map(|[_, hits]| ids(hits)));
                let now = [stored.recall(namespace, query)?, stored.recall(namespace, kept)?];
                if let Some(before) = &before {
                    plain.push(Steadiness::of(&before[0], &now[0]));
                    previous.push(Steadiness::of(&before[1], &now[1]));
                    overlaps.extend(overlap(&now[0], &now[1]));
                }
                before = Some(now);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(Replay {
            sessions: sessions.len(),
            turns: plain.len(),
            plain: Steadiness::mean(&plain),
            previous: Steadiness::mean(&previous),
            overlap: mean(&overlaps),
            rephrased: rephrased(stored, variant)?,
        })
    }

    pub(super) fn print(&self, variant: &str) -> anyhow::Result<()> {
        let Replay { sessions, turns, plain, previous, overlap, rephrased } = self;
        output::line(&format!("\nreplayed ({variant}): {turns} turns after another, {sessions} sessions"))?;
        let row = |head: &str, of: &dyn Fn(&Steadiness) -> String| vec![head.to_owned(), of(plain), of(previous)];
        table::print(&[
            ["", "plain", "with previous"].map(str::to_owned).to_vec(),
            row("same message at a place", &|one| figure(one.same_places)),
            row("turns with all the same", &|one| figure(one.same_turns)),
            row("unchanged prefix, hits", &|one| format!("{:.2}", one.prefix_hits)),
            row("unchanged prefix, bytes", &|one| format!("{:.0}", one.prefix_bytes)),
            row("of bytes", &|one| format!("{:.0}", one.bytes)),
            row("mean score", &|one| figure(one.score)),
            vec!["of the plain hits".into(), figure(1.0), figure(*overlap)],
            vec![
                format!("R@10, {} questions after the same less a word", rephrased.questions),
                figure(rephrased.recall_at_10),
                figure(rephrased.recall_at_10_previous),
            ],
        ])
    }
}

/// A question a user's turn: the last messages, asked at its time.
fn turns<'a>(
    stored: &'a Stored,
    namespace: &'a Namespace,
    messages: &'a [&Message],
) -> impl Iterator<Item = Query> + use<'a> {
    let users: Vec<usize> = (0..messages.len()).filter(|&at| messages[at].role == Role::User).collect();
    let last = users.len().saturating_sub(TURNS);
    users.into_iter().skip(last).filter_map(move |at| {
        let shown = &messages[(at + 1).saturating_sub(SHOWN)..=at];
        let text = shown.iter().map(|message| message.text()).collect::<Vec<_>>().join(" ");
        let query = stored.set.query(namespace, &text).k(USUAL_K).except(shown.iter().map(|message| &*message.id));
        let query = messages[at].created_at.map_or(query.clone(), |time| query.now(time));
        (!text.trim().is_empty()).then_some(query)
    })
}

impl Steadiness {
    fn of(before: &[Hit], now: &[Hit]) -> Self {
        let same: Vec<bool> = before.iter().zip(now).map(|(before, now)| before.message.id == now.message.id).collect();
        let places = before.len().max(now.len());
        let count = same.iter().filter(|&&same| same).count();
        let (told_before, told) = (told(before), told(now));
        let prefix_bytes = told_before.bytes().zip(told.bytes()).take_while(|(before, now)| before == now).count();
        Steadiness {
            same_places: count as f64 / places.max(1) as f64,
            same_turns: f64::from(u8::from(count == places)),
            prefix_hits: same.iter().take_while(|&&same| same).count() as f64,
            prefix_bytes: prefix_bytes as f64,
            bytes: told.len() as f64,
            score: mean(&now.iter().map(|hit| f64::from(hit.score)).collect::<Vec<_>>()),
        }
    }

    fn mean(of: &[Self]) -> Self {
        let mean = |value: fn(&Self) -> f64| mean(&of.iter().map(value).collect::<Vec<_>>());
        Steadiness {
            same_places: mean(|one| one.same_places),
            same_turns: mean(|one| one.same_turns),
            prefix_hits: mean(|one| one.prefix_hits),
            prefix_bytes: mean(|one| one.prefix_bytes),
            bytes: mean(|one| one.bytes),
            score: mean(|one| one.score),
        }
    }
}

/// The hits as a prompt tells them, without the frame, whose head is a checksum of them all.
fn told(hits: &[Hit]) -> String {
    let messages = hits.iter().map(|hit| hit.message.clone()).collect();
    let text = Xml.render(&[("recalled", &BlockContent::Quoted(messages))]);
    let inner = text.split_once("<recalled>\n").and_then(|(_, text)| text.rsplit_once("</recalled>\n"));
    inner.map_or_else(String::new, |(inner, _)| inner.to_owned())
}

fn ids(hits: &[Hit]) -> impl Iterator<Item = &str> {
    hits.iter().map(|hit| hit.message.id.as_str())
}

/// `None` if nothing was found.
fn overlap(plain: &[Hit], kept: &[Hit]) -> Option<f64> {
    let common = ids(plain).filter(|id| ids(kept).any(|other| other == *id)).count();
    (!plain.is_empty()).then(|| common as f64 / plain.len() as f64)
}

fn rephrased(stored: &Stored, variant: &Variant) -> anyhow::Result<Rephrased> {
    let (mut plain, mut previous) = (Vec::new(), Vec::new());
    for Question { namespace, text, relevant, .. } in stored.set.questions.iter().filter(|one| one.is_answerable()) {
        let Some((shorter, _)) = text.trim().rsplit_once(char::is_whitespace) else { continue };
        let query = |text: &str| variant.of(stored.set.query(namespace, text).k(USUAL_K));
        let before = stored.recall(namespace, query(shorter))?;
        let found = |query: Query| -> anyhow::Result<f64> {
            Ok(Found::new(ids(&stored.recall(namespace, query)?), relevant).recall_at(10))
        };
        plain.push(found(query(text))?);
        previous.push(found(query(text).previous(ids(&before)))?);
    }
    Ok(Rephrased { questions: plain.len(), recall_at_10: mean(&plain), recall_at_10_previous: mean(&previous) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(ids: &str) -> Vec<Hit> {
        let hit = |(at, id): (usize, char)| {
            let message = Message { created_at: None, ..Message::user(id).with_id(id) };
            Hit::new(message, 4.0 - at as f32, at + 1)
        };
        ids.chars().enumerate().map(hit).collect()
    }

    #[test]
    fn steadiness_by_hand() {
        let one = Steadiness::of(&hits("abcd"), &hits("abxd"));
        assert_eq!((one.same_places, one.same_turns, one.prefix_hits, one.score), (0.75, 0.0, 2.0, 2.5));
        // Elements and no frame.
        let (lines, element) = (told(&hits("abcd")), told(&hits("a")));
        assert!(lines.starts_with("<message role='user'") && lines.len() == 4 * element.len(), "{lines}");
        let one = Steadiness::of(&hits("abcd"), &hits("ab"));
        assert_eq!((one.same_places, one.same_turns, one.prefix_hits), (0.5, 0.0, 2.0));
        let one = Steadiness::of(&hits(""), &hits(""));
        assert_eq!((one.same_places, one.same_turns, one.bytes), (0.0, 1.0, 0.0));
    }

    #[test]
    fn bytes_are_those_of_the_hits_before_the_first_change() {
        let all = hits("abcd");
        let [before, now] = [[0, 1, 2], [0, 1, 3]].map(|places| places.map(|place| all[place].clone()));
        let one = Steadiness::of(&before, &now);
        let two = told(&all[..2]).len() as f64;
        assert!(one.prefix_bytes >= two && one.prefix_bytes < one.bytes, "{} of {}", one.prefix_bytes, one.bytes);
        let same = Steadiness::of(&before, &before);
        assert_eq!((same.prefix_bytes, same.same_turns), (same.bytes, 1.0));
    }

    #[test]
    fn overlaps() {
        assert_eq!(overlap(&hits("abcd"), &hits("dxay")), Some(0.5));
        assert_eq!(overlap(&hits(""), &hits("a")), None);
    }
}
