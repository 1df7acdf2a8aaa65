//! Hands flushed batches to blocks, in the background, and stores what the blocks make of them.
//!
//! Each block that takes batches has one job in the engine's queue, by the key of its state. A run of the job reads the
//! state and the next batch, calls the block, and stores the new state with the number of the batch in one commit. So a
//! block takes each batch once, whoever flushed it and whichever memory runs the job. The commit is refused if a message
//! of the batch was deleted, replaced or forgotten meanwhile: the block is then called again with what is left. A block
//! that fails is tried again; after [`MAX_FAULTS`] failures it gives the batch up and goes on with the next one. Failures
//! that say nothing about the batch do not count: the service that the block asks is down, or refuses everything.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::Value;

use super::open_memory::OpenMemory;
use crate::{
    block::{AfterForget, BatchOrigin, FlushedBatch, InstructionBlock, MemoryBlock},
    engine::{JobOutcome, Lane, WeakEngine},
    error::{Error, Result, chain},
    message::Message,
    store::{BlockKey, BlockState, HANDED_OVER, StoredBatch},
};

/// Number of failures after which a block gives a batch up. Failures because a service is not available do not count.
const MAX_FAULTS: u32 = 3;
/// The longest time between two attempts.
const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// Time between two checks of a batch that a block on another machine has leased.
const OTHERS: Duration = Duration::from_millis(500);
/// The longest wait that is granted to a service.
const LONGEST_WANTED: Duration = Duration::from_secs(3600);
/// The most batches that a block gives up. With this many, it keeps trying the next one.
const MAX_FAILED: usize = 1000;
/// The longest reason of a failure that is stored.
const MAX_REASON_BYTES: usize = 1024;

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

/// Number of failures of a block on its next batch.
#[derive(Default)]
struct Tries {
    all: u32,
    /// Failures for other reasons than a service that is not available.
    faults: u32,
}

fn takers(memory: &OpenMemory) -> impl Iterator<Item = &Arc<dyn MemoryBlock>> {
    memory.settings.blocks.iter().filter(|block| block.takes_batches())
}

/// Starts a job for each block that hands it the batches that it has not taken yet. With `now`, blocks that wait for
/// another attempt are tried at once.
pub(super) fn take_batches(memory: &OpenMemory, now: bool) {
    for block in takers(memory) {
        let (key, block, engine) = (memory.key(&**block), Arc::clone(block), memory.stored.weak_engine());
        let (first_retry, mut tries) = (memory.stored.block_retry(), Tries::default());
        let work = {
            let key = key.clone();
            move || take_batch(&engine, &key, &*block, first_retry, &mut tries)
        };
        memory.stored.jobs().submit(key, now, work);
    }
}

/// Waits until all blocks have taken their batches or failed.
///
/// # Errors
/// [`Error::Block`]: the first that failed.
pub(super) fn wait(memory: &OpenMemory) -> Result<()> {
    let waits = takers(memory).map(|block| memory.stored.jobs().wait(&memory.key(&**block), block.name()));
    // Waits for all blocks, even if one failed.
    waits.fold(Ok(()), Result::and)
}

pub(super) fn status(memory: &OpenMemory) -> Result<Vec<BlockStatus>> {
    let batches =
        memory.stored.read(|snapshot, namespace, session| snapshot.batches().next_number(namespace, session))?;
    let keys: Vec<BlockKey> = takers(memory).map(|block| memory.key(&**block)).collect();
    let states = memory.stored.block_states(&keys)?;
    let status = |(key, BlockState { next, failed, .. }): (BlockKey, BlockState)| {
        let (again, failed): (Vec<_>, Vec<_>) = failed.into_iter().partition(|(_, reason)| reason == HANDED_OVER);
        BlockStatus {
            behind: u64::from(batches.saturating_sub(next)) + again.len() as u64,
            failed,
            retrying: memory.stored.jobs().failure(&key),
            name: key.name,
        }
    };
    Ok(keys.into_iter().zip(states).map(status).collect())
}

/// Hands a block those batches again that it gave up. Returns the number of batches that it took.
pub(super) async fn retry_failed(memory: &OpenMemory, block: &str) -> Result<u64> {
    let block = Arc::clone(memory.block(block)?);
    let (key, engine) = (memory.key(&*block), memory.stored.weak_engine());
    // On a lane that closing does not wait for: the block may take long.
    memory.stored.executor().run(Lane::BlockCalls, move || retake_failed(&engine, &key, &*block)).await
}

