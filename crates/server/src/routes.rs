//! The router of the whole server, made from the table of routes. `openapi` describes the same table.

use std::{any::Any, sync::Arc};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use tower_http::catch_panic::CatchPanicLayer;

use super::{
    app::App,
    caller::{Caller, Right},
    guard, mcp, mem0, openapi, page,
    problem::Problem,
    route::Route,
    v1,
};

/// The router of the whole server.
pub(super) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in v1::routes() {
        let Route { right, is_long, keeps_answer, .. } = route;
        let mut handler = route.handler;
        if keeps_answer {
            handler = handler.route_layer(middleware::from_fn_with_state(Arc::clone(app), guard::keep_answer));
        }
        if route.query.is_none() {
            handler = handler.route_layer(middleware::from_fn(guard::without_query));
        }
        if route.body.is_none() {
            handler = handler.route_layer(middleware::from_fn(guard::without_body));
        }
        handler = match is_long {
            true => handler.route_layer(middleware::from_fn_with_state(Arc::clone(app), guard::in_slow_place)),
            false => handler
                .route_layer(middleware::from_fn_with_state(Arc::clone(app), guard::within_time))
                .route_layer(middleware::from_fn_with_state(Arc::clone(app), guard::in_fast_place)),
        };
        handler = handler.route_layer(middleware::from_fn(move |request, next| require(right, request, next)));
        for path in [Some(route.path), route.also_at].into_iter().flatten() {
            router = router.route(&format!("/v1{path}"), handler.clone());
        }
    }
    let of_the_server = Router::new()
        .route("/", get(page::served))
        .route("/v1/openapi.json", get(openapi::served))
        .route("/ready", get(v1::ready))
        .route("/metrics", get(v1::metrics))
        .route_layer(middleware::from_fn_with_state(Arc::clone(app), guard::in_fast_place));
    router
        .route("/health", get(v1::health))
        .merge(of_the_server)
        .merge(mcp::http(app))
        .merge(mem0::routes(app))
        .fallback(|| async { Problem::not_found("there is no such route; /v1/openapi.json lists them") })
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::map_response(guard::as_problem))
        .layer(CatchPanicLayer::custom(|_: Box<dyn Any + Send + 'static>| guard::panicked()))
        .layer(middleware::from_fn_with_state(Arc::clone(app), guard::guard))
        .with_state(Arc::clone(app))
}

async fn require(right: Right, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Arc<Caller>>().expect("the guard sets the caller");
    match caller.require(right) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}
