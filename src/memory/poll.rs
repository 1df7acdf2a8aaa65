//! Asking all blocks at once, until a deadline.

use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Asked, Inner, value};
use crate::{
    block::{BlockContent, BlockQuery, Recall},
    compose::{BlockFailure, Said},
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
        self.0.visit(|core| core.recall(namespace, query)).ok_or(Error::Closed)?
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
    pub(super) fn poll(&self, blocks: &[Asked], messages: Vec<Arc<Message>>) -> Result<(Vec<Said>, Vec<BlockFailure>)> {
        if blocks.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let recall = Arc::new(Recaller(self.core().visitor()));
        let query = BlockQuery::new(self.namespace.clone(), self.session.clone(), messages.into(), recall);
        let deadline = Instant::now() + self.block_deadline;
        let (answers, answered) = mpsc::channel();
        let mut results: Vec<Option<Result<BlockContent, String>>> = Vec::new();
        let snapshot = self.core().store().read()?;
        for (at, asked) in blocks.iter().enumerate() {
            let state = value(&snapshot.block(&self.key(&*asked.block))?)?;
            let busy = asked.busy.swap(true, Ordering::AcqRel);
            results.push(busy.then(|| Err("it is still busy with an earlier question".into())));
            if !busy {
                ask(asked.clone(), state, query.clone(), at, answers.clone());
            }
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
        for (asked, result) in blocks.iter().zip(results) {
            match result.unwrap_or_else(|| Err(format!("not done within {}", seconds(self.block_deadline)))) {
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

/// On a thread of its own: a block may hang for ever.
fn ask(asked: Asked, state: Value, query: BlockQuery, at: usize, answers: mpsc::Sender<Answer>) {
    let run = move || {
        let get = std::panic::AssertUnwindSafe(|| asked.block.get(&state, &query));
        let answer = match std::panic::catch_unwind(get) {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("it panicked".into()),
        };
        asked.busy.store(false, Ordering::Release);
        // Nobody waits any more, if it was too slow.
        let _ = answers.send((at, answer));
    };
    std::thread::Builder::new().name("mnemon-block".into()).spawn(run).expect("the system can start a thread");
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f32())
}
