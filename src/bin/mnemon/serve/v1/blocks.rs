//! The states of memory blocks. The server has no blocks itself: programs that link the library do, and this lists theirs.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
    http::Method,
};
use mnemon::StoredBlock;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{
    super::{
        app::App,
        caller::Right,
        cursor::{self, PageQuery},
        problem::Problem,
        route::Route,
    },
    place::Place,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/namespaces/{namespace}/blocks",
            Right::Read,
            "Lists what memory blocks have made: session by session, and then what all sessions share.",
            list,
        )
        .query::<PageQuery>()
        .answer::<List>(),
    ]
}

#[derive(Serialize, JsonSchema)]
struct List {
    /// Each has its `name`, `session` (null: all sessions share it), `state` and `revision`.
    #[schemars(with = "Vec<Value>")]
    blocks: Vec<StoredBlock>,
    /// The cursor of the next page.
    next: Option<String>,
}

async fn list(
    State(app): State<Arc<App>>,
    Place(namespace): Place,
    Query(page): Query<PageQuery>,
) -> Result<Json<List>, Problem> {
    let blocks = app.engine.blocks(&namespace).await?.into_iter();
    let keyed = blocks.map(|block| (cursor::pair(block.session.as_deref().unwrap_or_default(), &block.name), block));
    let (page, next) = cursor::page(
        keyed.collect(),
        page.cursor.as_deref(),
        page.limit,
        |(key, _)| key,
        |(_, block)| block.state.to_string().len(),
    )?;
    Ok(Json(List { blocks: page.into_iter().map(|(_, block)| block).collect(), next }))
}
