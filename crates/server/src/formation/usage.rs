//! Counts the calls of the model, their tokens and their failures, by namespace and block since the server started, and
//! compares them with the daily limits of tokens.
//!
//! A limit belongs to the prefix of a token of access. What is formed in the namespaces at and under it counts, whoever
//! wrote the messages. It is compared before a call, so the calls that run then may exceed it. Days are those of UTC. The
//! counts are in memory: a server that is started anew begins with none. So is what is known of the model's server: whether it
//! answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mnemon::{
    ChatModel, Error, Message, Namespace, Timestamp,
    chat_model::{ChatAnswer, ChatFuture, ChatRequest, Usage as Tokens},
    message::{MessageTokenCounter, PerPartTokenCounter},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{access::DailyLimit, secrets::SecretRemoval, telemetry::FormationMetrics};

/// The most bytes of an answer that a block is given. The client reads 8 MiB at most.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// Blocks of namespaces that are counted. For another, the counts are dropped that did not change for the longest time.
const MAX_COUNTED: usize = 10_000;
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// A block of a namespace, whose calls are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counted {
    pub(crate) namespace: Namespace,
    pub(crate) block: String,
    /// The kind of the block: a few words, for labels of metrics.
    pub(crate) kind: &'static str,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Counts {
    /// Answered and failed requests to the model.
    calls: u64,
    /// Tokens of the requests that were answered: those that the model's server reports, or else, or if it reports none, an
    /// estimate.
    prompt_tokens: u64,
    /// Tokens of the answers.
    completion_tokens: u64,
    /// Batches that failed, each as often as it did: the model was not available, or its answer was of no use.
    failures: u64,
    #[serde(skip)]
    changed_at: i64,
}

/// Whether the model's server answers, as of the last call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "LanguageModel")]
pub(crate) struct ModelState {
    pub(crate) available: bool,
    /// The time of the first call that it did not answer, since the last that it did.
    pub(crate) since: Option<Timestamp>,
    /// How it answered then, without what it said about the request.
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    counts: HashMap<Counted, Counts>,
    /// Since when the model's server does not answer, and how it refuses.
    outage: Option<(Timestamp, String)>,
    limits: Vec<DailyLimit>,
    /// The day that the limits count, since 1970.
    day: i64,
}

#[derive(Debug)]
pub(crate) struct Usage {
    state: Mutex<State>,
    metrics: FormationMetrics,
}

impl Usage {
    pub(crate) fn new(limits: Vec<DailyLimit>, metrics: FormationMetrics) -> Self {
        Usage { state: Mutex::new(State { limits, ..State::default() }), metrics }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let today = Timestamp::now().as_micros().div_euclid(DAY);
        if state.day != today {
            state.day = today;
            state.limits.iter_mut().for_each(|limit| limit.used = 0);
        }
        state
    }

    /// Returns the counts of a block.
    pub(crate) fn counts(&self, counted: &Counted) -> Counts {
        self.state().counts.get(counted).cloned().unwrap_or_default()
    }

    /// Returns the limits that are about a namespace.
    pub(crate) fn limits(&self, namespace: &Namespace) -> Vec<DailyLimit> {
        self.state().limits.iter().filter(|limit| covers(limit, namespace)).cloned().collect()
    }

    /// Refuses a call if a limit of the namespace is used up.
    ///
    /// # Errors
    /// A transient [`Error::Chat`], with the time until the next day.
    pub(crate) fn check(&self, namespace: &Namespace) -> mnemon::Result<()> {
        let state = self.state();
        let used_up = state.limits.iter().find(|limit| covers(limit, namespace) && limit.used >= limit.tokens_per_day);
        let Some(DailyLimit { tokens_per_day, .. }) = used_up else { return Ok(()) };
        let now = Timestamp::now().as_micros();
        Err(Error::Chat {
            reason: format!(
                "the {tokens_per_day} tokens that a model may take here in a day (UTC) are used up; it goes on tomorrow"
            ),
            transient: true,
            retry_after: Some(Duration::from_micros((DAY - now.rem_euclid(DAY)) as u64)),
            source: None,
        })
    }

