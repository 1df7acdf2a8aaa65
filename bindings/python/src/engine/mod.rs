//! The engine: a class with the library's methods, by subject.

mod files;
mod handle;
mod messages;
mod namespaces;
mod upkeep;

pub(crate) use files::{FileMessages, read_files};
pub(crate) use handle::{Engine, EngineLike, plain_or};
