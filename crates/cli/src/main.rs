//! The `mnemon` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    mnemon_cli::main()
}
