//! From the command line to the command.

use std::path::Path;

use crate::args::{Cli, Command, ImageArgs};
use crate::config::{Environment, Places};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::{Needs, Project};
use crate::trace;
use crate::trust::Trust;

use super::{
    agent, allowlist, apply, build, clean, config, diff, discard, doctor, gate, generate, image, logs,
    policy, run, ssh, status, trust, verify,
};

/// Runs the command.
pub(crate) async fn dispatch(
    cli: Cli,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let Cli { global, command } = cli;
    trace::begin(printer, log_file(&command), environment)?;
    let project = || Project::load(&global, environment, printer);
    let trust_flag = global.trust.clone().unwrap_or_default();
    let trusted = |image: &ImageArgs, allowlist: Option<&Path>| {
        let needs = Needs { image: Some(image), allowlist };
        project()?.trusted(Some(needs), &trust_flag, printer)
    };
    // Nothing but the configuration is obeyed by what only looks after what runs left.
    let configured = || project()?.trusted(None, &trust_flag, printer);
    let sandbox = || configured()?.sandbox(&global, environment, printer);
    match command {
        Command::Run(args) => {
            let project = trusted(&args.task.image, args.task.allowlist.as_deref())?;
            let settings =
                project.task(&args.task, run::WORKSPACE, None, &global, environment, printer).await?;
            run::run(settings, args.command, printer).await
        }
        Command::Exec(args) => {
            let project = trusted(&args.image, args.allowlist.as_deref())?;
            let settings = project.exec(&args, &global, environment, printer)?;
            run::run(settings, args.command, printer).await
        }
        Command::Build { args, force } => {
            let project = trusted(&args.image, None)?;
            let config = project.sandbox(&global, environment, printer)?;
            build::build(&args, force, &project, config, printer).await
        }
        Command::Agent(args) => {
            let project = trusted(&args.task.image, args.task.allowlist.as_deref())?;
            let login = agent::login(&args, &project)?;
            let settings =
                project.task(&args.task, agent::WORKSPACE, login, &global, environment, printer).await?;
            let agent = agent::AgentSettings::new(args, &project)?;
            agent::agent(settings, agent, printer).await
        }
        Command::Diff(args) => diff::diff(&args, &configured()?, printer),
        Command::Apply(args) => apply::apply(&args, &configured()?, sandbox, printer).await,
        Command::Discard => discard::discard(&configured()?, sandbox, printer).await,
        Command::Image(command) => {
            let project = command.image().map_or_else(configured, |image| trusted(image, None))?;
            let config = || project.sandbox(&global, environment, printer);
            image::image(command, &project, config, trust_flag == Trust::Now, printer).await
        }
        Command::Trust(args) => trust::trust(&args, &project()?, printer),
        Command::Allowlist(command) => allowlist::allowlist(command, &project()?, printer),
        Command::Config(command) => Ok(config::config(&command, project, environment, printer)),
        Command::Ssh(command) => ssh::ssh(command, project, configured, environment, printer).await,
        Command::Gate(command) => gate::gate(command, &Places::find(environment)?.state, printer).await,
        Command::Logs(args) => logs::logs(args, &project()?, printer).await,
        Command::Policy(command) => {
            let read = |file: &Path| {
                let needs = Needs { image: None, allowlist: Some(file) };
                let project = project()?.trusted(Some(needs), &trust_flag, printer)?;
                project.allowlist(Some(file), printer)
            };
            policy::policy(command, &Places::find(environment)?.state, read, printer).await
        }
        Command::Stop(args) => policy::stop(&args, &Places::find(environment)?.state, printer).await,
        Command::Status(args) => status::status(sandbox()?, &project()?, args.output, printer).await,
        Command::Clean(args) => {
            let image = project()?.image(&ImageArgs::default()).ok();
            clean::clean(sandbox()?, image, &args, printer).await
        }
        Command::Doctor(args) => {
            let project = project();
            let sandbox = project.is_ok().then(sandbox);
            doctor::doctor(project, sandbox, environment, args.output, printer).await
        }
        Command::Verify(args) => {
            let settings = trusted(&args.image, None)?.verification(&args, &global, environment, printer)?;
            verify::verify(settings, args.output, printer).await
        }
        Command::Completions { shell } => Ok(generate::completions(shell, printer)),
        Command::Man { dir } => generate::man(dir.as_deref(), environment, printer),
    }
}

/// Where what the sandbox itself does is written, besides stderr.
fn log_file(command: &Command) -> Option<&Path> {
    match command {
        Command::Run(args) => args.task.log.as_deref(),
        Command::Agent(args) => args.task.log.as_deref(),
        Command::Exec(args) => args.log.as_deref(),
        _ => None,
    }
}
