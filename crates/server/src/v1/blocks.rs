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
    let after: Option<(bool, String, String)> = cursor::decode(page.cursor.as_deref())?;
    let key =
        |block: &StoredBlock| (block.session.is_none(), block.session.clone().unwrap_or_default(), block.name.clone());
    let mut blocks = app.engine.blocks(&namespace).await?;
    blocks.sort_by_cached_key(key);
    let (blocks, next) = cursor::page(blocks, after.as_ref(), page.limit, key, |block| block.state.to_string().len())?;
    Ok(Json(List { blocks, next }))
}
