//! Errors of usage, which end the command with exit status 2.

#[cfg(not(all(feature = "bench", feature = "serve", feature = "postgres", unix)))]
use std::ffi::OsString;
use std::{error::Error, fmt, ops::RangeInclusive, str::FromStr};

use clap::builder::RangedU64ValueParser;

/// The exit status of wrong usage; clap uses the same.
pub(crate) const STATUS: u8 = 2;

/// An argument that only the command itself can refuse, because it depends on others.
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

/// The arguments of a command that this build lacks. None is read, `--help` neither.
#[cfg(not(all(feature = "bench", feature = "serve", feature = "postgres", unix)))]
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Missing {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Returns the error for a command, option or variable that this build lacks. `features` are those beside the default ones
/// that bring it, if the default ones do not.
#[cfg(not(all(feature = "bench", feature = "serve", feature = "postgres", feature = "hnsw_rs")))]
pub(crate) fn missing(name: &str, features: &[&str]) -> UsageError {
    let features = if features.is_empty() { String::new() } else { format!(" --features {}", features.join(",")) };
    UsageError(format!(
        "this build of mnemon has no `{name}`; in a checkout of its sources, `cargo install --path crates/cli{features}` installs the \
         command with it"
    ))
}

/// Parses a number of this range.
pub(crate) fn within(range: RangeInclusive<usize>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(*range.start() as u64..=*range.end() as u64)
}

/// Parses a share, 0 to 1.
pub(crate) fn share<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let share = text.parse().ok().filter(|share| (T::from(0)..=T::from(1)).contains(share));
    share.ok_or_else(|| "not a number from 0 to 1".to_owned())
}