fn retake_failed(engine: &WeakEngine, key: &BlockKey, block: &dyn MemoryBlock) -> Result<u64> {
    let mut taken = 0;
    loop {
        let read = engine.block_state(key)?;
        let Some((number, _)) = read.failed.first().cloned() else { return Ok(taken) };
        let mut new = BlockState { failed: read.failed[1..].to_vec(), ..read.clone() };
        let batch = failed_batch(engine, key, number)?;
        match state_after(key, block, &read, &batch) {
            Ok(state) => new.state = state,
            Err(Error::MessagesChanged { .. }) => continue,
            Err(error) => return Err(error),
        }
        if engine.put_block_state(key, read, new, batch.messages)? {
            taken += 1;
        }
    }
}

/// Hands a block its next batch. Keeps the engine open only while it reads and writes, not while the block works.
fn take_batch(
    engine: &WeakEngine,
    key: &BlockKey,
    block: &dyn MemoryBlock,
    first_retry: Duration,
    tries: &mut Tries,
) -> JobOutcome {
    let mut retry = |error: &Error| {
        tracing::warn!(block = key.name, %error, "a block failed on a batch and will be tried again");
        tries.all += 1;
        JobOutcome::Retry(wait_time(error, first_retry, tries.all), reason(error))
    };
    let NextBatch { read, batch, mut new } = match next_batch(engine, key, block) {
        Ok(Some(next)) => next,
        Ok(None) | Err(Error::Closed) => return JobOutcome::Done,
        Err(error) => return retry(&error),
    };
    // A block may ask a language model, which is paid for once.
    let lease = match engine.lease(key) {
        Ok(Some(lease)) => lease,
        Ok(None) => return JobOutcome::Later(OTHERS),
        Err(Error::Closed) => return JobOutcome::Done,
        Err(error) => return retry(&error),
    };
    match state_after(key, block, &read, &batch) {
        Ok(state) => new.state = state,
        // The block is asked again with the messages that are left.
        Err(Error::MessagesChanged { .. }) => return JobOutcome::More,
        Err(error) if is_transient(&error) => return retry(&error),
        Err(error) => {
            let again = retry(&error);
            tries.faults += 1;
            if tries.faults < MAX_FAULTS || new.failed.len() >= MAX_FAILED {
                return again;
            }
            tracing::error!(block = key.name, batch = batch.number, %error, "a block gave a batch up");
            new.failed.push((batch.number, reason(&error)));
        }
    }
    let put = engine.put_block_state(key, read, new, batch.messages);
    drop(lease);
    match put {
        // Stored, or refused because the state had changed. Another batch may follow in both cases.
        Ok(_) => {
            *tries = Tries::default();
            JobOutcome::More
        }
        Err(Error::Closed) => JobOutcome::Done,
        Err(error) => {
            tries.all += 1;
            JobOutcome::Retry(wait_time(&error, first_retry, tries.all), reason(&error))
        }
    }
}

/// A batch to hand to a block.
struct NextBatch {
    /// The block as it is.
    read: BlockState,
    batch: StoredBatch,
    /// The block when it has taken the batch, but for what it makes of it.
    new: BlockState,
}

fn next_batch(engine: &WeakEngine, key: &BlockKey, block: &dyn MemoryBlock) -> Result<Option<NextBatch>> {
    loop {
        let read = engine.block_state(key)?;
        let mut new = read.clone();
        if read.is_dropped {
            new.is_dropped = false;
            if block.after_forget() == AfterForget::Rebuild {
                new.next = 0;
            }
        } else {
            let again = read.failed.iter().position(|(_, reason)| reason == HANDED_OVER);
            let batch = match again {
                Some(at) => Some(failed_batch(engine, key, read.failed[at].0)?),
                None => engine.batch(key, read.next)?,
            };
            let Some(batch) = batch else { return Ok(None) };
            let first = block.first_state();
            if first.is_null() || !value(&read)?.is_null() {
                match again {
                    Some(at) => drop(new.failed.remove(at)),
                    None => new.next += 1,
                }
                return Ok(Some(NextBatch { read, batch, new }));
            }
            // It says what the block makes, before the block makes it.
            new.state = Some(json(&first)?);
        }
        match engine.put_block_state(key, read, new, Vec::new()) {
            // An engine that is open for reading has no batches either.
            Err(Error::ReadOnly { .. }) => return Ok(None),
            put => put?,
        };
    }
}

