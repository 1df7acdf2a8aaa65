//! Claude's memory tool, for `mnemon.anthropic`.

use mnemon_memory_tool::{Answer, Input, run};
use pyo3::prelude::*;

use crate::{
    engine::EngineLike,
    values::{Space, bad_document, from_python},
};

/// Runs a command of Claude's memory tool on the files of a namespace. Returns the text for the model, and whether it
/// tells a mistake.
#[pyfunction]
pub(crate) fn memory_tool(
    py: Python<'_>,
    engine: EngineLike,
    namespace: Space,
    input: &Bound<'_, PyAny>,
) -> PyResult<(String, bool)> {
    let input = engine.0.secrets.arguments(from_python(input, bad_document)?);
    let answer = match serde_json::from_value::<Input>(input) {
        Ok(input) => engine.0.call(py, async |engine: &mnemon::Engine| run(engine, &namespace.0, &input).await)?,
        Err(error) => Answer::error(format!("Error: {error}")),
    };
    Ok((answer.content, answer.is_error))
}