    fn change(&self, counted: &Counted, change: impl FnOnce(&mut Counts)) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if state.counts.len() >= MAX_COUNTED && !state.counts.contains_key(counted) {
            let oldest = state.counts.iter().min_by_key(|(_, counts)| counts.changed_at).map(|(key, _)| key.clone());
            oldest.map(|oldest| state.counts.remove(&oldest));
        }
        let counts = state.counts.entry(counted.clone()).or_default();
        change(counts);
        counts.changed_at = Timestamp::now().as_micros();
        state
    }

    /// Counts a call. Of what the model's server reports and what this one estimates, limits count the greater.
    fn called(&self, counted: &Counted, reported: Option<Tokens>, estimated: Tokens) {
        let sum = |tokens: Tokens| (tokens.prompt_tokens + tokens.completion_tokens) as u64;
        let taken = sum(estimated).max(reported.map_or(0, sum));
        let shown = reported.filter(|reported| sum(*reported) > 0).unwrap_or(estimated);
        let (prompt, completion) = (shown.prompt_tokens as u64, shown.completion_tokens as u64);
        let mut state = self.change(counted, |counts| {
            counts.calls += 1;
            counts.prompt_tokens += prompt;
            counts.completion_tokens += completion;
        });
        for limit in state.limits.iter_mut().filter(|limit| covers(limit, &counted.namespace)) {
            limit.used += taken;
        }
        drop(state);
        self.metrics.called(counted.kind, prompt + completion);
    }

    /// Notes whether the model's server answered a call.
    fn answered(&self, error: Option<&Error>) {
        let reason = match error {
            Some(Error::ChatUnavailable { reason, .. } | Error::Chat { reason, transient: true, .. }) => {
                refusal(reason)
            }
            _ => {
                if self.state().outage.take().is_some() {
                    tracing::info!("the language model answers again");
                }
                self.metrics.answers(true);
                return;
            }
        };
        let mut state = self.state();
        if state.outage.as_ref().is_none_or(|(_, known)| known != reason) {
            tracing::error!(reason, "the language model does not answer; batches wait for it");
        }
        let since = state.outage.take().map_or_else(Timestamp::now, |(since, _)| since);
        state.outage = Some((since, reason.to_owned()));
        drop(state);
        self.metrics.answers(false);
    }

    /// Returns whether the model's server answers.
    pub(crate) fn model(&self) -> ModelState {
        let (since, reason) = self.state().outage.clone().unzip();
        ModelState { available: since.is_none(), since, reason }
    }

    /// Counts a batch on which a block failed.
    pub(crate) fn failed(&self, counted: &Counted) {
        drop(self.change(counted, |counts| counts.failures += 1));
        self.metrics.failed(counted.kind);
    }
}

/// Returns how a server refused, without its explanation, which may quote the request.
fn refusal(reason: &str) -> &str {
    const ANSWERED: &str = " answered ";
    let Some(answered) = reason.find(ANSWERED) else { return reason };
    let status = answered + ANSWERED.len();
    let end = reason[status..].find([':', ',', ';']).map_or(reason.len(), |end| status + end);
    &reason[..end]
}

fn covers(limit: &DailyLimit, namespace: &Namespace) -> bool {
    limit.prefix.as_ref().is_none_or(|prefix| namespace.starts_with(prefix))
}

/// The model as a block of a namespace asks it: its calls are counted, and its answers are bounded, and without secrets if the
/// server removes them.
pub(crate) struct CountedModel {
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) usage: Arc<Usage>,
    pub(crate) counted: Counted,
    pub(crate) secrets: Option<Arc<SecretRemoval>>,
}

impl CountedModel {
    fn count(&self, request: &ChatRequest, answer: mnemon::Result<ChatAnswer>) -> mnemon::Result<ChatAnswer> {
        let counter = PerPartTokenCounter::default();
        let estimated = |messages: &[Message]| messages.iter().map(|message| counter.count(message)).sum::<usize>();
        let (reported, tokens) = match &answer {
            Ok(ChatAnswer { message, usage, .. }) => {
                (*usage, Tokens::new(estimated(&request.messages), estimated(std::slice::from_ref(message))))
            }
            Err(_) => (None, Tokens::default()),
        };
        self.usage.called(&self.counted, reported, tokens);
        self.usage.answered(answer.as_ref().err());
        match answer {
            Ok(answer) if answer.text().len() > MAX_ANSWER_BYTES => Err(Error::Chat {
                reason: format!("the model's answer has more than {MAX_ANSWER_BYTES} bytes"),
                transient: false,
                retry_after: None,
                source: None,
            }),
            Ok(mut answer) => {
                if let Some(secrets) = &self.secrets {
                    secrets.replace_in_message(&mut answer.message)?;
                }
                Ok(answer)
            }
            Err(error) => Err(error),
        }
    }
}

impl ChatModel for CountedModel {
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> ChatFuture<'a> {
        Box::pin(async move { self.count(request, self.model.chat(request).await) })
    }

    fn chat_blocking(&self, request: &ChatRequest) -> mnemon::Result<ChatAnswer> {
        self.count(request, self.model.chat_blocking(request))
    }
}
