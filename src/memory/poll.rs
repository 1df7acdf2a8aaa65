//! Asking all blocks at once, until a deadline.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Asked, Inner, state::value};
use crate::{
    block::{BlockContent, BlockQuery, Recall},
    compose::{BlockFailure, BlockOutput},
    engine::{Core, Visitor},
    error::{Error, Result},
    ids::Namespace,
    message::Message,
    recall::{Hit, Query},
};

/// Recalls for as long as the engine is open: a block that hangs does not keep it open.
struct Recaller(Visitor);

impl Recall for Recaller {
    fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Vec<Hit>> {
        self.0.visit(|core| core.recall(namespace, query)).ok_or(Error::Closed)?.map(Vec::from)
    }

    fn batch_of(&self, namespace: &Namespace, id: &str) -> Result<Vec<Message>> {
        let batch_of = |core: &Core| {
            let snapshot = core.store().read()?;
            snapshot.namespace(namespace)?.map_or(Ok(Vec::new()), |namespace| snapshot.batch_of(namespace, id))
        };
        self.0.visit(batch_of).ok_or(Error::Closed)?
    }
}

impl Inner {
    /// What each block has to say to these messages, in the order of the blocks; and those that failed.
    pub(super) fn poll(
        &self,
        blocks: &[Asked],
        messages: Vec<Arc<Message>>,
    ) -> Result<(Vec<BlockOutput>, Vec<BlockFailure>)> {
        if blocks.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let recall = Arc::new(Recaller(self.core().visitor()));
        let query = BlockQuery::new(self.settings.namespace.clone(), self.settings.session.clone(), messages, recall);
        let deadline = Instant::now() + self.settings.block_deadline.min(MAX_DEADLINE);
        let (answers, answered) = mpsc::channel();
        let mut results: Vec<Option<Result<BlockContent, String>>> = Vec::new();
        let mut calls = Vec::new();
        let snapshot = self.core().store().read()?;
        for (at, asked) in blocks.iter().enumerate() {
            let state = value(&snapshot.block(&self.key(&*asked.block))?)?;
            // A block that hangs costs few threads, not one a prompt.
            let late = asked.late.load(Ordering::Acquire) >= MAX_LATE;
            let call = Arc::new(AtomicU8::new(RUNNING));
            let refused = if late {
                Some("it is still busy with earlier questions".to_owned())
            } else {
                ask(asked.clone(), state, query.clone(), at, answers.clone(), Arc::clone(&call)).err()
            };
            results.push(refused.map(Err));
            calls.push(call);
        }
        drop((answers, snapshot));
        while results.iter().any(Option::is_none) {
            match answered.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((at, answer)) => results[at] = Some(answer),
                Err(_) => break,
            }
        }
        let mut said = Vec::new();
        let mut failed = Vec::new();
        for ((asked, result), call) in blocks.iter().zip(results).zip(calls) {
            let result = result.unwrap_or_else(|| {
                if call.compare_exchange(RUNNING, LATE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    asked.late.fetch_add(1, Ordering::AcqRel);
                }
                Err(format!("not done within {} s", self.settings.block_deadline.as_secs_f32()))
            });
            match result {
                Ok(content) => said.push((Arc::clone(&asked.block), content)),
                Err(reason) => {
                    let name = asked.block.name().to_owned();
                    tracing::warn!(block = name, reason, "a block has nothing in the prompt");
                    failed.push(BlockFailure { name, reason });
                }
            }
        }
        Ok((said, failed))
    }
}

type Answer = (usize, Result<BlockContent, String>);

/// No prompt waits longer.
const MAX_DEADLINE: Duration = Duration::from_secs(86_400);

/// Questions over their deadline at which a block is not asked again until it is done with one.
const MAX_LATE: usize = 4;

const RUNNING: u8 = 0;
const LATE: u8 = 1;
const DONE: u8 = 2;

/// On a thread of its own: a block may hang for ever.
fn ask(
    asked: Asked,
    state: Value,
    query: BlockQuery,
    at: usize,
    answers: mpsc::Sender<Answer>,
    call: Arc<AtomicU8>,
) -> Result<(), String> {
    let run = move || {
        let get = std::panic::AssertUnwindSafe(|| asked.block.get(&state, &query));
        let answer = match std::panic::catch_unwind(get) {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("it panicked".into()),
        };
        if call.swap(DONE, Ordering::AcqRel) == LATE {
            asked.late.fetch_sub(1, Ordering::AcqRel);
        }
        // Nobody waits any more, if it was too slow.
        let _ = answers.send((at, answer));
    };
    let thread = std::thread::Builder::new().name("mnemon-block".into());
    thread.spawn(run).map(drop).map_err(|error| format!("no thread to ask it on: {error}"))
}
