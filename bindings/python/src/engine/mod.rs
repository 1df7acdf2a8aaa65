//! The engine: a class with the library's methods, by subject.

mod handle;
mod messages;
mod namespaces;
mod upkeep;

pub(crate) use handle::{Engine, EngineLike, plain_or};
