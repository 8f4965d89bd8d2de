//! From the command line to the command.

use crate::args::{Cli, Command, ImageArgs};
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Project;
use crate::trace;
use crate::workspace_copy::CopySummary;

use super::{
    agent, allowlist, apply, build, clean, config, diff, discard, doctor, generate, image, logs, run, status,
    verify,
};

/// Runs the command.
pub(crate) async fn dispatch(
    cli: Cli,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let Cli { global, command } = cli;
    let log = match &command {
        Command::Run(args) => args.task.log.as_deref(),
        Command::Agent(args) => args.task.log.as_deref(),
        Command::Exec(args) => args.log.as_deref(),
        _ => None,
    };
    trace::begin(printer, log)?;
    let project = || Project::load(&global, environment, printer);
    let sandbox = || project()?.sandbox(&global, environment, printer);
    match command {
        Command::Run(args) => {
            let settings = project()?.task(&args.task, run::WORKSPACE, &global, environment, printer)?;
            run::run(settings, args.command, printer).await
        }
        Command::Exec(args) => {
            let settings = project()?.exec(&args, &global, environment, printer)?;
            run::run(settings, args.command, printer).await
        }
        Command::Build { args, force } => build::build(&args, force, &project()?, sandbox()?, printer).await,
        Command::Agent(args) => {
            let project = project()?;
            let settings = project.task(&args.task, agent::WORKSPACE, &global, environment, printer)?;
            let session = args.session_dir.as_deref().map(std::path::absolute).transpose()?;
            let session = agent::SessionPlace::new(session, &project);
            agent::agent(settings, agent::AgentSettings::new(args, session)?, printer).await
        }
        Command::Diff(args) => diff::diff(&args, &project()?, printer),
        Command::Apply(args) => apply::apply(&args, &project()?, sandbox, printer).await,
        Command::Discard => discard::discard(&project()?, sandbox, printer).await,
        Command::Image(command) => image::image(command, &project()?, sandbox, printer).await,
        Command::Allowlist(command) => allowlist::allowlist(command, &project()?, printer),
        Command::Config(command) => Ok(config::config(&command, project, environment, printer)),
        Command::Logs(args) => logs::logs(args, &project()?, printer).await,
        Command::Status(args) => {
            let project = project()?;
            let image = project.image(&ImageArgs::default()).ok();
            let copy = CopySummary::of(&project.copy_dir(), &project.protection());
            status::status(sandbox()?, image, copy, args.output, printer).await
        }
        Command::Clean(args) => {
            let image = project()?.image(&ImageArgs::default()).ok();
            clean::clean(sandbox()?, image, &args, printer).await
        }
        Command::Doctor(args) => {
            let project = project();
            let sandbox = project
                .as_ref()
                .ok()
                .map(|project| project.sandbox(&global, environment, printer));
            doctor::doctor(project, sandbox, environment, args.output, printer).await
        }
        Command::Verify(args) => {
            let settings = project()?.verification(&args, &global, environment, printer)?;
            verify::verify(settings, args.output, printer).await
        }
        Command::Completions { shell } => Ok(generate::completions(shell, printer)),
        Command::Man { dir } => generate::man(dir.as_deref(), printer),
    }
}
