//! The shapes of the library's types in JSON, for the description alone.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

/// An object that the library's documentation describes.
pub(super) type AnyObject = serde_json::Map<String, Value>;

/// A chat message.
#[derive(JsonSchema)]
#[schemars(rename = "Message")]
#[allow(dead_code)]
pub(super) struct MessageSchema {
    /// Unique in the namespace, up to 512 bytes. Putting a message with a known id replaces the stored one. Default: a new one.
    #[schemars(default)]
    #[schemars(rename = "id")]
    _id: String,
    /// Default: `default`.
    #[schemars(default)]
    #[schemars(rename = "session")]
    _session: String,
    #[schemars(rename = "role")]
    _role: RoleSchema,
    /// The name of the author.
    #[schemars(rename = "name")]
    _name: Option<String>,
    /// A text, or an array of parts: texts, tool calls and results, references to media.
    #[schemars(rename = "content")]
    _content: Value,
    /// RFC 3339. Default: now.
    #[schemars(rename = "created_at")]
    _created_at: Option<String>,
    /// Data of the application.
    #[schemars(default)]
    #[schemars(rename = "metadata")]
    _metadata: BTreeMap<String, Value>,
}

/// A message to store or to answer: the fields of `Message`, and those of OpenAI's chat format, so that an object of a
/// request or of an answer there is accepted as it is. Other fields are refused.
#[derive(JsonSchema)]
#[schemars(rename = "MessageInput", deny_unknown_fields)]
#[allow(dead_code)]
pub(super) struct MessageInputSchema {
    /// Unique in the namespace, up to 512 bytes. Putting a message with a known id replaces the stored one. Default: a new one.
    #[schemars(rename = "id")]
    _id: Option<String>,
    /// Default: `default`, or the session of the path.
    #[schemars(rename = "session")]
    _session: Option<String>,
    /// `developer` is stored as `system`, `function` as `tool`.
    #[schemars(rename = "role")]
    _role: RoleInputSchema,
    /// The name of the author.
    #[schemars(rename = "name")]
    _name: Option<String>,
    /// A text, or an array of parts: those of `Message`, or those of OpenAI (`text`, `image_url`, `input_audio`, `file`,
    /// `refusal`). Null or missing beside `tool_calls` and the like.
    #[schemars(default)]
    #[schemars(rename = "content")]
    _content: Value,
    /// RFC 3339. Default: now.
    #[schemars(rename = "created_at")]
    _created_at: Option<String>,
    /// Data of the application.
    #[schemars(rename = "metadata")]
    _metadata: Option<BTreeMap<String, Value>>,
    /// Calls of tools by the assistant, in OpenAI's form: `{"id", "type": "function", "function": {"name", "arguments"}}`.
    #[schemars(rename = "tool_calls")]
    _tool_calls: Option<Vec<AnyObject>>,
    /// The id of the call that the message is the result of.
    #[schemars(rename = "tool_call_id")]
    _tool_call_id: Option<String>,
    /// The older form of a call.
    #[schemars(rename = "function_call")]
    _function_call: Option<AnyObject>,
    /// Stored as text.
    #[schemars(rename = "refusal")]
    _refusal: Option<String>,
    /// An answer in sound; its transcript is stored as text.
    #[schemars(rename = "audio")]
    _audio: Option<AnyObject>,
    /// Kept in `metadata.openai`.
    #[schemars(rename = "annotations")]
    _annotations: Option<Vec<AnyObject>>,
    /// Kept in `metadata.openai`.
    #[schemars(rename = "reasoning")]
    _reasoning: Option<Value>,
    /// Kept in `metadata.openai`.
    #[schemars(rename = "reasoning_content")]
    _reasoning_content: Option<Value>,
}

/// A text of the user, or a message.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
#[allow(dead_code)]
pub(super) enum PromptSchema {
    Text(String),
    Message(MessageInputSchema),
}

#[derive(JsonSchema)]
#[schemars(rename = "RoleInput", rename_all = "lowercase")]
#[allow(dead_code)]
pub(super) enum RoleInputSchema {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    Function,
}

#[derive(JsonSchema)]
#[schemars(rename = "Role", rename_all = "lowercase")]
#[allow(dead_code)]
pub(super) enum RoleSchema {
    System,
    User,
    Assistant,
    Tool,
}
