//! Reports of the engine's operations.

use serde::Serialize;

/// Counts of the messages of a put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PutReport {
    /// Messages whose id was new.
    pub new: u64,
    /// Messages that replaced a different message with the same id.
    pub replaced: u64,
    /// Messages that were stored already with the same content. Nothing was written for them.
    pub unchanged: u64,
}

/// Counts of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FlushReport {
    /// Messages that were embedded and can be found from now on, by this flush or by one that ran just before.
    pub embedded: u64,
}
