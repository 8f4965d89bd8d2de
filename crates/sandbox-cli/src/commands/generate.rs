//! `completions` and `man`: made from the command line's own definition.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;

/// Prints the script for `shell`.
pub(crate) fn completions(shell: Shell, printer: Printer) -> ExitStatus {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sandbox", &mut script);
    printer.data(&script);
    ExitStatus::Success
}

/// Prints the page of the program, or writes those of all commands into `dir`.
pub(crate) fn man(dir: Option<&Path>, printer: Printer) -> Result<ExitStatus, Failure> {
    let writing = || "write the manual".to_owned();
    match dir {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map_err(Failure::doing(writing()))?;
            printer.data(&page);
        }
        Some(dir) => {
            let writing = || format!("write the manual to `{}`", dir.display());
            fs::create_dir_all(dir).map_err(Failure::doing(writing()))?;
            clap_mangen::generate_to(Cli::command(), dir).map_err(Failure::doing(writing()))?;
        }
    }
    Ok(ExitStatus::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        man(Some(dir.path()), Printer::new(0, true)).unwrap();
        for page in [
            "sandbox.1",
            "sandbox-run.1",
            "sandbox-agent.1",
            "sandbox-image-build.1",
            "sandbox-config-check.1",
            "sandbox-doctor.1",
        ] {
            let text = fs::read_to_string(dir.path().join(page)).unwrap();
            assert!(text.contains(".TH"), "{page}");
        }
    }
}
