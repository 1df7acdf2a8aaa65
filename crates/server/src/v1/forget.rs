//! Forgetting, with receipts.

use std::sync::Arc;

use axum::{Json, extract::State, http::Method};
use mnemon::{Forget, Namespace, Receipt};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    super::{app::App, bounds::BoundedFilter, caller::Right, problem::Problem, route::Route},
    place::Place,
    schema::{AnyObject, FilterSchema},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            "/namespaces/{namespace}/forget",
            Right::Forget,
            "Forgets messages, documents, a session or the namespace, with everything made of them, and returns the receipt.",
            forget,
        )
        .body::<What>()
        .answer::<AnyObject>()
        .long(),
    ]
}

/// What is to be forgotten.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(extend("type" = "object"))]
pub(in super::super) enum What {
    /// The messages with these ids.
    Messages { ids: Vec<String> },
    /// The documents with these keys.
    Documents { keys: Vec<String> },
    /// A session.
    Session { session: String },
    /// The messages that a filter matches.
    Matching {
        #[schemars(with = "FilterSchema")]
        filter: BoundedFilter,
    },
    /// The whole namespace.
    // Braces, because serde ignores unknown fields beside the tag of a variant without them.
    Namespace {},
    /// The namespace and all under it.
    Prefix {},
}

impl What {
    pub(in super::super) fn of(self, namespace: &Namespace) -> Forget {
        match self {
            What::Messages { ids } => Forget::messages(namespace, ids),
            What::Documents { keys } => Forget::documents(namespace, keys),
            What::Session { session } => Forget::session(namespace, session),
            What::Matching { filter } => Forget::matching(namespace, filter.filter),
            What::Namespace {} => Forget::namespace(namespace),
            What::Prefix {} => Forget::prefix(namespace),
        }
    }
}

async fn forget(
    State(app): State<Arc<App>>,
    Place(namespace): Place,
    Json(what): Json<What>,
) -> Result<Json<Receipt>, Problem> {
    Ok(Json(app.engine.forget(what.of(&namespace)).await?))
}
