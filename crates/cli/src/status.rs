//! Exit statuses as numbers: `std::process::ExitCode` does not tell its number, which the Python package needs.

/// The exit status of the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status(pub(crate) u8);

impl Status {
    pub(crate) const SUCCESS: Self = Status(0);
}
