//! Routes of mem0's platform, for programs that use its client: `MemoryClient(api_key=TOKEN, host=URL)`.
//!
//! A memory is a message, stored as it was added, or a fact that a language model made of added messages (`facts`).
//! `crate::entity` says in which namespace
//! the memories of a user, agent, app or run are. mem0 names a memory by an id alone, so the ids here contain the namespace
//! (`memory`). `memories` adds memories, and reads, changes and deletes them by their ids. `search` finds, lists and
//! deletes those that a filter matches: `conditions` reads the filter, `homes` finds the namespaces that it is about, and
//! `filter` evaluates it there.
//!
//! Paths are accepted with and without the slash at their end, which mem0's client writes.

mod conditions;
mod facts;
mod fields;
mod filter;
mod homes;
mod memories;
mod memory;
mod search;

use std::sync::Arc;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Query, Request, State},
    http::{HeaderValue, Response, StatusCode, Uri, header},
    middleware::{self, Next},
    routing::{any, delete, get, post, put},
};
use serde_json::{Value, json};

use crate::{
    app::App,
    guard,
    problem::{MEDIA_TYPE, Problem},
};

/// Parameters of every request of mem0's client: its organization and project, which a token stands for here.
const ACCOUNT: [&str; 2] = ["org_id", "project_id"];
const ADD: &str = "/v3/memories/add";
/// Routes of mem0's platform that have no counterpart here.
const ABSENT: [&str; 9] = [
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

pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let fast = middleware::from_fn_with_state(Arc::clone(app), guard::in_fast_place);
    let slow = middleware::from_fn_with_state(Arc::clone(app), guard::in_slow_place);
    let within_time = middleware::from_fn_with_state(Arc::clone(app), guard::within_time);
    let no_body = || middleware::from_fn(guard::without_body);
    let mut router = Router::new();
    // A path, the parameters of its query, and its handler.
    for (path, known, handler) in [
        ("/v1/ping", &[][..], get(ping).route_layer(no_body()).route_layer(fast.clone())),
        (ADD, &[], post(memories::add).route_layer(fast.clone())),
        ("/v3/memories/search", &[], post(search::search).route_layer(fast.clone())),
        ("/v3/memories", &["page", "page_size"], post(search::list).route_layer(slow.clone())),
        (
            "/v1/memories",
            &search::DELETED_BY,
            delete(search::delete_all).route_layer(no_body()).route_layer(slow.clone()),
        ),
        ("/v1/memories/{id}", &[], put(memories::update).route_layer(fast.clone())),
        (
            "/v1/memories/{id}",
            &["delete_linked"],
            delete(memories::delete).route_layer(no_body()).route_layer(fast.clone()),
        ),
        ("/v1/memories/{id}", &[], get(memories::get).route_layer(no_body()).route_layer(fast.clone())),
        ("/v1/memories/{id}/history", &[], get(memories::history).route_layer(no_body()).route_layer(fast.clone())),
        ("/v1/batch", &[], put(memories::update_batch).delete(memories::delete_batch).route_layer(fast.clone())),
        ("/v1/entities", &["page", "page_size"], get(homes::list).route_layer(no_body()).route_layer(fast.clone())),
        ("/v1/entities/{type}/{id}", &[], delete(homes::delete).route_layer(no_body()).route_layer(slow.clone())),
        ("/v2/entities/{type}/{id}", &[], delete(homes::delete).route_layer(no_body()).route_layer(slow.clone())),
    ] {
        let handler = handler.route_layer(middleware::from_fn_with_state(known.into(), check_query));
        // Adding has limits of its own: a language model may be asked.
        let handler = if path == ADD { handler } else { handler.route_layer(within_time.clone()) };
        router = router.route(path, handler.clone()).route(&format!("{path}/"), handler);
    }
    for path in ABSENT {
        router = router.route(path, any(refuse_absent).layer(fast.clone()));
    }
    router.route_layer(middleware::map_response(readable))
}

/// Answers the question with which the client tests its key. The client needs an organization and a project.
async fn ping() -> Json<Value> {
    Json(json!({ "status": "ok", "org_id": "mnemon", "project_id": "default", "user_email": null }))
}

/// Gives problems the media type of plain JSON, because the client shows their `detail` only then.
async fn readable(response: Response<Body>) -> Response<Body> {
    let mut response = guard::as_problem(response).await;
    let headers = response.headers_mut();
    if headers.get(header::CONTENT_TYPE).is_some_and(|media_type| media_type == MEDIA_TYPE) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

/// Refuses parameters of the query that a route does not know.
async fn check_query(
    State(known): State<Arc<[&'static str]>>,
    Query(given): Query<Vec<(String, String)>>,
    request: Request,
    next: Next,
) -> Result<Response<Body>, Problem> {
    match given.iter().find(|(name, _)| !known.contains(&name.as_str()) && !ACCOUNT.contains(&name.as_str())) {
        None => Ok(next.run(request).await),
        Some((name, _)) => Err(Problem::bad_request(format!("{name:?} is not a parameter of this route"))),
    }
}

/// Refuses a route of `ABSENT`, and says what to use instead. The body is read, because a connection with an unread body is
/// closed, and the client would send its next request into it.
async fn refuse_absent(uri: Uri, _: Bytes) -> Problem {
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
