//! The command line options of a [`Query`].

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, ensure};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use mnemon::{
    MetadataFilter, Query, Role, Timestamp,
    message::{LocalTime, TimeZone},
    recall::{MAX_K, QueryOptions, RankingStrategy, TimeUse, Unit},
};

use crate::usage;

#[derive(clap::Args)]
pub(super) struct Options {
    /// Number of messages to find.
    #[arg(short, default_value_t = 10, value_parser = usage::within(1..=MAX_K))]
    k: usize,
    /// Only messages of this session.
    #[arg(long)]
    session: Option<String>,
    /// Only messages of this role: system, user, assistant or tool.
    #[arg(long)]
    role: Option<Role>,
    /// Only messages from this time (RFC 3339) or day (2024-05-01) on.
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Only messages before this time or day.
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Only what was known at this time or day: messages that had been put by then, and are of no later time. It is
    /// also the default of --now.
    #[arg(long, value_name = "TIME")]
    as_of: Option<Timestamp>,
    /// Only messages that this filter matches, in JSON, by their metadata and their fields $id, $session, $role,
    /// $source and $created_at: '{"user.age": {"$gte": 18}, "$role": "user"}'.
    #[arg(long = "where", value_name = "JSON")]
    filter: Option<MetadataFilter>,
    /// Only the messages with these ids.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    ids: Option<Vec<String>>,
    /// Leave out the messages with these ids.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    except: Vec<String>,
    /// Find also messages that a later one supersedes by its field "supersedes".
    #[arg(long)]
    include_superseded: bool,
    /// How messages are ranked: hybrid, dense, lexical, rrf (reciprocal-rank fusion), or weighted:0.5 with the share of
    /// the dense score.
    #[arg(long, default_value_t)]
    strategy: RankingStrategy,
    /// Do not boost messages whose neighbors match the query.
    #[arg(long)]
    no_neighbors: bool,
    /// Do not boost messages by a speaker whom the query names.
    #[arg(long)]
    no_speakers: bool,
    /// Do not rank messages lower that end with a question mark.
    #[arg(long)]
    no_questions: bool,
    /// Do not count words more, and vectors less, where the model does not know the words of the query.
    #[arg(long)]
    no_vocabulary: bool,
    /// Find messages, turns (a user's message and what follows it), or sessions, each with its best messages.
    #[arg(long, default_value_t)]
    unit: Unit,
    /// Do not adjust scores by the length of messages.
    #[arg(long)]
    no_length_prior: bool,
    /// Time expressions of the query, such as "last week": boost messages of that time, filter by it, or ignore them.
    #[arg(long, default_value = "boost")]
    time: TimeUse,
    /// The time or day from which ages and expressions such as "last week" are counted. Default: that of --as-of, or
    /// now.
    #[arg(long, value_name = "TIME")]
    now: Option<LocalTime>,
    /// The time zone of the days that the query names, such as Europe/Berlin or +02:00. Default: the offset of --now, or
    /// that of this machine.
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    time_zone: Option<TimeZone>,
    /// Boost newer messages; the boost halves with each such span of age, for example 30d or 12h.
    #[arg(long, value_name = "SPAN", value_parser = half_life)]
    half_life: Option<Duration>,
    /// Find at most N messages of each batch that a session flushed.
    #[arg(long, value_name = "N", value_parser = usage::within(1..=MAX_K))]
    per_batch: Option<usize>,
    /// Maximal marginal relevance: 1 ranks by relevance alone, lower values prefer messages unlike each other.
    #[arg(long, value_name = "LAMBDA", value_parser = usage::share::<f32>)]
    diversity: Option<f32>,
    /// Do not move near-duplicates to the end.
    #[arg(long)]
    keep_duplicates: bool,
    /// Return nothing if the answerability is below this value, 0 to 1.
    #[arg(long, value_name = "LEAST", value_parser = usage::share::<f32>)]
    pub(super) answerable: Option<f32>,
    /// Find only messages of at least this relevance, 0 to 1; hits of all recalls compare by it.
    #[arg(long, value_name = "LEAST", value_parser = usage::share::<f32>)]
    min_score: Option<f32>,
    /// Ids that the previous query found, in order: those that still match keep their ranks.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    previous: Vec<String>,
    /// Number of messages that the reranker orders.
    #[arg(long, value_name = "N", default_value_t = 50, requires = "rerank", value_parser = usage::within(1..=MAX_K))]
    rerank_depth: usize,
}

impl Options {
    pub(super) fn query(&self, text: &str, with_reranker: bool) -> Query {
        let mut options = QueryOptions::default();
        options.k = self.k;
        options.session = self.session.clone();
        options.role = self.role;
        options.since = self.since;
        options.until = self.until;
        options.as_of = self.as_of;
        options.filter = self.filter.clone();
        options.ids = self.ids.clone().map(BTreeSet::from_iter);
        options.except = self.except.iter().cloned().collect();
        options.include_superseded = self.include_superseded;
        options.strategy = self.strategy;
        options.neighbors = !self.no_neighbors;
        options.speakers = !self.no_speakers;
        options.questions = !self.no_questions;
        options.vocabulary = !self.no_vocabulary;
        options.length_prior = !self.no_length_prior;
        options.half_life = self.half_life;
        options.time = self.time;
        options.now = self.now;
        options.time_zone = self.time_zone.clone();
        options.keep_duplicates = self.keep_duplicates;
        options.diversity = self.diversity;
        options.per_batch = self.per_batch;
        options.answerable = self.answerable;
        options.min_score = self.min_score;
        options.rerank = with_reranker.then_some(self.rerank_depth);
        options.previous = self.previous.clone();
        options.unit = self.unit;
        Query::with_options(text, options)
    }
}

/// Parses a span such as `30d`. Units go up to weeks; days have 24 hours.
fn half_life(text: &str) -> anyhow::Result<Duration> {
    let span: Span = text.parse().with_context(|| format!("{text:?} is not a time span such as 30d or 12h"))?;
    let length: SignedDuration = span
        .to_duration(SpanRelativeTo::days_are_24_hours())
        .context("the length of months and years varies; give days instead")?;
    ensure!(length.is_positive(), "{text:?} is not a positive time span");
    Ok(length.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_lives_are_parsed() {
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
