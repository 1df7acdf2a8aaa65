//! Claude's memory tool: text files of a namespace.

use mnemon_memory_tool::Input;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::answer::Output;
use crate::{access::Caller, app::App, entity::Entity, problem::Problem, v1};

/// A command on the files of a user, agent or namespace.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryCall {
    #[serde(flatten)]
    input: Input,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn memory(app: &App, caller: &Caller, call: MemoryCall) -> Result<Output, Problem> {
    let namespace = call.entity.whole_namespace(caller, "a file is")?;
    let answer = v1::run_memory_tool(app, caller, &namespace, &call.input).await?;
    if answer.is_error {
        return Err(Problem::bad_request(answer.content));
    }
    // The text is as a model of the tool knows it, without a frame.
    let data = Map::from_iter([("content".to_owned(), Value::from(answer.content.as_str()))]);
    Ok(Output { text: answer.content, data })
}
