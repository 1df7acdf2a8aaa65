//! The steps that a request passes before its route: the checks of host, token and rate, the reading of its body, and the
//! limits on requests at a time.
//!
//! A body is read before the request takes a place among those that run, so a slow client keeps no place from others. The
//! probe `/health` takes none.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, BodyDataStream, Bytes, HttpBody, to_bytes},
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, Response, StatusCode, header},
    middleware::Next,
    response::IntoResponse,
};
use futures_util::StreamExt;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, field::Empty};

use crate::{
    access::{Caller, Right},
    app::App,
    idempotency::{self, Answers, OnlyRead},
    problem::Problem,
    sent::{self, Connection},
    telemetry,
};

/// Routes without a token, because they say nothing about memories: the probes, and the page, which asks its user for one.
const OPEN: [&str; 3] = ["/", HEALTH, "/ready"];
const HEALTH: &str = "/health";
/// Routes of `/v1` whose body is a file, of any size. They read it themselves, while they work on it.
pub(crate) const FILE_PATHS: [&str; 2] = ["/import", "/namespaces/{namespace}/import"];
/// Bodies up to this size do not count among the bytes of bodies that are worked on at a time.
const SMALL_BODY: usize = 64 << 10;
/// How much of a body that is too large is taken before the answer, in bodies of the greatest size.
const SKIPPED: usize = 4;
/// How long the next bytes of such a body are waited for.
const PAUSE: Duration = Duration::from_secs(1);
/// Objects and arrays in the JSON of a body. Each takes up to 700 bytes of memory, however short its text is.
const MAX_COLLECTIONS: usize = 250_000;
/// Bytes of an error that axum wrote itself, which is a line of text.
const MAX_REJECTION_BYTES: usize = 4096;
const SAFETY: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Finds out who asks, refuses what is not allowed, and counts and times the rest.
pub(crate) async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response<Body> {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let has_body = !request.body().is_end_stream();
    let span = tracing::info_span!(
        "request", otel.name = format!("{method} {route}"), otel.kind = "server", http.request.method = %method, http.route = route,
        http.response.status_code = Empty,
    );
    telemetry::follow(&span, request.headers());
    let connection = request.extensions().get::<Connection>().cloned();
    let response = match admit(&app, &request) {
        Err(problem) => problem.into_response(),
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(span.clone());
            let takes_file = FILE_PATHS.iter().any(|path| route.strip_prefix("/v1") == Some(path));
            let request = if takes_file { Ok((request, None)) } else { with_body(&app, request).await };
            match request {
                Ok((request, _bytes)) => next.run(request).instrument(span.clone()).await,
                Err(problem) => problem.into_response(),
            }
        }
    };
    let mut response = sent::counted(response, &app.answers_in_work, &app.readers, connection).await;
    for (name, value) in SAFETY {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    // If nobody read the body, the connection cannot be used again, so the client is told to open another.
    if has_body && !response.status().is_success() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    span.record("http.response.status_code", i64::from(response.status().as_u16()));
    app.metrics.request(&method, &route, response.status(), started.elapsed());
    tracing::debug!(%method, route, status = response.status().as_u16(), elapsed = ?started.elapsed(), "request");
    response
}

/// In the extensions of a request that came over the Unix socket, whose clients are the owner.
#[derive(Clone)]
pub(crate) struct IsOwner;

