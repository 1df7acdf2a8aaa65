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

#[derive(JsonSchema)]
#[schemars(rename = "Role", rename_all = "lowercase")]
#[allow(dead_code)]
pub(super) enum RoleSchema {
    System,
    User,
    Assistant,
    Tool,
}
