//! The `sandbox` command: see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandbox_cli::main()
}
