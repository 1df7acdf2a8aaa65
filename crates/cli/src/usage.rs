//! How the command is used: exit statuses, errors of wrong usage, arguments that several subcommands have, and how the
//! program starts itself again.

use std::{error::Error, ffi::OsString, fmt, ops::RangeInclusive, str::FromStr, sync::OnceLock};

use clap::builder::RangedU64ValueParser;
use mnemon::{Config, Device};

/// The exit status of the command, as a number: the Python package needs it, and `std::process::ExitCode` does not tell
/// its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status(pub(crate) u8);

impl Status {
    pub(crate) const SUCCESS: Self = Status(0);
    /// Wrong usage; clap uses the same.
    pub(crate) const USAGE: Self = Status(2);
    /// A command that checks something found problems.
    pub(crate) const PROBLEMS: Self = Status(3);

    /// Returns success for a check that found nothing.
    pub(crate) fn of_check(is_sound: bool) -> Self {
        if is_sound { Status::SUCCESS } else { Status::PROBLEMS }
    }
}

/// Wrong usage that only the command itself can refuse, because it depends on several arguments.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UsageError {}

/// Returns a [`UsageError`] with this text unless the condition holds.
pub(crate) fn ensure(condition: bool, text: impl Into<String>) -> Result<(), UsageError> {
    if condition { Ok(()) } else { Err(UsageError(text.into())) }
}

/// The arguments of a command that this build lacks. They are not parsed, not even `--help`.
#[cfg(not(all(feature = "bench", feature = "serve", feature = "postgres", unix)))]
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Missing {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Returns the error for a command, option or variable that this build lacks. `features` are those beside the default
/// ones that bring it, if the default ones do not.
#[cfg(not(all(feature = "bench", feature = "serve", feature = "postgres", feature = "hnsw_rs")))]
pub(crate) fn missing(name: &str, features: &[&str]) -> UsageError {
    let python =
        if features.is_empty() { "for Python `pip install 'mnemon-engine[server]'` brings it, and " } else { "" };
    let features = if features.is_empty() { String::new() } else { format!(" --features {}", features.join(",")) };
    UsageError(format!(
        "this build of mnemon has no `{name}`; {python}in a checkout of its sources, `cargo install --path crates/cli{features}` installs \
         the command with it"
    ))
}

/// The option of commands that keep namespaces loaded.
#[derive(clap::Args)]
pub(crate) struct MemoryOptions {
    /// Memory that loaded namespaces may take together, in bytes; those that were not used for the longest time are
    /// unloaded. Default: 1 GiB.
    #[arg(long, value_name = "BYTES")]
    memory_budget: Option<usize>,
}

impl MemoryOptions {
    /// Sets the budget in the settings of an engine, if the option was given.
    pub(crate) fn set(&self, config: &mut Config) {
        config.memory_budget = self.memory_budget.unwrap_or(config.memory_budget);
    }
}

/// The option of commands that run a model.
#[derive(clap::Args)]
pub(crate) struct DeviceOption {
    /// The device that runs the model: cpu, cuda, or cuda:1 for the second GPU. A GPU needs a build with the feature
    /// `cuda`.
    #[arg(long, default_value = "cpu")]
    pub(crate) device: Device,
}

/// Returns a parser of numbers of this range.
pub(crate) fn within(range: RangeInclusive<usize>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(*range.start() as u64..=*range.end() as u64)
}

/// Parses a share, 0 to 1.
pub(crate) fn share<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let share = text.parse().ok().filter(|share| (T::from(0)..=T::from(1)).contains(share));
    share.ok_or_else(|| "not a number from 0 to 1".to_owned())
}

/// A program and its first arguments.
static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets what starts this program again, once: a program and its first arguments.
pub(crate) fn set_program(program: Vec<OsString>) {
    PROGRAM.get_or_init(|| program);
}

/// Returns a command that runs this program again, for work in a process of its own. Its arguments follow.
#[cfg(any(feature = "bench", all(feature = "serve", unix)))]
pub(crate) fn this_program() -> anyhow::Result<std::process::Command> {
    let Some((program, arguments)) = PROGRAM.get().and_then(|program| program.split_first()) else {
        anyhow::bail!("the path of this program is unknown");
    };
    let mut command = std::process::Command::new(program);
    command.args(arguments);
    Ok(command)
}
