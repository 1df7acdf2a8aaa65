//! The tool that assembles what a model should know before it answers a message.

use mnemon::{
    AssembleRequest, ContentPart, DEFAULT_SESSION, Message, MessageTokenCounter, PerPartTokenCounter, Prompt, Role,
    memory::InsertMethod, message::TimeZone,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    answer::{Item, Kind, MAX_BYTES, Output, framed, framed_context, framed_message},
    documents,
    input::{DocumentLimit, MinScore, Recall, TokenLimit},
};
use crate::{access::Caller, app::App, entity::Entity, problem::Problem, v1};

/// A message to be answered, how much to know before it is, and whose memories these are.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AssembleContext {
    /// The message to be answered. It is not stored.
    prompt: String,
    /// Memories to recall. Default: 3.
    recall: Option<Recall>,
    /// The least relevance of the best memory, below which none is recalled. Default: an answerability of 0.3 decides.
    min_score: Option<MinScore>,
    /// Documents to find. Default: 3.
    documents: Option<DocumentLimit>,
    /// Tokens that the context may have together with the message. Documents take a quarter at most. Default: 30,000.
    token_limit: Option<TokenLimit>,
    /// The time zone of the days that the message names, such as `Europe/Berlin` or `+02:00`. Default: that of the server.
    #[schemars(with = "Option<String>")]
    time_zone: Option<TimeZone>,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn assemble_context(app: &App, caller: &Caller, input: AssembleContext) -> Result<Output, Problem> {
    let namespace = input.entity.namespace(caller)?;
    if input.entity.filter()?.is_some() {
        return Err(Problem::bad_request(
            "a context is of a whole user, agent or namespace, or of a run of it: leave out the ids beside those two; search_memories \
             finds the memories that all ids name",
        ));
    }
    let session = input.entity.run_id.clone().unwrap_or_else(|| DEFAULT_SESSION.to_owned());
    let limit = input.token_limit.map_or(30_000, |limit| limit.0);
    let documents = input.documents.map_or(3, |documents| documents.0);
    // The block of a collection has its facts.
    let documents = documents::found(app, &app.reader(), &namespace, &input.prompt, documents, false).await?;
    let documents = fitting(documents, limit / 4);
    let document_tokens = documents.as_ref().map_or(0, |documents| tokens(&documents.text));
    let question = Message::user(input.prompt);
    let (id, question_tokens) = (question.id.clone(), tokens(&question.text()));
    let mut request = AssembleRequest::new(question);
    if let Some(Recall(k)) = input.recall {
        request = request.recall(k);
    }
    if let Some(least) = input.min_score {
        request = request.min_score(least.0 as f32);
    }
    if let Some(zone) = input.time_zone {
        request = request.time_zone(zone);
    }
    let prompt = v1::prompt_for(
        app,
        &app.reader(),
        namespace,
        session,
        request,
        Some(limit - document_tokens),
        InsertMethod::System,
    )
    .await?;

    let (mut parts, recent) = recalled_and_recent(&prompt, &id);
    let keys = documents.as_ref().map(|documents| documents.data["documents"].clone());
    parts.extend(documents.map(|documents| documents.text));
    // The frames count, too. If they leave too little room, the oldest messages are left out.
    let mut left =
        limit.saturating_sub(question_tokens + tokens(&framed_context(&parts)) + tokens(&framed(Kind::Memory, &[])));
    let frames = recent.iter().rev().map(framed_message).take_while(|frame| {
        let has_room = tokens(frame) <= left;
        left = left.saturating_sub(tokens(frame));
        has_room
    });
    let mut frames: Vec<String> = frames.collect();
    frames.reverse();
    if !frames.is_empty() {
        parts.push(framed(Kind::Memory, &frames));
    }
    let text = framed_context(&parts);
    let all = tokens(&text) + question_tokens;
    let keys: Vec<_> =
        keys.iter().flat_map(|list| list.as_array().into_iter().flatten()).map(|one| &one["key"]).collect();
    let data = json!({ "context": text, "tokens": all, "recalled": prompt.recalled, "documents": keys });
    let output = Output { text, data: data.as_object().cloned().unwrap_or_default() };
    Ok(match all.saturating_sub(limit) {
        0 => output,
        over => output.with("tokens_over_limit", over),
    })
}

fn tokens(text: &str) -> usize {
    PerPartTokenCounter::default().count(&Message::user(text))
}

/// Returns as many of the first documents as take at most `most` tokens.
fn fitting(mut items: Vec<Item>, most: usize) -> Option<Output> {
    // Most tokens have three bytes or more, so this is a first estimate of the room.
    let bytes = most.saturating_mul(3).min(MAX_BYTES / 4);
    while !items.is_empty() {
        let output = Output::ranking(Kind::Document, &items, bytes);
        if tokens(&output.text) <= most && !output.is_empty() {
            return Some(output);
        }
        items.pop();
    }
    None
}

/// Returns the recalled messages, in the library's frame, and the recent messages without the question.
fn recalled_and_recent(prompt: &Prompt, question: &str) -> (Vec<String>, Vec<Message>) {
    let mut messages: Vec<Message> = prompt.messages.iter().filter(|message| message.id != question).cloned().collect();
    let mut recalled = Vec::new();
    // The library puts them, and what blocks say, behind the text of the first system message.
    let has_memory = !prompt.recalled.is_empty() || prompt.sections.iter().any(|section| section.tokens > 0);
    let is_text = |part: &ContentPart| matches!(part, ContentPart::Text { .. });
    if has_memory
        && let Some(system) = messages.iter_mut().find(|message| message.role == Role::System)
        && let Some(at) = system.content.iter().rposition(is_text)
        && let ContentPart::Text { text } = system.content.remove(at)
    {
        recalled.push(text);
    }
    messages.retain(|message| !message.content.is_empty());
    (recalled, messages)
}
