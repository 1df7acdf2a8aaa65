//! The file `serve.toml`, which says which memory blocks the sessions of a namespace have. This module reads and checks it,
//! and says in words what it means.
//!
//! A rule is about the namespaces at and under its prefix, or about all. Of several rules that fit, the one with the
//! longest prefix counts, and the others do not. A namespace without a rule has no blocks.

use std::{fmt, num::NonZeroU64, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use mnemon::{
    ChatModel, Collection, Engine, FactBlock, MemoryBlock, Namespace, Profile, StaticBlock, SummaryBlock, VectorBlock,
    knowledge::{CollectionBlock, ProfileBlock},
    memory::{BlockScope, BufferLimits, InstructionBlock},
};
use serde::Deserialize;

/// The greatest number of items, words and the like.
const MOST: usize = 1000;
/// The section of a prompt that the library fills itself.
const RESERVED: &str = "recalled";

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    namespaces: Vec<Rule>,
}

/// The limits and the blocks of sessions in the namespaces at and under a prefix.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// `None`: all namespaces.
    prefix: Option<Namespace>,
    token_limit: Option<usize>,
    chat_history_token_ratio: Option<f64>,
    token_flush_size: Option<usize>,
    idle_seconds: Option<NonZeroU64>,
    #[serde(default)]
    pub(super) blocks: Vec<Block>,
}

/// A block and its settings. Those that are left out are the library's.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Block {
    Static {
        name: Name,
        #[serde(default)]
        priority: u32,
        text: String,
    },
    Vectors {
        name: Name,
        #[serde(default)]
        priority: u32,
        k: Option<Number>,
        threshold: Option<f32>,
        min_score: Option<f32>,
        #[serde(default)]
        own_session: bool,
    },
    Instructions {
        name: Name,
        #[serde(default)]
        priority: u32,
        text: String,
        #[serde(default)]
        all_sessions: bool,
    },
    Facts {
        name: Name,
        #[serde(default)]
        priority: u32,
        max_facts: Option<Number>,
        #[serde(default)]
        all_sessions: bool,
    },
    Summary {
        name: Name,
        #[serde(default)]
        priority: u32,
        max_words: Option<Number>,
    },
    Profile {
        name: Name,
        #[serde(default)]
        priority: u32,
        key: Option<String>,
        description: Option<String>,
    },
    Collection {
        name: Name,
        #[serde(default)]
        priority: u32,
        /// The end of the name of the namespace of the items.
        below: Option<Namespace>,
        k: Option<Number>,
        shown: Option<Number>,
        description: Option<String>,
    },
}

/// The name of a block: its element in prompts.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Name(pub(super) String);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_later = |c: char| is_first(c) || c.is_ascii_digit() || matches!(c, '-' | '.');
        match name.starts_with(is_first) && name.chars().all(is_later) && name.len() <= 128 && name != RESERVED {
            true => Ok(Name(name)),
            false => Err(format!(
                "{name:?} cannot be the name of a block; use a letter or '_', followed by up to 127 letters, digits, '_', '-' or '.', \
                 and not {RESERVED:?}"
            )),
        }
    }
}

/// A number from 1 to 1000.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "usize")]
pub(crate) struct Number(usize);

impl TryFrom<usize> for Number {
    type Error = String;

    fn try_from(number: usize) -> Result<Self, String> {
        match number {
            1..=MOST => Ok(Number(number)),
            _ => Err(format!("{number} is not a number from 1 to {MOST}")),
        }
    }
}

/// Returns the number, or the default of the library's block.
fn or(number: Option<Number>, default: usize) -> usize {
    number.map_or(default, |Number(number)| number)
}

/// The rules, those with the longest prefixes first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(Vec<Rule>);

impl Rules {
    /// The rules of a server with a model and no file: a collection of facts below each namespace. `assemble` recalls
    /// messages besides, as it does without rules.
    pub(crate) fn of_a_model() -> Self {
        let facts = Block::Collection {
            name: Name("facts".to_owned()),
            priority: 1,
            below: None,
            k: None,
            shown: None,
            description: None,
        };
        Rules(vec![Rule { blocks: vec![facts], ..Rule::default() }])
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not valid. The text names the line of an unknown key.
    pub(crate) fn read(path: &Path, has_model: bool) -> anyhow::Result<Self> {
        let place = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(place)?;
        let File { namespaces: mut rules } = toml::from_str(&text).with_context(place)?;
        ensure!(!rules.is_empty(), "{}: it has no [[namespaces]]; docs/server.md has an example", place());
        for (at, rule) in rules.iter().enumerate() {
            rule.check(has_model).with_context(|| format!("{}: {}", place(), rule.subject()))?;
            if rules[..at].iter().any(|other| other.prefix == rule.prefix) {
                bail!("{}: two rules are about {}; give one", place(), rule.subject());
            }
        }
        // Of two prefixes of one namespace, the one with more bytes has more labels.
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.prefix.as_ref().map_or(0, |prefix| prefix.as_str().len())));
        Ok(Rules(rules))
    }

    pub(crate) fn of(&self, namespace: &Namespace) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.prefix.as_ref().is_none_or(|prefix| namespace.starts_with(prefix)))
    }

    pub(crate) fn ask_a_model(&self) -> bool {
        self.0.iter().any(|rule| rule.blocks.iter().any(Block::asks_a_model))
    }
}

