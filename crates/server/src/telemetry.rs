//! What an operator sees of a running server: its log on stderr, its metrics in Prometheus' format, and with the feature
//! `otel` its spans, which go to a collector of OpenTelemetry. None of them has content of memories.

#[cfg(feature = "otel")]
mod otel;

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use axum::http::{Method, StatusCode};
use mnemon::{Engine, Namespace};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use tracing_subscriber::{EnvFilter, Layer, fmt, layer::SubscriberExt, util::SubscriberInitExt};

pub(crate) use self::otel::follow;
use self::otel::{Exporter, exporter};
use crate::settings::Notice;

/// Namespaces over which the estimated recall is averaged: those that were searched last.
const ESTIMATED: usize = 16;
/// Upper bounds of the histogram of requests' times, in seconds.
const BOUNDS: [f64; 14] = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];
/// The environment variables that name a collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// The exporter of spans, if there is a collector. It runs until the server ends.
pub(crate) struct Telemetry(Option<Exporter>);

/// Begins to print the events of the server and of the library on stderr, filtered by $MNEMON_LOG, and to send spans to the
/// collector that the environment names.
pub(crate) fn start(json_log: bool, notify: fn(&Notice)) -> anyhow::Result<Telemetry> {
    let filter = EnvFilter::try_from_env("MNEMON_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    // Its events quote answers of a language model. `formation` logs the same failures without.
    let filter = filter.add_directive("mnemon::memory::batch_jobs=off".parse()?);
    let log = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let log = if json_log { log.json().boxed() } else { log.boxed() };
    let has_collector =
        ENDPOINTS.iter().any(|name| std::env::var_os(name).is_some_and(|endpoint| !endpoint.is_empty()));
    let exporter = if has_collector { exporter(notify)? } else { None };
    let spans = exporter.as_ref().map(Exporter::layer);
    // It fails only if the process has a subscriber already, which then gets the events.
    let _ = tracing_subscriber::registry().with(log.with_filter(filter)).with(spans).try_init();
    Ok(Telemetry(exporter))
}

impl Telemetry {
    /// Sends the spans that were not sent yet.
    pub(crate) fn end(self) {
        if let Some(exporter) = self.0 {
            exporter.end();
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    method: String,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BlockLabels {
    block: &'static str,
}

/// The counters of calls, tokens and failures of the model that forms memories, by the kinds of blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormationMetrics {
    calls: Family<BlockLabels, Counter>,
    tokens: Family<BlockLabels, Counter>,
    failures: Family<BlockLabels, Counter>,
    model_down: Gauge,
}

impl FormationMetrics {
    /// Notes whether the model's server answered the last call.
    pub(crate) fn answers(&self, answers: bool) {
        self.model_down.set((!answers).into());
    }

    /// Counts a call of the model for a block of this kind.
    pub(crate) fn called(&self, block: &'static str, tokens: u64) {
        self.calls.get_or_create(&BlockLabels { block }).inc();
        self.tokens.get_or_create(&BlockLabels { block }).inc_by(tokens);
    }

    /// Counts a batch on which a block of this kind failed.
    pub(crate) fn failed(&self, block: &'static str) {
        self.failures.get_or_create(&BlockLabels { block }).inc();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SecretLabels {
    kind: &'static str,
}

/// Counts secrets that were replaced, by kind.
#[derive(Clone, Default)]
pub(crate) struct RemovedSecrets(Family<SecretLabels, Counter>);

impl RemovedSecrets {
    pub(crate) fn count(&self, kind: &'static str) {
        self.0.get_or_create(&SecretLabels { kind }).inc();
    }
}

pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) secrets: RemovedSecrets,
    pub(crate) formation: FormationMetrics,
    requests: Family<Labels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    memory_budget: Gauge,
    memory_used: Gauge,
    namespaces_loaded: Gauge,
    pending: Gauge,
    recall: Gauge<f64, AtomicU64>,
    /// The namespaces that were searched last.
    recent: Mutex<VecDeque<Namespace>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("mnemon");
        let seconds: Family<RouteLabels, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(BOUNDS));
        let metrics = Metrics {
            formation: FormationMetrics::default(),
            requests: Family::default(),
            secrets: RemovedSecrets::default(),
            seconds,
            memory_budget: Gauge::default(),
            memory_used: Gauge::default(),
            namespaces_loaded: Gauge::default(),
            pending: Gauge::default(),
            recall: Gauge::default(),
            recent: Mutex::default(),
            registry: Registry::default(),
        };
        registry.register("requests", "Requests", metrics.requests.clone());
        registry.register_with_unit("request", "Times of requests", Unit::Seconds, metrics.seconds.clone());
        let budget = "Memory that loaded namespaces may take";
        registry.register_with_unit("memory_budget", budget, Unit::Bytes, metrics.memory_budget.clone());
        let used = "Memory that loaded namespaces take";
        registry.register_with_unit("memory_used", used, Unit::Bytes, metrics.memory_used.clone());
        registry.register("namespaces_loaded", "Loaded namespaces", metrics.namespaces_loaded.clone());
        registry.register("pending_messages", "Messages that wait for their vectors", metrics.pending.clone());
        let recall = "Share of the truly nearest messages that searches find, a mean over the namespaces asked last";
        registry.register("recall_estimate", recall, metrics.recall.clone());
        let FormationMetrics { calls, tokens, failures, model_down } = metrics.formation.clone();
        registry.register("formation_calls", "Calls of the language model by blocks", calls);
        registry.register("formation_tokens", "Tokens of those calls and their answers", tokens);
        registry.register("formation_failures", "Batches on which a block failed", failures);
        let down = "1 if the language model did not answer the last call: it is down, or refuses key, account or name";
        registry.register("formation_model_down", down, model_down);
        let secrets = "Secrets in requests and answers of the model that were replaced by a mark";
        registry.register("secrets_removed", secrets, metrics.secrets.0.clone());
        Metrics { registry, ..metrics }
    }

    pub(crate) fn request(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration) {
        // A client may send any text as a method. The longest of HTTP's own has seven letters.
        let method = if method.as_str().len() <= 7 { method.as_str() } else { "other" };
        let labels = Labels { method: method.to_owned(), route: route.to_owned(), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&RouteLabels { route: route.to_owned() }).observe(elapsed.as_secs_f64());
    }

    /// Notes that a namespace was searched.
    pub(crate) fn recalled(&self, namespace: &Namespace) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if !recent.contains(namespace) {
            recent.truncate(ESTIMATED - 1);
            recent.push_front(namespace.clone());
        }
    }

    pub(crate) async fn text(&self, engine: &Engine) -> mnemon::Result<String> {
        let stats = engine.stats().await?;
        self.memory_budget.set(stats.memory_budget as i64);
        self.memory_used.set(stats.memory_used as i64);
        self.namespaces_loaded.set(stats.namespaces_loaded as i64);
        self.pending.set(engine.pending().await? as i64);
        let recent: Vec<Namespace> =
            self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        let mut recalls = Vec::new();
        for namespace in &recent {
            recalls.extend(engine.index_stats(namespace).await?.recall);
        }
        if !recalls.is_empty() {
            self.recall.set(recalls.iter().sum::<f64>() / recalls.len() as f64);
        }
        let mut output = String::new();
        text::encode(&mut output, &self.registry).expect("a string takes everything");
        Ok(output)
    }
}

/// Builds without the feature `otel`: spans go nowhere.
#[cfg(not(feature = "otel"))]
mod otel {
    use axum::http::HeaderMap;
    use tracing::Span;
    use tracing_subscriber::layer::Identity;

    use crate::settings::Notice;

    pub(crate) enum Exporter {}

    /// Says that no spans are sent.
    pub(crate) fn exporter(notify: fn(&Notice)) -> anyhow::Result<Option<Exporter>> {
        notify(&Notice::Note(
            "an endpoint of OpenTelemetry is set, and this program was built without `otel`: no spans are sent; `cargo install --path \
             crates/cli --features otel` installs one that sends them"
                .to_owned(),
        ));
        Ok(None)
    }

    impl Exporter {
        pub(crate) fn layer(&self) -> Identity {
            match *self {}
        }

        pub(crate) fn end(self) {
            match self {}
        }
    }

    pub(crate) fn follow(_: &Span, _: &HeaderMap) {}
}
