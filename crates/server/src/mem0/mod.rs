//! Routes of mem0's platform, for programs that use its client: `MemoryClient(api_key=TOKEN, host=URL)`.
//!
//! A memory is a message, stored as it was added: no model extracts facts from it. `entity` says in which namespace the
//! memories of a user, agent, app or run are. mem0 names a memory by an id alone, so the ids here contain the namespace
//! (`id`). Filters are mem0's (`filter`); `homes` finds the namespaces that a filter is about.
//!
//! Paths are accepted with and without the slash at their end, which mem0's client writes.

mod absent;
mod add;
mod batch;
mod conditions;
mod entities;
mod fields;
mod filter;
mod homes;
mod id;
mod list;
mod memory;
mod one;
mod page;
mod python;
mod search;
mod time;

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Body,
    http::{HeaderValue, Response, header},
    middleware,
    routing::{any, delete, get, post, put},
};
use serde_json::{Value, json};

use super::{app::App, guard};

pub(super) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let fast = middleware::from_fn_with_state(Arc::clone(app), guard::in_fast_place);
    let slow = middleware::from_fn_with_state(Arc::clone(app), guard::in_slow_place);
    let no_body = || middleware::from_fn(guard::without_body);
    let mut router = Router::new();
    // Each with the parameters of its query.
    for (path, known, handler) in [
        ("/v1/ping", &[][..], get(ping).route_layer(no_body()).route_layer(fast.clone())),
        ("/v3/memories/add", &[], post(add::add).route_layer(fast.clone())),
        ("/v3/memories/search", &[], post(search::search).route_layer(fast.clone())),
        ("/v3/memories", &["page", "page_size"], post(list::list).route_layer(slow.clone())),
        ("/v1/memories", &list::DELETED_BY, delete(list::delete_all).route_layer(no_body()).route_layer(slow.clone())),
        ("/v1/memories/{id}", &[], put(one::update).route_layer(fast.clone())),
        ("/v1/memories/{id}", &["delete_linked"], delete(one::delete).route_layer(no_body()).route_layer(fast.clone())),
        ("/v1/memories/{id}", &[], get(one::get).route_layer(no_body()).route_layer(fast.clone())),
        ("/v1/memories/{id}/history", &[], get(one::history).route_layer(no_body()).route_layer(fast.clone())),
        ("/v1/batch", &[], put(batch::update).delete(batch::delete).route_layer(fast.clone())),
        ("/v1/entities", &["page", "page_size"], get(entities::list).route_layer(no_body()).route_layer(fast.clone())),
        ("/v1/entities/{type}/{id}", &[], delete(entities::delete).route_layer(no_body()).route_layer(slow.clone())),
        ("/v2/entities/{type}/{id}", &[], delete(entities::delete).route_layer(no_body()).route_layer(slow.clone())),
    ] {
        let handler = handler.route_layer(middleware::from_fn_with_state(known.into(), fields::check_query));
        router = router.route(path, handler.clone()).route(&format!("{path}/"), handler);
    }
    for path in absent::PATHS {
        router = router.route(path, any(absent::refuse).layer(fast.clone()));
    }
    router
        .route_layer(middleware::from_fn_with_state(Arc::clone(app), guard::within_time))
        .route_layer(middleware::map_response(readable))
}

/// Answers the question with which the client tests its key. The client needs an organization and a project.
async fn ping() -> Json<Value> {
    Json(json!({ "status": "ok", "org_id": "mnemon", "project_id": "default", "user_email": null }))
}

/// Gives problems the media type of plain JSON, because the client shows their `detail` only then.
async fn readable(response: Response<Body>) -> Response<Body> {
    let mut response = guard::as_problem(response).await;
    let headers = response.headers_mut();
    if headers.get(header::CONTENT_TYPE).is_some_and(|media_type| media_type == guard::PROBLEM) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}
