//! The extension module `mnemon._mnemon`: the classes of the crate, in Python's manners.
//!
//! `values` converts what both sides have; `errors` raises one exception for each variant of the crate's error; `message`,
//! `query`, `journal`, `config`, `vectors` are values. `engine`, `memory`, `documents` and `knowledge` are the handles,
//! `shared` is what those of one engine have in common; each of their calls releases the GIL while the engine works, and
//! `wait` looks for signals meanwhile.
//! `callback` calls what is written in Python, from the engine's threads: `models`, `chat`, `tokens`, `custom_block`.
//! `servers` has the clients of servers, `blocks` the blocks of the crate, `operation` batches of documents, `reindex`
//! the options and the progress of one, `memory_tool` Claude's memory tool, and `command` the `mnemon` command.

mod blocks;
mod callback;
mod chat;
mod command;
mod config;
mod custom_block;
mod documents;
mod engine;
mod errors;
mod journal;
mod knowledge;
mod memory;
mod memory_tool;
mod message;
mod models;
mod operation;
mod query;
mod reindex;
mod secrets;
mod servers;
mod shared;
mod tokens;
mod values;
mod vectors;
mod wait;

use pyo3::prelude::*;

#[pymodule]
mod _mnemon {
    use super::*;
    #[pymodule_export]
    use super::{
        blocks::{CollectionBlock, FactBlock, InstructionBlock, ProfileBlock, StaticBlock, SummaryBlock, VectorBlock},
        chat::ChatRequest,
        command::command,
        config::Config,
        custom_block::{BlockContent, BlockQuery, FlushedBatch},
        documents::{Document, Documents},
        engine::{Engine, FileMessages, read_files},
        journal::JournalEntry,
        knowledge::{Collection, Profile},
        memory::{Memory, Prompt},
        memory_tool::memory_tool,
        message::{Message, from_anthropic, from_gemini, from_openai, restored, to_anthropic, to_gemini, to_openai},
        operation::{DocumentOperation, labels_of, namespace_of},
        query::{Hit, Hits, Query},
        servers::{OpenAiChat, OpenAiEmbedder},
        vectors::{GivenVectors, Vectors},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let close_all = wrap_pyfunction!(shared::close_all, module)?;
        module.py().import("atexit")?.call_method1("register", (close_all,))?;
        // Not on every system.
        if let Some(register) = module.py().import("os")?.getattr_opt("register_at_fork")? {
            let options = pyo3::types::PyDict::new(module.py());
            options.set_item("after_in_child", wrap_pyfunction!(callback::forked, module)?)?;
            register.call((), Some(&options))?;
        }
        Ok(())
    }
}
