//! A route of `/v1`: what it needs and what it answers, for the router and for the description; and the namespace in its
//! path.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, RawPathParams},
    handler::Handler,
    http::{Method, request::Parts},
    routing::{MethodFilter, MethodRouter, on},
};
use mnemon::Namespace;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::{
    access::{Caller, Right},
    app::App,
    problem::Problem,
};

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A route of `/v1`.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// The path of another route whose last segment could be a value of this route's last parameter. This route is served
    /// there too, for its own method.
    pub(crate) also_at: Option<&'static str>,
    /// What the caller must be allowed to do. `None`: the body determines it, and the handler checks it.
    pub(crate) right: Option<Right>,
    pub(crate) summary: &'static str,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    /// Whether the body is a file, of any size, which the route reads itself. It has a limit of time of its own.
    pub(crate) takes_file: bool,
    pub(crate) answer: Option<SchemaOf>,
    /// The media type of the answer.
    pub(crate) media_type: &'static str,
    /// Whether the request may take longer than others.
    pub(crate) is_long: bool,
    /// Whether the answer is kept for the `Idempotency-Key` of the request.
    pub(crate) keeps_answer: bool,
    pub(crate) handler: MethodRouter<Arc<App>>,
}

impl Route {
    pub(crate) fn new<H, T>(method: Method, path: &'static str, right: Right, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("a method that axum routes");
        Route {
            keeps_answer: method != Method::GET && right != Right::Read,
            method,
            path,
            also_at: None,
            right: Some(right),
            summary,
            query: None,
            body: None,
            takes_file: false,
            answer: None,
            media_type: "application/json",
            is_long: false,
            handler: on(filter, handler),
        }
    }

    pub(crate) fn also_at(self, path: &'static str) -> Self {
        Route { also_at: Some(path), ..self }
    }

    pub(crate) fn query<T: JsonSchema>(self) -> Self {
        Route { query: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    pub(crate) fn body<T: JsonSchema>(self) -> Self {
        Route { body: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    /// Takes a file as the body.
    pub(crate) fn file(self) -> Self {
        Route { takes_file: true, keeps_answer: false, ..self.body::<FileSchema>() }
    }

    pub(crate) fn answer<T: JsonSchema>(self) -> Self {
        Route { answer: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    pub(crate) fn media_type(self, media_type: &'static str) -> Self {
        Route { media_type, ..self }
    }

    pub(crate) fn long(self) -> Self {
        Route { is_long: true, keeps_answer: false, ..self }
    }
}

/// The bytes of a file.
#[derive(JsonSchema)]
#[schemars(rename = "File", extend("format" = "binary"))]
#[allow(dead_code, reason = "a schema is made of it, and nothing else")]
struct FileSchema(String);

/// The namespace that the path of a request names. The caller may see it: to others it does not exist.
pub(super) struct PathNamespace(pub(super) Namespace);

impl FromRequestParts<Arc<App>> for PathNamespace {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|error| Problem::bad_request(error.to_string()))?;
        let text = params.iter().find(|(name, _)| *name == "namespace").map_or("", |(_, text)| text);
        Caller::of(&parts.extensions).namespace(text).map(PathNamespace)
    }
}
