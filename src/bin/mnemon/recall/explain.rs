//! Hits as text, and the evidence for them.

use mnemon::{Hit, Parts};

/// One line: rank, score, date, session, who, and the text without its line breaks.
pub(super) fn line(hit: &Hit) -> String {
    let message = &hit.message;
    let date = message.created_at.map_or_else(|| "no date".into(), |time| time.to_string()[..10].to_owned());
    let who = message.name.as_deref().unwrap_or(message.role.as_str());
    format!("{:>3}  {:.3}  {date}  {}  {who}: {}", hit.rank, hit.score, message.session, one_line(&message.text()))
}

/// What there is of it, a line each: what both indexes say, what the score adds up, the passage if it is not the whole text.
pub(super) fn evidence(hit: &Hit) -> Vec<String> {
    let parts = &hit.parts;
    let mut found = format!("{}: cosine {:.3} (rank {})", hit.message.id, hit.similarity, parts.dense_rank);
    if parts.lexical_rank > 0 {
        let Parts { bm25, coverage, lexical_rank, .. } = parts;
        found += &format!("; BM25 {bm25:.2} (rank {lexical_rank}), coverage {coverage:.2}");
    }
    let mut lines = vec![found];
    let lender = parts.lender.as_ref().map_or(String::new(), |lender| format!(" of {lender}"));
    let added = [
        ("dense", parts.dense, ""),
        ("lexical", parts.lexical, ""),
        ("neighbor", parts.neighbor, &*lender),
        ("length", parts.length, ""),
        ("time", parts.time, ""),
        ("recency", parts.recency, ""),
    ];
    let added = added.into_iter().filter(|(_, value, _)| *value != 0.0);
    let added: Vec<String> = added.map(|(name, value, of)| format!("{name} {value:+.2}{of}")).collect();
    if !added.is_empty() {
        lines.push(added.join(", "));
    }
    lines.extend(parts.reranked.map(|score| format!("reranked {score:.3}")));
    let text = hit.message.text();
    if hit.passage != (0..text.len()) {
        lines.extend(text.get(hit.passage.clone()).map(|passage| {
            format!("passage, bytes {} to {}: {}", hit.passage.start, hit.passage.end, one_line(passage))
        }));
    }
    lines.extend(parts.duplicate_of.as_ref().map(|id| format!("says the same as {id}")));
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
    fn what_there_is_is_told() {
        let mut hit = Hit::new(Message::user("The boat.\nIt leaks.").with_id("m1").in_session("s"), 4.5, 2);
        assert!(line(&hit).starts_with("  2  4.500  2") && line(&hit).ends_with("  s  user: The boat. It leaks."));
        hit.similarity = 0.4321;
        hit.parts.dense_rank = 3;
        assert_eq!(evidence(&hit), ["m1: cosine 0.432 (rank 3)"]);
        (hit.parts.bm25, hit.parts.coverage, hit.parts.lexical_rank) = (7.0, 0.5, 1);
        (hit.parts.dense, hit.parts.lexical, hit.parts.neighbor, hit.parts.length) = (2.0, 1.25, 0.5, -0.25);
        hit.parts.lender = Some("m0".into());
        hit.parts.reranked = Some(-1.5);
        hit.parts.duplicate_of = Some("m9".into());
        hit.passage = 10..19;
        assert_eq!(
            evidence(&hit),
            [
                "m1: cosine 0.432 (rank 3); BM25 7.00 (rank 1), coverage 0.50",
                "dense +2.00, lexical +1.25, neighbor +0.50 of m0, length -0.25",
                "reranked -1.500",
                "passage, bytes 10 to 19: It leaks.",
                "says the same as m9",
            ]
        );
    }
}
