//! Panics of redb, as errors: it panics on some damage that no checksum of a single page shows, such as an older copy of
//! a page.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Result};

/// Runs an operation on a database.
///
/// # Errors
/// [`Error::Corrupted`] if it panicked.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(run).unwrap_or_else(|what| Err(Error::Corrupted { what }))
}

/// Runs an operation of redb. The error says that it panicked.
pub(super) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = (panic.downcast_ref::<&str>().copied())
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        format!("the store stopped at an impossible state ({message})")
    })
}