/// Returns a batch that was given up; an empty one if it is gone.
fn failed_batch(engine: &WeakEngine, key: &BlockKey, number: u32) -> Result<StoredBatch> {
    Ok(engine.batch(key, number)?.unwrap_or_else(|| StoredBatch { number, messages: Vec::new() }))
}

fn state_after(
    key: &BlockKey,
    block: &dyn MemoryBlock,
    read: &BlockState,
    batch: &StoredBatch,
) -> Result<Option<String>> {
    match batch.messages.is_empty() {
        // All messages of the batch were deleted since.
        true => Ok(read.state.clone()),
        false => {
            let BlockKey { namespace, session, name, shared } = key.clone();
            let (revision, restores) = (read.revision, read.restores);
            let origin = BatchOrigin { namespace, session, block: name, shared, revision, restores };
            let batch = FlushedBatch::new(batch.number, &batch.messages).of(&origin);
            let before = value(read)?;
            let put = std::panic::AssertUnwindSafe(|| block.put(&before, &batch));
            let panicked = |_| Err(Error::Block { name: block.name().to_owned(), reason: "it panicked".into() });
            json(&std::panic::catch_unwind(put).unwrap_or_else(panicked)?).map(Some)
        }
    }
}

/// Returns true if an error says nothing about the batch, which waits then.
fn is_transient(error: &Error) -> bool {
    matches!(
        error,
        Error::Chat { transient: true, .. }
            | Error::ChatUnavailable { .. }
            | Error::DocumentChanged { .. }
            | Error::Storage(_)
            | Error::SharedDatabase { transient: true, .. }
    )
}

fn wait_time(error: &Error, first: Duration, attempts: u32) -> Duration {
    let wanted = match error {
        Error::Chat { retry_after, .. } => retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    };
    let doubled = first.saturating_mul(1 << (attempts.clamp(1, 10) - 1));
    doubled.min(LONGEST_RETRY).max(wanted.min(LONGEST_WANTED))
}

/// Returns the text of an error and its sources, cut to [`MAX_REASON_BYTES`]. The error of a block is given its name by whoever
/// reports it.
fn reason(error: &Error) -> String {
    let mut reason = match error {
        Error::Block { reason, .. } => reason.clone(),
        error => chain(error),
    };
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    reason
}

/// Stores the state that `change` returns for the present one, with the messages that it was made of. Calls it again if the
/// state or one of the messages changed meanwhile. Keeps the engine open only while it reads and writes.
///
/// # Errors
/// [`Error::SessionNotFound`]: the session was removed meanwhile. Those of `change`.
pub(super) fn change_state(
    engine: &WeakEngine,
    key: &BlockKey,
    mut change: impl FnMut(&Value) -> Result<(Value, Vec<Message>)>,
) -> Result<Value> {
    let mut home = None;
    loop {
        let read = engine.block_state(key)?;
        let now = (read.namespace, read.session);
        if *home.get_or_insert(now) != now {
            return Err(Error::no_session(&key.namespace, &key.session));
        }
        let (state, made_of) = change(&value(&read)?)?;
        let new = BlockState { state: Some(json(&state)?), ..read.clone() };
        if engine.put_block_state(key, read, new, made_of)? {
            return Ok(state);
        }
    }
}

/// Has a block of instructions refine its state from the last messages of the session. Returns the new state.
pub(super) fn refine(
    engine: &WeakEngine,
    key: &BlockKey,
    block: &InstructionBlock,
    feedback: &str,
    last: usize,
) -> Result<Value> {
    change_state(engine, key, |state| {
        let said = engine.last_messages(key, last)?;
        Ok((block.refine(state, feedback, &said)?, said))
    })
}

/// The most bytes of a block's state as JSON.
const MAX_STATE_BYTES: usize = 1 << 20;

pub(super) fn value(stored: &BlockState) -> Result<Value> {
    let Some(state) = &stored.state else { return Ok(Value::Null) };
    serde_json::from_str(state)
        .map_err(|error| Error::corrupted(format!("the state of a block holds bad JSON: {error}")))
}

/// Serializes a state.
///
/// # Errors
/// [`Error::InvalidConfig`]: the state is longer than [`MAX_STATE_BYTES`].
fn json(state: &Value) -> Result<String> {
    let json = state.to_string();
    match json.len() {
        ..=MAX_STATE_BYTES => Ok(json),
        bytes => Err(Error::InvalidConfig {
            reason: format!(
                "a block's state has {bytes} bytes as JSON, and the most is {MAX_STATE_BYTES}; have the block keep less"
            ),
        }),
    }
}
