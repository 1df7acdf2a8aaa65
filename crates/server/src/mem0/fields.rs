//! The fields of a request. A field that is not known is refused: it could narrow what the request is about. Those that mem0's
//! client sends for its platform's sake, and that make no difference here, are named by each route.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Query, Request, State},
    http::{Response, StatusCode},
    middleware::Next,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::super::problem::Problem;

/// The client's organization and project, which a token stands for here.
const ACCOUNT: [&str; 2] = ["org_id", "project_id"];

/// Reads the fields of a body, without those that make no difference.
pub(super) fn read<T: DeserializeOwned>(mut given: Map<String, Value>, ignored: &[&str]) -> Result<T, Problem> {
    given.retain(|name, _| !ignored.contains(&name.as_str()));
    serde_json::from_value(Value::Object(given))
        .map_err(|error| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad-request", error.to_string()))
}

/// Refuses parameters of the query that a route does not know.
pub(super) async fn check_query(
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