impl Rule {
    fn subject(&self) -> String {
        match &self.prefix {
            Some(prefix) => format!("namespaces at and under {prefix:?}"),
            None => "all namespaces".to_owned(),
        }
    }

    fn check(&self, has_model: bool) -> anyhow::Result<()> {
        let limits = self.limits();
        BufferLimits::new(limits.token_limit, limits.chat_history_token_ratio, limits.flush_size())?;
        for (at, block) in self.blocks.iter().enumerate() {
            let name = block.name();
            ensure!(
                self.blocks[..at].iter().all(|other| other.name() != name),
                "two blocks have the name {name:?}; give each its own"
            );
            ensure!(
                has_model || !block.asks_a_model(),
                "the block {name:?} asks a language model; start the server with --llm and --llm-model"
            );
            let place = |block: &Block| match block {
                Block::Collection { below, .. } => below.clone().or_else(|| FACTS.parse().ok()),
                _ => None,
            };
            ensure!(
                place(block)
                    .is_none_or(|own| self.blocks[..at].iter().all(|other| place(other).as_ref() != Some(&own))),
                "two collections are below one namespace; give each its own `below`"
            );
        }
        Ok(())
    }

    pub(crate) fn limits(&self) -> BufferLimits {
        let mut limits = BufferLimits::default();
        limits.token_limit = self.token_limit.unwrap_or(limits.token_limit);
        limits.chat_history_token_ratio = self.chat_history_token_ratio.unwrap_or(limits.chat_history_token_ratio);
        limits.token_flush_size = self.token_flush_size;
        limits.idle_time = self.idle_seconds.map(|seconds| Duration::from_secs(seconds.get())).or(limits.idle_time);
        limits
    }

    /// Returns the first block that is a collection.
    pub(super) fn collection(&self) -> Option<&Block> {
        self.blocks.iter().find(|block| matches!(block, Block::Collection { .. }))
    }
}

/// The default end of the name of the namespace of a collection.
const FACTS: &str = "facts";

impl Block {
    pub(super) fn name(&self) -> &str {
        match self {
            Block::Static { name, .. }
            | Block::Vectors { name, .. }
            | Block::Instructions { name, .. }
            | Block::Facts { name, .. }
            | Block::Summary { name, .. }
            | Block::Profile { name, .. }
            | Block::Collection { name, .. } => &name.0,
        }
    }

