//! Counts and times of requests, and the state of the engine, in Prometheus' format.

use std::{collections::VecDeque, sync::Mutex, time::Duration};

use axum::http::{Method, StatusCode};
use mnemon::{Engine, Namespace};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

/// Namespaces over which the recall of searches is averaged: those asked last.
const ESTIMATED: usize = 16;
/// Upper bounds of the times of requests, in seconds.
const BOUNDS: [f64; 14] = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0];

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

pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    memory_budget: Gauge,
    memory_used: Gauge,
    namespaces_loaded: Gauge,
    pending: Gauge,
    recall: Gauge<f64, std::sync::atomic::AtomicU64>,
    /// The namespaces that were asked last.
    asked: Mutex<VecDeque<Namespace>>,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("mnemon");
        let seconds: Family<RouteLabels, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(BOUNDS));
        let metrics = Metrics {
            requests: Family::default(),
            seconds,
            memory_budget: Gauge::default(),
            memory_used: Gauge::default(),
            namespaces_loaded: Gauge::default(),
            pending: Gauge::default(),
            recall: Gauge::default(),
            asked: Mutex::default(),
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
        Metrics { registry, ..metrics }
    }

    pub(super) fn request(&self, method: &Method, route: &str, status: StatusCode, elapsed: Duration) {
        // A method that is not one of HTTP's could be anything.
        let method = if method.as_str().len() <= 7 { method.as_str() } else { "other" };
        let labels = Labels { method: method.to_owned(), route: route.to_owned(), status: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&RouteLabels { route: route.to_owned() }).observe(elapsed.as_secs_f64());
    }

    /// Notes a namespace that was asked.
    pub(super) fn recalled(&self, namespace: &Namespace) {
        let mut asked = self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !asked.contains(namespace) {
            asked.truncate(ESTIMATED - 1);
            asked.push_front(namespace.clone());
        }
    }

    /// Returns all metrics as text.
    pub(super) async fn text(&self, engine: &Engine) -> mnemon::Result<String> {
        let stats = engine.stats().await?;
        self.memory_budget.set(stats.memory_budget as i64);
        self.memory_used.set(stats.memory_used as i64);
        self.namespaces_loaded.set(stats.namespaces_loaded as i64);
        self.pending.set(engine.pending().await? as i64);
        let asked: Vec<Namespace> =
            self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter().cloned().collect();
        let mut recalls = Vec::new();
        for namespace in &asked {
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
