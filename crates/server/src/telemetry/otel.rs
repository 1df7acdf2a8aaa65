//! Spans as OTLP over HTTP. The environment variables of OpenTelemetry's specification set the endpoint, headers, sampler
//! and service.

use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use axum::http::HeaderMap;
use bytes::Bytes;
use opentelemetry::{propagation::TextMapPropagator, trace::TracerProvider};
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tracing::{Span, Subscriber, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

use crate::settings::Notice;

const SERVICE: &str = "mnemon";
/// The time that a collector has for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time that a collector has for the last spans when the server ends.
const LAST: Duration = Duration::from_secs(1);

pub(super) struct Exporter(SdkTracerProvider);

pub(super) fn exporter(_: fn(&Notice)) -> anyhow::Result<Option<Exporter>> {
    let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
    let exporter = SpanExporter::builder().with_http().with_http_client(Client(config.new_agent())).build();
    let exporter = exporter.context("the exporter of OpenTelemetry")?;
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(SERVICE);
    }
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
    Ok(Some(Exporter(provider)))
}

impl Exporter {
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.0.tracer(SERVICE)).with_location(false);
        layer.with_filter(Targets::new().with_target(SERVICE, LevelFilter::INFO))
    }

    pub(super) fn end(self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Makes a span part of the trace that a request names in its header `traceparent`.
pub(crate) fn follow(span: &Span, headers: &HeaderMap) {
    if !span.is_disabled() {
        // It fails if no collector was set, and then there is no trace to join.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&HeaderExtractor(headers)));
    }
}

/// Sends spans. The exporter calls it on its own thread, which may wait.
#[derive(Debug)]
struct Client(ureq::Agent);

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let response = self.0.run(Request::from_parts(head, &*body))?;
        let (head, mut body) = response.into_parts();
        Ok(Response::from_parts(head, body.read_to_vec()?.into()))
    }
}
