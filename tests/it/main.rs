//! The integration tests: one binary, all through the public API or the command.

mod bad_input;
mod cache;
#[cfg(feature = "openai")]
mod chat;
mod cli;
mod compat;
mod crash;
mod embed;
mod engine;
mod fewshot;
mod graph;
mod history;
mod index;
mod layers;
mod lists;
#[cfg(any(feature = "openai", feature = "pull"))]
mod llm_server;
mod memory;
mod message;
mod model;
mod models;
mod openai;
mod precision;
mod readme;
mod recall;
mod reindex;
#[cfg(feature = "openai")]
mod remote;
mod rerank;
mod rows;
mod sample;
mod support;
mod threads;