    /// Returns the kind as the file names it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Block::Static { .. } => "static",
            Block::Vectors { .. } => "vectors",
            Block::Instructions { .. } => "instructions",
            Block::Facts { .. } => "facts",
            Block::Summary { .. } => "summary",
            Block::Profile { .. } => "profile",
            Block::Collection { .. } => "collection",
        }
    }

    /// Returns true if flushed batches are given to a language model.
    pub(super) fn asks_a_model(&self) -> bool {
        !matches!(self, Block::Static { .. } | Block::Vectors { .. } | Block::Instructions { .. })
    }

    /// Returns the collection of a namespace, and the namespace of its items, if the block is one.
    ///
    /// # Errors
    /// [`mnemon::Error::InvalidNamespace`]: the name of the second namespace would be too long.
    pub(super) fn collection(
        &self,
        engine: &Engine,
        namespace: &Namespace,
    ) -> Option<mnemon::Result<(Namespace, Collection)>> {
        let Block::Collection { below, shown, description, .. } = self else { return None };
        let below = below.as_ref().map_or(FACTS, Namespace::as_str);
        Some(format!("{namespace}/{below}").parse().map(|items| {
            let collection = Collection::new(engine, &items).shown(or(*shown, 40));
            match description {
                Some(description) => (items, collection.describe(description)),
                None => (items, collection),
            }
        }))
    }

    /// Returns the instructions, if the block is that, which `model` refines.
    pub(super) fn instructions(&self, model: Arc<dyn ChatModel>) -> Option<InstructionBlock> {
        let Block::Instructions { name, priority, text, all_sessions } = self else { return None };
        let block = InstructionBlock::new(&*name.0, &**text, model);
        Some(block.with_priority(*priority).with_scope(scope(*all_sessions)))
    }

    /// Returns the namespace of the documents that the block makes, and their key if there is one alone.
    pub(super) fn documents(&self, namespace: &Namespace) -> Option<(Namespace, Option<String>)> {
        match self {
            Block::Profile { name, key, .. } => {
                Some((namespace.clone(), Some(key.clone().unwrap_or_else(|| name.0.clone()))))
            }
            Block::Collection { below, .. } => {
                let below = below.as_ref().map_or(FACTS, Namespace::as_str);
                Some((format!("{namespace}/{below}").parse().ok()?, None))
            }
            _ => None,
        }
    }

    /// Makes the block of a session in a namespace. `model` answers what it asks.
    ///
    /// # Errors
    /// [`mnemon::Error::InvalidNamespace`]: the name of a collection's namespace would be too long.
    pub(super) fn build(
        &self,
        engine: &Engine,
        namespace: &Namespace,
        model: Arc<dyn ChatModel>,
    ) -> mnemon::Result<Arc<dyn MemoryBlock>> {
        Ok(match self.clone() {
            Block::Static { name, priority, text } => Arc::new(StaticBlock::new(name.0, text).with_priority(priority)),
            Block::Vectors { name, priority, k, threshold, min_score, own_session } => {
                let mut block = VectorBlock::new(name.0).with_priority(priority).similarity_top_k(or(k, VECTORS));
                if let Some(threshold) = threshold {
                    block = block.similarity_threshold(threshold);
                }
                if let Some(least) = min_score {
                    block = block.min_score(least);
                }
                if own_session {
                    block = block.own_session();
                }
                Arc::new(block)
            }
            Block::Instructions { .. } => Arc::new(self.instructions(model).expect("these are instructions")),
            Block::Facts { name, priority, max_facts, all_sessions } => {
                let block = FactBlock::new(name.0, model).with_priority(priority).with_max_facts(or(max_facts, 50));
                Arc::new(block.with_scope(scope(all_sessions)))
            }
            Block::Summary { name, priority, max_words } => {
                Arc::new(SummaryBlock::new(name.0, model).with_priority(priority).with_max_words(or(max_words, 300)))
            }
            Block::Profile { name, priority, key, description } => {
                let mut profile = Profile::new(engine, namespace, key.unwrap_or_else(|| name.0.clone()));
                if let Some(description) = description {
                    profile = profile.describe(description);
                }
                Arc::new(ProfileBlock::new(name.0, &profile, model).with_priority(priority))
            }
            Block::Collection { name, priority, k, .. } => {
                let (_, collection) = self.collection(engine, namespace).expect("this is a collection")?;
                Arc::new(CollectionBlock::new(name.0, &collection, model).with_priority(priority).with_k(or(k, 10)))
            }
        })
    }
}

fn scope(all_sessions: bool) -> BlockScope {
    if all_sessions { BlockScope::Namespace } else { BlockScope::Session }
}

/// Messages that a block of vectors recalls.
const VECTORS: usize = 3;

/// Says in words what the rules mean.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.0 {
            let subject = rule.subject();
            writeln!(f, "{}{}:", subject[..1].to_uppercase(), &subject[1..])?;
            let limits = rule.limits();
            writeln!(
                f,
                "  a prompt has up to {} tokens, recent messages {} of them; older turns are flushed, {} tokens or more at a time, \
                 and all after {} s without a message",
                limits.token_limit,
                limits.budget(),
                limits.flush_size(),
                limits.idle_time.map_or(0, |time| time.as_secs())
            )?;
            for block in &rule.blocks {
                let call = if block.asks_a_model() { "; asks the model for each flushed batch" } else { "" };
                writeln!(f, "  {} ({}): {block}{call}", block.name(), block.kind())?;
            }
            if rule.blocks.is_empty() {
                writeln!(f, "  no blocks")?;
            }
        }
        Ok(())
    }
}

/// Where the state of a block is kept, and what prompts show of it.
impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |all_sessions: &bool| match all_sessions {
            true => "the state of the namespace, for all sessions",
            false => "the state of each session",
        };
        match self {
            Block::Static { text, .. } => write!(f, "a text of {} bytes in the configuration", text.len()),
            Block::Vectors { k, own_session, .. } => {
                let whose = if *own_session { "its session" } else { "all sessions of the namespace" };
                write!(f, "up to {} recalled messages of {whose}; keeps nothing", or(*k, VECTORS))
            }
            Block::Instructions { all_sessions, .. } => {
                write!(f, "begins with a text of the configuration; kept in {}", of(all_sessions))
            }
            Block::Facts { max_facts, all_sessions, .. } => {
                write!(f, "up to {} facts, all of them in prompts; kept in {}", or(*max_facts, 50), of(all_sessions))
            }
            Block::Summary { max_words, .. } => {
                write!(f, "a summary of about {} words; kept in {}", or(*max_words, 300), of(&false))
            }
            Block::Profile { name, key, .. } => {
                write!(f, "kept in the document {:?} of the namespace", key.as_ref().unwrap_or(&name.0))
            }
            Block::Collection { below, k, shown, .. } => write!(
                f,
                "kept as documents of NAMESPACE/{}; prompts show up to {} of them, the model up to {}",
                below.as_ref().map_or(FACTS, Namespace::as_str),
                or(*k, 10),
                or(*shown, 40)
            ),
        }
    }
}
