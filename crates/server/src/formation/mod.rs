//! Memories that a language model forms: which blocks the sessions of a namespace have, the model that they ask, what it
//! costs.
//!
//! A flushed batch is handed to the blocks by the library, each batch once for each block, in the background. The library
//! does so while a memory of the session is open, or is opened again. A request opens one and drops it, so this module
//! opens those that no request does: after the idle time of a session, which then is flushed; after a put past its buffer;
//! and when the server starts, for batches that were not taken before it ended. It opens one after the other.
//!
//! The server keeps nothing of what a model answers: blocks do, by their own rules. `config` has the blocks of namespaces,
//! `usage` counts and limits calls.

mod config;
mod usage;

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use mnemon::{
    ChatModel, Collection, Engine, Error, MemoryBlock, MemoryBuilder, Message, Namespace, OpenAiChat,
    chat_model::ChatRequest,
    knowledge::CollectionReport,
    memory::{AfterForget, BlockContent, BlockQuery, BlockScope, FlushedBatch, InstructionBlock, TokenExcess},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::usage::ModelState;
use self::{
    config::{Block, Rule, Rules},
    usage::{Counted, CountedModel, Counts, Usage},
};
use crate::{access::DailyLimit, secrets::SecretRemoval, settings::Llm, telemetry::FormationMetrics};

/// Time between the end of a session's idle time and the look for its batches.
const AFTER_IDLE: Duration = Duration::from_secs(1);

/// A memory block for which the model is asked.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FormingBlock")]
pub(crate) struct Forming {
    pub(crate) name: String,
    /// `collection`, `profile`, `summary`, `facts` or `instructions`.
    kind: &'static str,
    /// The namespace of the documents that a collection or a profile makes; null for other blocks, which have a state.
    namespace: Option<Namespace>,
    /// The key of a profile's document.
    key: Option<String>,
    #[serde(flatten)]
    counts: Counts,
}

/// The rules of the configuration, and the model. Both were checked.
#[derive(Clone, Default)]
pub(crate) struct Plan {
    rules: Rules,
    model: Option<OpenAiChat>,
    timeout: Duration,
}

impl Plan {
    /// Reads the configuration and the key of the model.
    ///
    /// # Errors
    /// One of them cannot be read or is not valid.
    pub(crate) fn read(llm: Option<&Llm>, config: Option<&Path>) -> anyhow::Result<Self> {
        let rules = match (config, llm) {
            (Some(file), _) => Rules::read(file, llm.is_some())?,
            (None, Some(_)) => Rules::of_a_model(),
            (None, None) => Rules::default(),
        };
        let model = llm.map(client).transpose()?;
        Ok(Plan { rules, model, timeout: llm.map_or(Duration::ZERO, |llm| llm.timeout) })
    }

    /// Says in words what the configuration means.
    pub(crate) fn describe(&self, llm: Option<&Llm>) -> String {
        let model = match llm {
            Some(Llm { url, model, timeout, .. }) => {
                format!("model: {model} at {url}; a request to it may take {} s", timeout.as_secs())
            }
            None => "model: none, nothing is sent anywhere".to_owned(),
        };
        let rest = "Other namespaces: no blocks.";
        format!("{model}\n{}{rest}", self.rules)
    }
}

fn client(Llm { url, model, key_file, timeout }: &Llm) -> anyhow::Result<OpenAiChat> {
    ensure!(
        url.starts_with("http://") || url.starts_with("https://"),
        "--llm {url}: give the address of a server, such as http://localhost:11434/v1"
    );
    ensure!(!url.contains(['@', '?', '#']), "--llm: give the address without a key, and the key in --llm-key-file");
    // Failed batches are tried again by the library, which holds no thread meanwhile.
    let client = OpenAiChat::new(url, model).timeout(*timeout).attempts(1);
    let Some(file) = key_file else { return Ok(client) };
    let key = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    ensure!(!key.trim().is_empty(), "{}: it has no key", file.display());
    Ok(client.api_key(key))
}

/// The rules, the model and the counts with which a running server forms memories.
pub(crate) struct Formation {
    plan: Plan,
    usage: Arc<Usage>,
    /// Replaces secrets in what the model answers, if the server is to.
    secrets: Option<Arc<SecretRemoval>>,
    /// Sessions that wait for the end of their idle time, with the time at which they are looked at.
    idle: Mutex<HashMap<(Namespace, String), Instant>>,
}

impl Formation {
    pub(crate) fn new(
        plan: Plan,
        limits: Vec<DailyLimit>,
        metrics: FormationMetrics,
        secrets: Option<Arc<SecretRemoval>>,
    ) -> Self {
        Formation { plan, usage: Arc::new(Usage::new(limits, metrics)), secrets, idle: Mutex::default() }
    }

    /// Returns the builder of a session's memory, with the limits and the blocks of its namespace.
    ///
    /// # Errors
    /// [`Error::InvalidNamespace`]: the namespace of a collection would have too long a name.
    pub(crate) fn memory(
        &self,
        engine: &Engine,
        namespace: &Namespace,
        session: impl Into<String>,
        token_limit: Option<usize>,
    ) -> mnemon::Result<MemoryBuilder> {
        let rule = self.plan.rules.of(namespace);
        let mut limits = rule.map(Rule::limits).unwrap_or_default();
        if let Some(tokens) = token_limit {
            limits.token_limit = tokens;
            limits.token_flush_size = limits.token_flush_size.filter(|size| *size <= tokens);
        }
        let mut builder = engine.memory(namespace, session).limits(limits);
        for block in rule.iter().flat_map(|rule| &rule.blocks) {
            let counted = counted(namespace, block);
            let built = block.build(engine, namespace, self.counted_model(counted.clone()))?;
            builder = match block.asks_a_model() {
                true => builder.block(CountedBlock { block: built, usage: Arc::clone(&self.usage), counted }),
                false => builder.block(built),
            };
        }
        Ok(builder)
    }

    /// Returns the collection of a namespace, the first one if its rule has several, with the namespace of its items.
    pub(crate) fn collection(&self, engine: &Engine, namespace: &Namespace) -> Option<(Namespace, Collection)> {
        self.plan.rules.of(namespace)?.collection()?.collection(engine, namespace)?.ok()
    }

    /// Lets the model change the collection of a namespace as the messages say, at once.
    ///
    /// # Errors
    /// Nothing is stored. Those of [`Collection::update`]; a daily limit is used up.
    pub(crate) async fn infer(
        &self,
        engine: &Engine,
        namespace: &Namespace,
        messages: &[Message],
    ) -> mnemon::Result<CollectionReport> {
        let block = self.plan.rules.of(namespace).and_then(Rule::collection);
        let Some((block, Some(collection))) = block.map(|block| (block, block.collection(engine, namespace))) else {
            return Ok(CollectionReport::default());
        };
        self.check_limits(namespace)?;
        let counted = counted(namespace, block);
        let model = self.counted_model(counted.clone());
        collection?.1.update(messages, &model).await.inspect_err(|_| self.usage.failed(&counted))
    }

    /// Returns the time that the model may take for messages that are inferred from: it is asked up to three times.
    pub(crate) fn longest_inference(&self) -> Duration {
        3 * self.plan.timeout
    }

    fn counted_model(&self, counted: Counted) -> Arc<dyn ChatModel> {
        match &self.plan.model {
            Some(model) => Arc::new(CountedModel {
                model: Arc::new(model.clone()),
                usage: Arc::clone(&self.usage),
                counted,
                secrets: self.secrets.clone(),
            }),
            None => Arc::new(|_: &ChatRequest| {
                Err(Error::InvalidConfig {
                    reason: "this server has no language model; start it with --llm".to_owned(),
                })
            }),
        }
    }

    /// Returns the instructions of this name of a namespace, if it has them. Their calls are counted.
    pub(crate) fn instructions(&self, namespace: &Namespace, name: &str) -> Option<InstructionBlock> {
        let block = self.blocks(namespace).find(|block| block.name() == name)?;
        block.instructions(self.counted_model(counted(namespace, block)))
    }

    /// Refuses a call of the model if a daily limit of the namespace is used up.
    ///
    /// # Errors
    /// A transient [`Error::Chat`].
    pub(crate) fn check_limits(&self, namespace: &Namespace) -> mnemon::Result<()> {
        self.usage.check(namespace)
    }

    fn blocks(&self, namespace: &Namespace) -> impl Iterator<Item = &Block> {
        self.plan.rules.of(namespace).into_iter().flat_map(|rule| &rule.blocks)
    }

    /// Returns the blocks of a namespace for which the model is asked.
    pub(crate) fn forming(&self, namespace: &Namespace) -> Vec<Forming> {
        let forming = |block: &Block| {
            let (items, key) = block.documents(namespace).unzip();
            let counts = self.usage.counts(&counted(namespace, block));
            Forming { name: block.name().to_owned(), kind: block.kind(), namespace: items, key: key.flatten(), counts }
        };
        let is_forming = |block: &&Block| block.asks_a_model() || matches!(block, Block::Instructions { .. });
        self.blocks(namespace).filter(is_forming).map(forming).collect()
    }

    /// Returns whether the model's server answers; `None` if there is no model.
    pub(crate) fn model(&self) -> Option<ModelState> {
        self.plan.model.as_ref().map(|_| self.usage.model())
    }

    /// Returns the daily limits that are about a namespace.
    pub(crate) fn limits(&self, namespace: &Namespace) -> Vec<DailyLimit> {
        self.usage.limits(namespace)
    }

    /// Notes that messages were put into a session, which is looked at when its idle time is over.
    pub(crate) fn put(&self, namespace: &Namespace, session: &str) {
        if let Some(idle) = self.idle_time(namespace) {
            self.look_at(namespace.clone(), session.to_owned(), idle + AFTER_IDLE);
        }
    }

    /// Returns true if any namespace has a block that asks the model.
    pub(crate) fn asks_a_model(&self) -> bool {
        self.plan.rules.ask_a_model()
    }

    /// Returns the idle time of sessions of a namespace whose batches the model is given.
    pub(crate) fn idle_time(&self, namespace: &Namespace) -> Option<Duration> {
        let rule = self.plan.rules.of(namespace)?;
        rule.limits().idle_time.filter(|_| rule.blocks.iter().any(Block::asks_a_model))
    }

    /// Returns the tokens of a batch of messages that are stored without a session's buffer, if the model is given them.
    pub(crate) fn batch_tokens(&self, namespace: &Namespace) -> Option<usize> {
        let rule = self.plan.rules.of(namespace)?;
        rule.blocks.iter().any(Block::asks_a_model).then(|| rule.limits().flush_size())
    }

    /// Notes that a session is to be opened after this time.
    pub(crate) fn look_at(&self, namespace: Namespace, session: String, after: Duration) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.insert((namespace, session), Instant::now() + after);
    }

    /// Takes the sessions that are to be opened now.
    pub(crate) fn due(&self) -> Vec<(Namespace, String)> {
        let (mut idle, now) = (self.idle.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        idle.extract_if(|_, at| *at <= now).map(|(session, _)| session).collect()
    }
}

fn counted(namespace: &Namespace, block: &Block) -> Counted {
    Counted { namespace: namespace.clone(), block: block.name().to_owned(), kind: block.kind() }
}

/// A block whose failures are counted, and that waits while a daily limit is used up.
struct CountedBlock {
    block: Arc<dyn MemoryBlock>,
    usage: Arc<Usage>,
    counted: Counted,
}

impl MemoryBlock for CountedBlock {
    fn name(&self) -> &str {
        self.block.name()
    }

    fn priority(&self) -> u32 {
        self.block.priority()
    }

    fn scope(&self) -> BlockScope {
        self.block.scope()
    }

    fn first_state(&self) -> Value {
        self.block.first_state()
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> mnemon::Result<Value> {
        self.usage.check(&self.counted.namespace)?;
        self.block.put(state, batch).inspect_err(|error| {
            // Not the error itself: it may quote the model's answer.
            let is_available = !matches!(error, Error::Chat { transient: true, .. } | Error::ChatUnavailable { .. });
            tracing::warn!(block = self.counted.block, is_available, "a block failed on a batch");
            self.usage.failed(&self.counted);
        })
    }

    fn get(&self, state: &Value, query: &BlockQuery) -> mnemon::Result<BlockContent> {
        self.block.get(state, query)
    }

    fn after_forget(&self) -> AfterForget {
        self.block.after_forget()
    }

    fn truncate(&self, content: BlockContent, excess: &TokenExcess<'_>) -> BlockContent {
        self.block.truncate(content, excess)
    }
}
