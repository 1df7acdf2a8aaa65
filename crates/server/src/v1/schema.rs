//! The shapes of the library's types in JSON that it does not describe itself, because they are read more leniently than they are
//! written. For the description alone: the library reads the types themselves.
//! `tests/it/server` sends values at the bounds of these shapes, and beyond.

#![allow(dead_code, reason = "a schema is made of the types, and nothing else")]

use mnemon::{ContentPart, Namespace, Timestamp, message::Source};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use super::route::SchemaOf;

/// Returns the schema of a parameter in the paths of the routes.
pub(crate) fn path_schema(name: &str) -> SchemaOf {
    match name {
        "namespace" => SchemaGenerator::subschema_for::<Namespace>,
        "key" => SchemaGenerator::subschema_for::<KeySchema>,
        _ => SchemaGenerator::subschema_for::<IdSchema>,
    }
}

/// An id of 1 to 512 bytes.
#[derive(JsonSchema)]
#[schemars(rename = "Id", extend("minLength" = 1, "maxLength" = 512))]
pub(super) struct IdSchema(String);

/// The key of a document: 1 to 512 bytes without control characters.
#[derive(JsonSchema)]
#[schemars(rename = "Key", extend("maxLength" = 512, "pattern" = r"^[^\x00-\x1f\x7f-\x9f]+$"))]
pub(super) struct KeySchema(String);

/// A path to texts in a value: `$`, the whole value, or names joined by dots, as in `sections[*].text`.
#[derive(JsonSchema)]
#[schemars(rename = "Path", extend("minLength" = 1, "maxLength" = 512, "format" = "path"))]
pub(super) struct PathSchema(String);

/// A filter, such as `{"user.age": {"$gte": 18}}`: paths, each with a value that is equal, or with operators `$eq`, `$ne`, `$gt`,
/// `$gte`, `$lt`, `$lte`, `$in`, `$nin`, `$exists`, `$contains` and `$not`. `$and`, `$or` and `$not` join filters. It has at most
/// 1,000 conditions, and 10,000 values in its lists.
#[derive(JsonSchema)]
#[schemars(rename = "Filter", extend("format" = "filter"))]
pub(super) struct FilterSchema(Map<String, Value>);

/// A message to store or to answer: the fields of `Message`, and those of OpenAI's chat format, so that an object of a
/// request or of an answer there is accepted as it is. Other fields of a message of the assistant are kept in
/// `metadata.openai`, and are refused in any other message.
#[derive(JsonSchema)]
#[schemars(rename = "MessageInput")]
pub(super) struct MessageInputSchema {
    /// Unique in the namespace. Putting a message with a known id replaces the stored one. Default: a new one.
    id: Option<IdSchema>,
    /// The conversation that it belongs to. Default: `default`, or the session of the path.
    session: Option<IdSchema>,
    /// `developer` is stored as `system`, `function` as `tool`.
    role: RoleInputSchema,
    /// The name of the author.
    name: Option<IdSchema>,
    /// Missing only beside `tool_calls` and the like.
    content: Option<ContentInputSchema>,
    /// When it was written. Default: now.
    created_at: Option<Timestamp>,
    /// The time from which on it is not returned any more. Default: by the time to live of the namespace, or never.
    expires_at: Option<Timestamp>,
    /// Data of the application.
    metadata: Option<Map<String, Value>>,
    /// Says whose words the message is; kept in `metadata.source`. Default: the role decides.
    source: Option<Source>,
    /// The id of a message whose place this one takes, or ids, kept in `metadata.supersedes`: a recall no longer finds it.
    supersedes: Option<SupersedesSchema>,
    /// Calls of tools by the assistant: `{"id", "type": "function", "function": {"name", "arguments"}}`.
    tool_calls: Option<Vec<OpenAiSchema>>,
    /// The id of the call that the message is the result of.
    tool_call_id: Option<String>,
    /// The older form of a call.
    function_call: Option<OpenAiSchema>,
    /// Stored as text.
    refusal: Option<String>,
    /// An answer in sound; its transcript is stored as text.
    audio: Option<OpenAiSchema>,
    /// Kept in `metadata.openai`.
    annotations: Option<Vec<OpenAiSchema>>,
    /// Kept in `metadata.openai`.
    reasoning: Option<Value>,
    /// Kept in `metadata.openai`.
    reasoning_content: Option<Value>,
}

/// The id of a message, or ids.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
pub(super) enum SupersedesSchema {
    One(String),
    Several(Vec<String>),
}

/// An object of OpenAI's chat format.
#[derive(JsonSchema)]
#[schemars(rename = "OpenAi", extend("format" = "openai"))]
pub(super) struct OpenAiSchema(Map<String, Value>);

/// A text, or parts: all of `Message`, or all of OpenAI's format.
#[derive(JsonSchema)]
#[schemars(rename = "ContentInput", untagged)]
pub(super) enum ContentInputSchema {
    Text(String),
    Parts(Vec<PartInputSchema>),
}

/// A part of a message to store: one of `Message`, or one of OpenAI's: `text`, `image_url`, `input_audio`, `file`, `refusal`.
#[derive(JsonSchema)]
#[schemars(rename = "PartInput", untagged)]
pub(super) enum PartInputSchema {
    Own(ContentPart),
    OpenAi(OpenAiSchema),
}

/// The message to be answered: a text of the user, or a message.
#[derive(JsonSchema)]
#[schemars(rename = "PromptInput", untagged)]
pub(super) enum PromptSchema {
    Text(String),
    Message(Box<MessageInputSchema>),
}

#[derive(JsonSchema)]
#[schemars(rename = "RoleInput", rename_all = "lowercase")]
pub(super) enum RoleInputSchema {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    Function,
}
