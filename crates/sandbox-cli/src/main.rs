//! The `sandbox` command: see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandbox_cli::main()
}
