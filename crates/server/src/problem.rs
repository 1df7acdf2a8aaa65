//! Errors as problem details (RFC 9457), and the status and kind of each error of the library. All surfaces answer with
//! them.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use mnemon::Error;
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// An error, as problem details.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// The kind of the problem, such as `urn:mnemon:invalid-query`. Kinds are stable.
    #[serde(rename = "type")]
    kind: String,
    /// The status of the answer.
    status: u16,
    /// The meaning of the status.
    title: String,
    /// What happened, and the remedy.
    pub(crate) detail: String,
    #[serde(skip)]
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Problem {
            kind: format!("urn:mnemon:{kind}"),
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            detail: detail.into(),
            retry_after: None,
        }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    /// A body whose JSON does not have the fields of the route.
    pub(crate) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-request", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    pub(crate) fn no_route() -> Self {
        Self::not_found("there is no such route; /v1/openapi.json lists them")
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    pub(crate) fn unauthorized() -> Self {
        let detail = "give a token of this server, as `Authorization: Bearer TOKEN`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    pub(crate) fn too_many_requests(wait: Duration) -> Self {
        let detail = "this token makes more requests a second than it may; repeat the request later";
        let retry_after = Some(wait.as_secs() + 1);
        Problem { retry_after, ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", detail) }
    }

    pub(crate) fn overloaded() -> Self {
        let detail = "the server has as many requests as it takes at a time; repeat the request later";
        Problem { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail) }
    }

    pub(crate) fn too_large(max_body: usize) -> Self {
        let detail = format!(
            "the body has more than {max_body} bytes; divide it over several requests, or start the server with a greater --max-body"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }

    pub(crate) fn file_too_large(max_import: u64) -> Self {
        let detail = format!(
            "the file has more than {max_import} bytes; start the server with a greater --max-import, or have whoever runs it import \
             the file with `mnemon ingest`"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }

    pub(crate) fn slow_body() -> Self {
        let detail = "the body of the request did not come in time; repeat the request, and send it at once";
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow-body", detail)
    }

    pub(crate) fn timed_out() -> Self {
        let detail = "the request took too long; what it changes may be stored or not, so ask before repeating it, or \
            repeat it with the same Idempotency-Key";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "timeout", detail)
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, kind) = match &error {
            Error::AnswerTooLarge { is_busy: true, .. } => return Problem::overloaded(),
            Error::AnswerTooLarge { .. } => (StatusCode::BAD_REQUEST, "invalid-query"),
            Error::InvalidNamespace { .. } => (StatusCode::BAD_REQUEST, "invalid-namespace"),
            Error::InvalidCursor { .. } => (StatusCode::BAD_REQUEST, "invalid-cursor"),
            Error::InvalidMessage { .. } => (StatusCode::BAD_REQUEST, "invalid-message"),
            Error::InvalidDocument { .. } => (StatusCode::BAD_REQUEST, "invalid-document"),
            Error::InvalidQuery { .. } => (StatusCode::BAD_REQUEST, "invalid-query"),
            Error::InvalidFilter { .. } => (StatusCode::BAD_REQUEST, "invalid-filter"),
            Error::InvalidConfig { .. } => (StatusCode::BAD_REQUEST, "invalid-config"),
            Error::InvalidFile { .. } | Error::OtherFormat { .. } => (StatusCode::BAD_REQUEST, "invalid-file"),
            Error::SessionNotFound { .. } | Error::CheckpointNotFound { .. } => (StatusCode::NOT_FOUND, "not-found"),
            Error::SessionExists { .. } => (StatusCode::CONFLICT, "session-exists"),
            Error::DocumentChanged { .. } => (StatusCode::CONFLICT, "document-changed"),
            Error::MessagesChanged { .. } => (StatusCode::CONFLICT, "messages-changed"),
            Error::ReindexRunning => (StatusCode::CONFLICT, "reindex-running"),
            Error::FileExists { .. } => (StatusCode::CONFLICT, "file-exists"),
            Error::LegalHold { .. } => (StatusCode::CONFLICT, "legal-hold"),
            Error::Embedding { .. } | Error::EmbedderUnavailable { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "embedder-unavailable")
            }
            Error::Chat { transient: true, .. } | Error::ChatUnavailable { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "model-unavailable")
            }
            Error::Chat { .. } => (StatusCode::BAD_GATEWAY, "model-answer"),
            Error::SharedDatabase { .. } => (StatusCode::SERVICE_UNAVAILABLE, "shared-database-unavailable"),
            Error::OutcomeUnknown { .. } => (StatusCode::GATEWAY_TIMEOUT, "outcome-unknown"),
            Error::DatabaseMoved { .. } => (StatusCode::SERVICE_UNAVAILABLE, "database-moved"),
            Error::Closed => (StatusCode::SERVICE_UNAVAILABLE, "closing"),
            _ => {
                tracing::error!(error = %error, "a request failed");
                (StatusCode::INTERNAL_SERVER_ERROR, "internal")
            }
        };
        Problem::new(status, kind, detail(&error))
    }
}

/// Returns what happened and the remedy. Where the library's text names its methods, the text is one for clients of the
/// server.
fn detail(error: &Error) -> String {
    match error {
        Error::SessionNotFound { namespace, session } => {
            format!("no session {session:?} in namespace {namespace:?}; check both names")
        }
        Error::LegalHold { namespace, held, reason } => format!(
            "namespace {namespace:?} is under a legal hold, set on {held:?}: {reason}; nothing was deleted: whoever runs the server \
             can release the hold, with `mnemon hold --release`"
        ),
        Error::DatabaseMoved { .. } => {
            "the file of the database was moved, removed or replaced, so nothing was changed; repeat the \
            request, or tell whoever runs the server, who can put the file back or start the server again"
                .to_owned()
        }
        Error::Closed => "the server ends; repeat the request when it runs again".to_owned(),
        error => error.to_string(),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status(), self.retry_after);
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
