//! The extension module `mnemon._mnemon`: the classes of the crate, in Python's manners.
//!
//! `values` converts what both sides have; `errors` has one exception for each variant of the crate's error; `message`,
//! `query`, `config` are values; `embedder` calls embedders that are written in Python; `engine`, `memory` and
//! `documents` are the handles, `operation` batches of documents. Each call of a handle releases the GIL while the engine works.

mod config;
mod documents;
mod embedder;
mod engine;
mod errors;
mod memory;
mod message;
mod operation;
mod query;
mod values;

use pyo3::prelude::*;

#[pymodule]
mod _mnemon {
    use super::*;
    #[pymodule_export]
    use super::{
        config::Config,
        documents::{Document, Documents},
        engine::Engine,
        memory::{Memory, Prompt, StaticBlock, VectorBlock},
        message::Message,
        operation::{DocumentOperation, labels_of, namespace_of},
        query::{Hit, Hits, Query},
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let close_all = wrap_pyfunction!(engine::close_all, module)?;
        module.py().import("atexit")?.call_method1("register", (close_all,))?;
        errors::add_to(module)
    }
}
