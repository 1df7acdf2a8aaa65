//! Replays conversations: measures how many of the memories in a prompt keep their rank from turn to turn, and what it
//! costs to keep them.

use std::collections::BTreeMap;

use mnemon::{BlockContent, Hit, Hits, Message, Namespace, PromptSection, Query, Renderer, Role, SealKey, XmlRenderer};
use serde::Serialize;

use super::{
    answers::{IngestedSet, USUAL_K},
    figures::{self, figure},
    set::Question,
    variant::Variant,
};
use crate::{
    metrics::{RelevantRanks, mean},
    output::{self, counted},
    progress::Progress,
};

/// Number of a session's last user turns that are replayed.
const TURNS: usize = 30;
/// Number of messages whose texts are a turn's query. A prompt shows them, so they are excluded from the hits.
const SHOWN: usize = 3;

/// Means over all replayed turns but the first of each session.
#[derive(Serialize)]
pub(super) struct Replay {
    sessions: usize,
    turns: usize,
    /// Without the previous hits.
    plain: Stability,
    /// With the hits of the turn before as [`Query::previous`].
    previous: Stability,
    /// Share of the plain hits that are also found with `previous`.
    overlap: f64,
    rephrased: Rephrased,
}

/// How far the hits of a turn equal those of the turn before.
#[derive(Default, Serialize)]
struct Stability {
    /// Share of ranks with the same message.
    same_places: f64,
    /// Share of turns with the same messages at all ranks.
    same_turns: f64,
    /// Hits before the first change.
    prefix_hits: f64,
    /// Rendered bytes before the first change.
    prefix_bytes: f64,
    /// Rendered bytes of all hits.
    bytes: f64,
    /// Mean score of the hits.
    score: f64,
}

/// Recall of answerable questions, each run after the same question without its last word.
#[derive(Serialize)]
struct Rephrased {
    questions: usize,
    recall_at_10: f64,
    recall_at_10_previous: f64,
}

impl Replay {
    pub(super) fn new(ingested: &IngestedSet, variant: &Variant) -> anyhow::Result<Self> {
        let mut sessions: BTreeMap<(&Namespace, &str), Vec<&Message>> = BTreeMap::new();
        for (namespace, message) in &ingested.set.messages {
            sessions.entry((namespace, &message.session)).or_default().push(message);
        }
        let progress = Progress::new();
        progress.begin("replay", "sessions", sessions.len() as u64);
        let [mut plain, mut previous] = [(); 2].map(|()| Vec::new());
        let mut overlaps = Vec::new();
        for ((namespace, _), messages) in &sessions {
            let mut before: Option<[Hits; 2]> = None;
            for query in turns(ingested, namespace, messages) {
                let query = variant.apply(query);
                let with_previous = query.clone().previous(before.iter().flat_map(|[_, hits]| ids(hits)));
                let now = [ingested.recall(namespace, query)?, ingested.recall(namespace, with_previous)?];
                if let Some(before) = &before {
                    plain.push(Stability::of(&before[0], &now[0]));
                    previous.push(Stability::of(&before[1], &now[1]));
                    overlaps.extend(overlap(&now[0], &now[1]));
                }
                before = Some(now);
            }
            progress.inc(1);
        }
        drop(progress);
        Ok(Replay {
            sessions: sessions.len(),
            turns: plain.len(),
            plain: Stability::mean(&plain),
            previous: Stability::mean(&previous),
            overlap: mean(&overlaps),
            rephrased: rephrased(ingested, variant)?,
        })
    }

    pub(super) fn print(&self, variant: &str) -> anyhow::Result<()> {
        let Replay { sessions, turns, plain, previous, overlap, rephrased } = self;
        output::text(&format!(
            "\nreplay ({variant}): {} after another of its session, in {}",
            counted(*turns, "turn"),
            counted(*sessions, "session")
        ))?;
        let row = |head: &str, of: &dyn Fn(&Stability) -> String| vec![head.to_owned(), of(plain), of(previous)];
        figures::print(&[
            ["", "plain", "with previous"].map(str::to_owned).to_vec(),
            row("same message at a rank", &|one| figure(one.same_places)),
            row("turns with all messages the same", &|one| figure(one.same_turns)),
            row("unchanged prefix, hits", &|one| format!("{:.2}", one.prefix_hits)),
            row("unchanged prefix, bytes", &|one| format!("{:.0}", one.prefix_bytes)),
            row("all hits, bytes", &|one| format!("{:.0}", one.bytes)),
            row("mean score", &|one| figure(one.score)),
            vec!["share of the plain hits".into(), figure(1.0), figure(*overlap)],
            vec![
                format!("R@10, {} after the same without its last word", counted(rephrased.questions, "question")),
                figure(rephrased.recall_at_10),
                figure(rephrased.recall_at_10_previous),
            ],
        ])
    }
}

/// Builds a query for each of the last user turns from its last messages, at the turn's time.
fn turns<'a>(
    ingested: &'a IngestedSet,
    namespace: &'a Namespace,
    messages: &'a [&Message],
) -> impl Iterator<Item = Query> + use<'a> {
    let users: Vec<usize> = (0..messages.len()).filter(|&at| messages[at].role == Role::User).collect();
    let last = users.len().saturating_sub(TURNS);
    users.into_iter().skip(last).filter_map(move |at| {
        let shown = &messages[(at + 1).saturating_sub(SHOWN)..=at];
        let text = shown.iter().map(|message| message.text()).collect::<Vec<_>>().join(" ");
        let query = ingested.set.query(namespace, &text).k(USUAL_K).except(shown.iter().map(|message| &*message.id));
        let query = messages[at].created_at.map_or(query.clone(), |time| query.now(time));
        (!text.trim().is_empty()).then_some(query)
    })
}

