//! The content of a message: text, tool calls and results, and references to media.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// One part of a message's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ContentPart {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A request of the model to run a tool.
    ToolCall {
        /// Identifies the call. The result of the call carries the same id.
        id: String,
        /// The name of the tool.
        name: String,
        /// The arguments, any JSON value.
        #[serde(default)]
        arguments: Value,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call.
        id: String,
        /// The result as text.
        content: String,
    },
    /// A reference to an image.
    Image(MediaReference),
    /// A reference to an audio recording.
    Audio(MediaReference),
    /// A reference to a video.
    Video(MediaReference),
    /// A reference to any other file.
    File(MediaReference),
}

impl ContentPart {
    /// Returns the text of a text part or of a tool result.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            ContentPart::Text { text } => Some(text),
            ContentPart::ToolResult { content, .. } => Some(content),
            _ => None,
        }
    }

    /// Returns the kind and the reference of a media or file part. The kind is the part's type in JSON.
    pub(crate) fn media(&self) -> Option<(&'static str, &MediaReference)> {
        match self {
            ContentPart::Image(reference) => Some(("image", reference)),
            ContentPart::Audio(reference) => Some(("audio", reference)),
            ContentPart::Video(reference) => Some(("video", reference)),
            ContentPart::File(reference) => Some(("file", reference)),
            _ => None,
        }
    }
}

/// A reference to media by URI. mnemon stores the reference, not the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaReference {
    /// The URI.
    pub uri: String,
    /// The MIME type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

impl MediaReference {
    /// Returns the media type and the bytes, in base64, of a `data:` URI.
    pub(super) fn data(&self) -> Option<(&str, &str)> {
        self.uri.strip_prefix("data:")?.split_once(";base64,")
    }

    /// Returns true if the URI begins with one of these schemes, such as `https://`.
    pub(super) fn has_scheme(&self, schemes: &[&str]) -> bool {
        schemes.iter().any(|scheme| self.uri.starts_with(scheme))
    }

    /// Describes the reference in text, without the bytes of a `data:` URI. `kind` is the type of its part.
    pub(super) fn describe(&self, kind: &str) -> String {
        match self.has_scheme(&["data:"]) {
            true => format!("[{kind}]"),
            false => format!("[{kind}: {}]", self.uri),
        }
    }
}

/// The two JSON forms of a message's content.
#[derive(Deserialize)]
#[serde(untagged, expecting = "content is a string or an array of parts, each with a known type")]
enum JsonContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// Reads content from a string or an array of parts.
pub(super) fn deserialize_content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ContentPart>, D::Error> {
    Ok(match JsonContent::deserialize(deserializer)? {
        JsonContent::Text(text) => vec![ContentPart::Text { text }],
        JsonContent::Parts(parts) => parts,
    })
}

/// Writes content that is a single text part as a string, other content as an array of parts.
pub(super) fn serialize_content<S: Serializer>(content: &[ContentPart], serializer: S) -> Result<S::Ok, S::Error> {
    match content {
        [ContentPart::Text { text }] => serializer.serialize_str(text),
        parts => parts.serialize(serializer),
    }
}
