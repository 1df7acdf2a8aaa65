//! Cutting a list of messages to a token budget, as LangChain's `trim_messages` does.

use std::{collections::HashSet, ops::Range, sync::Arc};

use super::{Message, MessageCounter, Part, Role, answers};
use crate::error::{Error, Result, impl_debug};

/// Which end is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrimStrategy {
    /// The oldest messages.
    First,
    /// The newest.
    #[default]
    Last,
}

/// Splits a text into pieces that give it back when joined.
pub type Splitter = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// How [`trim_messages`] cuts. `Trim::last(n)` or `Trim::first(n)`, then what differs.
#[derive(Clone)]
#[non_exhaustive]
pub struct Trim {
    /// Which end is kept.
    pub strategy: TrimStrategy,
    /// The budget.
    pub max_tokens: usize,
    /// With [`TrimStrategy::Last`]: leading messages are dropped up to the first of these roles; empty: none are.
    pub start_on: Vec<Role>,
    /// Trailing messages are dropped down to the last of these roles; empty: none are.
    pub end_on: Vec<Role>,
    /// With [`TrimStrategy::Last`]: a leading system message is kept, whatever it costs, and its cost taken off the budget.
    pub include_system: bool,
    /// The message at the cut may be kept in part: whole parts first, then pieces of its first text.
    pub allow_partial: bool,
    /// For `allow_partial`. Default: lines.
    pub splitter: Splitter,
    /// A tool call and its results are kept or dropped together, and results without their call are dropped. Default:
    /// true, which is not LangChain's behaviour: models refuse a history that breaks it.
    pub keep_tool_calls_whole: bool,
}

impl_debug!(Trim { strategy, max_tokens, start_on, end_on, include_system, allow_partial, keep_tool_calls_whole });

impl Trim {
    /// Keeps the newest messages that fit.
    pub fn last(max_tokens: usize) -> Self {
        Trim {
            strategy: TrimStrategy::Last,
            max_tokens,
            start_on: Vec::new(),
            end_on: Vec::new(),
            include_system: false,
            allow_partial: false,
            splitter: Arc::new(|text| text.split_inclusive('\n').map(str::to_owned).collect()),
            keep_tool_calls_whole: true,
        }
    }

    /// Keeps the oldest messages that fit.
    pub fn first(max_tokens: usize) -> Self {
        Trim { strategy: TrimStrategy::First, ..Trim::last(max_tokens) }
    }
}

/// The messages that fit, in order. The input is not changed; ids are kept, also of a message cut short.
///
/// *First*: the longest prefix that fits, then back to `end_on`. *Last*: trailing messages that are not of `end_on` are
/// dropped, a leading system message is set aside if `include_system`, the longest suffix that fits is taken, and leading
/// messages are dropped up to `start_on`. Both apply also when everything fits.
///
/// Cost: each message is counted once.
///
/// # Errors
/// [`Error::InvalidConfig`]: `start_on` or `include_system` with [`TrimStrategy::First`].
pub fn trim_messages(messages: &[Message], trim: &Trim, tokens: &dyn MessageCounter) -> Result<Vec<Message>> {
    match trim.strategy {
        TrimStrategy::First if !trim.start_on.is_empty() || trim.include_system => {
            Err(Error::InvalidConfig { reason: "start_on and include_system go with TrimStrategy::Last".into() })
        }
        TrimStrategy::First => {
            let kept = fit(messages.to_vec(), trim.max_tokens, trim, tokens);
            Ok(whole(kept, 0, messages, trim))
        }
        TrimStrategy::Last => {
            let mut rest = messages.to_vec();
            drop_back_to(&mut rest, &trim.end_on);
            let end = rest.len();
            let system = (trim.include_system && rest.first().is_some_and(|first| first.role == Role::System))
                .then(|| rest.remove(0));
            let budget = trim.max_tokens.saturating_sub(system.as_ref().map_or(0, |system| tokens.count(system)));
            // The newest first: a suffix is a prefix of the reversed list.
            rest.reverse();
            let mut kept = fit(rest, budget, trim, tokens);
            // A suffix of what end_on left; what start_on dropped from it is at its front.
            kept.reverse();
            let begin = end - kept.len();
            Ok(system.into_iter().chain(whole(kept, begin, messages, trim)).collect())
        }
    }
}

