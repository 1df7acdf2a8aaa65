//! Formats hits, and the evidence for them, as text.

use mnemon::{Hit, ScoreBreakdown};

/// Formats a hit as one line: rank, score, date, namespace if several were searched, session, speaker, and the text
/// without its line breaks.
pub(super) fn line(hit: &Hit) -> String {
    let message = &hit.message;
    let date = message.created_at.map_or_else(|| "no date".into(), |time| time.to_string()[..10].to_owned());
    let speaker = message.name.as_deref().unwrap_or(message.role.as_str());
    let namespace = hit.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace}  "));
    let Hit { rank, score, .. } = hit;
    format!("{rank:>3}  {score:.3}  {date}  {namespace}{}  {speaker}: {}", message.session, one_line(&message.text()))
}

/// Formats the evidence for a hit, as lines: its rank in both indexes, the terms of its score, and the passage that
/// matched if it is not the whole text.
pub(super) fn evidence(hit: &Hit) -> Vec<String> {
    let mut lines = scores(&hit.message.id, hit.similarity, &hit.breakdown);
    lines[0] += &format!("; relevance {:.2}", hit.relevance);
    let text = hit.message.text();
    if hit.passage != (0..text.len()) {
        lines.extend(text.get(hit.passage.clone()).map(|passage| {
            format!("passage, bytes {} to {}: {}", hit.passage.start, hit.passage.end, one_line(passage))
        }));
    }
    lines.extend(hit.supersedes.iter().map(|id| format!("supersedes {id}")));
    if hit.breakdown.repeats_question {
        lines.push("repeats the question".to_owned());
    }
    lines.extend(hit.breakdown.duplicate_of.as_ref().map(|id| format!("duplicate of {id}")));
    lines
}

/// Formats the rank of a hit in both indexes and the terms of its score, as lines.
pub(crate) fn scores(id: &str, similarity: f32, breakdown: &ScoreBreakdown) -> Vec<String> {
    let mut ranks = format!("{id}: cosine {similarity:.3} (rank {})", breakdown.dense_rank);
    if breakdown.lexical_rank > 0 {
        let ScoreBreakdown { bm25, coverage, lexical_rank, .. } = breakdown;
        ranks += &format!("; BM25 {bm25:.2} (rank {lexical_rank}), coverage {coverage:.2}");
    }
    let mut lines = vec![ranks];
    let source = breakdown.boosted_by.as_ref().map_or(String::new(), |id| format!(" of {id}"));
    let terms = [
        ("dense", breakdown.dense, ""),
        ("lexical", breakdown.lexical, ""),
        ("neighbor", breakdown.neighbor, &*source),
        ("whole", breakdown.whole, ""),
        ("speaker", breakdown.speaker, ""),
        ("question", breakdown.question, ""),
        ("length", breakdown.length, ""),
        ("time", breakdown.time, ""),
        ("recency", breakdown.recency, ""),
    ];
    let terms = terms.into_iter().filter(|(_, value, _)| *value != 0.0);
    let terms: Vec<String> = terms.map(|(name, value, source)| format!("{name} {value:+.2}{source}")).collect();
    if !terms.is_empty() {
        lines.push(terms.join(", "));
    }
    lines.extend(
        breakdown
            .piece
            .as_ref()
            .map(|piece| format!("by the piece of the query in bytes {} to {}", piece.start, piece.end)),
    );
    lines.extend(breakdown.reranked.map(|score| format!("reranked {score:.3}")));
    lines
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use mnemon::Message;

    use super::*;

    #[test]
    fn a_hit_and_its_evidence_are_formatted() {
        let mut hit = Hit::new(Message::user("The boat.\nIt leaks.").with_id("m1").in_session("s"), 4.5, 2);
        assert!(line(&hit).starts_with("  2  4.500  2") && line(&hit).ends_with("  s  user: The boat. It leaks."));
        hit.namespace = Some("acme/user-42".parse().unwrap());
        assert!(line(&hit).ends_with("  acme/user-42  s  user: The boat. It leaks."), "{}", line(&hit));
        hit.similarity = 0.4321;
        hit.breakdown.dense_rank = 3;
        assert_eq!(evidence(&hit), ["m1: cosine 0.432 (rank 3); relevance 1.00"]);
        (hit.breakdown.bm25, hit.breakdown.coverage, hit.breakdown.lexical_rank) = (7.0, 0.5, 1);
        (hit.breakdown.dense, hit.breakdown.lexical, hit.breakdown.neighbor, hit.breakdown.length) =
            (2.0, 1.25, 0.5, -0.25);
        hit.breakdown.boosted_by = Some("m0".into());
        hit.breakdown.reranked = Some(-1.5);
        hit.breakdown.duplicate_of = Some("m9".into());
        hit.passage = 10..19;
        assert_eq!(
            evidence(&hit),
            [
                "m1: cosine 0.432 (rank 3); BM25 7.00 (rank 1), coverage 0.50; relevance 1.00",
                "dense +2.00, lexical +1.25, neighbor +0.50 of m0, length -0.25",
                "reranked -1.500",
                "passage, bytes 10 to 19: It leaks.",
                "duplicate of m9",
            ]
        );
    }
}
