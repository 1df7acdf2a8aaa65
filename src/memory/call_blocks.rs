//! Calls all blocks of a prompt at the same time and collects their content until a deadline.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    block_state::value,
    inner::{Inner, PromptBlock},
};
use crate::{
    block::{BlockContent, BlockQuery, Retriever},
    compose::{BlockFailure, BlockOutput},
    engine::{Executor, Lane, WeakEngine},
    error::{Error, Result},
    ids::Namespace,
    message::Message,
    recall::{Hit, Query},
};

/// A retriever for blocks. It does not find messages that the prompt contains already. It does not keep the engine open, so a block that
/// hangs does not either.
struct Recaller {
    engine: WeakEngine,
    shown: Vec<String>,
}

impl Retriever for Recaller {
    fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Vec<Hit>> {
        self.engine.recall(namespace, &query.clone().except(self.shown.iter().cloned())).map(Vec::from)
    }

    fn batch_of(&self, namespace: &Namespace, id: &str) -> Result<Vec<Message>> {
        self.engine.batch_of(namespace, id)
    }
}

impl Inner {
    /// Returns the content of each block for a prompt with these messages, in the order of the blocks, and the blocks that failed.
    pub(super) fn call_blocks(
        &self,
        blocks: &[PromptBlock],
        messages: Vec<Arc<Message>>,
    ) -> Result<(Vec<BlockOutput>, Vec<BlockFailure>)> {
        if blocks.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let shown = messages.iter().map(|message| message.id.clone()).collect();
        let recall = Arc::new(Recaller { engine: self.stored.weak_engine(), shown });
        let query = BlockQuery::new(self.stored.namespace.clone(), self.stored.session.clone(), messages, recall);
        let deadline = Instant::now() + self.settings.block_deadline.min(MAX_DEADLINE);
        let (answers, answered) = mpsc::channel();
        let mut results: Vec<Option<Result<BlockContent, String>>> = Vec::new();
        let mut calls = Vec::new();
        let executor = self.stored.executor();
        let keys: Vec<_> = blocks.iter().map(|called| self.key(&*called.block)).collect();
        let states = self.stored.block_states(&keys)?;
        for (at, (called, state)) in blocks.iter().zip(&states).enumerate() {
            let state = value(state)?;
            // A block that hangs costs few threads, not one for each prompt.
            let is_late = called.late.load(Ordering::Acquire) >= MAX_LATE;
            let call = Arc::new(AtomicU8::new(RUNNING));
            let refused = if is_late {
                Some(format!("it is still busy with {MAX_LATE} earlier prompts, past their deadlines"))
            } else {
                call_block(executor, called.clone(), state, query.clone(), at, answers.clone(), Arc::clone(&call)).err()
            };
            results.push(refused.map(Err));
            calls.push(call);
        }
        drop(answers);
        while results.iter().any(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            match answered.recv_timeout(left.min(CLOSING_CHECK)) {
                Ok((at, answer)) => results[at] = Some(answer),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(_) if executor.is_closing() => return Err(Error::Closed),
                Err(_) if left.is_zero() => break,
                Err(_) => {}
            }
        }
        let mut outputs = Vec::new();
        let mut failed = Vec::new();
        for ((called, result), call) in blocks.iter().zip(results).zip(calls) {
            let result = result.unwrap_or_else(|| {
                if call.compare_exchange(RUNNING, LATE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    called.late.fetch_add(1, Ordering::AcqRel);
                }
                Err(format!("not done within {} s", self.settings.block_deadline.as_secs_f32()))
            });
            match result {
                Ok(content) => outputs.push((Arc::clone(&called.block), content)),
                Err(reason) => {
                    let name = called.block.name().to_owned();
                    tracing::warn!(block = name, reason, "a block is left out of a prompt");
                    failed.push(BlockFailure { name, reason });
                }
            }
        }
        Ok((outputs, failed))
    }
}

type Answer = (usize, Result<BlockContent, String>);

/// Interval at which a waiting prompt checks whether the engine is being closed.
const CLOSING_CHECK: Duration = Duration::from_millis(50);

/// The longest deadline.
const MAX_DEADLINE: Duration = Duration::from_secs(86_400);

/// Number of calls past their deadline at which a block is not called again until one of them returns.
const MAX_LATE: usize = 4;

const RUNNING: u8 = 0;
const LATE: u8 = 1;
const DONE: u8 = 2;

/// Calls a block on a lane of its own: a block may hang for ever.
fn call_block(
    executor: &Executor,
    called: PromptBlock,
    state: Value,
    query: BlockQuery,
    at: usize,
    answers: mpsc::Sender<Answer>,
    call: Arc<AtomicU8>,
) -> Result<(), String> {
    let run = move || {
        let late = || called.late.fetch_sub(1, Ordering::AcqRel);
        // The call waited for a thread until its deadline: nobody waits for the answer.
        if call.load(Ordering::Acquire) == LATE {
            late();
            return;
        }
        let get = std::panic::AssertUnwindSafe(|| called.block.get(&state, &query));
        let answer = match std::panic::catch_unwind(get) {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("it panicked".into()),
        };
        if call.swap(DONE, Ordering::AcqRel) == LATE {
            late();
        }
        // Nobody receives the answer if the deadline has passed.
        let _ = answers.send((at, answer));
    };
    executor.spawn(Lane::BlockCalls, run).map_err(|error| format!("no thread could call it: {error}"))
}