/// The longest prefix of `messages` that fits, then back to the role where the strategy wants it to stop.
fn fit(messages: Vec<Message>, budget: usize, trim: &Trim, tokens: &dyn MessageCounter) -> Vec<Message> {
    let mut left = budget;
    let mut kept = Vec::new();
    for message in &messages {
        let cost = tokens.count(message);
        if cost > left {
            if trim.allow_partial {
                kept.extend(part_of(message, left, trim, tokens));
            }
            break;
        }
        left -= cost;
        kept.push(message.clone());
    }
    drop_back_to(
        &mut kept,
        match trim.strategy {
            TrimStrategy::First => &trim.end_on,
            TrimStrategy::Last => &trim.start_on,
        },
    );
    kept
}

/// As much of a message as fits, from the end that the strategy keeps: as many whole parts as possible, or else pieces of
/// the outermost part's text. Tool calls are never cut: they stay, and count.
fn part_of(message: &Message, budget: usize, trim: &Trim, tokens: &dyn MessageCounter) -> Option<Message> {
    let from_end = trim.strategy == TrimStrategy::Last;
    let (calls, mut parts): (Vec<Part>, Vec<Part>) =
        message.content.iter().cloned().partition(|part| matches!(part, Part::ToolCall { .. }));
    if from_end {
        parts.reverse();
    }
    let with = |parts: &[Part]| {
        let mut content = parts.to_vec();
        if from_end {
            content.reverse();
        }
        content.extend(calls.iter().cloned());
        Message { content, ..message.clone() }
    };
    let fits = |message: &Message| tokens.count(message) <= budget;

    let fewer = (1..parts.len()).rev().map(|count| with(&parts[..count])).find(|message| fits(message));
    if fewer.is_some() {
        return fewer;
    }
    let text = match parts.first()? {
        Part::Text { text } => text,
        Part::ToolResult { content, .. } => content,
        _ => return None,
    };
    let pieces = (trim.splitter)(text);
    let with_pieces = |count: usize| {
        let range: Range<usize> = if from_end { pieces.len() - count..pieces.len() } else { 0..count };
        let text = pieces[range].concat();
        with(&[match &parts[0] {
            Part::ToolResult { id, .. } => Part::ToolResult { id: id.clone(), content: text },
            _ => Part::Text { text },
        }])
    };
    // The most pieces that fit: the cost grows with their number.
    let counts: Vec<usize> = (1..=pieces.len()).collect();
    let most = counts.partition_point(|&count| fits(&with_pieces(count)));
    (most > 0).then(|| with_pieces(most))
}

/// Drops trailing messages that are not of `roles`; all, if none is.
fn drop_back_to(messages: &mut Vec<Message>, roles: &[Role]) {
    if !roles.is_empty() {
        let end = messages.iter().rposition(|message| roles.contains(&message.role)).map_or(0, |last| last + 1);
        messages.truncate(end);
    }
}

/// Drops what a cut has broken: of `all`, the messages from number `begin` on are kept. What is left may then begin or end
/// with another role than asked: that is mended too, which may break the next call.
fn whole(kept: Vec<Message>, begin: usize, all: &[Message], trim: &Trim) -> Vec<Message> {
    if !trim.keep_tool_calls_whole {
        return kept;
    }
    let answers = answers(all);
    let mut kept: Vec<(usize, Message)> = (begin..).zip(kept).collect();
    loop {
        let before = kept.len();
        let here: HashSet<usize> = kept.iter().map(|(number, _)| *number).collect();
        let broken: HashSet<usize> = answers
            .iter()
            .filter(|answer| answer.call.is_none_or(|call| here.contains(&call) != here.contains(&answer.result)))
            .flat_map(|answer| answer.call.into_iter().chain([answer.result]))
            .collect();
        kept.retain(|(number, _)| !broken.contains(number));
        let wrong = |roles: &[Role], end: Option<&(usize, Message)>| {
            end.is_some_and(|(_, message)| !roles.is_empty() && !roles.contains(&message.role))
        };
        while wrong(&trim.end_on, kept.last()) {
            kept.pop();
        }
        while wrong(&trim.start_on, kept.first()) {
            kept.remove(0);
        }
        if kept.len() == before {
            return kept.into_iter().map(|(_, message)| message).collect();
        }
    }
}