/// Returns the caller of a request, or refuses the request.
fn admit(app: &App, request: &Request) -> Result<Arc<Caller>, Problem> {
    // Of two equal headers a proxy may have checked the one, and this server would read the other.
    for name in [header::HOST, header::ORIGIN, header::AUTHORIZATION, HeaderName::from_static(idempotency::HEADER)] {
        if request.headers().get_all(&name).iter().nth(1).is_some() {
            return Err(Problem::bad_request(format!("the header {name} is there twice; send it once")));
        }
    }
    app.hosts.check(request.uri(), request.headers())?;
    let is_owner = request.extensions().get::<IsOwner>().is_some();
    let Some(tokens) = app.tokens.as_ref().filter(|_| !is_owner) else { return Ok(Arc::clone(&app.owner)) };
    if OPEN.contains(&request.uri().path()) {
        return Ok(Arc::new(Caller::nobody()));
    }
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    // mem0's clients write `Token` where others write `Bearer`.
    // A client of MCP that has no token asks here how it may get one, and takes anything but "not found" for an answer.
    if header.is_none() && request.extensions().get::<MatchedPath>().is_none() {
        return Err(Problem::no_route());
    }
    let token = header
        .and_then(|header| header.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token"));
    let caller = token.and_then(|(_, token)| tokens.holder(token.trim())).ok_or_else(Problem::unauthorized)?;
    caller.count_request()?;
    Ok(caller)
}

/// Reads the body of a request. The second value is its share of the bytes of all bodies that are worked on.
async fn with_body(app: &App, request: Request) -> Result<(Request, Option<SemaphorePermit<'_>>), Problem> {
    if request.body().is_end_stream() {
        return Ok((request, None));
    }
    if request.headers().get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let detail = "the body is compressed; send it as it is, without the header Content-Encoding";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", detail));
    }
    let (head, body) = request.into_parts();
    let ousted = CancellationToken::new();
    let place = app.bodies.enter(ousted.clone());
    let read = tokio::select! {
        read = tokio::time::timeout(app.limits.request_timeout, read(body, app.limits.max_body)) => {
            read.unwrap_or_else(|_| Err(Problem::slow_body()))
        }
        () = ousted.cancelled() => Err(Problem::overloaded()),
    };
    drop(place);
    let body = read?;
    let share = match body.len() {
        ..=SMALL_BODY => None,
        bytes => Some(app.body_bytes.try_acquire_many(bytes as u32).map_err(|_| Problem::overloaded())?),
    };
    if collections(&body) > MAX_COLLECTIONS {
        return Err(Problem::bad_request(format!(
            "the body has more than {MAX_COLLECTIONS} JSON objects and arrays; divide it into several requests"
        )));
    }
    let body = without_secrets(app, body).await?;
    Ok((Request::from_parts(head, Body::from(body)), share))
}

/// Replaces the secrets in a body, if this server is to. A large body takes a thread on which no request waits.
///
/// # Errors
/// The body is no text, so that secrets in it cannot be found.
async fn without_secrets(app: &App, body: Bytes) -> Result<Bytes, Problem> {
    let Some(secrets) = app.secrets.clone() else { return Ok(body) };
    let is_small = body.len() <= SMALL_BODY;
    let replace = move || {
        let text = str::from_utf8(&body).map_err(|error| {
            Problem::bad_request(format!("the body is not UTF-8, as a server that removes secrets needs it: {error}"))
        })?;
        Ok(secrets.replace_in_body(text).map_or_else(|| body.clone(), Bytes::from))
    };
    match is_small {
        true => replace(),
        false => tokio::task::spawn_blocking(replace).await.expect("the removal of secrets does not panic"),
    }
}

async fn read(body: Body, max: usize) -> Result<Bytes, Problem> {
    let declared = body.size_hint().lower();
    let (mut whole, mut chunks) = (Vec::new(), body.into_data_stream());
    let mut is_too_large = declared > max as u64;
    while !is_too_large && let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Problem::bad_request(format!("the body was not received: {error}")))?;
        is_too_large = whole.len() + chunk.len() > max;
        if !is_too_large {
            whole.extend_from_slice(&chunk);
        }
    }
    if is_too_large {
        drop(whole);
        if declared <= (max * SKIPPED) as u64 {
            skip(chunks, max * SKIPPED).await;
        }
        return Err(Problem::too_large(max));
    }
    Ok(whole.into())
}

/// Takes more of a body that is refused: a client whose connection is closed while it sends sees no answer.
pub(crate) async fn skip(mut chunks: BodyDataStream, mut most: usize) {
    while let Ok(Some(Ok(chunk))) = tokio::time::timeout(PAUSE, chunks.next()).await
        && let Some(rest) = most.checked_sub(chunk.len())
    {
        most = rest;
    }
}

