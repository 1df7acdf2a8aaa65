//! The log on stderr, and with the feature `otel` spans for a collector of OpenTelemetry. Neither has content of memories.

use tracing_subscriber::{EnvFilter, Layer, fmt, layer::SubscriberExt, util::SubscriberInitExt};

pub(super) use self::otel::follow;
use self::otel::{Exporter, exporter};
use super::settings::Notice;

#[cfg(feature = "otel")]
mod otel;
#[cfg(not(feature = "otel"))]
#[path = "telemetry/no_otel.rs"]
mod otel;

/// The variables that name a collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// The exporter of spans, if there is a collector. It runs until the server ends.
pub(super) struct Telemetry(Option<Exporter>);

/// Prints the events of the server and of the library on stderr. $MNEMON_LOG filters them. Sends spans to the collector
/// that the environment names.
pub(super) fn start(json_log: bool, notify: fn(&Notice)) -> anyhow::Result<Telemetry> {
    let filter = EnvFilter::try_from_env("MNEMON_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let log = if json_log { log.json().boxed() } else { log.boxed() };
    let has_collector =
        ENDPOINTS.iter().any(|name| std::env::var_os(name).is_some_and(|endpoint| !endpoint.is_empty()));
    let exporter = if has_collector { exporter(notify)? } else { None };
    let spans = exporter.as_ref().map(Exporter::layer);
    // A second subscriber is refused; there is none.
    let _ = tracing_subscriber::registry().with(log.with_filter(filter)).with(spans).try_init();
    Ok(Telemetry(exporter))
}

impl Telemetry {
    /// Sends what was not sent yet.
    pub(super) fn end(self) {
        if let Some(exporter) = self.0 {
            exporter.end();
        }
    }
}
