//! Files of messages in the formats of many programs: one table of formats, and how a file is read in one of them.
//!
//! This module owns the table [`FORMATS`] (`format`), the detection of a format by a file's beginning (`sample`), and the
//! reading of files: where they come from (`source`), what a reader is given and yields (`reader`), the JSON values in
//! files (`json`), and a module for each program whose files are more than a list of messages. Messages come one by one with the line at which they end, so the memory that reading
//! takes does not grow with the file. It knows nothing of the store: the caller decides what becomes of the messages.
//!
//! # How to add a format
//!
//! 1. Write a module with a reader. If the files are JSON, that is a [`ValueReader`](reader::ValueReader), which is given one value at a time: a
//!    line, or an element of a list. Other files have a [`Reader`](reader::Reader), which is given the whole file as a stream. Both yield
//!    [`Found`]: messages, faults of single messages, ids of messages that were taken back, and notes on what was left out.
//! 2. Add a row to [`FORMATS`]. Rows are asked in order whether the first values, or the first bytes of a file are of their
//!    format, so a format that another contains stands before it.
//! 3. A format of several files, such as a folder for each channel beside a list of users, has one `Reader` for all files
//!    of a folder or archive, which keeps what the first ones said. `source` has the names of the files that come first.
//! 4. Add tests in `tests/it/formats`. The table in `docs/import.md` is checked by one of them, which prints it.

mod agent;
mod aider;
mod chats;
mod claude_ai;
mod claude_code;
mod codex;
mod compressed;
mod counted;
mod database;
mod format;
mod gemini_cli;
mod gemini_takeout;
mod group_chats;
mod irc;
mod json;
mod langgraph;
mod mail;
mod message_lists;
mod opencode;
mod own;
mod place;
mod reader;
mod said;
mod sample;
mod slack;
mod source;
mod whatsapp;

pub use self::{
    agent::FRAME,
    compressed::decompressed,
    format::{FORMATS, FileReader, Format},
    place::namespace_of,
    reader::{Found, MessageEdit, ReadOptions},
    source::{Source, SourceFile},
};
