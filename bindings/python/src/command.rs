//! The `mnemon` command.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command with these arguments, and returns its exit status. `program` is what starts it again.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, program: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    py.detach(move || mnemon_cli::run(program, arguments))
}
