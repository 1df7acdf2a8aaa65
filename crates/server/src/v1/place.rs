//! The namespace of a request's path.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use mnemon::Namespace;

use super::super::{app::App, caller::Caller, problem::Problem};

/// The namespace that the path names, which the caller may see.
pub(in super::super) struct Place(pub(in super::super) Namespace);

impl FromRequestParts<Arc<App>> for Place {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|error| Problem::bad_request(error.to_string()))?;
        let text = params.iter().find(|(name, _)| *name == "namespace").map_or("", |(_, text)| text);
        let caller = parts.extensions.get::<Arc<Caller>>().expect("the guard sets the caller");
        caller.namespace(text).map(Place)
    }
}
