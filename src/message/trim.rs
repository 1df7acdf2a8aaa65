//! Trimming of a list of messages to a token budget, with the semantics of LangChain's `trim_messages`.

use std::{collections::HashSet, ops::Range, sync::Arc};

use super::{
    chat_message::{ContentPart, Message, Role},
    lists::match_tool_results,
    token_count::MessageTokenCounter,
};
use crate::error::{Error, Result, impl_debug, setters};

/// Selects the end of the list that [`trim_messages`] keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrimStrategy {
    /// Keeps the oldest messages.
    First,
    /// Keeps the newest messages.
    #[default]
    Last,
}

/// A function that splits a text into pieces, which must give the text again when they are joined.
pub type TextSplitter = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// The options of [`trim_messages`]. Start from [`TrimOptions::last`] or [`TrimOptions::first`] and set what differs.
///
/// ```
/// use mnemon::{Role, TrimOptions};
/// let trim = TrimOptions::last(4_000).include_system(true).start_on([Role::User]);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct TrimOptions {
    /// The end of the list that is kept.
    pub strategy: TrimStrategy,
    /// The maximum number of tokens of all kept messages together.
    pub max_tokens: usize,
    /// Drops leading messages before the first one with one of these roles. Empty: drops none. Only with
    /// [`TrimStrategy::Last`].
    pub start_on: Vec<Role>,
    /// Drops trailing messages after the last one with one of these roles. Empty: drops none.
    pub end_on: Vec<Role>,
    /// Whether a leading system message is kept, however long it is. Its tokens are deducted from the budget. Only with
    /// [`TrimStrategy::Last`].
    pub include_system: bool,
    /// Whether the message at the cut may be kept in part: as many whole parts as fit, otherwise pieces of its first
    /// text.
    pub allow_partial: bool,
    /// Splits a text for `allow_partial`. Default: into lines.
    pub splitter: TextSplitter,
    /// Whether a tool call and its results are kept or dropped as one, and results without a call are dropped.
    /// Default: true. LangChain does not do this, but models refuse a history with unmatched calls.
    pub keep_tool_calls_whole: bool,
}

impl_debug!(TrimOptions {
    strategy,
    max_tokens,
    start_on,
    end_on,
    include_system,
    allow_partial,
    keep_tool_calls_whole
});

