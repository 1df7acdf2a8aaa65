//! Routes of mem0's platform that have no counterpart here.

use axum::{
    body::Bytes,
    http::{StatusCode, Uri},
};

use super::super::problem::Problem;

pub(super) const PATHS: [&str; 9] = [
    "/v1/event/{*rest}",
    "/v1/events/",
    "/v1/exports/",
    "/v1/exports/get/",
    "/v1/feedback/",
    "/v1/summary/",
    "/v2/entities/{type}/{id}/profile/",
    "/v2/profiles/{*rest}",
    "/api/v1/{*rest}",
];

/// Says which part of the platform a route belongs to, and what to use instead. The body is read, because a connection with an
/// unread body is closed, and the client would send its next request into it.
pub(super) async fn refuse(uri: Uri, _: Bytes) -> Problem {
    let path = uri.path();
    let reason = match path {
        _ if path.starts_with("/v1/event") => "there are no events: what an answer says is done is stored",
        _ if path.starts_with("/v1/exports") => "there are no exports by a model; list memories with get_all",
        _ if path.starts_with("/v1/feedback") => "feedback is not kept; put it into the metadata of the memory",
        _ if path.starts_with("/v1/summary") => "no summaries are made; list memories with get_all",
        _ if path.contains("/webhooks/") => "there are no webhooks",
        _ if path.starts_with("/api/v1/orgs") => {
            "there are no organizations and projects; a token has a prefix instead"
        }
        _ => "there are no profiles",
    };
    let detail = format!("mnemon serves mem0's routes for memories, not this one: {reason}");
    Problem::new(StatusCode::NOT_IMPLEMENTED, "not-implemented", detail)
}