impl Stability {
    fn of(before: &[Hit], now: &[Hit]) -> Self {
        let same: Vec<bool> = before.iter().zip(now).map(|(before, now)| before.message.id == now.message.id).collect();
        let ranks = before.len().max(now.len());
        let count = same.iter().filter(|&&same| same).count();
        let (text_before, text) = (rendered(before), rendered(now));
        let prefix_bytes = text_before.bytes().zip(text.bytes()).take_while(|(before, now)| before == now).count();
        Stability {
            same_places: count as f64 / ranks.max(1) as f64,
            same_turns: f64::from(u8::from(count == ranks)),
            prefix_hits: same.iter().take_while(|&&same| same).count() as f64,
            prefix_bytes: prefix_bytes as f64,
            bytes: text.len() as f64,
            score: mean(&now.iter().map(|hit| f64::from(hit.score)).collect::<Vec<_>>()),
        }
    }

    fn mean(of: &[Self]) -> Self {
        let mean = |value: fn(&Self) -> f64| mean(&of.iter().map(value).collect::<Vec<_>>());
        Stability {
            same_places: mean(|one| one.same_places),
            same_turns: mean(|one| one.same_turns),
            prefix_hits: mean(|one| one.prefix_hits),
            prefix_bytes: mean(|one| one.prefix_bytes),
            bytes: mean(|one| one.bytes),
            score: mean(|one| one.score),
        }
    }
}

/// Renders hits as a prompt does, without the frame: its opening line depends on all hits.
fn rendered(hits: &[Hit]) -> String {
    let content = BlockContent::Quoted(hits.iter().map(|hit| hit.message.clone()).collect());
    let text = XmlRenderer.render(&[PromptSection::new("recalled", &content)], &SealKey::new([0; 32]));
    let inner = text.split_once("<recalled>\n").and_then(|(_, text)| text.rsplit_once("</recalled>\n"));
    inner.map_or_else(String::new, |(inner, _)| inner.to_owned())
}

fn ids(hits: &[Hit]) -> impl Iterator<Item = &str> {
    hits.iter().map(|hit| hit.message.id.as_str())
}

/// Returns the share of the plain hits that are also in `kept`; `None` if there are no plain hits.
fn overlap(plain: &[Hit], kept: &[Hit]) -> Option<f64> {
    let common = ids(plain).filter(|id| ids(kept).any(|other| other == *id)).count();
    (!plain.is_empty()).then(|| common as f64 / plain.len() as f64)
}

fn rephrased(ingested: &IngestedSet, variant: &Variant) -> anyhow::Result<Rephrased> {
    let (mut plain, mut previous) = (Vec::new(), Vec::new());
    for Question { namespace, text, relevant, .. } in ingested.set.questions.iter().filter(|one| one.is_answerable()) {
        let Some((shorter, _)) = text.trim().rsplit_once(char::is_whitespace) else { continue };
        let query = |text: &str| variant.apply(ingested.set.query(namespace, text).k(USUAL_K));
        let before = ingested.recall(namespace, query(shorter))?;
        let found = |query: Query| -> anyhow::Result<f64> {
            Ok(RelevantRanks::new(ids(&ingested.recall(namespace, query)?), relevant).recall_at(10))
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
    fn stability_matches_hand_computed_values() {
        let one = Stability::of(&hits("abcd"), &hits("abxd"));
        assert_eq!((one.same_places, one.same_turns, one.prefix_hits, one.score), (0.75, 0.0, 2.0, 2.5));
        // Message elements only, without the frame.
        let (lines, element) = (rendered(&hits("abcd")), rendered(&hits("a")));
        assert!(lines.starts_with("<message role='user'") && lines.len() == 4 * element.len(), "{lines}");
        let one = Stability::of(&hits("abcd"), &hits("ab"));
        assert_eq!((one.same_places, one.same_turns, one.prefix_hits), (0.5, 0.0, 2.0));
        let one = Stability::of(&hits(""), &hits(""));
        assert_eq!((one.same_places, one.same_turns, one.bytes), (0.0, 1.0, 0.0));
    }

    #[test]
    fn the_prefix_ends_at_the_first_changed_hit() {
        let all = hits("abcd");
        let [before, now] = [[0, 1, 2], [0, 1, 3]].map(|indices| indices.map(|index| all[index].clone()));
        let one = Stability::of(&before, &now);
        let two = rendered(&all[..2]).len() as f64;
        assert!(one.prefix_bytes >= two && one.prefix_bytes < one.bytes, "{} of {}", one.prefix_bytes, one.bytes);
        let same = Stability::of(&before, &before);
        assert_eq!((same.prefix_bytes, same.same_turns), (same.bytes, 1.0));
    }

    #[test]
    fn overlap_is_a_share_of_the_plain_hits() {
        assert_eq!(overlap(&hits("abcd"), &hits("dxay")), Some(0.5));
        assert_eq!(overlap(&hits(""), &hits("a")), None);
    }
}
