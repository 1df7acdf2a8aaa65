//! Messages: their JSON form, the chat formats of providers, lists of them.

mod anthropic;
mod gemini;
mod line;
mod lists;
mod openai;
mod providers;
mod readers;
