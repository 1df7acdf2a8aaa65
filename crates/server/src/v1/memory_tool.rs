//! Claude's memory tool, for programs that run the tools of a model and have its files here.

use std::sync::Arc;

use axum::{Extension, Json, extract::State, http::Method};
use mnemon::Namespace;
use mnemon_memory_tool::{Answer, Command, Input};

use super::route::{PathNamespace, Route};
use crate::{
    access::{Caller, CallerExtension, Right},
    app::App,
    problem::Problem,
};

pub(super) fn routes() -> Vec<Route> {
    let route = Route::new(
        Method::POST,
        "/namespaces/{namespace}/memory_tool",
        Right::Read,
        "Runs a command of Claude's memory tool, and returns the content of its `tool_result`. Commands that change files need \
         the right to write too, and `delete` that to forget.",
        call,
    );
    vec![Route { keeps_answer: true, ..route }.body::<Input>().answer::<Answer>()]
}

async fn call(
    State(app): State<Arc<App>>,
    PathNamespace(namespace): PathNamespace,
    Extension(caller): CallerExtension,
    Json(input): Json<Input>,
) -> Result<Json<Answer>, Problem> {
    Ok(Json(run(&app, &caller, &namespace, &input).await?))
}

/// Runs a command for a caller who may read.
pub(crate) async fn run(app: &App, caller: &Caller, namespace: &Namespace, input: &Input) -> Result<Answer, Problem> {
    match input.command {
        Command::View => {}
        // A rename loses nothing: it never replaces a file.
        Command::Create | Command::StrReplace | Command::Insert | Command::Rename => caller.require(Right::Write)?,
        Command::Delete => caller.require(Right::Forget)?,
    }
    Ok(mnemon_memory_tool::run(&app.engine, namespace, input).await?)
}
