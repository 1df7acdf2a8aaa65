//! A model for threads that may wait.

use std::future::ready;

use crate::{
    chat::{ChatAnswer, ChatFuture, ChatModel, ChatRequest},
    error::Result,
};

/// A model that answers on the thread that asks, with [`ChatModel::chat_blocking`].
pub(super) struct BlockingModel<'m>(pub(super) &'m dyn ChatModel);

impl ChatModel for BlockingModel<'_> {
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> ChatFuture<'a> {
        Box::pin(ready(self.chat_blocking(request)))
    }

    fn chat_blocking(&self, request: &ChatRequest) -> Result<ChatAnswer> {
        self.0.chat_blocking(request)
    }
}
