//! How a question is asked: what the command line says of a [`Query`].

use std::time::Duration;

use anyhow::{Context, ensure};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use mnemon::{Query, Role, Strategy, TimeUse, Timestamp};

use crate::input;

#[derive(clap::Args)]
pub(super) struct Options {
    /// How many messages.
    #[arg(short, default_value_t = 10)]
    k: usize,
    /// Only messages of this session.
    #[arg(long)]
    session: Option<String>,
    /// Only messages of this role: system, user, assistant or tool.
    #[arg(long)]
    role: Option<Role>,
    /// Only messages of this time (RFC 3339) or day (2024-05-01) or later.
    #[arg(long, value_name = "TIME", value_parser = input::time)]
    since: Option<Timestamp>,
    /// Only messages before this time or day.
    #[arg(long, value_name = "TIME", value_parser = input::time)]
    until: Option<Timestamp>,
    /// None of these messages.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    except: Vec<String>,
    /// How messages are ranked: hybrid, dense, lexical, rrf, or weighted:0.5 for that share of dense.
    #[arg(long, default_value_t)]
    strategy: Strategy,
    /// Messages get nothing for the turns next to them.
    #[arg(long)]
    no_neighbors: bool,
    /// Messages get nothing for their length.
    #[arg(long)]
    no_length_prior: bool,
    /// Times that the question says, such as "last week": ignore them, boost messages of them, or filter by them.
    #[arg(long, default_value = "boost")]
    time: TimeUse,
    /// The time or day that ages and words such as "last week" are counted from. Default: now.
    #[arg(long, value_name = "TIME", value_parser = input::time)]
    now: Option<Timestamp>,
    /// Newer messages rank higher: by half as much for each 30d, 12h or other such span of age.
    #[arg(long, value_name = "SPAN", value_parser = half_life)]
    half_life: Option<Duration>,
    /// At most this many messages of what was flushed together.
    #[arg(long, value_name = "N")]
    per_batch: Option<usize>,
    /// Messages unlike one another: 1 for relevance alone, towards 0 for diversity.
    #[arg(long, value_name = "LAMBDA")]
    diversity: Option<f32>,
    /// Leave near-duplicates where they rank.
    #[arg(long)]
    keep_duplicates: bool,
    /// Find nothing if the answerability is less than this, 0 to 1.
    #[arg(long, value_name = "LEAST")]
    pub(super) answerable: Option<f32>,
    /// What the last question found, in order: what is still good keeps its place.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    previous: Vec<String>,
    /// Messages that the reranker puts in order.
    #[arg(long, value_name = "N", default_value_t = 50, requires = "rerank")]
    rerank_depth: usize,
}

impl Options {
    pub(super) fn query(&self, text: &str, with_reranker: bool) -> Query {
        let mut query = Query::new(text)
            .k(self.k)
            .except(&self.except)
            .strategy(self.strategy)
            .neighbors(!self.no_neighbors)
            .length_prior(!self.no_length_prior)
            .time(self.time)
            .previous(&self.previous);
        if let Some(session) = &self.session {
            query = query.session(session);
        }
        if let Some(role) = self.role {
            query = query.role(role);
        }
        if let Some(since) = self.since {
            query = query.since(since);
        }
        if let Some(until) = self.until {
            query = query.until(until);
        }
        if let Some(now) = self.now {
            query = query.now(now);
        }
        if let Some(half_life) = self.half_life {
            query = query.half_life(half_life);
        }
        if let Some(hits) = self.per_batch {
            query = query.per_batch(hits);
        }
        if let Some(lambda) = self.diversity {
            query = query.diversity(lambda);
        }
        if self.keep_duplicates {
            query = query.keep_duplicates();
        }
        if let Some(least) = self.answerable {
            query = query.answerable(least);
        }
        if with_reranker {
            query = query.rerank(self.rerank_depth);
        }
        query
    }
}

/// A span of whole units up to weeks; days have 24 hours.
fn half_life(text: &str) -> anyhow::Result<Duration> {
    let span: Span = text.parse().with_context(|| format!("{text:?} is not a span such as 30d or 12h"))?;
    let length: SignedDuration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .context("months and years have no one length; say days")?;
    ensure!(length.is_positive(), "{text:?} is no time at all");
    Ok(length.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_lives() {
        let check =
            |text, hours: u64| assert_eq!(half_life(text).unwrap(), Duration::from_secs(3600 * hours), "{text}");
        check("30d", 720);
        check("2w", 336);
        check("1 day 12 hours", 36);
        check("PT12H", 12);
        for text in ["", "30", "soon", "0d", "-3d", "1mo"] {
            assert!(half_life(text).is_err(), "{text}");
        }
    }
}
