//! Calls all blocks of a prompt at the same time and collects their content until a deadline.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    batch_jobs::value,
    open_memory::{OpenMemory, PromptBlock},
};
use crate::{
    block::{BlockContent, BlockQuery, Retriever},
    compose::{BlockFailure, BlockOutput, Prompt, PromptSectionReport},
    engine::{Executor, Lane, WeakEngine},
    error::{Error, Result},
    ids::Namespace,
    message::{Message, TimeZone},
    read_budget::ReadBudget,
    recall::{Hit, Query},
};

/// Recalls messages for blocks, without those that the prompt contains already. It does not keep the engine open, so a
/// block that hangs does not either.
struct Recaller {
    engine: WeakEngine,
    shown: Vec<String>,
    /// The sequence numbers of messages in `shown`.
    seqs: Arc<HashMap<String, u64>>,
    read_budget: Option<ReadBudget>,
}

impl Retriever for Recaller {
    fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Vec<Hit>> {
        let (known_seqs, read_budget) = (Arc::clone(&self.seqs), self.read_budget.clone());
        let query = Query { known_seqs, read_budget, ..query.clone() };
        self.engine.recall(namespace, &query.except(self.shown.iter().cloned())).map(Vec::from)
    }

    fn batch_of(&self, namespace: &Namespace, id: &str) -> Result<Vec<Message>> {
        self.engine.batch_of(namespace, id)
    }
}

/// The content of blocks.
#[derive(Default)]
pub(super) struct BlockAnswers {
    /// The content of the blocks that answered, in the order of the blocks.
    pub(super) outputs: Vec<BlockOutput>,
    failed: Vec<BlockFailure>,
    /// The name of each block, the duration of its call, and the scores of the messages that it recalled.
    calls: Vec<(String, Duration, HashMap<String, f32>)>,
    /// The ids of messages that blocks left out because others supersede them.
    superseded: Vec<String>,
}

impl BlockAnswers {
    /// Adds the calls of the blocks to the report of a prompt.
    pub(super) fn report(self, prompt: &mut Prompt) {
        prompt.failed = self.failed;
        for recalled in &mut prompt.recalled {
            let call = self.calls.iter().find(|(name, ..)| *name == recalled.block);
            recalled.score = call.and_then(|(.., scores)| scores.get(&recalled.id).copied());
        }
        let is_recalled = |id: &String| prompt.recalled.iter().any(|recalled| recalled.id == *id);
        prompt.left_out.extend(self.superseded.into_iter().filter(|id| !is_recalled(id)).collect::<Vec<_>>());
        let tokens: HashMap<String, usize> =
            std::mem::take(&mut prompt.sections).into_iter().map(|section| (section.name, section.tokens)).collect();
        let sections = self.calls.into_iter().map(|(name, elapsed, _)| {
            let mut section = PromptSectionReport::default();
            (section.tokens, section.name, section.elapsed) = (tokens.get(&name).copied().unwrap_or(0), name, elapsed);
            section
        });
        prompt.sections = sections.collect();
    }
}

impl OpenMemory {
    /// Calls all blocks for their content for a prompt with these messages. `seqs` maps the ids of stored messages to
    /// their sequence numbers.
    pub(super) fn call_blocks(
        &self,
        blocks: &[PromptBlock],
        messages: Vec<Arc<Message>>,
        mut seqs: HashMap<String, u64>,
        time_zone: Option<TimeZone>,
    ) -> Result<BlockAnswers> {
        let mut all = BlockAnswers::default();
        if blocks.is_empty() {
            return Ok(all);
        }
        let shown: Vec<String> = messages.iter().map(|message| message.id.clone()).collect();
        let seqs = Arc::new(shown.iter().filter_map(|id| seqs.remove_entry(id)).collect());
        let (engine, read_budget) = (self.stored.weak_engine(), self.stored.read_budget.clone());
        let recall = Arc::new(Recaller { engine, shown, seqs, read_budget });
        let mut query = BlockQuery::new(self.stored.namespace.clone(), self.stored.session.clone(), messages, recall);
        query.time_zone = time_zone;
        let begin = Instant::now();
        let deadline = begin + self.settings.block_deadline.min(MAX_DEADLINE);
        let (answers, answered) = mpsc::channel();
        let mut results: Vec<Option<(Result<BlockContent, String>, Duration)>> = Vec::new();
        let mut calls = Vec::new();
        let executor = self.stored.executor();
        let keys: Vec<_> = blocks.iter().map(|called| self.key(&*called.block)).collect();
        let states = self.stored.block_states(&keys)?;
        for (at, (called, state)) in blocks.iter().zip(&states).enumerate() {
            let state = value(state)?;
            // A block that hangs costs a few threads, not one for each prompt.
            let is_late = called.late.load(Ordering::Acquire) >= MAX_LATE;
            let (call, query) = (Arc::new(AtomicU8::new(RUNNING)), query.for_block());
            let refused = if is_late {
                Some(format!("it is still busy with {MAX_LATE} earlier prompts, past their deadlines"))
            } else {
                call_block(executor, called.clone(), state, query.clone(), at, answers.clone(), Arc::clone(&call)).err()
            };
            results.push(refused.map(|reason| (Err(reason), Duration::ZERO)));
            calls.push((call, query));
        }
        drop(answers);
        while results.iter().any(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            match answered.recv_timeout(left.min(CLOSING_CHECK)) {
                Ok((at, answer)) => results[at] = Some((answer, begin.elapsed())),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(_) if executor.is_closing() => return Err(Error::Closed),
                Err(_) if left.is_zero() => break,
                Err(_) => {}
            }
        }
        for ((called, result), (call, query)) in blocks.iter().zip(results).zip(calls) {
            let (result, elapsed) = result.unwrap_or_else(|| {
                if call.compare_exchange(RUNNING, LATE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    called.late.fetch_add(1, Ordering::AcqRel);
                }
                let reason = format!("not done within {} s", self.settings.block_deadline.as_secs_f32());
                (Err(reason), begin.elapsed())
            });
            let name = called.block.name().to_owned();
            all.calls.push((name.clone(), elapsed, query.take_scores()));
            all.superseded.extend(query.take_left_out());
            match result {
                Ok(content) => all.outputs.push((Arc::clone(&called.block), content)),
                Err(reason) => {
                    tracing::warn!(block = name, reason, "a block is left out of a prompt");
                    all.failed.push(BlockFailure { name, reason });
                }
            }
        }
        Ok(all)
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
        // The call waited for a thread until its deadline, so no prompt needs the answer.
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
        // Fails if the deadline has passed.
        let _ = answers.send((at, answer));
    };
    executor.spawn(Lane::BlockCalls, run).map_err(|error| format!("no thread could call it: {error}"))
}
