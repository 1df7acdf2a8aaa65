//! Reports of a memory's operations.

use serde::Serialize;

/// Counts and ids of a put to a memory, or of [`Memory::sync`](crate::Memory::sync).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Messages whose id was new.
    pub new: u64,
    /// Messages that replaced a different message: one with the same id, of the session or of the same put, or the one
    /// in whose place a synchronized chat has them.
    pub replaced: u64,
    /// Messages that the session had already with the same content, under their ids or, in a chat without ids, in their
    /// places.
    pub unchanged: u64,
    /// Messages that were removed.
    pub removed: u64,
    /// Ids of messages that were dropped or shortened because they repeat text which an earlier prompt of this memory
    /// contained. The ids are those given to the put.
    pub echoes: Vec<String>,
    /// Ids of messages that moved from the buffer to long-term memory: one list per batch, oldest first.
    pub flushed: Vec<Vec<String>>,
}

/// Progress of a block in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BlockStatus {
    /// Name of the block.
    pub name: String,
    /// Number of batches that the block has not taken yet.
    pub behind: u64,
    /// Numbers of the batches that the block failed on, with the reasons. See
    /// [`Memory::retry_failed`](crate::Memory::retry_failed).
    pub failed: Vec<(u32, String)>,
    /// Reason of the last failure, while the block waits to be tried again.
    pub retrying: Option<String>,
}
