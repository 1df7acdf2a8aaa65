//! Examples for few-shot prompts that are kept in the engine.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{executor::block_on, handle::Engine};
use crate::{
    error::{Result, impl_debug},
    fewshot::{ExampleSelector, FewShotExample},
    ids::{Namespace, hex},
    message::Message,
    recall::{Query, RankingStrategy, TimeUse},
};

/// The session of the messages that are examples.
const SESSION: &str = "examples";

/// The key in the metadata of an example's output.
const OUTPUT: &str = "output";

/// Selects examples that are messages of a namespace, by a recall: the best first. Examples can be added at any time,
/// and are still there when the file is opened again.
///
/// The text of an example's message is its input, and `metadata["output"]` its output. Give the examples a namespace of
/// their own; messages without an output are not selected. [`Engine::delete`] with [`message`](Self::message)'s id
/// removes an example.
///
#[cfg_attr(feature = "bundled-model", doc = "```")]
#[cfg_attr(not(feature = "bundled-model"), doc = "```ignore")]
/// # fn main() -> mnemon::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("memory.redb");
/// use mnemon::{Engine, EngineExampleSelector, ExampleSelector, FewShotExample};
/// let engine = Engine::open(&path)?;
/// let mut selector = EngineExampleSelector::new(&engine, &"acme/examples".parse()?);
/// selector.k = 1;
/// selector.add_blocking(vec![
///     FewShotExample::new("Book a table for two.", "reserve(2)"),
///     FewShotExample::new("What is the weather in Lyon?", "weather(Lyon)"),
/// ])?;
/// assert_eq!(selector.select("Will it rain in Paris?")?[0].output, "weather(Lyon)");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct EngineExampleSelector {
    engine: Engine,
    namespace: Namespace,
    /// The maximum number of examples to select, at least 1. Default: 4.
    pub k: usize,
    /// The strategy of the recall. Default: [`RankingStrategy::Hybrid`].
    pub strategy: RankingStrategy,
}

impl_debug!(EngineExampleSelector { namespace, k, strategy });

impl EngineExampleSelector {
    /// Selects among the examples in this namespace.
    pub fn new(engine: &Engine, namespace: &Namespace) -> Self {
        let (engine, namespace) = (engine.clone(), namespace.clone());
        EngineExampleSelector { engine, namespace, k: 4, strategy: RankingStrategy::Hybrid }
    }

    /// Returns the message that an example is kept as. The same example has the same id, so it is kept once.
    pub fn message(example: &FewShotExample) -> Message {
        let mut hash = Sha256::new();
        hash.update((example.input.len() as u64).to_le_bytes());
        hash.update(&example.input);
        hash.update(&example.output);
        let id = hex(&hash.finalize());
        let mut message = Message { created_at: None, ..Message::user(&*example.input) };
        message.metadata.insert(OUTPUT.to_owned(), example.output.as_str().into());
        message.with_id(id).in_session(SESSION)
    }

    /// Stores examples durably, and embeds them with all other pending messages. Once it returns, they can be selected.
    ///
    /// # Errors
    /// Those of [`Engine::put`], such as for an empty input, and of [`Engine::flush`].
    pub async fn add(&self, examples: Vec<FewShotExample>) -> Result<()> {
        self.engine.put(&self.namespace, examples.iter().map(Self::message).collect()).await?;
        self.engine.flush().await?;
        Ok(())
    }

    /// Same as [`add`](Self::add), on the calling thread.
    ///
    /// # Errors
    /// Those of [`add`](Self::add).
    pub fn add_blocking(&self, examples: Vec<FewShotExample>) -> Result<()> {
        block_on(self.add(examples))
    }

    /// Selects examples for an input, as [`select`](ExampleSelector::select) does on the calling thread.
    ///
    /// # Errors
    /// Those of [`Engine::recall`], such as for an empty input.
    pub async fn find(&self, input: &str) -> Result<Vec<FewShotExample>> {
        // The order of examples and their lengths mean nothing, and neither do times that an input names.
        let query = Query::new(input).k(self.k).strategy(self.strategy);
        let query = query.neighbors(false).length_prior(false).time(TimeUse::Ignore).session(SESSION);
        let hits = self.engine.recall(&self.namespace, query).await?;
        let example = |message: &Message| {
            let output = message.metadata.get(OUTPUT).and_then(Value::as_str)?;
            Some(FewShotExample::new(message.text(), output))
        };
        Ok(hits.iter().filter_map(|hit| example(&hit.message)).collect())
    }
}

impl ExampleSelector for EngineExampleSelector {
    /// # Errors
    /// Those of [`Engine::recall`].
    fn select(&self, input: &str) -> Result<Vec<FewShotExample>> {
        block_on(self.find(input))
    }
}
