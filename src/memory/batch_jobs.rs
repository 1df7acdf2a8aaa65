//! Jobs that hand flushed batches to blocks, in the background.

use std::{sync::Arc, time::Duration};

use super::{
    block_state::{json, value},
    inner::Inner,
    job_queue::JobOutcome,
    reports::BlockStatus,
};
use crate::{
    block::{AfterForget, FlushedBatch, MemoryBlock},
    engine::{Lane, WeakEngine},
    error::{Error, Result},
    store::{BlockKey, BlockState, StoredBatch},
};

/// Number of failures after which a block gives a batch up. Failures of a service that is not available do not count.
const MAX_FAULTS: u32 = 3;
/// The longest time between two tries.
const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// The time after which a batch is looked at again that a block on another machine has.
const OTHERS: Duration = Duration::from_millis(500);
/// The longest wait that a service may ask for.
const LONGEST_WANTED: Duration = Duration::from_secs(3600);
/// Number of batches that a block may have given up. At this number it keeps trying the next one instead.
const MAX_FAILED: usize = 1000;
/// The longest reason of a failure that is stored.
const MAX_REASON_BYTES: usize = 1024;

/// Number of failures of a block on its next batch.
#[derive(Default)]
struct Tries {
    all: u32,
    /// Failures for other reasons than a service that is not available.
    faults: u32,
}

/// The blocks of a memory that take batches.
fn takers(memory: &Inner) -> impl Iterator<Item = &Arc<dyn MemoryBlock>> {
    memory.settings.blocks.iter().filter(|block| block.takes_batches())
}

/// Starts jobs by which all blocks take the batches that they have not taken yet. With `now`, blocks that wait to be
/// tried again are tried at once.
pub(super) fn take_batches(memory: &Inner, now: bool) {
    for block in takers(memory) {
        let (key, block, engine) = (memory.key(&**block), Arc::clone(block), memory.stored.weak_engine());
        let (first_retry, mut tries) = (memory.stored.block_retry(), Tries::default());
        let work = {
            let key = key.clone();
            move || take_batch(&engine, &key, &*block, first_retry, &mut tries)
        };
        memory.registry.jobs.submit(key, now, work);
    }
}

/// Waits until all blocks have taken their batches or failed.
///
/// # Errors
/// [`Error::Block`]: the first that failed.
pub(super) fn wait(memory: &Inner) -> Result<()> {
    let waits = takers(memory).map(|block| memory.registry.jobs.wait(&memory.key(&**block), block.name()));
    // Waits for all blocks, even if one failed.
    waits.fold(Ok(()), Result::and)
}

pub(super) fn status(memory: &Inner) -> Result<Vec<BlockStatus>> {
    let batches = memory.stored.batches()?;
    let keys: Vec<BlockKey> = takers(memory).map(|block| memory.key(&**block)).collect();
    let states = memory.stored.block_states(&keys)?;
    let status = |(key, BlockState { next, failed, .. }): (BlockKey, BlockState)| BlockStatus {
        behind: u64::from(batches.saturating_sub(next)),
        failed,
        retrying: memory.registry.jobs.failure(&key),
        name: key.name,
    };
    Ok(keys.into_iter().zip(states).map(status).collect())
}

/// Gives a block the batches again that it failed on. Returns how many it took.
pub(super) async fn retry_failed(memory: &Inner, block: &str) -> Result<u64> {
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
        let batch = engine.batch(key, number)?;
        if let Some(batch) = &batch {
            let state = block.put(&value(&read)?, &FlushedBatch::new(number, &batch.messages))?;
            new.state = Some(json(&state)?);
        }
        if engine.put_block_state(key, read, new, batch)? {
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
    let (read, batch) = match next_batch(engine, key, block) {
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
    let mut new = BlockState { next: read.next + 1, ..read.clone() };
    match state_after(block, &read, &batch) {
        Ok(state) => new.state = state,
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
    let put = engine.put_block_state(key, read, new, Some(batch));
    drop(lease);
    match put {
        // Either stored or out of date: in both cases there may be another batch.
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

fn next_batch(
    engine: &WeakEngine,
    key: &BlockKey,
    block: &dyn MemoryBlock,
) -> Result<Option<(BlockState, StoredBatch)>> {
    let mut read = engine.block_state(key)?;
    while read.is_dropped {
        let mut new = BlockState { is_dropped: false, ..read.clone() };
        if block.after_forget() == AfterForget::Rebuild {
            new.next = 0;
        }
        match engine.put_block_state(key, read, new, None) {
            // An engine that is open for reading has no batches either.
            Err(Error::ReadOnly { .. }) => return Ok(None),
            put => put?,
        };
        read = engine.block_state(key)?;
    }
    let batch = engine.batch(key, read.next)?;
    Ok(batch.map(|batch| (read, batch)))
}

fn state_after(block: &dyn MemoryBlock, read: &BlockState, batch: &StoredBatch) -> Result<Option<String>> {
    match batch.messages.is_empty() {
        // All messages of the batch were deleted since.
        true => Ok(read.state.clone()),
        false => {
            let (before, batch) = (value(read)?, FlushedBatch::new(batch.number, &batch.messages));
            let put = std::panic::AssertUnwindSafe(|| block.put(&before, &batch));
            let panicked = |_| Err(Error::Block { name: block.name().to_owned(), reason: "it panicked".into() });
            json(&std::panic::catch_unwind(put).unwrap_or_else(panicked)?).map(Some)
        }
    }
}

fn is_transient(error: &Error) -> bool {
    matches!(
        error,
        Error::Chat { transient: true, .. } | Error::Storage(_) | Error::SharedDatabase { transient: true, .. }
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

/// The text of an error and its sources, cut to [`MAX_REASON_BYTES`].
fn reason(error: &Error) -> String {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        reason = format!("{reason}: {error}");
        source = error.source();
    }
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    reason
}
