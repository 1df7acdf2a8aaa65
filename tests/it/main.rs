//! The integration tests: one program, through the public API or the command.
//!
//! A test is in the module that is named after the module of the public API that it tests, as `src/lib.rs` lists them;
//! tests of [`Model`](mnemon::Model) are in `models`, what the command prints is in `cli`, and `memory_tool` tests the
//! package of that name. Inside of a module,
//! tests of kills are in `kills` and tests of wrong input in `bad_input`. Six modules are about the repository as a
//! whole: `campaign` damages files, kills everything at once and soaks it, `compat` replays recorded cases of other
//! libraries, `copied` runs the programs of the documents, `layers` checks the structure of `src`, `matrix` runs each operation through each surface on each kind of
//! database, and `readme` runs the examples. What several tests need is in `support`, once.

mod backup;
mod block;
mod buffer;
mod cache;
mod campaign;
mod chat;
mod cli;
mod compat;
mod compose;
#[cfg(unix)]
mod copied;
mod documents;
mod embed;
mod encryption;
mod engine;
mod error;
mod executor;
mod fewshot;
mod filter;
mod forget;
mod formats;
mod history;
mod ids;
mod index;
mod knowledge;
mod layers;
mod maintenance;
#[cfg(unix)]
mod matrix;
mod memory;
mod memory_tool;
mod message;
mod models;
mod readme;
mod recall;
mod reindex;
#[cfg(unix)]
mod server;
mod shared;
mod support;
mod tokens;
mod transfer;
