//! A route of `/v1`: what it needs and answers, for the router and for the description.

use std::sync::Arc;

use axum::{
    Extension,
    handler::Handler,
    http::Method,
    routing::{MethodFilter, MethodRouter},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{
    app::App,
    caller::{Caller, Right},
};

/// The caller of a request.
pub(super) type Asker = Extension<Arc<Caller>>;

pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A route of `/v1`.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// The path of another route, whose last segment could be the value of this one's last parameter. This route is served
    /// there too, for its own method.
    pub(super) also_at: Option<&'static str>,
    /// What the caller must be allowed to do.
    pub(super) right: Right,
    pub(super) summary: &'static str,
    pub(super) query: Option<SchemaOf>,
    pub(super) body: Option<SchemaOf>,
    pub(super) answer: Option<SchemaOf>,
    /// The media type of the answer.
    pub(super) media_type: &'static str,
    /// Whether it may take longer than other requests.
    pub(super) is_long: bool,
    /// Whether its answer is kept for the `Idempotency-Key` of the request.
    pub(super) keeps_answer: bool,
    pub(super) handler: MethodRouter<Arc<App>>,
}

impl Route {
    pub(super) fn new<H, T>(method: Method, path: &'static str, right: Right, summary: &'static str, handler: H) -> Self
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
            right,
            summary,
            query: None,
            body: None,
            answer: None,
            media_type: "application/json",
            is_long: false,
            handler: axum::routing::on(filter, handler),
        }
    }

    pub(super) fn also_at(self, path: &'static str) -> Self {
        Route { also_at: Some(path), ..self }
    }

    pub(super) fn query<T: JsonSchema>(self) -> Self {
        Route { query: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    pub(super) fn body<T: JsonSchema>(self) -> Self {
        Route { body: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    pub(super) fn answer<T: JsonSchema>(self) -> Self {
        Route { answer: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    pub(super) fn media_type(self, media_type: &'static str) -> Self {
        Route { media_type, ..self }
    }

    pub(super) fn long(self) -> Self {
        Route { is_long: true, keeps_answer: false, ..self }
    }
}
