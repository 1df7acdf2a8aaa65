//! Chat models, for blocks and for knowledge.

use std::{future::ready, sync::Arc};

use mnemon::{ChatAnswer, ChatFuture, ChatModel, Error};
use pyo3::{prelude::*, types::PyString};

use crate::{
    callback::{Callee, Kept, call},
    errors::{cause, not_a},
    message::{Message, MessageLike, wrapped},
    servers::OpenAiChat,
    values::{Text, to_python},
};

/// A request to a chat model that is written in Python: a function of this that returns text or a message. The docs of each
/// block, of `Profile` and of `Collection` say what the answer has to be.
///
/// What it raises is the cause of a `ChatError`. Blocks ask again later, unless the exception has an attribute
/// `transient` that is false.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct ChatRequest(mnemon::ChatRequest);

#[pymethods]
impl ChatRequest {
    /// The conversation to answer.
    #[getter]
    fn messages(&self) -> Vec<Message> {
        wrapped(self.0.messages.clone())
    }

    /// The most tokens that the answer may have.
    #[getter]
    fn max_tokens(&self) -> Option<usize> {
        self.0.max_tokens
    }

    #[getter]
    fn temperature(&self) -> Option<f32> {
        self.0.temperature
    }

    /// Further fields of the request, such as `response_format`.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.options)
    }

    /// The messages in the format of OpenAI's chat API.
    fn to_openai<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &mnemon::to_openai(&self.0.messages))
    }

    fn __repr__(&self) -> String {
        format!("<mnemon.ChatRequest of {} messages>", self.0.messages.len())
    }
}

/// Returns the chat model that an object stands for: an `OpenAiChat`, or a function of a `ChatRequest`, which is kept for
/// the engine, if there is a handle that does so.
pub(crate) fn chat_model(object: &Bound<'_, PyAny>, kept: Option<&Kept>) -> PyResult<Arc<dyn ChatModel>> {
    match object.cast::<OpenAiChat>() {
        Ok(chat) => Ok(Arc::new(chat.get().0.clone())),
        Err(_) if object.is_callable() => {
            let strong = || Callee::strong(object.clone().unbind());
            Ok(Arc::new(PythonChat(kept.map_or_else(strong, |kept| kept.callee(object)))))
        }
        Err(_) => Err(not_a("a chat model (an OpenAiChat, or a function of a ChatRequest)", object)),
    }
}

/// Calls a function that answers with text or a message.
struct PythonChat(Callee);

impl ChatModel for PythonChat {
    fn chat<'a>(&'a self, request: &'a mnemon::ChatRequest) -> ChatFuture<'a> {
        Box::pin(ready(self.chat_blocking(request)))
    }

    fn chat_blocking(&self, request: &mnemon::ChatRequest) -> mnemon::Result<ChatAnswer> {
        let ask = |model: &Bound<'_, PyAny>| {
            let answer = model.call1((ChatRequest(request.clone()),))?;
            let message = match answer.cast::<PyString>() {
                Ok(_) => mnemon::Message::assistant(answer.extract::<Text>()?.0),
                Err(_) => answer.extract::<MessageLike>()?.0,
            };
            Ok(ChatAnswer::from(message))
        };
        call(&self.0, ask, failed)
    }
}

/// Returns the error of a request. It may succeed later, unless the exception says otherwise with its attribute
/// `transient`: a client has many exceptions for a server that is busy, and a batch that is tried again is not lost.
fn failed(py: Python<'_>, reason: String, error: PyErr) -> Error {
    let said = error.value(py).getattr_opt("transient").ok().flatten();
    let transient = said.and_then(|said| said.extract().ok()).unwrap_or(true);
    Error::Chat { source: Some(cause(&reason, error)), reason, transient, retry_after: None }
}
