//! The checks that every request passes before its route: host, token, rate, and the number of requests at a time.

use std::{sync::Arc, time::Instant};

use axum::{
    body::{Body, HttpBody, to_bytes},
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, Response, StatusCode, header},
    middleware::Next,
    response::IntoResponse,
};
use tracing::{Instrument, field::Empty};

use super::{
    app::App,
    caller::Caller,
    idempotency::{self, Answers},
    problem::{self, Problem},
    telemetry,
};

/// Routes that say nothing about memories: probes, and the page, which asks for a token.
const OPEN: [&str; 3] = ["/", "/health", "/ready"];
/// A rejection of a framework's own is a line of text.
const MAX_REJECTION_BYTES: usize = 4096;
const SAFETY: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Finds out who asks, refuses what is not allowed, and counts and times the rest.
pub(super) async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response<Body> {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let has_body = !request.body().is_end_stream();
    let span = tracing::info_span!(
        "request", otel.name = format!("{method} {route}"), otel.kind = "server", http.request.method = %method, http.route = route,
        http.response.status_code = Empty,
    );
    telemetry::follow(&span, request.headers());
    let mut response = match admit(&app, &request) {
        Err(problem) => problem.into_response(),
        Ok(caller) => match app.requests.try_acquire() {
            Err(_) => Problem::overloaded().into_response(),
            Ok(_running) => {
                request.extensions_mut().insert(caller);
                request.extensions_mut().insert(span.clone());
                next.run(request).instrument(span.clone()).await
            }
        },
    };
    for (name, value) in SAFETY {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    // Perhaps nobody read the body, and the connection cannot be used again: the client is told.
    if has_body && !response.status().is_success() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    span.record("http.response.status_code", i64::from(response.status().as_u16()));
    app.metrics.request(&method, &route, response.status(), started.elapsed());
    tracing::debug!(%method, route, status = response.status().as_u16(), elapsed = ?started.elapsed(), "request");
    response
}

/// Returns who makes a request, if it may be made.
fn admit(app: &App, request: &Request) -> Result<Arc<Caller>, Problem> {
    app.hosts.check(request.uri(), request.headers())?;
    let Some(tokens) = &app.tokens else { return Ok(Arc::clone(&app.owner)) };
    if OPEN.contains(&request.uri().path()) {
        return Ok(Arc::new(Caller::nobody()));
    }
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    // mem0's clients write `Token` where others write `Bearer`.
    let token = header
        .and_then(|header| header.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token"));
    let caller = token.and_then(|(_, token)| tokens.holder(token.trim())).ok_or_else(Problem::unauthorized)?;
    caller.take()?;
    Ok(caller)
}

/// Answers a request that a bug of the server's ended.
pub(super) fn panicked() -> Response<Body> {
    tracing::error!("a request panicked");
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the server has a bug, which is in its log; please report it",
    )
    .into_response()
}

/// Turns an error that a framework wrote as text into problem details.
pub(super) async fn as_problem(response: Response<Body>) -> Response<Body> {
    let status = response.status();
    let media_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_text = media_type.is_none_or(|media_type| media_type.starts_with("text/plain"));
    if !(status.is_client_error() || status.is_server_error()) || !is_text {
        return response;
    }
    let text = to_bytes(response.into_body(), MAX_REJECTION_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let kind = match status {
        StatusCode::METHOD_NOT_ALLOWED => "method-not-allowed",
        StatusCode::PAYLOAD_TOO_LARGE => "too-large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "media-type",
        _ => "bad-request",
    };
    let detail = if text.is_empty() { "see the status" } else { text.trim() };
    Problem::new(status, kind, detail).into_response()
}

/// Ends a request that takes too long.
pub(super) async fn within_time(State(app): State<Arc<App>>, request: Request, next: Next) -> Response<Body> {
    let run = tokio::time::timeout(app.limits.request_timeout(), next.run(request));
    run.await.unwrap_or_else(|_| Problem::timed_out().into_response())
}

/// Answers a request with an `Idempotency-Key` once, and later ones with the same answer.
pub(super) async fn keep_answer(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response<Body>, Problem> {
    let caller = request.extensions().get::<Arc<Caller>>().expect("the guard sets the caller");
    let Some(key) = Answers::key(request.headers(), &caller.id)? else { return Ok(next.run(request).await) };
    let (head, body) = request.into_parts();
    let too_large = |_| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "the body is too large");
    let body = to_bytes(body, app.limits.max_body).await.map_err(too_large)?;
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let hash = idempotency::request_hash(head.method.as_str(), path, &body);
    if let Some(answer) = app.answers.begin(&key, hash).await? {
        return Ok(answer);
    }
    // The request runs to its end, and its answer is kept, even if the client goes away.
    let (answers, kept_key) = (Arc::clone(&app), key.clone());
    let run = tokio::spawn(async move {
        let response = next.run(Request::from_parts(head, Body::from(body))).await;
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("the answer is in memory");
        let kept = (head.status, head.headers.get(header::CONTENT_TYPE).cloned(), body.clone());
        answers.answers.end(&kept_key, Some(kept).filter(|(status, ..)| !status.is_server_error())).await;
        Response::from_parts(head, Body::from(body))
    });
    match run.await {
        Ok(response) => Ok(response),
        Err(_) => {
            app.answers.end(&key, None).await;
            Ok(panicked())
        }
    }
}

pub(super) use problem::MEDIA_TYPE as PROBLEM;