impl TrimOptions {
    /// Creates options that keep the newest messages that fit.
    pub fn last(max_tokens: usize) -> Self {
        TrimOptions {
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

    /// Creates options that keep the oldest messages that fit.
    pub fn first(max_tokens: usize) -> Self {
        TrimOptions { strategy: TrimStrategy::First, ..TrimOptions::last(max_tokens) }
    }

    /// Sets [`start_on`](field@TrimOptions::start_on).
    pub fn start_on(mut self, roles: impl Into<Vec<Role>>) -> Self {
        self.start_on = roles.into();
        self
    }

    /// Sets [`end_on`](field@TrimOptions::end_on).
    pub fn end_on(mut self, roles: impl Into<Vec<Role>>) -> Self {
        self.end_on = roles.into();
        self
    }

    /// Sets [`splitter`](field@TrimOptions::splitter).
    pub fn splitter(mut self, split: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.splitter = Arc::new(split);
        self
    }
}

setters!(TrimOptions { include_system: bool, allow_partial: bool, keep_tool_calls_whole: bool });

/// Returns the messages that fit into the token budget, in order. A message that is shortened keeps its id.
///
/// [`TrimStrategy::First`] takes the longest prefix that fits and drops trailing messages according to `end_on`.
/// [`TrimStrategy::Last`] drops trailing messages according to `end_on`, sets a leading system message aside if
/// `include_system` is set, takes the longest suffix that fits, and drops leading messages according to `start_on`. The
/// roles are respected even if all messages fit.
///
/// Cost: each message is counted once.
///
/// # Errors
/// [`Error::InvalidConfig`] for `start_on` or `include_system` with [`TrimStrategy::First`].
pub fn trim_messages(
    messages: &[Message],
    trim: &TrimOptions,
    tokens: &dyn MessageTokenCounter,
) -> Result<Vec<Message>> {
    match trim.strategy {
        TrimStrategy::First if !trim.start_on.is_empty() || trim.include_system => {
            Err(Error::InvalidConfig { reason: "start_on and include_system need TrimStrategy::Last".into() })
        }
        TrimStrategy::First => {
            let kept = longest_prefix(messages.to_vec(), trim.max_tokens, trim, tokens);
            Ok(drop_split_calls(kept, 0, messages, trim))
        }
        TrimStrategy::Last => {
            let mut rest = messages.to_vec();
            drop_back_to(&mut rest, &trim.end_on);
            let end = rest.len();
            let system = (trim.include_system && rest.first().is_some_and(|first| first.role == Role::System))
                .then(|| rest.remove(0));
            let budget = trim.max_tokens.saturating_sub(system.as_ref().map_or(0, |system| tokens.count(system)));
            // A suffix is a prefix of the reversed list.
            rest.reverse();
            let mut kept = longest_prefix(rest, budget, trim, tokens);
            // `kept` is a suffix of the first `end` messages, because `start_on` drops messages only at its front.
            kept.reverse();
            let begin = end - kept.len();
            Ok(system.into_iter().chain(drop_split_calls(kept, begin, messages, trim)).collect())
        }
    }
}

/// Returns the longest prefix of `messages` that fits, without trailing messages whose role is not allowed at the cut.
fn longest_prefix(
    messages: Vec<Message>,
    budget: usize,
    trim: &TrimOptions,
    tokens: &dyn MessageTokenCounter,
) -> Vec<Message> {
    let mut left = budget;
    let mut kept = Vec::new();
    for message in &messages {
        let cost = tokens.count(message);
        if cost > left {
            if trim.allow_partial {
                kept.extend(shorten(message, left, trim, tokens));
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

/// Returns as much of a message as fits, from the end that the strategy keeps: as many whole parts as possible,
/// otherwise pieces of the outermost part's text. Tool calls are never dropped or cut, and count towards the budget.
fn shorten(message: &Message, budget: usize, trim: &TrimOptions, tokens: &dyn MessageTokenCounter) -> Option<Message> {
    let from_end = trim.strategy == TrimStrategy::Last;
    let (calls, mut parts): (Vec<ContentPart>, Vec<ContentPart>) =
        message.content.iter().cloned().partition(|part| matches!(part, ContentPart::ToolCall { .. }));
    if from_end {
        parts.reverse();
    }
    let with = |parts: &[ContentPart]| {
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
        ContentPart::Text { text } => text,
        ContentPart::ToolResult { content, .. } => content,
        _ => return None,
    };
    let pieces = (trim.splitter)(text);
    let with_pieces = |count: usize| {
        let range: Range<usize> = if from_end { pieces.len() - count..pieces.len() } else { 0..count };
        let text = pieces[range].concat();
        with(&[match &parts[0] {
            ContentPart::ToolResult { id, .. } => ContentPart::ToolResult { id: id.clone(), content: text },
            _ => ContentPart::Text { text },
        }])
    };
    // The cost grows with the number of pieces, so bisection finds the most that fit.
    let counts: Vec<usize> = (1..=pieces.len()).collect();
    let most = counts.partition_point(|&count| fits(&with_pieces(count)));
    (most > 0).then(|| with_pieces(most))
}

/// Drops the messages after the last one with one of `roles`; all messages if there is none.
fn drop_back_to(messages: &mut Vec<Message>, roles: &[Role]) {
    if !roles.is_empty() {
        let end = messages.iter().rposition(|message| roles.contains(&message.role)).map_or(0, |last| last + 1);
        messages.truncate(end);
    }
}

/// Drops tool calls and results whose counterpart was cut off, and messages at either end whose role is not allowed
/// there. Either step can make the other necessary, so both repeat until neither drops a message. `kept` are the messages
/// of `all` from index `begin`.
fn drop_split_calls(kept: Vec<Message>, begin: usize, all: &[Message], trim: &TrimOptions) -> Vec<Message> {
    if !trim.keep_tool_calls_whole {
        return kept;
    }
    let matched = match_tool_results(all);
    let mut kept: Vec<(usize, Message)> = (begin..).zip(kept).collect();
    loop {
        let before = kept.len();
        let present: HashSet<usize> = kept.iter().map(|(index, _)| *index).collect();
        let split: HashSet<usize> = matched
            .iter()
            .filter(|pair| pair.call.is_none_or(|call| present.contains(&call) != present.contains(&pair.result)))
            .flat_map(|pair| pair.call.into_iter().chain([pair.result]))
            .collect();
        kept.retain(|(index, _)| !split.contains(index));
        let not_allowed = |roles: &[Role], outermost: Option<&(usize, Message)>| {
            outermost.is_some_and(|(_, message)| !roles.is_empty() && !roles.contains(&message.role))
        };
        while not_allowed(&trim.end_on, kept.last()) {
            kept.pop();
        }
        while not_allowed(&trim.start_on, kept.first()) {
            kept.remove(0);
        }
        if kept.len() == before {
            return kept.into_iter().map(|(_, message)| message).collect();
        }
    }
}