/// Counts the objects and arrays of a JSON text, before memory is spent on them.
fn collections(json: &[u8]) -> usize {
    let (mut count, mut in_text, mut bytes) = (0, false, json.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => drop(bytes.next()),
            b'{' | b'[' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

/// Refuses a caller without this right.
pub(crate) async fn require(right: Right, request: Request, next: Next) -> Result<Response<Body>, Problem> {
    Caller::of(request.extensions()).require(right)?;
    Ok(next.run(request).await)
}

/// Gives a request a place among those that run.
pub(crate) async fn in_fast_place(State(app): State<Arc<App>>, request: Request, next: Next) -> Response<Body> {
    in_place(&app.requests, request, next).await
}

/// Gives a slow request one of the places for slow requests, so that it takes none from the others.
pub(crate) async fn in_slow_place(State(app): State<Arc<App>>, request: Request, next: Next) -> Response<Body> {
    in_place(&app.slow_requests, request, next).await
}

async fn in_place(places: &Semaphore, request: Request, next: Next) -> Response<Body> {
    match places.try_acquire() {
        Ok(_running) => next.run(request).await,
        Err(_) => Problem::overloaded().into_response(),
    }
}

/// Refuses a query for a route that has none, because its sender expects that it is obeyed.
pub(crate) async fn without_query(request: Request, next: Next) -> Result<Response<Body>, Problem> {
    match request.uri().query() {
        None | Some("") => Ok(next.run(request).await),
        Some(query) => Err(Problem::bad_request(format!("unknown parameters {query:?}: this route has none"))),
    }
}

/// Refuses a body for a route that reads none.
pub(crate) async fn without_body(request: Request, next: Next) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let body = whole(body).await?;
    match body.trim_ascii() {
        b"" | b"{}" => Ok(next.run(Request::from_parts(head, Body::empty())).await),
        _ => Err(Problem::unprocessable("unknown fields in the body: this route has none; leave the body out")),
    }
}

/// Returns the whole body of a request, which the guard has read into memory.
pub(crate) async fn whole(body: Body) -> Result<Bytes, Problem> {
    to_bytes(body, usize::MAX).await.map_err(|error| Problem::bad_request(error.to_string()))
}

/// Answers a request that panicked.
pub(crate) fn panicked() -> Response<Body> {
    tracing::error!("a request panicked");
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the server has a bug, which is in its log; please report it",
    )
    .into_response()
}

/// Turns an error that axum or rmcp wrote as text into problem details.
pub(crate) async fn as_problem(response: Response<Body>) -> Response<Body> {
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
    let detail = match text.trim() {
        "" if status == StatusCode::METHOD_NOT_ALLOWED => "this path has other methods, which the header Allow names",
        "" => "see the status",
        text => in_words_of_the_caller(text),
    };
    Problem::new(status, kind, detail).into_response()
}

/// Leaves out of axum's text for a body what is about this program: its types, and the place in a text that a library has written.
fn in_words_of_the_caller(text: &str) -> &str {
    let text = ["Failed to deserialize the JSON body into the target type: ", "Failed to deserialize query string: "]
        .into_iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text);
    let is_place = |place: &str| place.split(" column ").all(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    match text.rsplit_once(" at line ") {
        Some((text, place)) if is_place(place) => text,
        _ => text,
    }
}

/// Ends a request that takes too long. It ends where it waits for something, so a long loop has to yield.
pub(crate) async fn within_time(State(app): State<Arc<App>>, request: Request, next: Next) -> Response<Body> {
    let run = tokio::time::timeout(app.limits.request_timeout, next.run(request));
    run.await.unwrap_or_else(|_| Problem::timed_out().into_response())
}

/// Answers a request with an `Idempotency-Key` once, and later ones with the same answer.
pub(crate) async fn keep_answer(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response<Body>, Problem> {
    let Some(key) = Answers::key(request.headers(), &Caller::of(request.extensions()).id)? else {
        return Ok(next.run(request).await);
    };
    let (head, body) = request.into_parts();
    let body = whole(body).await?;
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
        let is_kept = !head.status.is_server_error() && head.extensions.get::<OnlyRead>().is_none();
        let kept = is_kept.then(|| (head.status, head.headers.get(header::CONTENT_TYPE).cloned(), body.clone()));
        answers.answers.end(&kept_key, kept).await;
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
