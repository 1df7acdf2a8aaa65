//! Documents: values under keys, with their indexed texts, on a real engine and a real file.

mod bad_input;
mod batch;
mod compat;
mod expiry;
mod given;
pub(crate) mod kills;
mod model;
mod namespaces;
mod search;
mod values;

use mnemon::{Document, DocumentOptions, DocumentSearch, Documents, Engine};
use serde_json::Value;

use crate::support::namespace;

const SPACE: &str = "acme/user-42";

fn documents(engine: &Engine) -> Documents {
    engine.documents(&namespace(SPACE))
}

fn options() -> DocumentOptions {
    DocumentOptions::default()
}

fn search() -> DocumentSearch {
    DocumentSearch::default()
}

fn put(engine: &Engine, key: &str, value: Value) {
    documents(engine).blocking().put(key, value, options()).unwrap();
}

fn find(engine: &Engine, search: DocumentSearch) -> Vec<Document> {
    documents(engine).blocking().search(search).unwrap()
}

fn keys(found: &[Document]) -> Vec<&str> {
    found.iter().map(|document| document.key.as_str()).collect()
}
