//! One request to a language model.

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
