//! How this program is started again, for what is measured in a process of its own.

use std::{ffi::OsString, process::Command, sync::OnceLock};

use anyhow::Context;

/// A program and its first arguments.
static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();

pub(crate) fn configure(program: Vec<OsString>) {
    PROGRAM.get_or_init(|| program);
}

/// Returns a command that runs this program. Its arguments follow.
pub(crate) fn again() -> anyhow::Result<Command> {
    let (program, arguments) =
        PROGRAM.get().and_then(|program| program.split_first()).context("the path of this program is unknown")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}
