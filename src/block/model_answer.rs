//! One request to a language model, and the JSON in its answer.

use serde::de::DeserializeOwned;

use crate::{
    chat::{ChatModel, ChatRequest},
    error::{Error, Result},
    message::Message,
};

/// Asks a model with a system prompt and a user message, and returns the text of its answer.
pub(super) fn ask(model: &dyn ChatModel, instructions: impl Into<String>, input: String) -> Result<String> {
    let request = ChatRequest::new(vec![Message::system(instructions), Message::user(input)]);
    Ok(model.chat_blocking(&request)?.text())
}

/// Same as [`ask`], for an answer that must not be empty. `expected` describes the answer in an error, such as "a
/// summary". The answer has no white space around it.
pub(super) fn ask_for(
    model: &dyn ChatModel,
    instructions: impl Into<String>,
    input: String,
    expected: &str,
) -> Result<String> {
    let answer = ask(model, instructions, input)?;
    match answer.trim() {
        "" => Err(Error::chat(format!("the model returned an empty answer instead of {expected}"))),
        answer => Ok(answer.to_owned()),
    }
}

/// The number of bytes of an unusable answer that an error contains.
const MAX_ANSWER_IN_ERROR: usize = 200;

/// Reads the JSON object in an answer. Models often add text before and after it. `expected` describes its form in an
/// error, such as `{"facts": [...]}`.
///
/// # Errors
/// [`Error::Chat`]: there is no such object.
pub(crate) fn json_in<T: DeserializeOwned>(answer: &str, expected: &str) -> Result<T> {
    let json = answer.find('{').zip(answer.rfind('}')).filter(|(begin, end)| begin < end);
    let (begin, end) = json.ok_or_else(|| unusable(answer, expected, "there is no JSON object in it"))?;
    serde_json::from_str(&answer[begin..=end]).map_err(|error| unusable(answer, expected, &error.to_string()))
}

/// The error for an answer that is not as it was expected.
pub(crate) fn unusable(answer: &str, expected: &str, reason: &str) -> Error {
    let beginning = &answer[..answer.floor_char_boundary(MAX_ANSWER_IN_ERROR)];
    Error::chat(format!("the model's answer is not {expected}: {reason}; it begins with {beginning:?}"))
}
