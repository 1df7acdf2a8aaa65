//! The integration tests: one binary, all through the public API or the command.

mod bad_input;
mod cli;
mod compat;
mod crash;
mod engine;
mod fewshot;
mod history;
mod index;
mod layers;
mod lists;
mod memory;
mod message;
mod model;
mod readme;
mod reindex;
mod sample;
mod support;
