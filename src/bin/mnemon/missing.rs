//! The commands and options that this build lacks: each says how to install a build that has it.

use std::ffi::OsString;

/// The arguments of a command that this build lacks. None is read, `--help` neither.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Refuses a command that builds with these features have.
#[cfg(not(all(feature = "serve", feature = "postgres")))]
pub(crate) fn refuse(command: &str, features: &str) -> anyhow::Result<crate::status::Status> {
    Err(error(command, features).into())
}

/// The error for a command, option or variable that builds with these features have.
#[cfg(not(all(feature = "serve", feature = "postgres")))]
pub(crate) fn error(name: &str, features: &str) -> crate::usage::UsageError {
    crate::usage::UsageError(format!(
        "this build of mnemon has no `{name}`; in a checkout of its sources, `cargo install --path . --features {features}` installs the \
         command with it"
    ))
}
