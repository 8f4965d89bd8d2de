//! `completions` and `man`, generated from the definition of the command line.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;
use sandbox::host_path::Found;

use crate::args::Cli;
use crate::config::{Environment, Places};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::trace::LOG_MODE;

/// Prints the script for `shell`.
pub(crate) fn completions(shell: Shell, printer: Printer) -> ExitStatus {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sandbox", &mut script);
    printer.data(&script);
    ExitStatus::Success
}

/// Prints the page of the program, or writes those of all commands into the folder `dir`.
pub(crate) fn man(
    dir: Option<&Path>,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        let rendered = Man::new(Cli::command()).render(&mut page);
        rendered.map_err(Failure::doing("write the manual"))?;
        printer.data(&page);
        return Ok(ExitStatus::Success);
    };
    let writing = || format!("write the manual to `{}`", dir.display());
    let folder = Places::find(environment)?.resolver(Path::new("."))?.make_folder(dir)?;
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    write_pages(&program, &folder).map_err(Failure::doing(writing()))?;
    Ok(ExitStatus::Success)
}

/// Writes the pages of `command` and of its subcommands.
fn write_pages(command: &clap::Command, folder: &Found) -> io::Result<()> {
    let page = Man::new(command.clone());
    let name = page.get_filename();
    let name = OsStr::new(&name);
    // Replaces an existing file, and never follows a link.
    folder.remove(name)?;
    let mut file = folder.create_new(name, LOG_MODE)?;
    page.render(&mut file)?;
    file.flush()?;
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.into_iter().try_for_each(|command| write_pages(command, folder))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment::from([("HOME", "/no/such/home")]);
        man(Some(dir.path()), &environment, Printer::new(0, true)).unwrap();
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
